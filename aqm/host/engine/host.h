/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Hosts of the engine: a leaf of its own for each that sends.
 *
 * A leaf that tells hosts apart lends each of them a leaf beside itself, below the
 * same parent, with the same configuration. So hosts are equals that take turns, and
 * each has eight queues for its flows. Rows for that are behind those of the user.
 *
 * A host is found by a hash of itself and its leaf. It keeps the row when it has
 * nothing to send, with what it owes for its last turn; otherwise it would come back
 * without the debt. Rows of such hosts rest in a circle, and the one that has rested
 * longest is lent to the next host that has none.
 *
 * Hosts below a node have no more queues than are free. So whoever sends under
 * thousands of addresses leaves queues to other nodes, and hosts that get none share
 * the eight of the leaf itself.
 *
 * One that comes back after all others had a turn goes first, as a new flow does in
 * RFC 8290. One that was never seen does not.
 */
#ifndef AQM_ENGINE_HOST_H
#define AQM_ENGINE_HOST_H

#include "engine/line.h"

/* The free row of a pool that is taken next; 0 where there is none. */
AQM_FN u32 engine_pool_next(const struct engine_pool *pool)
{
	if (pool->free)
		return pool->free;
	return pool->fresh < pool->rows ? pool->fresh + 1 : 0;
}

/* Takes it. `next` is what the row has of the list of free ones. */
AQM_FN void engine_pool_take(struct engine_pool *pool, u32 next)
{
	if (pool->free)
		pool->free = next;
	else
		pool->fresh++;
	pool->used++;
}

AQM_FN void engine_pool_give(struct engine_pool *pool, u32 row, u32 *next)
{
	*next = pool->free;
	pool->free = row;
	pool->used--;
}

/* Whether a row is a host's, not the user's. */
AQM_FN int engine_lent(const struct engine *e, u32 id)
{
	return id > e->hosts_from;
}

/* What is known of the host that has a leaf; NULL where none has it. */
AQM_FN struct engine_host *engine_host_of(struct engine *e, u32 id)
{
	struct engine_host *h = NULL;

	if (engine_lent(e, id))
		h = engine_host(e, id - e->hosts_from);
	AQM_ITSELF(h);
	return h;
}

/* The leaf whose packets those of another are: itself, or the one beside which a
 * host has it. */
AQM_FN struct engine_node *engine_whole(struct engine *e, u32 id,
					struct engine_node *n)
{
	const struct engine_host *h = engine_host_of(e, id);
	struct engine_node *whole = h ? engine_node(e, h->leaf) : NULL;

	return whole ? whole : n;
}

/* The node that counts what a host has; NULL where it has nothing. */
AQM_FN struct engine_node *engine_counts(struct engine *e, u32 id)
{
	const struct engine_host *h = engine_host_of(e, id);

	return h ? engine_node(e, h->above) : NULL;
}

/* A host's leaf has nothing to send: it is the last that is lent again. */
AQM_FN void engine_rest(struct engine *e, u32 id, struct engine_node *n)
{
	struct engine_host *h = engine_host_of(e, id);
	struct engine_node *head, *last;
	u32 first;

	if (!h || h->rests || n->state != ENGINE_IDLE)
		return;
	h->rests = 1;
	n->next = id;
	n->prev = id;
	first = e->resting;
	head = engine_node(e, first);
	/* By a number, for one store is of rows or of the engine. */
	e->resting = head ? first : id;
	if (!head)
		return;
	last = engine_node(e, head->prev);
	n->next = first;
	n->prev = head->prev;
	if (last)
		last->next = id;
	head->prev = id;
}

/* It has something again, or another host gets it. */
AQM_FN void engine_rise(struct engine *e, u32 id, struct engine_node *n)
{
	struct engine_host *h = engine_host_of(e, id);
	struct engine_node *next, *prev;

	if (!h || !h->rests)
		return;
	h->rests = 0;
	if (n->next == id) {
		e->resting = 0;
		return;
	}
	next = engine_node(e, n->next);
	prev = engine_node(e, n->prev);
	if (next)
		next->prev = n->prev;
	if (prev)
		prev->next = n->next;
	if (e->resting == id)
		e->resting = n->next;
}

/* So many bytes of a parent from now on every host below it has had a turn: those
 * that have packets, this one, and the packet that is being sent. */
AQM_FN u64 engine_round(const struct engine_node *parent, u32 quantum)
{
	return parent->sent_wire_bytes + ((u64)parent->queue + 2) * quantum;
}

/* Whether a host that comes back goes first. */
AQM_FN int engine_is_sparse(struct engine *e, u32 id,
			    const struct engine_node *n)
{
	const struct engine_host *h = engine_host_of(e, id);
	const struct engine_node *parent = h ? engine_node(e, n->parent) : NULL;

	return parent && n->deficit > 0 && parent->sent_wire_bytes >= h->again;
}

