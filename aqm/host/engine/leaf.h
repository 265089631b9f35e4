/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A leaf of the engine: its buffer, and which of its packets is sent next.
 *
 * Leaves share the slots and a limit in bytes. A leaf may hold as much as is
 * still free (dynamic thresholds: Choudhury and Hahne 1998, with a factor of
 * 1). So a leaf that floods leaves room for all others, and no leaf has to be
 * searched for. A leaf at its threshold drops the oldest packet of its longest
 * flow for each packet that arrives. All hosts below a node may together hold
 * as much as one leaf. Each host may hold as much as they leave of that, but
 * always one packet.
 *
 * A leaf has eight queues while packets wait in it (engine/flow.h). A leaf with
 * a single packet does not use them.
 */
#ifndef AQM_ENGINE_LEAF_H
#define AQM_ENGINE_LEAF_H

#include "engine/flow.h"

/* What a leaf does with an arriving packet. */
enum engine_room {
	ENGINE_KEEP = 0,
	ENGINE_EVICT = 1, /* only after dropping a packet of the same leaf */
	ENGINE_REFUSE = 2,
};

/* Most packets dropped to make room for one. */
#define ENGINE_EVICT_MOST 8

/* Whether a leaf may hold `bytes` and one more packet: no more than what is
 * free. Hosts below a node share this threshold. */
AQM_FN int engine_may_hold(struct engine *e, u32 id,
			   const struct engine_node *n, u64 bytes)
{
	const struct engine_node *above = n->packets ? engine_counts(e, id) :
						       NULL;
	u64 others = e->bytes;
	u32 slots = e->slots.used;

	if (n->config.limit_bytes && bytes > n->config.limit_bytes)
		return 0;
	if (above) {
		if (n->config.limit_bytes &&
		    bytes + above->bytes > n->config.limit_bytes)
			return 0;
		others += above->bytes;
		slots += above->packets;
	}
	return bytes + others <= e->rule.limit_bytes &&
	       n->packets + slots < e->slots.rows;
}

/* Whether a leaf has room for a packet of `len` bytes: enum engine_room. */
AQM_FN int engine_room(struct engine *e, u32 id, const struct engine_node *n,
		       u32 len)
{
	if (engine_may_hold(e, id, n, (u64)n->bytes + len) &&
	    (n->queue || e->queues.used < e->queues.rows))
		return ENGINE_KEEP;
	return n->packets ? ENGINE_EVICT : ENGINE_REFUSE;
}

/* Like engine_room(), for any row. Counts refused packets. */
AQM_FN int engine_admit(struct engine *e, u32 id, u32 len)
{
	struct engine_node *n = engine_node(e, id);
	int room;

	if (!n || n->config.live != ENGINE_NODE || n->config.fork) {
		e->refused++;
		return ENGINE_REFUSE;
	}
	room = engine_room(e, id, n, len);
	if (room == ENGINE_REFUSE)
		engine_whole(e, id, n)->drops++;
	return room;
}

/* Removes a packet from its leaf and from the node that counts it. The slot's
 * contents stay valid until the next arrival. The host takes the packet out
 * before that. */
AQM_FN void engine_off(struct engine *e, struct engine_node *n,
		       struct engine_node *above, u32 index,
		       struct engine_slot *slot)
{
	u32 len = slot->packet.len;

	n->packets--;
	n->bytes -= len;
	e->bytes -= len;
	if (above) {
		above->packets--;
		above->bytes -= len;
	}
	engine_pool_give(&e->slots, index, &slot->next);
}

/* Releases the queues of a leaf that has become empty. */
AQM_FN void engine_give_back(struct engine_node *n, struct engine_host *h,
			     struct engine_node *above)
{
	if (above)
		above->queue--;
	if (h)
		h->above = 0;
	n->queue = 0;
}

/* Removes the only packet of a leaf that has no row of queues. */
AQM_FN u32 engine_off_lone(struct engine *e, struct engine_node *n,
			   struct engine_host *h, struct engine_node *above)
{
	u32 index = n->queue & ~ENGINE_LONE;
	struct engine_slot *slot = engine_slot(e, index);

	if (slot)
		engine_off(e, n, above, index, slot);
	engine_give_back(n, h, above);
	e->queues.used--;
	return index;
}

/* Removes the oldest packet of a leaf's longest flow. Returns its slot. The
 * host drops the packet. */
