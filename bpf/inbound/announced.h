/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sessions that programs announce (Shah 1999, section 7: a session of high
 * priority is known before it begins). While one is announced, connections of
 * low priority that begin ask for small segments, and old ones that receive
 * much may be reset.
 *
 * Who announces has to say so again and again: an announcement that is not
 * renewed ends by itself.
 */
#ifndef INBOUND_ANNOUNCED_H
#define INBOUND_ANNOUNCED_H

#include "tc.h"
#include "aqm.h"

/* Times of bpf_ktime_get_ns(). */
struct announced {
	u64 since_ns;
	u64 until_ns; /* no session is announced from then on */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct announced);
} announced SEC(".maps");

/* Between two attempts to reset a connection: what comes in between is not
 * touched, so that the receiver, who has no such connection any more, answers
 * it and the sender learns of it. */
#define RESET_AGAIN_NS 100000000ULL

/* Who has received less is not reset. */
#define RESET_MUCH 100000

/* Since when a session is announced; 0 where none is. */
static __always_inline u64 announced_since(u64 now_ns)
{
	u32 key = 0;
	const struct announced *one = bpf_map_lookup_elem(&announced, &key);

	return one && now_ns < one->until_ns ? one->since_ns : 0;
}

/* Writes two bytes of a TCP header that begins at `tcp` in the frame and at
 * `transport` behind the network's header. The checksum is brought up to date
 * where it is whole, and left alone where the card or the segmentation is to
 * make it. */
static __always_inline int tcp_write(struct __sk_buff *skb, u32 tcp,
				     u32 transport, u32 offset, u16 before,
				     u16 after)
{
	u8 there[8], read[8];
	u16 from = __builtin_bswap16(before);
	u16 to = __builtin_bswap16(after);
	u16 sum_from = from, sum_to = to;

	/* A frame may have more at its end than the packet. */
	if (bpf_skb_load_bytes(skb, tcp, there, sizeof(there)) ||
	    tc_load(skb, transport, read, sizeof(read)) ||
	    __builtin_memcmp(there, read, sizeof(read)))
		return 0;
	/* The sum is of words, of which these are two halves at odd places. */
	if (offset & 1) {
		sum_from = before;
		sum_to = after;
	}
	if (bpf_l4_csum_replace(skb, tcp + 16, sum_from, sum_to, 2))
		return 0;
	return !bpf_skb_store_bytes(skb, tcp + offset, &to, 2, 0);
}

#endif
