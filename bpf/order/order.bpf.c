// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Keeps the segments of a TCP connection in order when it changes its class.
 * One program sees data leave for the queues, after the rules have written the
 * class to skb->priority. The other sees the returning acknowledgements. Both
 * share an LRU map of data directions.
 *
 * Data stays in the old class while some of it is not acknowledged, because
 * that may still wait in the class's queue. Acknowledgements that arrive in
 * this time close the sender's window, so that it stops and the queue drains.
 * Once everything is acknowledged, the next segment goes to the new class, and
 * nothing is left that it could overtake.
 *
 * Closing a window takes back an offer. A receiver should not do that, but a
 * sender must be able to handle it (RFC 9293 section 3.8.6). Lost segments are
 * still retransmitted.
 *
 * If no acknowledgement passes here, or if they take too long, connections move
 * at once. No packet is dropped, and only packets with a whole TCP header are
 * changed.
 */
#include "lock.h"
#include "tcp_segment.h"
#include "order_layout.h"

#define FLOWS 16384

/* A connection stays in its old class at most for this time. No queue of a
 * sensible policy takes longer, and neither does a change of class. */
#define ORDER_MOST_NS 2000000000ULL

/* A sender is stopped once this many consecutive segments were for another
 * class. Fewer are due to a rule that matches single packets: they keep their
 * order, and nothing waits for them. */
#define ORDER_SURE 3

struct order_flow {
	u64 since_ns; /* since when it should move;
		       * 0: it is in the right class */
	u32 class; /* class of its data, as in skb->priority */
	u32 highest; /* sequence number after the
		      * last byte sent in that class */
	u32 acked; /* highest acknowledgement, at most `highest` */
	u32 count; /* consecutive segments for another class */
	u32 lock;
	u32 answered; /* an acknowledgement was seen */
};

/* Connections, by the tuple of the data. */
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

/* Whether a sequence number precedes another, modulo 2^32 (RFC 9293 section
 * 3.4). */
static __always_inline int order_before(u32 one, u32 other)
{
	return (s32)(one - other) < 0;
}

/* Returns the sequence space of a segment (RFC 9293 section 3.4). */
static __always_inline u32 order_length(const struct segment *segment)
{
	return segment->payload + !!(segment->flags & TCP_SYN) +
	       !!(segment->flags & TCP_FIN);
}

/* Returns the class of a segment for which the rules say `wanted`. */
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

/* Starts tracking a connection at its SYN, or at its first segment seen. */
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
	/* A pure acknowledgement may have a class of its own. */
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

/* Updates what is acknowledged. Returns whether the sender must stop. */
static __always_inline int order_acknowledged(struct order_flow *flow, u32 ack,
					      u64 now_ns)
{
	/* Anything beyond took another path. */
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
