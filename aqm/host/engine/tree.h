/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The engine's tree: which leaf sends next, and how changed nodes move to their
 * new places. What a packet costs is in engine/settle.h.
 *
 * The host asks engine_choose() for a leaf, removes a packet from it, and
 * passes its length to engine_settle(). A node moves from its list to the wheel
 * when it reaches its ceiling, and back when its time has come. A node whose
 * children are all in the wheel leaves the list of its own parent. So every
 * leaf that is reached from the root may send, and the walk takes one step for
 * each level.
 *
 * A guarantee holds against siblings. It holds against the whole tree if each
 * node is guaranteed the sum of its children's guarantees. A packet is charged
 * to the guarantee of a node that was owed it, or else to the node's share of
 * the rest.
 */
#ifndef AQM_ENGINE_TREE_H
#define AQM_ENGINE_TREE_H

#include "engine/settle.h"

/* Most due nodes that one call takes from the wheel. */
#define ENGINE_DUE_MOST 64

/* Most nodes that one call skips, because their turn is over or they are
 * held. */
#define ENGINE_TURNS_MOST 4096

/*
 * Parks a node whose cap another node has used up, or is to use first
 * (`until`). The node that used it up waits for the same time. This node is
 * woken before it, and goes first in its class if it has a turn there. So the
 * nodes of a cap take turns.
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
	cap = engine_cap(e, n);
	if (cap && !until) {
		engine_wheel_before(e, id, cap->next);
		if (!cap->prev && cap->next != id)
			cap->prev = id;
	}
	return engine_settle(e, n->parent, 0, now_ns);
}

/* The state of a node's ancestors, by the configuration. */
enum engine_above {
	ENGINE_SETTLED = 0, /* all are in the lists of
			     * their configured parents */
	ENGINE_MOVING = 1, /* one is in another list, perhaps below this node */
	ENGINE_ASTRAY =
		2, /* the walk does not reach the root: user space is moving
		    * several nodes */
};

AQM_FN u32 engine_look_up(struct engine *e, u32 id)
{
	u32 i, above = ENGINE_SETTLED;
	const struct engine_node *n;

	AQM_QUICK_LOOP (i, ENGINE_LEVELS + 1) {
		if (id == e->rule.root)
			return above;
		n = engine_node(e, id);
		if (!n)
			break;
		if (n->state == ENGINE_READY && n->parent != n->config.parent)
			above = ENGINE_MOVING;
		id = n->config.parent;
	}
	return ENGINE_ASTRAY;
}

/* Removes a node and its ancestors from lists of former parents. */
AQM_FN void engine_leave(struct engine *e, u32 id, u64 now_ns)
{
	struct engine_node *n;
	u32 i;

	AQM_QUICK_LOOP (i, ENGINE_LEVELS + 1) {
		n = engine_node(e, id);
		if (!n || id == e->rule.root)
			break;
		if (n->state == ENGINE_READY && n->parent != n->config.parent) {
			engine_unlink(e, id, n);
			n->state = ENGINE_IDLE;
			engine_settle(e, n->parent, 0, now_ns);
		}
		id = n->config.parent;
	}
}

/* Inserts a node and its ancestors into the lists of their configured
 * parents. */
AQM_FN void engine_enter(struct engine *e, u32 id, u64 now_ns)
{
	struct engine_node *n;
	u32 i;

	AQM_QUICK_LOOP (i, ENGINE_LEVELS + 1) {
		n = engine_node(e, id);
		if (!n)
			break;
		engine_wake(e, id, now_ns);
		if (id == e->rule.root)
			break;
		engine_rest(e, id, n);
		id = n->config.parent;
	}
}

/*
 * Moves a node to its configured place. It handles all ancestors first. If two
 * nodes swap places, the lower one would otherwise be below itself, and neither
 * could be reached. Returns whether the place exists.
 */
AQM_WHOLE_FN int engine_place(struct engine *e AQM_NONNULL, u32 id, u64 now_ns)
{
	if (engine_look_up(e, id) == ENGINE_ASTRAY)
		return 0;
	engine_leave(e, id, now_ns);
	engine_enter(e, id, now_ns);
	return 1;
}

/* Moves a node whose configured parent has changed. Returns whether it has left
 * its former list. */
AQM_FN int engine_move(struct engine *e, u32 id, u64 now_ns)
{
	const struct engine_node *n = engine_node(e, id);

	return n && n->state == ENGINE_READY && engine_place(e, id, now_ns);
}

/* Wakes a node whose ceiling has opened. A node with children must not be
 * inserted below one of them. */
AQM_FN void engine_go_on(struct engine *e, u32 id, struct engine_node *n,
			 u64 now_ns)
{
	u32 above = ENGINE_SETTLED;

	if (n->config.fork && id != e->rule.root &&
	    n->config.parent != e->rule.root)
		above = engine_look_up(e, n->config.parent);
	if (above == ENGINE_ASTRAY) {
		engine_wheel_put(e, id, now_ns);
		return;
	}
	n->state = ENGINE_IDLE;
	if (above == ENGINE_MOVING) {
		engine_place(e, id, now_ns);
		return;
	}
	engine_wake(e, id, now_ns);
	engine_rest(e, id, n);
}

/* Handles a node that was removed from the wheel. */
AQM_FN void engine_due(struct engine *e, u32 id, struct engine_node *n,
		       u64 now_ns)
{
	u64 opens;

	if (n->state == ENGINE_HELD) {
		opens = engine_opens(e, n);
		if (opens > now_ns)
			engine_wait(e, id, n, opens);
		else
			engine_go_on(e, id, n, now_ns);
		return;
	}
	if (n->state != ENGINE_READY || n->list < ENGINE_PRIORITIES ||
	    id == e->rule.root)
		return;
	/* Re-insert it, whatever has become of its guarantee. */
	engine_unlink(e, id, n);
	engine_join(e, id, now_ns);
}

