/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lookup in connection tracking: bpf_skb_ct_lookup()
 * (net/netfilter/nf_conntrack_bpf.c, since Linux 5.19). A packet has different
 * addresses before and after translation, and both tuples belong to the
 * connection.
 */
#ifndef BPF_TRACKED_H
#define BPF_TRACKED_H

#include "kernel.h"
#include "tuple.h"

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

/* The options of a lookup, in the layout of the first kernel that has it. */
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

/* Whether the kernel had these functions when the program was loaded. */
static __always_inline int tracked_known(void)
{
	return bpf_ksym_exists(bpf_skb_ct_lookup) &&
	       bpf_ksym_exists(bpf_ct_release);
}

/* Returns the connection of a packet with this tuple, or if `turned` of one in
 * the reverse direction. The caller releases it. `opts->dir` is the direction
 * of that packet. */
static __always_inline struct nf_conn *tracked_of(struct __sk_buff *skb,
						  const struct tuple *tuple,
						  u32 turned,
						  struct bpf_ct_opts *opts)
{
	struct bpf_sock_tuple own = {};
	u32 to = !turned;

	opts->netns_id = CURRENT_NAMESPACE;
	opts->l4proto = tuple->protocol;
	if (tuple->version == 4) {
		own.ipv4.saddr = tuple->address[turned][0];
		own.ipv4.daddr = tuple->address[to][0];
		own.ipv4.sport = tuple->ports[turned];
		own.ipv4.dport = tuple->ports[to];
		return bpf_skb_ct_lookup(skb, &own, sizeof(own.ipv4), opts,
					 sizeof(*opts));
	}
	__builtin_memcpy(own.ipv6.saddr, tuple->address[turned], 16);
	__builtin_memcpy(own.ipv6.daddr, tuple->address[to], 16);
	own.ipv6.sport = tuple->ports[turned];
	own.ipv6.dport = tuple->ports[to];
	return bpf_skb_ct_lookup(skb, &own, sizeof(own.ipv6), opts,
				 sizeof(*opts));
}

#endif
