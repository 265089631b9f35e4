/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The engine's tree: which leaf sends next, and what the packet costs it and
 * every node above it.
 *
 * The host asks engine_choose() for a leaf, takes a packet of it, and says its
 * length to engine_settle(). A node goes from list to wheel when its ceiling is
 * reached, and back when its time has come; a node whose children are all in the
 * wheel leaves the list of its own parent. So whoever is found by going down from
 * the root may send, and going down costs a step for each level.
 *
 * A guarantee holds against the other children of the same parent. It holds
 * against the whole tree where each node is guaranteed what its children are
 * together. A packet counts for the guarantee of a node that was owed it, and for
 * the node's share of the rest where it was not.
 */
#ifndef AQM_ENGINE_TREE_H
#define AQM_ENGINE_TREE_H

#include "engine_list.h"

/* Nodes whose time has come that one question takes from the wheel. */
#define ENGINE_DUE_MOST 64

/* Steps of one choice: down the tree, and past those that have had their turn. */
#define ENGINE_STEPS_MOST 4096

/* A packet of so many bytes went through a node. Returns whether its turn is
 * over. */
AQM_FN int engine_charge(struct engine *e, u32 id, struct engine_node *n,
			 u32 wire, u32 full, u64 now_ns)
{
	struct engine_node *cap = engine_cap(e, n);
	u64 slack = ENGINE_CREDIT_NS;

	engine_pass(e, n, wire, ENGINE_LATE_NS, full, now_ns);
	if (cap) {
		engine_pass(e, cap, wire, ENGINE_LATE_NS, full, now_ns);
		cap->next = id;
		if (cap->prev == id)
			cap->prev = 0;
	}
	n->guarantee.rate_bytes_s = n->config.guarantee_bytes_s;
	if (n->list < ENGINE_PRIORITIES) {
		if (n->guarantee.rate_bytes_s)
			slack += (2 * (u64)full + n->config.burst_bytes) *
				 1000000000 / n->guarantee.rate_bytes_s;
		aqm_gate_pass(&n->guarantee, wire, now_ns, slack);
		return 1;
	}
	n->deficit -= (s32)wire;
	n->midway = n->deficit > 0;
	if (n->midway)
		return 0;
	n->deficit += engine_quantum(n);
	engine_had_turn(e, id, n, (u32)engine_quantum(n));
	return 1;
}

/* A node leaves the lists for which another of its cap may wait: that goes on. */
AQM_FN void engine_let_on(struct engine *e, u32 id, const struct engine_node *n)
{
	struct engine_node *cap = engine_cap(e, n);
	struct engine_node *other;

	if (!cap || cap->prev != id)
		return;
	cap->prev = 0;
	other = engine_node(e, cap->next);
	if (other && other->state == ENGINE_HELD &&
	    other->config.cap == n->config.cap)
		engine_wheel_put(e, cap->next, engine_opens(e, other));
}

/* Whether a node goes on. One that has nothing is idle, and one above its ceiling is in
 * the wheel. */
AQM_FN int engine_goes_on(struct engine *e, u32 id, struct engine_node *n,
			  u64 now_ns)
{
	u64 opens;

	if (!engine_has_work(e, n)) {
		n->state = ENGINE_IDLE;
		return 0;
	}
	opens = engine_opens(e, n);
	if (opens <= now_ns)
		return 1;
	n->state = ENGINE_HELD;
	engine_wheel_put(e, id, opens);
	return 0;
}

/*
 * Where a node stands after a packet of `wire` bytes through it, or with 0 after
 * none, went. Returns its parent, to be settled next; 0 for none.
 */