AQM_WHOLE_FN u32 engine_evict(struct engine *e AQM_NONNULL, u32 id)
{
	struct engine_node *n = engine_node(e, id);
	u32 i, longest = 0, most = 0, index;
	struct engine_host *h = engine_host_of(e, id);
	struct engine_node *above = engine_counts(e, id);
	struct engine_queue *q;
	struct engine_flow *flow;
	struct engine_slot *slot;

	if (!n || !n->queue)
		return 0;
	if (n->queue & ENGINE_LONE) {
		engine_whole(e, id, n)->drops++;
		return engine_off_lone(e, n, h, above);
	}
	q = engine_queue(e, n->queue);
	if (!q)
		return 0;
	AQM_LOOP (i, ENGINE_FLOWS) {
		if (q->flow[i].head && q->flow[i].bytes >= most) {
			most = q->flow[i].bytes;
			longest = i;
		}
	}
	/* Raise CoDel's count: a flow that overflows should back off. */
	flow = &q->flow[AQM_MASKED(longest, ENGINE_FLOWS - 1)];
	flow->codel.count++;
	index = flow->head;
	slot = engine_slot(e, index);
	if (!slot)
		return 0;
	flow->head = slot->next;
	flow->bytes -= slot->packet.len;
	engine_off(e, n, above, index, slot);
	engine_whole(e, id, n)->drops++;
	if (!n->packets) {
		engine_pool_give(&e->queues, n->queue, &q->next);
		engine_give_back(n, h, above);
	}
	return index;
}

/* Queues a packet behind others of its leaf. If a packet has waited alone, the
 * leaf now gets its queues, and that packet is the first in them. */
AQM_WHOLE_FN int engine_behind(struct engine *e AQM_NONNULL, u32 id, u32 index)
{
	struct engine_node *n = engine_node(e, id);
	struct engine_slot *slot = engine_slot(e, index), *lone;
	struct engine_queue *q;
	u32 queue, at;

	if (!n || !slot)
		return 0;
	queue = n->queue;
	if (queue & ENGINE_LONE) {
		lone = engine_slot(e, queue & ~ENGINE_LONE);
		queue = engine_pool_next(&e->queues);
		q = engine_queue(e, queue);
		if (!q || !lone)
			return 0;
		e->queues.used--;
		engine_pool_take(&e->queues, q->next);
		q->fresh = 0;
		q->old = 0;
		engine_flow_begin(
			q, 0, engine_flow_key(lone->host, lone->packet.flow));
		engine_append(e, &q->flow[0], n->queue & ~ENGINE_LONE,
			      lone->packet.len);
		n->queue = queue;
	}
	q = engine_queue(e, queue);
	if (!q)
		return 0;
	at = AQM_MASKED(engine_flow_for(q, engine_flow_key(slot->host,
							   slot->packet.flow)),
			ENGINE_FLOWS - 1);
	engine_append(e, &q->flow[at], index, slot->packet.len);
	return 1;
}

/* Stores a packet in a leaf that has room for it. Returns its slot. */
AQM_FN u32 engine_keep(struct engine *e, u32 id,
		       const struct aqm_packet *packet, u32 host)
{
	struct engine_node *n = engine_node(e, id), *above = NULL;
	struct engine_host *h = engine_host_of(e, id);
	u32 index = engine_pool_next(&e->slots), len = packet->len;
	struct engine_slot *slot = engine_slot(e, index);

	if (!n || !slot)
		return 0;
	engine_pool_take(&e->slots, slot->next);
	slot->packet = *packet;
	slot->next = 0;
	/* In a host's leaf each flow counts as a host: flows are equals. */
	slot->host = h ? packet->flow : host;
	if (n->queue) {
		engine_behind(e, id, index);
		n->packets++;
		n->bytes += len;
	} else {
		n->queue = ENGINE_LONE | index;
		e->queues.used++;
		n->packets = 1;
		n->bytes = len;
		if (h) {
			h->above = n->config.parent;
			above = engine_node(e, h->above);
		}
		if (above)
			above->queue++;
	}
	e->bytes += len;
	above = h ? engine_node(e, h->above) : NULL;
	if (above) {
		above->packets++;
		above->bytes += len;
	}
	if (!e->wheel.top)
		e->wheel.tick = packet->arrived_ns >> ENGINE_TICK_SHIFT;
	if (n->state == ENGINE_IDLE)
		engine_wake_up(e, id, packet->arrived_ns);
	else if (h && n->config.parent != n->parent)
		engine_move(e, id, packet->arrived_ns);
	return index;
}

/* No slot is free for the packet, but one of the leaf may be evicted for it. */
#define ENGINE_FULL (~0U)

