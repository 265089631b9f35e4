/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Accounting for a packet: charges it to its leaf and to each node above, and
 * decides where they go. A node stays in its list, waits for its ceiling, or
 * becomes idle.
 */
#ifndef AQM_ENGINE_SETTLE_H
#define AQM_ENGINE_SETTLE_H

#include "engine/list.h"

/* Charges a packet to a node's share beyond guarantees. Returns whether the
 * node's turn is over. */
AQM_FN int engine_share(struct engine *e, u32 id, struct engine_node *n,
			u32 wire)
{
	s32 left = n->deficit - (s32)wire, quantum;

	n->midway = left > 0;
	if (left > 0) {
		n->deficit = left;
		return 0;
	}
	quantum = engine_quantum(n);
	n->deficit = left + quantum;
	engine_had_turn(e, id, n, (u32)quantum);
	return 1;
}

/* Charges a packet to a node in any list, and to its cap. Returns whether its
 * turn is over. */
AQM_FN int engine_charge(struct engine *e, u32 id, struct engine_node *n,
			 struct engine_node *cap, u32 wire, u64 now_ns)
{
	u64 slack = ENGINE_CREDIT_NS;

	if (cap) {
		engine_count(e, cap, wire);
		engine_through(cap, wire, ENGINE_LATE_NS, e->full, now_ns);
		cap->next = id;
		if (cap->prev == id)
			cap->prev = 0;
	}
	if (n->list >= ENGINE_PRIORITIES)
		return engine_share(e, id, n, wire);
	n->guarantee.rate_bytes_s = n->config.guarantee_bytes_s;
	if (n->guarantee.rate_bytes_s)
		slack += (2 * (u64)e->full + n->config.burst_bytes) *
			 1000000000 / n->guarantee.rate_bytes_s;
	aqm_gate_pass(&n->guarantee, wire, now_ns, slack);
	return 1;
}

/* Wakes the node of the same cap that waits for `id`, which leaves its list. */
AQM_FN void engine_let_on(struct engine *e, u32 id, const struct engine_node *n,
			  struct engine_node *cap)
{
	struct engine_node *other;

	if (!cap || cap->prev != id)
		return;
	cap->prev = 0;
	other = engine_node(e, cap->next);
	if (other && other->state == ENGINE_HELD &&
	    other->config.cap == n->config.cap)
		engine_wheel_put(e, cap->next, engine_opens(e, other));
}

/*
 * Updates a node after a packet of `wire` bytes; 0: no packet was sent. `work`:
 * it has packets. The node stays in a list, becomes idle, or waits for its
 * ceiling.
 */
AQM_WHOLE_FN int engine_settle_any(struct engine *e AQM_NONNULL, u32 id,
				   u32 work, u32 wire, u64 now_ns)
{
	struct engine_node *n = engine_node(e, id), *cap;
	struct engine_fork *f;
	int over = 0, moves;
	u64 opens;

	if (!n)
		return 0;
	cap = engine_cap(e, n);
	f = engine_lists(e, engine_node(e, n->parent));
	if (wire) {
		engine_count(e, n, wire);
		engine_pass(e, n, wire, now_ns);
		over = engine_charge(e, id, n, cap, wire, now_ns);
	}
	opens = engine_opens_by(n, cap);
	if (!work || opens > now_ns) {
		engine_unlink_from(e, f, id, n);
		if (work)
			engine_wait(e, id, n, opens);
		else
			n->state = ENGINE_IDLE;
		engine_rest(e, id, n);
		engine_let_on(e, id, n, cap);
		return 0;
	}
	/* User space may have given it a guarantee since. */
	if (n->config.guarantee_bytes_s && n->list >= ENGINE_PRIORITIES &&
	    !n->wheel)
		engine_wheel_put(e, id, n->guarantee.opens_ns);
	moves = n->list < ENGINE_PRIORITIES && !engine_owed(n, now_ns);
	if (over && moves) {
		engine_unlink_from(e, f, id, n);
		engine_join(e, id, now_ns);
	} else if (over && f) {
		f->head[AQM_MASKED(n->list, ENGINE_LISTS - 1)] = n->next;
	}
	return 0;
}

/* Like engine_settle_any(), after a packet of a node without a guarantee or a
 * cap. */
AQM_FN void engine_settle_plain(struct engine *e, u32 id, struct engine_node *n,
				struct engine_fork *f, u32 work, u32 wire,
				u64 now_ns)
{
	u64 opens;
	int over;

	n->sent_wire_bytes += wire;
	n->sent_packets++;
	opens = engine_pass(e, n, wire, now_ns);
	over = engine_share(e, id, n, wire);
	if (!work) {
		engine_unlink_from(e, f, id, n);
		n->state = ENGINE_IDLE;
		engine_rest(e, id, n);
	} else if (opens > now_ns) {
		engine_unlink_from(e, f, id, n);
		engine_wait(e, id, n, opens);
	} else if (over) {
		f->head[AQM_MASKED(n->list, ENGINE_LISTS - 1)] = n->next;
	}
}

/* Updates the root. A lease is used in full, however late. */
AQM_FN void engine_settle_root(struct engine *e, struct engine_node *root,
			       u32 work, u32 wire, u64 now_ns)
{
	if (wire) {
		engine_count(e, root, wire);
		engine_through(root, wire, e->members ? now_ns : ENGINE_LATE_NS,
			       0, now_ns);
	}
	if (!work) {
		root->state = ENGINE_IDLE;
		if (e->members)
			engine_return(e, root);
	} else if (e->members || engine_shut(e, root, now_ns)) {
		engine_root_up(e, root, now_ns);
	}
}

/* Updates a node and all its ancestors. A host's leaf may still be below the
 * former parent of the configured leaf, if that parent has become a leaf. */
AQM_WHOLE_FN int engine_settle(struct engine *e AQM_NONNULL, u32 id, u32 wire,
			       u64 now_ns)
{
	const u64 odd = !wire || e->verdict.action == AQM_DROP;
	struct engine_node *n = engine_node(e, id);
	struct engine_fork *f = engine_lists(e, n);
	u32 i, parent, work;

	if (!n)
		return 0;
	work = f ? f->lists : n->packets;
	AQM_CHAIN_LOOP(i, ENGINE_LEVELS + 1)
	{
		if (!id)
			break;
		n = engine_node(e, id);
		if (!n || n->state != ENGINE_READY)
			break;
		if (id == e->rule.root) {
			engine_settle_root(e, n, work, wire, now_ns);
			break;
		}
		parent = n->parent;
		f = engine_lists(e, engine_node(e, parent));
		if (!f) {
			/* Its parent has become a leaf. */
			engine_settle_any(e, id, work, wire, now_ns);
			n = engine_node(e, parent);
			id = parent;
			work = n ? n->packets : 0;
			continue;
		}
		if (odd | n->config.guarantee_bytes_s | n->config.cap ||
		    n->list < ENGINE_PRIORITIES)
			engine_settle_any(e, id, work, wire, now_ns);
		else
			engine_settle_plain(e, id, n, f, work, wire, now_ns);
		id = parent;
		work = f->lists;
	}
	return 0;
}

#endif
