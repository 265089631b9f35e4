/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The qdisc's side of marks.h: reads a packet's ECN field and defers marks. */
#ifndef BPF_PENDING_H
#define BPF_PENDING_H

#include "flow.h"
#include "marks.h"

/* Returns the stamp of an attach point's egress program; 0: none. */
static __always_inline u64 marks_stamp(u64 netns, u32 ifindex)
{
	struct aqm_attach_point point = { .netns = netns, .ifindex = ifindex };
	struct marks_count *count = bpf_map_lookup_elem(&marks_places, &point);

	return count ? count->stamp : 0;
}

/* Returns the ECN field that the egress program has stored. */
static __always_inline u32 marks_ecn(struct sk_buff *skb, u64 stamp)
{
	struct qdisc_skb_cb *cb = (struct qdisc_skb_cb *)skb->cb;
	u32 word;

	if (!stamp)
		return AQM_NOT_ECT;
	word = *(u32 *)&cb->data[4 * MARKS_WORD];
	return (word & ~3U) == stamp ? word & 3 : AQM_NOT_ECT;
}

/* Defers a mark to a later packet of the flow. */
static __noinline int marks_defer(struct sk_buff *skb, u64 netns, u32 ifindex,
				  u64 now_ns)
{
	struct marks_flow flow = { .netns = netns, .ifindex = ifindex };
	struct marks_pending first = {
		.pending = 1,
		.until_ns = now_ns + MARKS_LAST_NS,
	};
	struct marks_total *total = marks_total();
	struct marks_pending *pending;

	if (!total)
		return 0;
	flow.hash = flow_hash_of(skb, (u32)total->key, AQM_CONNECTION);
	pending = bpf_map_lookup_elem(&marks_pending, &flow);
	if (pending && pending->until_ns > now_ns) {
		__sync_fetch_and_add(&pending->pending, 1);
		pending->until_ns = first.until_ns;
	} else {
		bpf_map_update_elem(&marks_pending, &flow, &first, BPF_ANY);
	}
	__sync_fetch_and_add(&total->pending, 1);
	total->until_ns = first.until_ns;
	return 0;
}

#endif
