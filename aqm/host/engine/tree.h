/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The engine's tree: which leaf sends next, and how nodes that were changed come to
 * their places. What a packet costs is in engine/settle.h.
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

#include "engine/settle.h"

/* Nodes whose time has come that one question takes from the wheel. */
#define ENGINE_DUE_MOST 64

/* Nodes that one choice passes, because they have had their turn, or may not go on. */
#define ENGINE_TURNS_MOST 4096

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
	cap = engine_cap(e, n);
	if (cap && !until) {
		engine_wheel_before(e, id, cap->next);
		if (!cap->prev && cap->next != id)
			cap->prev = id;
	}
	return engine_settle(e, n->parent, 0, now_ns);
}

/* What is above a node, by the configuration. */
enum engine_above {
	ENGINE_SETTLED = 0, /* its parents are in the lists that they name */
	ENGINE_MOVING =
		1, /* one is in another list, perhaps below the node itself */
	ENGINE_ASTRAY =
		2, /* not the root: user space moves several nodes just now */
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

/* A node, and those above it, leave lists of another parent than they name. */
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

/* Those that have something to send come into the lists that they name. */
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
 * Puts a node where its configuration says. The nodes above it come first: where two
 * change places, the lower one would otherwise be below itself, and nobody would find
 * either. Returns whether there is such a place.
 */
AQM_WHOLE_FN int engine_place(struct engine *e AQM_NONNULL, u32 id, u64 now_ns)
{
	if (engine_look_up(e, id) == ENGINE_ASTRAY)
		return 0;
	engine_leave(e, id, now_ns);
	engine_enter(e, id, now_ns);
	return 1;
}

/* A node whose configuration names another parent than that in whose list it is. Returns
 * whether it has left that list. */
AQM_FN int engine_move(struct engine *e, u32 id, u64 now_ns)
{
	const struct engine_node *n = engine_node(e, id);

	return n && n->state == ENGINE_READY && engine_place(e, id, now_ns);
}

/*
 * Looks at a node whose configuration has changed. A change is found anyway when
 * a packet of the node goes; this is for one that would wait long for that, above
 * a former ceiling or behind others.
 */
AQM_WHOLE_FN int engine_look(struct engine *e AQM_NONNULL, u32 id, u64 now_ns)
{
	struct engine_node *n = engine_node(e, id);
	u64 most = now_ns;

	if (!n)
		return 0;
	if (n->state == ENGINE_HELD) {
		if (n->config.live && n->config.ceiling_bytes_s)
			most += (u64)e->full * 1000000000 /
				n->config.ceiling_bytes_s;
		n->ceiling.opens_ns = aqm_min(n->ceiling.opens_ns, most);
		if (id == e->shared_root)
			engine_line_look(e, n, most - now_ns, now_ns);
		engine_wait(e, id, n, engine_opens(e, n));
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

/* A node that its ceiling held may go on. Where others may be below it, it must not come
 * below one of them. */
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

/* A node whose time has come, out of the wheel. */
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
	/* Not in its old list any more, whatever has become of its guarantee. */
	engine_unlink(e, id, n);
	engine_join(e, id, now_ns);
}

/*
 * A child whose turn has come, and that is a host's, or has a cap, or does not say any
 * longer that it is this node's. Returns whether it has left the list.
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

/* No leaf, but there may be one: after ENGINE_TURNS_MOST. */
#define ENGINE_AGAIN (~0U)

/* The leaf that goes next, of those whose time has come; 0 where none may. */
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
	/* Debts take longer to pay back. */
	return ENGINE_AGAIN;
}

/* The nodes whose time has come, but for some that may be left. */
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

/* The leaf that sends next; 0 where none may, and `opens_ns` is when to ask
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
		/* Whose time comes meanwhile, could not send. */
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
	/* There may be more whose time has come, or whose turn it is: go on at once. */
	if (leaf || e->opens_ns < now_ns)
		e->opens_ns = now_ns;
	return 0;
}

#endif
