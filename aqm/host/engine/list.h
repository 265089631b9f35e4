/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lists of the engine. A sendable node and its ancestors are each in a list of
 * their parent.
 */
#ifndef AQM_ENGINE_LIST_H
#define AQM_ENGINE_LIST_H

#include "engine/host.h"

/* Whether a node is owed some of its guarantee. */
AQM_FN int engine_owed(const struct engine_node *n, u64 now_ns)
{
	return n->config.guarantee_bytes_s && n->guarantee.opens_ns <= now_ns;
}

/* Whether a node has packets to send, whether or not its own ceiling allows
 * it. */
AQM_FN int engine_has_work(struct engine *e, const struct engine_node *n)
{
	const struct engine_fork *f = engine_fork(e, n->config.fork);

	return f ? f->lists != 0 : n->packets != 0;
}

AQM_FN u32 engine_priority(const struct engine_node *n)
{
	return (u32)aqm_min(n->config.priority, ENGINE_PRIORITIES - 1);
}

AQM_FN s32 engine_quantum(const struct engine_node *n)
{
	return (s32)aqm_clamp(n->config.quantum, ENGINE_LEAST_QUANTUM, 1 << 20);
}

/* Inserts a node into a list of its parent, at the end or at the head. */
AQM_FN void engine_link(struct engine *e, struct engine_fork *f, u32 id,
			struct engine_node *n, u32 list, int first)
{
	struct engine_node *head, *last;
	u32 at;

	if (n->parent == e->shared_root)
		engine_claim(e, id, (u32)engine_quantum(n));
	list = AQM_MASKED(list, ENGINE_LISTS - 1);
	n->list = list;
	n->next = id;
	n->prev = id;
	at = f->head[list];
	if (!at) {
		f->head[list] = id;
		f->lists |= 1U << list;
		return;
	}
	head = engine_node(e, at);
	if (!head)
		return;
	n->next = at;
	n->prev = head->prev;
	last = engine_node(e, n->prev);
	if (last)
		last->next = id;
	head->prev = id;
	if (first)
		f->head[list] = id;
}

/* Returns the lists of a node's children, or NULL. */
AQM_FN struct engine_fork *engine_lists(struct engine *e,
					const struct engine_node *n)
{
	return n ? engine_fork(e, n->config.fork) : NULL;
}

/* Removes a node from its list, which is one of `f`. */
AQM_FN void engine_unlink_from(struct engine *e, struct engine_fork *f, u32 id,
			       struct engine_node *n)
{
	u32 list = AQM_MASKED(n->list, ENGINE_LISTS - 1);
	struct engine_node *next, *prev;

	if (!f)
		return;
	if (n->parent == e->shared_root)
		engine_unclaim(e, n);
	if (n->next == id) {
		f->head[list] = 0;
		f->lists &= ~(1U << list);
		return;
	}
	next = engine_node(e, n->next);
	prev = engine_node(e, n->prev);
	if (next)
		next->prev = n->prev;
	if (prev)
		prev->next = n->next;
	if (f->head[list] == id)
		f->head[list] = n->next;
}

/* Removes a node from its list. */
AQM_FN void engine_unlink(struct engine *e, u32 id, struct engine_node *n)
{
	engine_unlink_from(e, engine_lists(e, engine_node(e, n->parent)), id,
			   n);
}

/*
 * Inserts a node that may send into the right list. A node that was removed in
 * the middle of a turn continues it at the head. Otherwise its ceiling would
 * cost it part of its share. A host that sends less than its share also goes
 * first.
 */
AQM_FN void engine_join_in(struct engine *e, u32 id, struct engine_node *n,
			   struct engine_fork *f, int plain, u64 now_ns)
{
	int owed = !plain && engine_owed(n, now_ns), first = 0;
	u32 list = engine_priority(n);

	if (!owed) {
		list += ENGINE_PRIORITIES;
		if (!n->turned) {
			n->turned = 1;
			n->deficit = engine_quantum(n);
		}
		first = n->midway || (!plain && engine_is_sparse(e, id, n));
	}
	engine_link(e, f, id, n, list, first);
	if (!plain && !owed && n->config.guarantee_bytes_s)
		engine_wheel_put(e, id, n->guarantee.opens_ns);
}

