// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A TCP connection that is to change its class has no segment overtaken: one
 * program sees data leave for the queues, after the tables have written the
 * class into skb->priority, the other sees acknowledgements come back. Both share
 * a map of the data's directions, of which the kernel forgets the one that was
 * silent for longest when it is full.
 *
 * Data stays in the class that it has while some of it is not acknowledged, for
 * that may wait in the class's queue. Acknowledgements that come meanwhile close
 * the sender's window, so that it stops and the queue runs empty of it. The first
 * segment after all is acknowledged goes into the new class; nothing is left that
 * it could overtake.
 *
 * To close a window takes back what was offered. A receiver should not do that,
 * and a sender has to bear it (RFC 9293 section 3.8.6). What is lost meanwhile
 * is still sent again.
 *
 * Where no acknowledgement comes by here, or they take too long, connections
 * move at once. Nothing is dropped, and written only to where a whole TCP header
 * is.
 */
#include "lock.h"
#include "tcp_segment.h"
#include "order_layout.h"

#define FLOWS 16384

/* For so long a connection is kept in a class that it should have left. More
 * than this waits in no queue that a policy should have, and a change of a
 * class takes no longer. */
#define ORDER_MOST_NS 2000000000ULL

/* A sender is stopped when this many segments in a row were for another class.
 * Fewer are a rule's that looks at single packets: they keep their order, and
 * nobody waits for them. */
#define ORDER_SURE 3

struct order_flow {
	u64 since_ns; /* since when it is to move; 0: it is where it should be */
	u32 class; /* where its data goes, as in skb->priority */
	u32 highest; /* the number behind the last byte that went there */
	u32 acked; /* the highest acknowledged, at most that one */
	u32 count; /* segments in a row that were for another class */
	u32 lock;
	u32 answered; /* an acknowledgement came by */
};

/* By the tuple of the data. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FLOWS);
	__type(key, struct tuple);
	__type(value, struct order_flow);
} order_flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct order_totals);
} totals SEC(".maps");

/* Whether a number comes before another, modulo 2^32 (RFC 9293 section 3.4). */
static __always_inline int order_before(u32 one, u32 other)
{
	return (s32)(one - other) < 0;
}

/* What a segment takes of the sequence (RFC 9293 section 3.4). */
static __always_inline u32 order_length(const struct segment *segment)
{
	return segment->payload + !!(segment->flags & TCP_SYN) +
	       !!(segment->flags & TCP_FIN);
}

/* Where a segment goes that the tables have for `wanted`. */
static __always_inline u32 order_class(struct order_flow *flow,
				       struct order_totals *all, u32 wanted,
				       u64 now_ns)
{
	int waits = flow->answered && order_before(flow->acked, flow->highest);

	if (wanted != flow->class && waits) {
		if (!flow->since_ns)
			flow->since_ns = now_ns;
		if (now_ns - flow->since_ns < ORDER_MOST_NS) {
			flow->count++;
			return flow->class;
		}
		__sync_fetch_and_add(&all->late, 1);
	} else if (wanted != flow->class) {
		__sync_fetch_and_add(&all->moved, 1);
	}
	flow->class = wanted;
	flow->since_ns = 0;
	flow->count = 0;
	return wanted;
}

/* What a segment is of a connection that is not known, or begins. */
static __always_inline void order_begins(const struct segment *segment,
					 u32 class)
{
	struct order_flow fresh = {
		.class = class,
		.highest = segment->first + order_length(segment),
	};
	struct tuple tuple = segment->tuple;

	bpf_map_update_elem(&order_flows, &tuple, &fresh, BPF_ANY);
}

SEC("tc")
int order_out(struct __sk_buff *skb)
{
	u32 key = 0;
	struct order_totals *all = bpf_map_lookup_elem(&totals, &key);
	struct segment segment = {};
	struct order_flow *flow;
	u32 length, end;

	if (!all || !tcp_look(skb, &segment, 0))
		return TC_ACT_UNSPEC;
	length = order_length(&segment);
	/* An acknowledgement alone may have a class of its own. */
	if (!length && !(segment.flags & TCP_RST))
		return TC_ACT_UNSPEC;
	flow = bpf_map_lookup_elem(&order_flows, &segment.tuple);
	if (!flow || segment.flags & TCP_SYN) {
		order_begins(&segment, skb->priority);
		return TC_ACT_UNSPEC;
	}
	if (!lock_take(&flow->lock)) {
		__sync_fetch_and_add(&all->missed, 1);
		return TC_ACT_UNSPEC;
	}
	skb->priority =
		order_class(flow, all, skb->priority, bpf_ktime_get_ns());
	end = segment.first + length;
	if (order_before(flow->highest, end))
		flow->highest = end;
	lock_release(&flow->lock);
	return TC_ACT_UNSPEC;
}

/* Notes what is acknowledged; whether the sender is to stop. */
static __always_inline int order_acknowledged(struct order_flow *flow, u32 ack,
					      u64 now_ns)
{
	/* What is beyond went another way. */
	if (order_before(flow->highest, ack))
		ack = flow->highest;
	if (!flow->answered || order_before(flow->acked, ack))
		flow->acked = ack;
	flow->answered = 1;
	return flow->since_ns && flow->count >= ORDER_SURE &&
	       order_before(flow->acked, flow->highest) &&
	       now_ns - flow->since_ns < ORDER_MOST_NS;
}

SEC("tc")
int order_in(struct __sk_buff *skb)
{
	u32 key = 0;
	struct order_totals *all = bpf_map_lookup_elem(&totals, &key);
	struct segment segment = {};
	struct order_flow *flow;
	int stops;

	if (!all || !tcp_look(skb, &segment, 1) || !(segment.flags & TCP_ACK))
		return TC_ACT_UNSPEC;
	flow = bpf_map_lookup_elem(&order_flows, &segment.tuple);
	if (!flow)
		return TC_ACT_UNSPEC;
	if (!lock_take(&flow->lock)) {
		__sync_fetch_and_add(&all->missed, 1);
		return TC_ACT_UNSPEC;
	}
	stops = order_acknowledged(flow, segment.ack, bpf_ktime_get_ns());
	lock_release(&flow->lock);
	if (!stops || !segment.window || segment.flags & (TCP_SYN | TCP_RST))
		return TC_ACT_UNSPEC;
	if (tcp_write(skb, tc_network(skb, &segment.at) + segment.at.transport,
		      segment.at.transport, 14, segment.window, 0))
		__sync_fetch_and_add(&all->closed, 1);
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual BSD/GPL";
