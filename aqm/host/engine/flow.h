/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The queues of a leaf, which it has while more than one packet waits in it.
 *
 * A flow gets a queue of its own while one is free. A host with several flows
 * leaves half of the queues to others. A host's turn is divided among its
 * flows, so hosts share first, and flows share within a host. New flows go
 * first for one turn (RFC 8290), and each queue has a CoDel instance (RFC
 * 8289).
 */
#ifndef AQM_ENGINE_FLOW_H
#define AQM_ENGINE_FLOW_H

#include "engine/tree.h"

/* Most steps to find the queue of the next packet. */
#define ENGINE_LOOKS_MOST (8 * ENGINE_FLOWS)

/* Returned if no queue of a leaf has packets. */
#define ENGINE_NO_FLOW ENGINE_FLOWS

/* Returns 1 if both are equal, else 0. It has no branch, so the verifier sees a
 * single path through loops that call it. */
AQM_FN u32 engine_equal(u32 a, u32 b)
{
	return (u32)(((u64)(a ^ b) - 1) >> 63);
}

/* The key of a flow: its host and its own hash. */
AQM_FN u64 engine_flow_key(u32 host, u32 flow)
{
	return (u64)host << 32 | flow;
}

/* Returns the bitmap of a host's active queues. */
AQM_FN u32 engine_flows_of(const struct engine_queue *q, u32 host)
{
	u32 i, all = 0;

	AQM_LOOP (i, ENGINE_FLOWS)
		all |= engine_equal((u32)(q->flow[i].key >> 32), host) << i;
	return all & (q->fresh | q->old);
}

/* Returns the number of bits set in an 8-bit word. */
AQM_FN u32 engine_bits(u32 word)
{
	word = (word & 0x55) + ((word >> 1) & 0x55);
	word = (word & 0x33) + ((word >> 2) & 0x33);
	return (word & 0xf) + (word >> 4);
}

/* Returns the first set bit at or after `from`, or else the lowest one. */
AQM_FN u32 engine_from(u32 set, u32 from)
{
	u32 later = set & (ENGINE_FLOW_BITS << (from & (ENGINE_FLOWS - 1)));

	return AQM_MASKED(engine_lowest16(later ? later : set),
			  ENGINE_FLOWS - 1);
}

/* Assigns a free queue to a flow. */
AQM_FN void engine_flow_begin(struct engine_queue *q, u32 at, u64 key)
{
	struct engine_flow *f = &q->flow[at];

	__builtin_memset(f, 0, sizeof(*f));
	f->key = key;
	f->deficit = ENGINE_TURN_BYTES;
	q->fresh |= 1U << at;
}

/*
 * Returns the queue of a packet: its flow's, a free one, or one that it shares.
 * A host without a queue takes any free one. A host that already has one takes
 * another only while more than half are free.
 */
AQM_FN u32 engine_flow_for(struct engine_queue *q, u64 key)
{
	u32 active = q->fresh | q->old, free = ~active & ENGINE_FLOW_BITS;
	u32 i, of_host = 0;

	AQM_LOOP (i, ENGINE_FLOWS) {
		if (q->flow[i].key == key && active >> i & 1)
			return i;
	}
	if (engine_bits(free) <= ENGINE_FLOWS / 2)
		of_host = engine_flows_of(q, (u32)(key >> 32));
	if (free && !of_host) {
		i = engine_from(free, 0);
		engine_flow_begin(q, i, key);
		return i;
	}
	return engine_from(of_host ? of_host : active, (u32)key);
}

/* Appends a packet to a flow's queue. */
AQM_FN void engine_append(struct engine *e, struct engine_flow *flow, u32 index,
			  u32 len)
{
	struct engine_slot *last = NULL;

	if (flow->head)
		last = engine_slot(e, flow->tail);
	if (last)
		last->next = index;
	else
		flow->head = index;
	flow->tail = index;
	flow->bytes += len;
}

/* Returns the active queue of a leaf whose turn it is. */
AQM_FN u32 engine_flow_next(const struct engine_queue *q)
{
	return engine_from(q->fresh ? q->fresh : q->old,
			   q->fresh ? 0 : q->turn);
}

/* Returns the queue of the next packet, or ENGINE_NO_FLOW if there are no
 * packets. An empty queue becomes inactive. An empty new queue first joins the
 * old ones, so that it cannot starve them by returning as new. */
AQM_WHOLE_FN u32 engine_flow_turn(struct engine *e AQM_NONNULL, u32 queue)
{
	struct engine_queue *q = engine_queue(e, queue);
	struct engine_flow *flow;
	u32 i, at, bit, host;

	if (!q)
		return ENGINE_NO_FLOW;
	AQM_QUICK_LOOP (i, ENGINE_LOOKS_MOST) {
		if (!((q->fresh | q->old) & ENGINE_FLOW_BITS))
			return ENGINE_NO_FLOW;
		at = engine_flow_next(q);
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
			host = (u32)(flow->key >> 32);
			flow->deficit +=
				(s32)(ENGINE_TURN_BYTES /
				      aqm_max(engine_bits(
						      engine_flows_of(q, host)),
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

/* Returns the verdict for a packet that was just removed from the head of a
 * flow. `whole` is the configured leaf. An empty flow has no standing delay, so
 * CoDel's state ends with its last packet. */
AQM_FN struct aqm_verdict
engine_judge(const struct engine *e, const struct engine_node *n,
	     const struct engine_node *whole, struct engine_flow *flow,
	     const struct aqm_packet *packet, u64 now_ns)
{
	const struct codel_common *codel = &e->rule.codel;
	struct aqm_verdict verdict = aqm_drop(AQM_EVICTED_REASON);
	u64 target_ns = n->config.target_ns;

	if (!target_ns)
		target_ns = codel->target_ns;
	if (whole->config.live)
		verdict = codel_head_by(&flow->codel, codel, target_ns,
					codel->mtu_bytes, 1, packet, n->bytes,
					now_ns);
	if (verdict.action != AQM_DROP)
		flow->deficit -= (s32)packet->len;
	if (!flow->head)
		codel_empty(&flow->codel);
	return verdict;
}

#endif
