// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A minimal BPF qdisc: one drop-tail queue, one instance, and no counters
 * except the kernel's. Any additional cost of a discipline is due to the kit.
 * Only `weirgate aqm bench` uses it.
 */
#include "kernel.h"

/* Most queued packets; a power of two. */
#define ROOM 1024

struct queued_skb {
	struct sk_buff __kptr *skb;
	__u64 len;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ROOM);
	__type(key, __u32);
	__type(value, struct queued_skb);
} packets SEC(".maps");

/* Total packets queued and sent. */
__u32 came;
__u32 left;

SEC("struct_ops")
int BPF_PROG(fifo_enqueue, struct sk_buff *skb, struct Qdisc *sch,
	     struct bpf_sk_buff_ptr *to_free)
{
	__u32 key = came & (ROOM - 1);
	struct queued_skb *queued = bpf_map_lookup_elem(&packets, &key);
	struct sk_buff *old;

	if (!queued || came - left >= ROOM) {
		bpf_qdisc_skb_drop(skb, to_free);
		return NET_XMIT_DROP;
	}
	queued->len = ((struct qdisc_skb_cb *)skb->cb)->pkt_len;
	sch->qstats.backlog += queued->len;
	old = bpf_kptr_xchg(&queued->skb, skb);
	if (old)
		bpf_qdisc_skb_drop(old, to_free);
	came++;
	sch->q.qlen++;
	return NET_XMIT_SUCCESS;
}

SEC("struct_ops")
struct sk_buff *BPF_PROG(fifo_dequeue, struct Qdisc *sch)
{
	__u32 key = left & (ROOM - 1);
	struct queued_skb *queued = bpf_map_lookup_elem(&packets, &key);
	struct sk_buff *skb;

	if (!queued || came == left)
		return NULL;
	skb = bpf_kptr_xchg(&queued->skb, NULL);
	if (!skb)
		return NULL;
	left++;
	sch->qstats.backlog -= queued->len;
	sch->q.qlen--;
	bpf_qdisc_bstats_update(sch, skb);
	return skb;
}

SEC("struct_ops")
int BPF_PROG(fifo_init, struct Qdisc *sch, struct nlattr *arg,
	     struct netlink_ext_ack *extack)
{
	return 0;
}

SEC("struct_ops")
void BPF_PROG(fifo_reset, struct Qdisc *sch)
{
	__u32 i;

	bpf_for (i, 0, ROOM) {
		__u32 key = i;
		struct queued_skb *queued = bpf_map_lookup_elem(&packets, &key);
		struct sk_buff *skb;

		if (!queued)
			break;
		skb = bpf_kptr_xchg(&queued->skb, NULL);
		if (skb)
			bpf_kfree_skb(skb);
	}
	left = came;
}

SEC("struct_ops")
void BPF_PROG(fifo_destroy, struct Qdisc *sch)
{
}

char _license[] SEC("license") = "Dual BSD/GPL";

SEC(".struct_ops.link")
struct Qdisc_ops qdisc = {
	.id = "weir_bench_fifo",
	.enqueue = (void *)fifo_enqueue,
	.dequeue = (void *)fifo_dequeue,
	.init = (void *)fifo_init,
	.reset = (void *)fifo_reset,
	.destroy = (void *)fifo_destroy,
};