AQM_WHOLE_FN u32 engine_settle_one(struct engine *e AQM_NONNULL, u32 id,
				   u32 wire, u32 full, u64 now_ns)
{
	struct engine_node *n = engine_node(e, id);
	struct engine_fork *f;
	int over, stays, moves;

	if (!n || n->state != ENGINE_READY)
		return 0;
	if (id == e->rule.root) {
		if (wire)
			/* A lease is used whole, however late. */
			engine_pass(e, n, wire,
				    e->members ? now_ns : ENGINE_LATE_NS, 0,
				    now_ns);
		if (!engine_has_work(e, n)) {
			n->state = ENGINE_IDLE;
			if (e->members)
				engine_return(e, n);
		} else if (e->members || engine_shut(e, n, now_ns)) {
			engine_root_up(e, now_ns);
		}
		return 0;
	}
	over = wire && engine_charge(e, id, n, wire, full, now_ns);
	stays = engine_goes_on(e, id, n, now_ns);
	/* It may have been given a guarantee meanwhile. */
	if (stays && n->config.guarantee_bytes_s &&
	    n->list >= ENGINE_PRIORITIES && !n->wheel)
		engine_wheel_put(e, id, n->guarantee.opens_ns);
	if (stays && !over)
		return n->parent;
	f = engine_lists(e, engine_node(e, n->parent));
	moves = stays && n->list < ENGINE_PRIORITIES && !engine_owed(n, now_ns);
	if (!stays || moves)
		engine_unlink_from(e, f, id, n);
	else if (f)
		f->head[AQM_MASKED(n->list, ENGINE_LISTS - 1)] = n->next;
	if (!stays) {
		engine_let_on(e, id, n);
		engine_rest(e, id, n);
	} else if (moves) {
		engine_join(e, id, now_ns);
	}
	return n->parent;
}

/* The same for a leaf and every node above it. A host's leaf may still be below the
 * node where the leaf was beside which it is, after that node went to the lowest level. */
AQM_WHOLE_FN int engine_settle(struct engine *e AQM_NONNULL, u32 id, u32 wire,
			       u64 now_ns)
{
	u32 full = aqm_wire(&e->rule.link, e->rule.link.mtu_bytes);
	u32 i;

	AQM_LOOP (i, ENGINE_LEVELS + 1) {
		if (!id)
			break;
		id = engine_settle_one(e, id, wire, full, now_ns);
	}
	return 0;
}

/*
 * A node whose turn has come, and whose cap another has used up meanwhile, or is to use
 * before it: until then it waits. The one that used it up waits for the same time. This
 * one goes on before it, and first in its class if it has a turn there, so that those
 * of a cap take turns.
 */
AQM_WHOLE_FN int engine_hold(struct engine *e AQM_NONNULL, u32 id, u64 until,
			     u64 now_ns)
{
	struct engine_node *n = engine_node(e, id);
	struct engine_node *cap;

	if (!n || n->state != ENGINE_READY)
		return 0;
	engine_unlink(e, id, n);
	n->state = ENGINE_HELD;
	n->midway = n->deficit > 0;
	engine_wheel_put(e, id, aqm_max(until, engine_opens(e, n)));
	/* When to ask again is known already, where nobody else may send. */
	e->opens_ns = aqm_min(e->opens_ns, e->wheel.due << ENGINE_TICK_SHIFT);
	cap = engine_cap(e, n);
	if (cap && !until) {
		engine_wheel_before(e, id, cap->next);
		if (!cap->prev && cap->next != id)
			cap->prev = id;
	}
	return engine_settle(e, n->parent, 0, now_ns);
}

/* A node whose configuration names another parent than that in whose list it is. */
AQM_WHOLE_FN int engine_move(struct engine *e AQM_NONNULL, u32 id, u64 now_ns)
{
	struct engine_node *n = engine_node(e, id);

	if (!n || n->state != ENGINE_READY)
		return 0;
	engine_unlink(e, id, n);
	n->state = ENGINE_IDLE;
	engine_settle(e, n->parent, 0, now_ns);
	engine_wake(e, id, now_ns);
	engine_rest(e, id, n);
	/* As engine_hold(): what is above it now may be held. */
	e->opens_ns = aqm_min(e->opens_ns, e->wheel.due << ENGINE_TICK_SHIFT);
	return 1;
}

/*
 * Looks at a node whose configuration has changed. A change is found anyway when
 * a packet of the node goes; this is for one that would wait long for that, above
 * a former ceiling or behind others.
 */
AQM_WHOLE_FN int engine_look(struct engine *e AQM_NONNULL, u32 id, u64 now_ns)
{
	u32 full = aqm_wire(&e->rule.link, e->rule.link.mtu_bytes);
	struct engine_node *n = engine_node(e, id);
	u64 most = now_ns;

	if (!n)
		return 0;
	if (n->state == ENGINE_HELD) {
		if (n->config.live && n->config.ceiling_bytes_s)
			most += (u64)full * 1000000000 /
				n->config.ceiling_bytes_s;
		n->ceiling.opens_ns = aqm_min(n->ceiling.opens_ns, most);
		if (id == e->shared_root)
			engine_line_look(e, n, most - now_ns, now_ns);
		engine_wheel_put(e, id, engine_opens(e, n));
		return 1;
	}
	if (n->state != ENGINE_READY || id == e->rule.root)
		return 0;
	if (n->config.parent != n->parent)
		return engine_move(e, id, now_ns);
	if ((n->list & (ENGINE_PRIORITIES - 1)) == engine_priority(n) &&
	    (n->list < ENGINE_PRIORITIES || n->wheel ||
	     !n->config.guarantee_bytes_s))
		return 0;
	engine_unlink(e, id, n);
	return engine_join(e, id, now_ns);
}

