/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A leaf of the engine: room for its packets, and which of them goes next.
 *
 * Leaves share the slots and a limit in bytes. A leaf may hold as much as is
 * still free (dynamic thresholds: Choudhury and Hahne 1998, with a factor of 1),
 * so that one which floods leaves room for all others; no leaf has to be searched
 * for. A leaf that may not hold more loses the oldest packet of its longest flow
 * for the one that comes. All hosts below a node may together hold as much as one leaf,
 * and each as much as they leave of that, but one packet in any case.
 *
 * A leaf has eight queues while packets wait in it. They are lent to flows: one
 * gets a queue of its own while there is a free one, and a host of several flows
 * leaves half of them to others. A host's turn is divided among its flows, so
 * that hosts share first and flows within them. New flows go first for a turn
 * (RFC 8290), and each queue has a CoDel (RFC 8289).
 */
#ifndef AQM_ENGINE_LEAF_H
#define AQM_ENGINE_LEAF_H

#include "engine_tree.h"

/* What a leaf says to a packet. */
enum engine_room {
	ENGINE_KEEP = 0,
	ENGINE_EVICT = 1, /* after a packet of its own has gone */
	ENGINE_REFUSE = 2,
};

/* Packets that may go for one that comes. */
#define ENGINE_EVICT_MOST 8

/* Looks at the queues of a leaf for one packet. */
#define ENGINE_TURNS_MOST (8 * ENGINE_FLOWS)

/* No queue of a leaf. */
#define ENGINE_NO_FLOW ENGINE_FLOWS

/* 1 where both are equal. Without a branch, so that the kernel's verifier sees
 * one way through loops that ask this. */
AQM_FN u32 engine_equal(u32 a, u32 b)
{
	return (u32)(((u64)(a ^ b) - 1) >> 63);
}

/* The active queues that are of a host. */
AQM_FN u32 engine_flows_of(const struct engine_queue *q, u32 host)
{
	u32 i, all = 0;

	AQM_LOOP (i, ENGINE_FLOWS)
		all |= engine_equal(q->flow[i].host, host) << i;
	return all & (q->fresh | q->old);
}

/* The number of bits set, of eight. */
AQM_FN u32 engine_bits(u32 word)
{
	word = (word & 0x55) + ((word >> 1) & 0x55);
	word = (word & 0x33) + ((word >> 2) & 0x33);
	return (word & 0xf) + (word >> 4);
}

/* The first bit set from `from` on, or else the first. */
AQM_FN u32 engine_from(u32 set, u32 from)
{
	u32 later = set & (ENGINE_FLOW_BITS << (from & (ENGINE_FLOWS - 1)));

	return AQM_MASKED(engine_lowest16(later ? later : set),
			  ENGINE_FLOWS - 1);
}

/* Lends a free queue to a flow of a host. */
AQM_FN void engine_flow_begin(struct engine_queue *q, u32 at, u32 host,
			      u32 flow)
{
	struct engine_flow *f = &q->flow[at];

	__builtin_memset(f, 0, sizeof(*f));
	f->host = host;
	f->flow = flow;
	f->deficit = ENGINE_TURN_BYTES;
	q->fresh |= 1U << at;
}

/*
 * The queue of a packet: its flow's, or a free one, or one that it shares. A host
 * without a queue takes any that is free; one that has some, only while more than
 * half are.
 */
AQM_WHOLE_FN u32 engine_flow_for(struct engine *e AQM_NONNULL, u32 queue,
				 u32 host, u32 flow)
{
	struct engine_queue *q = engine_queue(e, queue);
	u32 i, active, free, of_host = 0, same = 0;

	if (!q)
		return 0;
	active = q->fresh | q->old;
	free = ~active & ENGINE_FLOW_BITS;
	if (active) {
		of_host = engine_flows_of(q, host);
		AQM_LOOP (i, ENGINE_FLOWS)
			same |= engine_equal(q->flow[i].flow, flow) << i;
		same &= of_host;
	}
	if (same)
		return engine_from(same, 0);
	if (free && (!of_host || engine_bits(free) > ENGINE_FLOWS / 2)) {
		i = engine_from(free, 0);
		engine_flow_begin(q, i, host, flow);
		return i;
	}
	return engine_from(of_host ? of_host : active, flow);
}

/* Whether a leaf has room for a packet of `len` bytes. */
AQM_FN int engine_room(struct engine *e, u32 id, u32 len)
{
	struct engine_node *n = engine_node(e, id);
	const struct engine_node *above;
	u64 most, left;
	u32 slots;

	if (!n || n->config.live != ENGINE_NODE || n->config.fork) {
		e->refused++;
		return ENGINE_REFUSE;
	}
	left = e->rule.limit_bytes > e->bytes ? e->rule.limit_bytes - e->bytes :
						0;
	most = left;
	if (n->config.limit_bytes)
		most = aqm_min(most, n->config.limit_bytes);
	slots = e->slots.rows - e->slots.used;
	above = engine_counts(e, id);
	if (above && n->packets) {
		most -= aqm_min(most, above->bytes);
		slots -= (u32)aqm_min(slots, above->packets);
	}
	if (n->packets < slots && (u64)n->bytes + len <= most &&
	    (n->queue || e->queues.used < e->queues.rows))
		return ENGINE_KEEP;
	if (n->packets)
		return ENGINE_EVICT;
	engine_whole(e, id, n)->drops++;
	return ENGINE_REFUSE;
}

