// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sets the ECN marks of a BPF qdisc (marks.h describes how both work together).
 * It is attached at the egress hook of the qdisc's device (tcx), shares its
 * maps with the qdisc, and never decides about a packet itself.
 */
#include "tc.h"
#include "marks.h"

/* include/uapi/linux/bpf.h */
enum { TCX_NEXT = -1 };

/* Set before the program is loaded (marks.h). */
const volatile u32 stamp;

extern void *bpf_cast_to_kern_ctx(void *) __ksym;

/* Returns the ECN field of the IP header at offset `at`. */
static __always_inline u32 marks_field(struct __sk_buff *ctx, u64 at)
{
	u8 *begin = (u8 *)(u64)ctx->data;
	u8 *end = (u8 *)(u64)ctx->data_end;
	u8 *header;

	if (at > 255)
		return AQM_NOT_ECT;
	header = begin + at;
	if (header + 2 > end)
		return AQM_NOT_ECT;
	if (ctx->protocol == __builtin_bswap16(ETH_P_IP) && header[0] >> 4 == 4)
		return header[1] & 3;
	if (ctx->protocol == __builtin_bswap16(ETH_P_IPV6) &&
	    header[0] >> 4 == 6)
		return header[1] >> 4 & 3;
	return AQM_NOT_ECT;
}

/* Marks a packet if its flow has a pending mark. */
static __noinline int marks_put(struct __sk_buff *ctx)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	struct marks_total *total = marks_total();
	struct aqm_attach_point point = {};
	struct marks_flow flow = {};
	struct marks_count *count;
	struct marks_pending *pending;
	struct tuple tuple = {};
	struct layout at = {};
	u64 now = bpf_ktime_get_ns();

	if (!total)
		return 0;
	if (now > total->until_ns) {
		total->pending = 0;
		return 0;
	}
	if (!tc_tuple(ctx, &tuple, &at))
		return 0;
	flow.netns = skb->dev->nd_net.net->net_cookie;
	flow.ifindex = ctx->ifindex;
	flow.hash = tuple_hash(&tuple, (u32)total->key);
	pending = bpf_map_lookup_elem(&marks_pending, &flow);
	if (!pending)
		return 0;
	point.netns = flow.netns;
	point.ifindex = flow.ifindex;
	count = bpf_map_lookup_elem(&marks_places, &point);
	if (now > pending->until_ns) {
		/* The total may have been cleared since, so it stays an upper
		 * bound. */
		if (count)
			__sync_fetch_and_add(&count->lapsed, pending->pending);
		bpf_map_delete_elem(&marks_pending, &flow);
		return 0;
	}
	if (!bpf_skb_ecn_set_ce(ctx))
		return 0;
	if (count)
		__sync_fetch_and_add(&count->made, 1);
	__sync_fetch_and_sub(&total->pending, 1);
	if (__sync_fetch_and_sub(&pending->pending, 1) <= 1)
		bpf_map_delete_elem(&marks_pending, &flow);
	return 1;
}

SEC("tcx/egress")
int marks_egress(struct __sk_buff *ctx)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	u64 at = (u64)skb->head + skb->network_header - (u64)skb->data;
	struct marks_total *total;
	u32 ecn;

	/* Keep the compiler from truncating the pointers to 32 bits. */
	asm volatile("" : "+r"(at));
	ecn = marks_field(ctx, at);
	ctx->cb[MARKS_WORD] = stamp | ecn;
	if (ecn == AQM_NOT_ECT)
		return TCX_NEXT;
	total = marks_total();
	if (total && total->pending)
		marks_put(ctx);
	return TCX_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