AQM_WHOLE_FN int engine_join(struct engine *e AQM_NONNULL, u32 id, u64 now_ns)
{
	struct engine_node *n = engine_node(e, id);
	struct engine_fork *f;

	f = n ? engine_lists(e, engine_node(e, n->parent)) : NULL;
	if (!f)
		return 0;
	engine_join_in(e, id, n, f, 0, now_ns);
	return 1;
}

/* Limits the guarantee credit of a node that was idle. */
AQM_FN void engine_keep_credit(const struct engine *e, struct engine_node *n,
			       u64 now_ns)
{
	u64 kept = aqm_max(ENGINE_IDLE_CREDIT_NS,
			   ((u64)e->full + n->config.burst_bytes) * 1000000000 /
				   n->config.guarantee_bytes_s);

	if (now_ns > kept && n->guarantee.opens_ns < now_ns - kept)
		n->guarantee.opens_ns = now_ns - kept;
}

/* Makes the root sendable, or holds it until its ceiling opens or its lease of
 * a shared line begins. */
AQM_FN void engine_root_up(struct engine *e, struct engine_node *root,
			   u64 now_ns)
{
	u64 opens;

	if (e->members)
		engine_lease(e, now_ns);
	opens = engine_opens(e, root);
	if (opens > now_ns || (e->members && engine_is_spent(e, root)))
		engine_wait(e, e->rule.root, root, opens);
	else
		root->state = ENGINE_READY;
}

/* Wakes a node that was idle or above its ceiling and has packets now. Returns
 * its parent, which must be woken too, or 0. A `plain` node has neither a
 * guarantee nor a cap, and is not a host's leaf. */
AQM_FN u32 engine_wake_node(struct engine *e, u32 id, struct engine_node *n,
			    int plain, u64 now_ns)
{
	u32 parent = n->config.parent;
	struct engine_fork *f;
	u64 opens;

	if (!plain) {
		engine_rise(e, id, n);
		if (n->config.guarantee_bytes_s)
			engine_keep_credit(e, n, now_ns);
	}
	opens = engine_opens_by(n, plain ? NULL : engine_cap(e, n));
	if (opens > now_ns) {
		engine_wait(e, id, n, opens);
		return 0;
	}
	n->parent = parent;
	if (!parent)
		return 0;
	f = engine_lists(e, engine_node(e, parent));
	if (!f)
		return 0;
	engine_join_in(e, id, n, f, plain, now_ns);
	n->state = ENGINE_READY;
	return parent;
}

AQM_WHOLE_FN u32 engine_wake_any(struct engine *e AQM_NONNULL, u32 id,
				 u64 now_ns)
{
	struct engine_node *n = engine_node(e, id);

	return n ? engine_wake_node(e, id, n, 0, now_ns) : 0;
}

/* Wakes an idle node that has packets now, and its ancestors. Most often the
 * first ancestor is awake already. */
AQM_FN void engine_wake_up(struct engine *e, u32 id, u64 now_ns)
{
	struct engine_node *n;
	u32 i;

	AQM_CHAIN_LOOP(i, ENGINE_LEVELS + 1)
	{
		if (!id)
			break;
		n = engine_node(e, id);
		if (!n || n->state != ENGINE_IDLE)
			break;
		if (id == e->rule.root) {
			engine_root_up(e, n, now_ns);
			break;
		}
		if (n->config.guarantee_bytes_s | n->config.cap ||
		    engine_lent(e, id))
			id = engine_wake_any(e, id, now_ns);
		else
			id = engine_wake_node(e, id, n, 1, now_ns);
	}
}

/* Wakes an idle node if it has packets. */
AQM_WHOLE_FN int engine_wake(struct engine *e AQM_NONNULL, u32 id, u64 now_ns)
{
	struct engine_node *n = engine_node(e, id);

	if (!n || n->state != ENGINE_IDLE)
		return 0;
	if (engine_has_work(e, n))
		engine_wake_up(e, id, now_ns);
	else if (id == e->shared_root)
		engine_return(e, n);
	return 0;
}

#endif