AQM_WHOLE_FN int engine_admit(struct engine *e AQM_NONNULL, u32 id, u32 len)
{
	return engine_room(e, id, len);
}

/* Takes the first packet off a queue of a leaf. What lies in its slot stays
 * there until another packet comes, and the host takes the packet out before. */
AQM_FN u32 engine_off(struct engine *e, u32 id, struct engine_node *n,
		      struct engine_flow *flow)
{
	u32 index = flow->head;
	struct engine_slot *slot = engine_slot(e, index);
	struct engine_node *above = engine_counts(e, id);

	if (!slot)
		return 0;
	flow->head = slot->next;
	if (!flow->head)
		flow->tail = 0;
	flow->bytes -= slot->packet.len;
	n->packets--;
	n->bytes -= slot->packet.len;
	e->bytes -= slot->packet.len;
	if (above) {
		above->packets--;
		above->bytes -= slot->packet.len;
	}
	engine_pool_give(&e->slots, index, &slot->next);
	return index;
}

/* A leaf without packets returns its queues. */
AQM_FN void engine_give_back(struct engine *e, u32 id, struct engine_node *n,
			     struct engine_queue *q)
{
	struct engine_host *h = engine_host_of(e, id);
	struct engine_node *above;

	if (n->packets)
		return;
	above = engine_counts(e, id);
	if (above)
		above->queue--;
	if (h)
		h->above = 0;
	engine_pool_give(&e->queues, n->queue, &q->next);
	n->queue = 0;
}

/* Takes the oldest packet of a leaf's longest flow, which the host drops. Returns
 * its slot. */
AQM_WHOLE_FN u32 engine_evict(struct engine *e AQM_NONNULL, u32 id)
{
	struct engine_node *n = engine_node(e, id);
	u32 i, longest = 0, most = 0, index;
	struct engine_queue *q;
	struct engine_flow *flow;

	if (!n)
		return 0;
	q = engine_queue(e, n->queue);
	if (!q)
		return 0;
	AQM_LOOP (i, ENGINE_FLOWS) {
		if (q->flow[i].head && q->flow[i].bytes >= most) {
			most = q->flow[i].bytes;
			longest = i;
		}
	}
	/* A flow that has to be shortened should hear of it. */
	flow = &q->flow[AQM_MASKED(longest, ENGINE_FLOWS - 1)];
	flow->codel.count++;
	index = engine_off(e, id, n, flow);
	if (index)
		engine_whole(e, id, n)->drops++;
	engine_give_back(e, id, n, q);
	return index;
}

/* Keeps a packet of a flow of a host in a leaf that has room. Returns its slot,
 * or 0: the host drops it. */
AQM_WHOLE_FN u32 engine_arrive(struct engine *e AQM_NONNULL, u32 id,
			       const struct aqm_packet *packet AQM_NONNULL,
			       u32 host)
{
	struct engine_node *n = engine_node(e, id);
	struct engine_slot *slot, *last;
	struct engine_host *h = engine_host_of(e, id);
	struct engine_node *above;
	struct engine_queue *q;
	struct engine_flow *flow;
	u32 index, at;

	if (!n)
		return 0;
	/* Flows of one host are equals. */
	if (h)
		host = packet->flow;
	index = n->queue ? n->queue : engine_pool_next(&e->queues);
	q = engine_queue(e, index);
	if (!q) {
		engine_whole(e, id, n)->drops++;
		return 0;
	}
	if (!n->queue) {
		engine_pool_take(&e->queues, q->next);
		n->queue = index;
		q->fresh = 0;
		q->old = 0;
		above = h ? engine_node(e, n->config.parent) : NULL;
		if (above) {
			above->queue++;
			h->above = n->config.parent;
		}
	}
	index = engine_pool_next(&e->slots);
	slot = engine_slot(e, index);
	if (!slot) {
		engine_whole(e, id, n)->drops++;
		engine_give_back(e, id, n, q);
		return 0;
	}
	engine_pool_take(&e->slots, slot->next);
	at = 0;
	if (q->fresh | q->old)
		at = AQM_MASKED(engine_flow_for(e, n->queue, host,
						packet->flow),
				ENGINE_FLOWS - 1);
	else
		engine_flow_begin(q, 0, host, packet->flow);
	flow = &q->flow[at];
	slot->packet = *packet;
	slot->next = 0;
	last = engine_slot(e, flow->tail);
	if (last)
		last->next = index;
	else
		flow->head = index;
	flow->tail = index;
	flow->bytes += packet->len;
	n->packets++;
	n->bytes += packet->len;
	e->bytes += packet->len;
	above = engine_counts(e, id);
	if (above) {
		above->packets++;
		above->bytes += packet->len;
	}
	if (!e->wheel.top)
		e->wheel.tick = packet->arrived_ns >> ENGINE_TICK_SHIFT;
	if (n->state == ENGINE_IDLE)
		engine_wake_up(e, id, n, packet->arrived_ns);
	else if (h && n->config.parent != n->parent)
		engine_move(e, id, packet->arrived_ns);
	return index;
}

