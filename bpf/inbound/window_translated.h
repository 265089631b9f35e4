/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which host inside a connection is of, where its address has been translated by the
 * time that a packet leaves. Connection tracking knows (bpf_skb_ct_lookup(),
 * net/netfilter/nf_conntrack_bpf.c, from Linux 5.19); it is asked once for each
 * connection. Where it is not there when the program is loaded, the address in the
 * packet counts.
 */
#ifndef INBOUND_WINDOW_TRANSLATED_H
#define INBOUND_WINDOW_TRANSLATED_H

#include "tcp_segment.h"
#include "window_state.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), \
			     apply_to = record)

union nf_inet_addr {
	__u32 all[4];
};

struct nf_conntrack_man {
	union nf_inet_addr u3;
};

struct nf_conntrack_tuple {
	struct nf_conntrack_man src;
};

struct nf_conntrack_tuple_hash {
	struct nf_conntrack_tuple tuple;
};

struct ip_ct_tcp_state {
	__u8 td_scale;
	__u8 flags;
};

struct ip_ct_tcp {
	struct ip_ct_tcp_state seen[2];
};

union nf_conntrack_proto {
	struct ip_ct_tcp tcp;
};

struct nf_conn {
	struct nf_conntrack_tuple_hash tuplehash[2];
	union nf_conntrack_proto proto;
};

#pragma clang attribute pop

/* include/uapi/linux/bpf.h */
struct bpf_sock_tuple {
	union {
		struct {
			__be32 saddr, daddr;
			__be16 sport, dport;
		} ipv4;
		struct {
			__be32 saddr[4], daddr[4];
			__be16 sport, dport;
		} ipv6;
	};
};

/* What is asked, as it is from the first kernel on that can be. */
struct bpf_ct_opts {
	__s32 netns_id;
	__s32 error;
	__u8 l4proto;
	__u8 dir;
	__u8 reserved[2];
};

extern struct nf_conn *bpf_skb_ct_lookup(struct __sk_buff *skb,
					 struct bpf_sock_tuple *tuple,
					 __u32 tuple_size,
					 struct bpf_ct_opts *opts,
					 __u32 opts_size) __ksym __weak;
extern void bpf_ct_release(struct nf_conn *connection) __ksym __weak;

/* The namespace of the packet's device. */
#define CURRENT_NAMESPACE (-1)

/* include/uapi/linux/netfilter/nf_conntrack_tcp.h. The last: it was not there when
 * the connection began, or does not look at windows. */
#define IP_CT_TCP_FLAG_SACK_PERM 0x02
#define IP_CT_TCP_FLAG_BE_LIBERAL 0x08

/* How windows of one end are scaled, by what both SYNs said
 * (net/netfilter/nf_conntrack_proto_tcp.c, tcp_in_window()). True if it is known. */
static __always_inline int window_scaled(u8 scale, u8 flags,
					 struct window_receiver *receiver)
{
	receiver->shift = scale;
	receiver->handshake = flags & IP_CT_TCP_FLAG_SACK_PERM ? RECEIVER_SACK :
								 0;
	return !(flags & IP_CT_TCP_FLAG_BE_LIBERAL) && scale <= SCALE_MOST;
}

/* Finds the host of what leaves: by the tuple of what arrives, the source of the
 * other direction, whichever end began. With `scale`, also how its windows are
 * scaled, and returns whether that is known. */
static __always_inline int window_inside(struct __sk_buff *skb,
					 const struct tuple *leaving,
					 struct window_receiver *receiver,
					 int scale)
{
	struct bpf_ct_opts opts = { .netns_id = CURRENT_NAMESPACE,
				    .l4proto = leaving->protocol };
	struct bpf_sock_tuple arriving = {};
	struct nf_conn *tracked;
	int known = 0;

	if (!bpf_ksym_exists(bpf_skb_ct_lookup) ||
	    !bpf_ksym_exists(bpf_ct_release))
		return 0;
	if (leaving->version == 4) {
		arriving.ipv4.saddr = leaving->address[1][0];
		arriving.ipv4.daddr = leaving->address[0][0];
		arriving.ipv4.sport = leaving->ports[1];
		arriving.ipv4.dport = leaving->ports[0];
		tracked = bpf_skb_ct_lookup(skb, &arriving,
					    sizeof(arriving.ipv4), &opts,
					    sizeof(opts));
	} else {
		__builtin_memcpy(arriving.ipv6.saddr, leaving->address[1], 16);
		__builtin_memcpy(arriving.ipv6.daddr, leaving->address[0], 16);
		arriving.ipv6.sport = leaving->ports[1];
		arriving.ipv6.dport = leaving->ports[0];
		tracked = bpf_skb_ct_lookup(skb, &arriving,
					    sizeof(arriving.ipv6), &opts,
					    sizeof(opts));
	}
	if (!tracked)
		return 0;
	if (opts.dir) {
		receiver->host[0] = tracked->tuplehash[0].tuple.src.u3.all[0];
		receiver->host[1] = tracked->tuplehash[0].tuple.src.u3.all[1];
		receiver->host[2] = tracked->tuplehash[0].tuple.src.u3.all[2];
		receiver->host[3] = tracked->tuplehash[0].tuple.src.u3.all[3];
		if (scale)
			known = window_scaled(
				tracked->proto.tcp.seen[0].td_scale,
				tracked->proto.tcp.seen[0].flags, receiver);
	} else {
		receiver->host[0] = tracked->tuplehash[1].tuple.src.u3.all[0];
		receiver->host[1] = tracked->tuplehash[1].tuple.src.u3.all[1];
		receiver->host[2] = tracked->tuplehash[1].tuple.src.u3.all[2];
		receiver->host[3] = tracked->tuplehash[1].tuple.src.u3.all[3];
		if (scale)
			known = window_scaled(
				tracked->proto.tcp.seen[1].td_scale,
				tracked->proto.tcp.seen[1].flags, receiver);
	}
	bpf_ct_release(tracked);
	return known;
}

#endif