/* One node whose time has come; returns 0 where there is none. */
AQM_WHOLE_FN int engine_due(struct engine *e AQM_NONNULL, u64 now_ns)
{
	u32 id = engine_wheel_due(e, now_ns);
	struct engine_node *n = engine_node(e, id);

	if (!id || !n)
		return 0;
	if (n->state == ENGINE_HELD) {
		if (engine_shut(e, n, now_ns)) {
			engine_wheel_put(e, id, engine_opens(e, n));
			return 1;
		}
		n->state = ENGINE_IDLE;
		engine_wake(e, id, now_ns);
		engine_rest(e, id, n);
		return 1;
	}
	if (n->state != ENGINE_READY || n->list < ENGINE_PRIORITIES ||
	    id == e->rule.root)
		return 1;
	/* Not in its old list any more, whatever has become of its guarantee. */
	engine_unlink(e, id, n);
	engine_join(e, id, now_ns);
	return 1;
}

/* The leaf that goes next, of those whose time has come; 0 where none may. */
AQM_FN u32 engine_down(struct engine *e, u64 now_ns, struct engine_node *root)
{
	u32 id = e->rule.root;
	struct engine_node *n = root;
	struct engine_node *child;
	struct engine_fork *f;
	u32 i, list, next;
	u64 until;

	if (n->state != ENGINE_READY)
		return 0;
	AQM_QUICK_LOOP (i, ENGINE_STEPS_MOST) {
		f = engine_fork(e, n->config.fork);
		if (!f)
			return id;
		if (!f->lists)
			return 0;
		list = AQM_MASKED(engine_lowest16(f->lists), ENGINE_LISTS - 1);
		next = f->head[list];
		child = engine_node(e, next);
		if (!child)
			return 0;
		engine_follow(e, next, child);
		until = child->config.cap ? engine_yields(e, next, now_ns) : 0;
		if (child->config.parent != id || until ||
		    (child->config.cap && engine_shut(e, child, now_ns))) {
			if (child->config.parent != id)
				engine_move(e, next, now_ns);
			else
				engine_hold(e, next, until, now_ns);
			id = e->rule.root;
			n = root;
			if (n->state != ENGINE_READY)
				return 0;
			continue;
		}
		if (list >= ENGINE_PRIORITIES && child->deficit <= 0) {
			child->deficit += engine_quantum(child);
			f->head[list] = child->next;
			continue;
		}
		id = next;
		n = child;
	}
	/* Debts take longer to pay back: go on from here at once. */
	e->opens_ns = now_ns;
	return 0;
}

/* The nodes whose time has come, but for some that may be left. */
AQM_WHOLE_FN int engine_all_due(struct engine *e AQM_NONNULL, u64 now_ns)
{
	u32 i;

	AQM_QUICK_LOOP (i, ENGINE_DUE_MOST) {
		if (!engine_due(e, now_ns) || engine_wheel_waits(e, now_ns))
			return 0;
	}
	/* There may be more of them. */
	e->opens_ns = now_ns;
	return 0;
}

/* The leaf that sends next; 0 where none may, and `opens_ns` is when to ask
 * again. */
AQM_WHOLE_FN u32 engine_choose(struct engine *e AQM_NONNULL, u64 now_ns)
{
	struct engine_node *root = engine_node(e, e->rule.root);

	if (!root)
		return 0;
	if (e->look) {
		engine_look(e, e->look, now_ns);
		e->look = 0;
	}
	if (root->state == ENGINE_HELD && engine_shut(e, root, now_ns)) {
		/* Whose time comes meanwhile, could not send. */
		e->opens_ns = (root->ceiling.opens_ns >> ENGINE_TICK_SHIFT) + 1;
		e->opens_ns <<= ENGINE_TICK_SHIFT;
		return 0;
	}
	if (!engine_wheel_waits(e, now_ns))
		engine_all_due(e, now_ns);
	return engine_down(e, now_ns, root);
}

#endif