/*
 * Applies a changed configuration. A change is noticed anyway when the node
 * sends a packet. This is for a node that would wait long for that, above its
 * former ceiling or behind others. After a change of a cap, the caller also
 * calls it for the nodes that name the cap.
 */
AQM_WHOLE_FN int engine_look(struct engine *e AQM_NONNULL, u32 id, u64 now_ns)
{
	struct engine_node *n = engine_node(e, id);
	u64 most = now_ns;

	if (!n)
		return 0;
	if (n->config.live && n->config.ceiling_bytes_s)
		most += (u64)e->full * 1000000000 / n->config.ceiling_bytes_s;
	if (n->config.live == ENGINE_CAP) {
		n->ceiling.opens_ns = aqm_min(n->ceiling.opens_ns, most);
		return 0;
	}
	if (n->state == ENGINE_HELD) {
		n->ceiling.opens_ns = aqm_min(n->ceiling.opens_ns, most);
		if (id == e->shared_root)
			engine_line_look(e, n, most - now_ns, now_ns);
		engine_wheel_remove(e, id);
		engine_due(e, id, n, now_ns);
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

/*
 * Re-checks a child: moved, a host, or capped? Returns whether it has left the
 * list.
 */
AQM_WHOLE_FN int engine_doubt(struct engine *e AQM_NONNULL, u32 id, u32 parent,
			      u64 now_ns)
{
	struct engine_node *n = engine_node(e, id);
	u64 until;

	if (!n)
		return 0;
	engine_follow(e, id, n);
	until = n->config.cap ? engine_yields(e, id, now_ns) : 0;
	if (n->config.parent != parent && engine_move(e, id, now_ns))
		return 1;
	if (until || (n->config.cap && engine_shut(e, n, now_ns))) {
		engine_hold(e, id, until, now_ns);
		return 1;
	}
	return 0;
}

/* No leaf was found after ENGINE_TURNS_MOST steps, but there may be one. */
#define ENGINE_AGAIN (~0U)

/* Walks down from the root to the leaf that sends next; 0: none may send. */
AQM_FN u32 engine_down(struct engine *e, u64 now_ns, struct engine_node *root)
{
	u32 i, list, next, turns = AQM_ZERO, id = e->rule.root;
	struct engine_node *n = root, *child;
	struct engine_fork *f;

	if (n->state != ENGINE_READY)
		return 0;
	AQM_CHAIN_LOOP(i, ENGINE_TURNS_MOST * (ENGINE_LEVELS + 1))
	{
		f = engine_fork(e, n->config.fork);
		if (!f)
			return id;
		if (!f->lists)
			return 0;
		list = engine_lowest16(f->lists);
		next = f->head[list];
		if (!next)
			return 0;
		child = engine_node(e, next);
		if (!child)
			return 0;
		if (((child->config.parent ^ id) | child->config.cap ||
		     engine_lent(e, next)) &&
		    engine_doubt(e, next, id, now_ns)) {
			id = e->rule.root;
			n = root;
			if (n->state != ENGINE_READY)
				return 0;
			if (++turns >= ENGINE_TURNS_MOST)
				break;
			continue;
		}
		if (list >= ENGINE_PRIORITIES && child->deficit <= 0) {
			child->deficit += engine_quantum(child);
			f->head[list] = child->next;
			if (++turns >= ENGINE_TURNS_MOST)
				break;
			continue;
		}
		id = next;
		n = child;
	}
	/* The deficits are too large to pay back in one call. */
	return ENGINE_AGAIN;
}

/* Handles due nodes, up to ENGINE_DUE_MOST of them. */
AQM_WHOLE_FN int engine_all_due(struct engine *e AQM_NONNULL, u64 now_ns)
{
	struct engine_node *n;
	u32 i, id;

	AQM_QUICK_LOOP (i, ENGINE_DUE_MOST) {
		id = engine_wheel_due(e, now_ns);
		n = engine_node(e, id);
		if (!n)
			break;
		engine_due(e, id, n, now_ns);
	}
	return 0;
}

/* Returns the leaf that sends next. 0: none may send; `opens_ns` is when to ask
 * again. */
AQM_FN u32 engine_choose(struct engine *e, u64 now_ns)
{
	u32 id = e->rule.root, leaf;
	struct engine_node *root;

	if (!id)
		return 0;
	root = engine_node(e, id);
	if (!root)
		return 0;
	if (e->look) {
		engine_look(e, e->look, now_ns);
		e->look = 0;
	}
	if (root->state == ENGINE_HELD && engine_shut(e, root, now_ns)) {
		/* Nodes that are due before that could not send anyway. */
		e->opens_ns = (root->ceiling.opens_ns >> ENGINE_TICK_SHIFT) + 1;
		e->opens_ns <<= ENGINE_TICK_SHIFT;
		return 0;
	}
	if (e->wheel.due <= now_ns >> ENGINE_TICK_SHIFT)
		engine_all_due(e, now_ns);
	leaf = engine_down(e, now_ns, root);
	if (leaf != ENGINE_AGAIN && leaf)
		return leaf;
	e->opens_ns = e->wheel.top ? e->wheel.due << ENGINE_TICK_SHIFT : ~0ULL;
	/* More nodes may be due, or may have a turn: ask again at once. */
	if (leaf || e->opens_ns < now_ns)
		e->opens_ns = now_ns;
	return 0;
}

#endif
