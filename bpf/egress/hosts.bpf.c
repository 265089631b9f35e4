// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Finds the inside host of a packet, at the egress hook of a device whose root
 * qdisc is weir_engine (engine.bpf.c), and passes a hash of its address to the
 * qdisc.
 *
 * Behind address translation all departing packets have one source address, and
 * arriving packets that pass an IFB have one destination. Connection tracking
 * knows the inside host. It is looked up by the tuple of the arriving direction
 * and is the source of the other one, whichever end opened the connection. For
 * untracked packets, the address in the packet counts.
 */
#include "tc.h"
#include "hosts_layout.h"
#include "tracked.h"

/* include/uapi/linux/bpf.h */
enum { TCX_NEXT = -1 };

/* Set before the program is loaded. */
const volatile struct hosts_of of;

/* A word of the source address of a connection's direction. */
#define SOURCE(tracked, direction, word) \
	((tracked)->tuplehash[direction].tuple.src.u3.all[word])

/* Replaces the packet's address by the inside host's. */
static __always_inline void inside(struct __sk_buff *skb,
				   const struct tuple *tuple, u32 *address)
{
	struct bpf_ct_opts opts = {};
	struct nf_conn *tracked;

	if (!tracked_known() ||
	    (tuple->protocol != IPPROTO_TCP && tuple->protocol != IPPROTO_UDP))
		return;
	if (of.arriving)
		tracked = tracked_of(skb, tuple, 0, &opts);
	else
		tracked = tracked_of(skb, tuple, 1, &opts);
	if (!tracked)
		return;
	if (opts.dir) {
		address[0] = SOURCE(tracked, 0, 0);
		address[1] = SOURCE(tracked, 0, 1);
		address[2] = SOURCE(tracked, 0, 2);
		address[3] = SOURCE(tracked, 0, 3);
	} else {
		address[0] = SOURCE(tracked, 1, 0);
		address[1] = SOURCE(tracked, 1, 1);
		address[2] = SOURCE(tracked, 1, 2);
		address[3] = SOURCE(tracked, 1, 3);
	}
	bpf_ct_release(tracked);
}

SEC("tcx/egress")
int hosts_egress(struct __sk_buff *ctx)
{
	struct tuple tuple = {};
	struct layout at = {};
	u32 address[4], hash;

	ctx->cb[HOSTS_STAMP_WORD] = of.stamp;
	ctx->cb[HOSTS_WORD] = 0;
	if (!tc_plain(ctx, &tuple, &at)) {
		__builtin_memset(&tuple, 0, sizeof(tuple));
		if (!tc_tuple(ctx, &tuple, &at))
			return TCX_NEXT;
	}
	if (of.arriving)
		__builtin_memcpy(address, tuple.address[1], sizeof(address));
	else
		__builtin_memcpy(address, tuple.address[0], sizeof(address));
	if (at.whole)
		inside(ctx, &tuple, address);
	hash = tuple_final(address[0] + of.key, address[1] + of.key,
			   address[2] + of.key);
	hash = tuple_final(address[3] + hash, of.key, tuple.version);
	/* 0 means an unknown host. */
	ctx->cb[HOSTS_WORD] = hash ? hash : 1;
	return TCX_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