/* The queue of a leaf whose turn it is; ENGINE_NO_FLOW where none has packets.
 * An empty one leaves, a new one through the old ones, so that it cannot starve
 * them by coming back as a new one. */
AQM_WHOLE_FN u32 engine_flow_turn(struct engine *e AQM_NONNULL, u32 queue)
{
	struct engine_queue *q = engine_queue(e, queue);
	struct engine_flow *flow;
	u32 i, at, set, bit;

	if (!q)
		return ENGINE_NO_FLOW;
	AQM_QUICK_LOOP (i, ENGINE_TURNS_MOST) {
		set = (q->fresh ? q->fresh : q->old) & ENGINE_FLOW_BITS;
		if (!set)
			return ENGINE_NO_FLOW;
		at = engine_from(set, q->fresh ? 0 : q->turn);
		bit = 1U << at;
		flow = &q->flow[at];
		if (flow->head && flow->deficit > 0) {
			if (!q->fresh)
				q->turn = at;
			return at;
		}
		if (!(q->fresh & bit))
			q->turn = at + 1;
		if (flow->head) {
			flow->deficit +=
				(s32)(ENGINE_TURN_BYTES /
				      aqm_max(engine_bits(engine_flows_of(
						      q, flow->host)),
					      1));
			q->old |= bit;
		} else if (q->fresh & bit && q->old & ~bit) {
			q->old |= bit;
		} else {
			q->old &= ~bit;
		}
		q->fresh &= ~bit;
	}
	return ENGINE_NO_FLOW;
}

/*
 * The next packet of a leaf: its slot, with what is to become of it in
 * `e->verdict`. A packet that is dropped counts for no rate, and the host chooses
 * again. 0: the leaf has none.
 */
AQM_WHOLE_FN u32 engine_take(struct engine *e AQM_NONNULL, u32 id, u64 now_ns)
{
	struct engine_node *n = engine_node(e, id), *whole;
	struct codel_common codel = e->rule.codel;
	struct engine_queue *q;
	struct engine_flow *flow;
	struct engine_slot *slot;
	u32 at, index;

	e->verdict = aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
	if (!n)
		return 0;
	q = engine_queue(e, n->queue);
	if (!q)
		return 0;
	/* The only packet of a leaf has its turn in any case. */
	at = engine_from(q->fresh | q->old, 0);
	if (n->packets > 1 || !q->flow[at].head) {
		at = engine_flow_turn(e, n->queue);
		if (at >= ENGINE_FLOWS)
			return 0;
	}
	flow = &q->flow[AQM_MASKED(at, ENGINE_FLOWS - 1)];
	index = engine_off(e, id, n, flow);
	slot = engine_slot(e, index);
	if (!slot)
		return 0;
	if (n->config.target_ns)
		codel.target_ns = n->config.target_ns;
	whole = engine_whole(e, id, n);
	if (whole->config.live)
		e->verdict = codel_head(&flow->codel, &codel, codel.mtu_bytes,
					1, &slot->packet, n->bytes, now_ns);
	else
		e->verdict = aqm_drop(AQM_EVICTED_REASON);
	if (e->verdict.action == AQM_DROP) {
		whole->drops++;
	} else {
		flow->deficit -= (s32)slot->packet.len;
		if (whole != n) {
			whole->sent_packets++;
			whole->sent_wire_bytes += slot->packet.wire;
		}
	}
	if (e->verdict.action == AQM_MARK)
		whole->marks++;
	/* Nothing waits in an empty queue, so no delay goes on either. A leaf without
	 * packets returns all. */
	if (!flow->head && n->packets)
		codel_head(&flow->codel, &codel, codel.mtu_bytes, 1, NULL, 0,
			   now_ns);
	engine_give_back(e, id, n, q);
	return index;
}

/* What the packet in a slot, which engine_take() took, counts for: its bytes on the
 * wire, or 0 where it is dropped and has not used the link. */
AQM_FN u32 engine_cost(const struct engine *e, const struct engine_slot *slot)
{
	if (e->verdict.action != AQM_DROP ||
	    (e->rule.arriving && e->verdict.reason != AQM_EVICTED_REASON))
		return slot->packet.wire;
	return 0;
}

#endif