/* Offers a packet to a leaf. Returns its slot, 0 if it is refused, or
 * ENGINE_FULL. */
AQM_WHOLE_FN u32 engine_offer(struct engine *e AQM_NONNULL, u32 id,
			      const struct aqm_packet *packet AQM_NONNULL,
			      u32 host)
{
	int room = engine_admit(e, id, packet->len);

	if (room == ENGINE_KEEP)
		return engine_keep(e, id, packet, host);
	return room == ENGINE_EVICT ? ENGINE_FULL : 0;
}

/* Removes the next packet of a leaf that has queues. Returns its slot and sets
 * the verdict. 0: the leaf is empty. */
AQM_FN u32 engine_pull(struct engine *e, struct engine_node *n,
		       struct engine_host *h, struct engine_node *above,
		       const struct engine_node *whole, u64 now_ns,
		       struct aqm_verdict *verdict)
{
	struct engine_queue *q = engine_queue(e, n->queue);
	struct engine_flow *flow;
	struct engine_slot *slot;
	u32 at, index;

	if (!q)
		return 0;
	at = engine_flow_next(q);
	flow = &q->flow[at];
	/* The only packet of a leaf is sent whatever its deficit. */
	if (!flow->head || (n->packets > 1 && flow->deficit <= 0)) {
		at = engine_flow_turn(e, n->queue);
		if (at >= ENGINE_FLOWS)
			return 0;
		flow = &q->flow[AQM_MASKED(at, ENGINE_FLOWS - 1)];
	}
	index = flow->head;
	slot = engine_slot(e, index);
	if (!slot)
		return 0;
	if (!q->fresh)
		q->turn = at;
	flow->head = slot->next;
	flow->bytes -= slot->packet.len;
	engine_off(e, n, above, index, slot);
	*verdict = engine_judge(e, n, whole, flow, &slot->packet, now_ns);
	if (!n->packets) {
		engine_pool_give(&e->queues, n->queue, &q->next);
		engine_give_back(n, h, above);
	}
	return index;
}

/*
 * Removes the next packet of a leaf. Returns its slot, or 0 if the leaf is
 * empty. Sets `e->verdict`, and `wire` to the bytes to charge. A dropped packet
 * costs 0 bytes unless it has used the link already, and the host then chooses
 * again.
 */
AQM_FN u32 engine_take(struct engine *e, u32 id, u64 now_ns, u32 *wire)
{
	struct aqm_verdict verdict = aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
	struct engine_node *n = engine_node(e, id), *whole, *above;
	struct engine_host *h = engine_host_of(e, id);
	const struct engine_slot *slot = NULL;
	u32 index = 0;

	*wire = 0;
	whole = h ? engine_whole(e, id, n) : n;
	above = h ? engine_node(e, h->above) : NULL;
	if (n && n->queue & ENGINE_LONE) {
		index = engine_off_lone(e, n, h, above);
		slot = engine_slot(e, index);
		if (slot)
			verdict = whole->config.live ?
					  codel_last(&e->rule.codel,
						     &slot->packet, now_ns) :
					  aqm_drop(AQM_EVICTED_REASON);
	} else if (n && n->queue) {
		index = engine_pull(e, n, h, above, whole, now_ns, &verdict);
		slot = engine_slot(e, index);
	}
	e->verdict = verdict;
	if (!slot)
		return 0;
	if (verdict.action == AQM_DROP) {
		whole->drops++;
		if (e->rule.arriving && verdict.reason != AQM_EVICTED_REASON)
			*wire = slot->packet.wire;
		return index;
	}
	*wire = slot->packet.wire;
	if (verdict.action == AQM_MARK)
		whole->marks++;
	if (whole != n) {
		whole->sent_packets++;
		whole->sent_wire_bytes += slot->packet.wire;
	}
	return index;
}

/* One step of dequeue. Returns the slot of a packet to send or drop, as
 * `e->verdict` says, and sets `e->leaf`. If it returns 0 and sets a leaf, the
 * host calls again at once. If it returns 0 and no leaf, the host calls again
 * at `e->opens_ns`. */
AQM_WHOLE_FN u32 engine_next(struct engine *e AQM_NONNULL, u64 now_ns)
{
	u32 leaf = engine_choose(e, now_ns), index, wire;

	e->leaf = leaf;
	if (!leaf)
		return 0;
	index = engine_take(e, leaf, now_ns, &wire);
	engine_settle(e, leaf, wire, now_ns);
	return index;
}

#endif
