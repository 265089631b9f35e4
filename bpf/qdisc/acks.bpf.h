/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The ACK filter (aqm/host/acks.h) in the kernel: reads segments, finds what is
 * known of their connection, and exchanges packets in places of a queue. The
 * includer defines struct queued_skb, whose member `skb` is the packet, and
 * ACKS_INSTANCES, how many qdiscs its program has.
 */
#ifndef QDISC_ACKS_H
#define QDISC_ACKS_H

#include "acks.h"
#include "flow.h"

/* Connections that a qdisc knows, a power of two. Another one with the same
 * hash takes over the row. Then fewer acknowledgements are dropped. */
#define ACKS_FLOWS 512

#define ACKS_TCP_HEADER 20

/* A connection in one queue. */
struct acks_known {
	struct acks_flow flow;
	struct tuple tuple;
	u32 queue;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ACKS_INSTANCES *ACKS_FLOWS);
	__type(key, u32);
	__type(value, struct acks_known);
} acks SEC(".maps");

/* Where the TCP header begins, from skb->data, and the bytes from there on. */
struct acks_part {
	u32 at;
	u32 bytes;
	u32 tos;
};

/* Finds the TCP header behind a plain IP header. */
static __always_inline int acks_ip(struct sk_buff *skb,
				   const struct bpf_dynptr *data,
				   struct tuple *tuple, struct acks_part *part)
{
	u32 at = (u32)((u64)skb->head + skb->network_header - (u64)skb->data);
	u8 space[40];
	const u8 *ip;

	tuple->protocol = IPPROTO_TCP;
	if (skb->protocol == FLOW_ETH_V4) {
		ip = bpf_dynptr_slice(data, at, space, 20);
		/* No options, and no fragment. */
		if (!ip || ip[0] != 0x45 || (ip[6] & 0x3f) || ip[7] ||
		    ip[9] != IPPROTO_TCP)
			return 0;
		tuple->version = 4;
		__builtin_memcpy(tuple->address[0], ip + 12, 4);
		__builtin_memcpy(tuple->address[1], ip + 16, 4);
		part->at = at + 20;
		part->bytes = ((u32)ip[2] << 8 | ip[3]) - 20;
		part->tos = ip[1];
		return 1;
	}
	if (skb->protocol != FLOW_ETH_V6)
		return 0;
	ip = bpf_dynptr_slice(data, at, space, 40);
	if (!ip || ip[0] >> 4 != 6 || ip[6] != IPPROTO_TCP)
		return 0;
	tuple->version = 6;
	__builtin_memcpy(tuple->address[0], ip + 8, 16);
	__builtin_memcpy(tuple->address[1], ip + 24, 16);
	part->at = at + 40;
	part->bytes = (u32)ip[4] << 8 | ip[5];
	part->tos = (ip[0] & 0xf) << 4 | ip[1] >> 4;
	return 1;
}

static __always_inline u32 acks_word(const u8 *bytes)
{
	return (u32)bytes[0] << 24 | (u32)bytes[1] << 16 | (u32)bytes[2] << 8 |
	       bytes[3];
}

/* Reads a segment. Returns whether the packet is one. */
static __noinline int acks_read(struct sk_buff *skb, struct tuple *tuple,
				struct acks_segment *now)
{
	struct acks_part part = {};
	struct bpf_dynptr data;
	u8 space[ACKS_TCP_HEADER], more[12];
	const u8 *tcp, *stamps;
	u32 words, flags;

	if (bpf_dynptr_from_skb(skb, 0, &data))
		return 0;
	if (!acks_ip(skb, &data, tuple, &part))
		return 0;
	tcp = bpf_dynptr_slice(&data, part.at, space, sizeof(space));
	if (!tcp)
		return 0;
	__builtin_memcpy(tuple->ports, tcp, 4);
	now->ack = acks_word(tcp + 8);
	words = tcp[12] >> 4;
	flags = (u32)(tcp[12] & 0xf) << 8 | tcp[13];
	/* Data, or flags other than ACK, ECE, CWR and AE. */
	if (part.bytes != words * 4 || (flags & 0xe3f) != 0x10)
		return 1;
	if (words == 8) {
		stamps = bpf_dynptr_slice(&data, part.at + ACKS_TCP_HEADER,
					  more, sizeof(more));
		if (!stamps || acks_word(stamps) != 0x0101080a)
			return 1;
		now->stamp = acks_word(stamps + 4);
		now->echo = acks_word(stamps + 8);
	} else if (words != 5) {
		return 1;
	}
	now->form = acks_form(words, flags, part.tos);
	return 1;
}

static __always_inline int acks_same(const struct tuple *a,
				     const struct tuple *b)
{
	const u32 *left = (const u32 *)a, *right = (const u32 *)b;
	u32 i, other = 0;

#pragma unroll
	for (i = 0; i < sizeof(*a) / 4; i++)
		other |= left[i] ^ right[i];
	return !other;
}

/* Returns what is known of a segment's connection in a queue, or NULL if it is
 * no segment. `first` is the first row of the qdisc. */
static __noinline struct acks_known *acks_find(struct sk_buff *skb, u32 first,
					       u32 secret, u32 queue,
					       struct acks_segment *now)
{
	struct tuple tuple = {};
	struct acks_known *known;
	u32 key;

	if (!acks_read(skb, &tuple, now))
		return NULL;
	key = first + (tuple_hash(&tuple, secret) & (ACKS_FLOWS - 1));
	known = bpf_map_lookup_elem(&acks, &key);
	if (!known)
		return NULL;
	if (acks_same(&known->tuple, &tuple) && known->queue == queue)
		return known;
	/* Acknowledgements do not follow data that is in another class. */
	if (!now->form)
		return NULL;
	known->tuple = tuple;
	known->queue = queue;
	acks_begin(&known->flow, now);
	return known;
}

/*
 * Puts an acknowledgement in the place of the one that it makes superfluous.
 * `last` and `before` are the places of its connection (struct acks_flow), or
 * NULL if their packets have left. Returns 0, and does nothing, if there is
 * none.
 */
static __always_inline int
acks_supersedes(struct sk_buff *skb, u32 filter, struct acks_flow *flow,
		const struct acks_segment *now, struct queued_skb *last,
		struct queued_skb *before, struct bpf_sk_buff_ptr *to_free)
{
	u32 step = acks_decide(flow, now, filter);
	struct sk_buff *old;

	if (step == ACKS_QUEUE || !last || !last->skb)
		return 0;
	if (step == ACKS_SHIFT && (!before || !before->skb))
		return 0;
	old = bpf_kptr_xchg(&last->skb, skb);
	/* There is one, as just tested. */
	if (old && step == ACKS_SHIFT)
		old = bpf_kptr_xchg(&before->skb, old);
	if (old)
		bpf_qdisc_skb_drop(old, to_free);
	acks_replaced(flow, now);
	return 1;
}

#endif