/* The turn of a host is over. */
AQM_FN void engine_had_turn(struct engine *e, u32 id,
			    const struct engine_node *n, u32 quantum)
{
	struct engine_host *h = engine_host_of(e, id);
	const struct engine_node *parent = h ? engine_node(e, n->parent) : NULL;

	if (parent)
		h->again = engine_round(parent, quantum);
}

AQM_FN u32 engine_host_hash(u32 leaf, u32 key)
{
	return AQM_MASKED((key ^ leaf * 0x9e3779b1U), ENGINE_HOSTS - 1);
}

/* Takes a host out of those of its hash. */
AQM_FN void engine_forget(struct engine *e, struct engine_host *h)
{
	struct engine_host *next = engine_host_of(e, h->next);
	struct engine_host *prev = engine_host_of(e, h->prev);

	if (next)
		next->prev = h->prev;
	if (prev)
		prev->next = h->next;
	else
		e->host[engine_host_hash(h->leaf, h->key)] = h->next;
}

/* A row for a host that has none: one that nobody had, or the one that has rested
 * longest. 0: all have something to send. */
AQM_FN u32 engine_lend(struct engine *e)
{
	u32 row = engine_pool_next(&e->hosts);
	struct engine_host *h;
	struct engine_node *n;
	u32 id;

	if (row) {
		engine_pool_take(&e->hosts, 0);
		return e->rule.lent + row;
	}
	id = e->resting;
	n = engine_node(e, id);
	h = engine_host_of(e, id);
	if (!n || !h)
		return 0;
	engine_rise(e, id, n);
	engine_wheel_remove(e, id);
	engine_forget(e, h);
	return id;
}

/* The configuration of a leaf is that of those beside it, but without a guarantee:
 * that would be for all of them. */
AQM_FN void engine_say(struct engine_node *n, const struct engine_node *whole)
{
	n->config = whole->config;
	n->config.hosts = 0;
	n->config.guarantee_bytes_s = 0;
	n->config.burst_bytes = 0;
}

/* The same, whenever the leaf is looked at: its configuration may have changed. */
AQM_FN void engine_follow(struct engine *e, u32 id, struct engine_node *n)
{
	const struct engine_host *h = engine_host_of(e, id);
	const struct engine_node *whole = h ? engine_node(e, h->leaf) : NULL;

	if (whole && whole->config.live == ENGINE_NODE && !whole->config.fork)
		engine_say(n, whole);
}

/* The leaf of a host that it has already. ENGINE_UNKNOWN: none; ENGINE_CROWDED: there
 * are too many of its hash. */
#define ENGINE_UNKNOWN 0
#define ENGINE_CROWDED (~0U)

AQM_WHOLE_FN u32 engine_known(struct engine *e AQM_NONNULL, u32 leaf, u32 key)
{
	u32 id = e->host[engine_host_hash(leaf, key)];
	struct engine_host *h;
	u32 i;

	AQM_LOOP (i, ENGINE_SAME_HASH) {
		h = engine_host_of(e, id);
		if (!h)
			return ENGINE_UNKNOWN;
		if (h->key == key && h->leaf == leaf)
			return id;
		id = h->next;
	}
	return id ? ENGINE_CROWDED : ENGINE_UNKNOWN;
}

/*
 * The leaf of a packet that names one: that itself, or the leaf of the packet's host
 * beside it, where hosts are distinguished. `key` is a hash of the host; 0: it is not
 * known. Also the leaf itself where there is no room for the host.
 */
AQM_WHOLE_FN u32 engine_leaf_of(struct engine *e AQM_NONNULL, u32 leaf, u32 key)
{
	struct engine_node *whole = engine_node(e, leaf);
	struct engine_node *n, *parent;
	struct engine_host *h, *next;
	u32 id, hash;

	if (!key || !whole || whole->config.live != ENGINE_NODE ||
	    whole->config.fork || !whole->config.hosts || engine_lent(e, leaf))
		return leaf;
	parent = engine_node(e, whole->config.parent);
	if (!parent)
		return leaf;
	id = engine_known(e, leaf, key);
	if (id == ENGINE_CROWDED)
		return leaf;
	if (id == ENGINE_UNKNOWN) {
		if (parent->queue >= e->queues.rows - e->queues.used)
			return leaf;
		id = engine_lend(e);
		n = engine_node(e, id);
		h = engine_host_of(e, id);
		if (!n || !h)
			return leaf;
		hash = engine_host_hash(leaf, key);
		__builtin_memset(n, 0, sizeof(*n));
		__builtin_memset(h, 0, sizeof(*h));
		h->key = key;
		h->leaf = leaf;
		h->next = e->host[hash];
		next = engine_host_of(e, h->next);
		if (next)
			next->prev = id;
		e->host[hash] = id;
		h->again = engine_round(parent, whole->config.quantum);
		engine_rest(e, id, n);
	}
	n = engine_node(e, id);
	if (!n)
		return leaf;
	/* A host that has packets may have a queue; else it must find one. */
	if (!n->queue && parent->queue >= e->queues.rows - e->queues.used)
		return leaf;
	engine_say(n, whole);
	return id;
}

#endif
