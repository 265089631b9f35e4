/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the host inside of a connection whose addresses have been translated
 * when a packet leaves. Connection tracking knows it (bpf_skb_ct_lookup(),
 * net/netfilter/nf_conntrack_bpf.c, since Linux 5.19). It is asked once per
 * connection. If it is not available when the program is loaded, the address in
 * the packet counts.
 */
#ifndef INBOUND_WINDOW_TRANSLATED_H
#define INBOUND_WINDOW_TRANSLATED_H

#include "tcp_segment.h"
#include "tracked.h"
#include "window/state.h"

/* include/uapi/linux/netfilter/nf_conntrack_tcp.h. The last flag is set if
 * tracking did not see the beginning of the connection, or does not check
 * windows. */
#define IP_CT_TCP_FLAG_SACK_PERM 0x02
#define IP_CT_TCP_FLAG_BE_LIBERAL 0x08

/* Takes the window scale of one end from the options of both SYNs
 * (net/netfilter/nf_conntrack_proto_tcp.c, tcp_in_window()). Returns whether it
 * is known. */
static __always_inline int window_scaled(u8 scale, u8 flags,
					 struct window_receiver *receiver)
{
	receiver->shift = scale;
	receiver->handshake = flags & IP_CT_TCP_FLAG_SACK_PERM ? RECEIVER_SACK :
								 0;
	return !(flags & IP_CT_TCP_FLAG_BE_LIBERAL) && scale <= SCALE_MOST;
}

/* Finds the host of a departing packet. Looks up the tuple of the arriving
 * direction and takes the source of the other one, whichever end opened the
 * connection. With `scale`, also finds its window scale and returns whether
 * that is known. */
static __always_inline int window_inside(struct __sk_buff *skb,
					 const struct tuple *leaving,
					 struct window_receiver *receiver,
					 int scale)
{
	struct bpf_ct_opts opts = {};
	struct nf_conn *tracked;
	int known = 0;

	if (!tracked_known())
		return 0;
	tracked = tracked_of(skb, leaving, 1, &opts);
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
