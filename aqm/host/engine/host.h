/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Hosts of the engine: each host that sends gets a leaf of its own.
 *
 * A leaf that distinguishes hosts lends each of them a leaf next to itself,
 * below the same parent and with the same configuration. So hosts are equals
 * that take turns, and each has eight queues for its flows. Their rows follow
 * those of user space.
 *
 * A host is found by a hash of its address and its leaf. An idle host keeps its
 * row and its deficit. Otherwise it could shed the deficit by pausing. Idle
 * rows are in a circular list, and a new host takes over the row that has been
 * idle longest.
 *
 * The hosts below a node use at most as many queues as are free. So a sender
 * with thousands of addresses leaves queues to other nodes. Hosts that get none
 * share the eight queues of the configured leaf.
 *
 * A host that returns after all others had a turn goes first, as a new flow
 * does in RFC 8290. A host without a row does not.
 */
#ifndef AQM_ENGINE_HOST_H
#define AQM_ENGINE_HOST_H

#include "engine/line.h"

/* Returns the row that the pool hands out next, or 0. */
AQM_FN u32 engine_pool_next(const struct engine_pool *pool)
{
	if (pool->free)
		return pool->free;
	return pool->fresh < pool->rows ? pool->fresh + 1 : 0;
}

/* Takes that row. `next` is the row's link in the list of free rows. */
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

/* Whether a row is of a host and not of user space. */
AQM_FN int engine_lent(const struct engine *e, u32 id)
{
	return id > e->hosts_from;
}

/* Returns the host that uses a leaf, or NULL. */
AQM_FN struct engine_host *engine_host_of(struct engine *e, u32 id)
{
	struct engine_host *h = NULL;

	if (engine_lent(e, id))
		h = engine_host(e, id - e->hosts_from);
	AQM_ITSELF(h);
	return h;
}

/* Returns the leaf that this host's leaf belongs to, or the leaf itself. */
AQM_FN struct engine_node *engine_whole(struct engine *e, u32 id,
					struct engine_node *n)
{
	const struct engine_host *h = engine_host_of(e, id);
	struct engine_node *whole = h ? engine_node(e, h->leaf) : NULL;

	return whole ? whole : n;
}

/* Returns the node that counts a host's packets, or NULL if it has none. */
AQM_FN struct engine_node *engine_counts(struct engine *e, u32 id)
{
	const struct engine_host *h = engine_host_of(e, id);

	return h ? engine_node(e, h->above) : NULL;
}

/* Appends a host's idle leaf to the list of idle leaves. */
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
	/* Select the number first: the verifier wants each store to go to one
	 * kind of memory. */
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

/* Removes a leaf from that list: it is active again, or reassigned. */
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

/* Returns the byte count of the parent at which each host below it has had a
 * turn. It allows for hosts with packets, this host, and the packet in
 * transmission. */
AQM_FN u64 engine_round(const struct engine_node *parent, u32 quantum)
{
	return parent->sent_wire_bytes + ((u64)parent->queue + 2) * quantum;
}

/* Whether a returning host goes first. */
AQM_FN int engine_is_sparse(struct engine *e, u32 id,
			    const struct engine_node *n)
{
	const struct engine_host *h = engine_host_of(e, id);
	const struct engine_node *parent = h ? engine_node(e, n->parent) : NULL;

	return parent && n->deficit > 0 && parent->sent_wire_bytes >= h->again;
}

/* Notes that the turn of a host is over. */
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

/* Removes a host from its hash chain. */
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

/* Returns a row for a new host: a row never used, or the one that has been idle
 * longest. 0: all rows are active. */
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

/* Copies the configuration of a leaf to one of its hosts, without the
 * guarantee, which is for all hosts together. */
AQM_FN void engine_say(struct engine_node *n, const struct engine_node *whole)
{
	n->config = whole->config;
	n->config.hosts = 0;
	n->config.guarantee_bytes_s = 0;
	n->config.burst_bytes = 0;
}

/* Refreshes that copy whenever the leaf is looked at. */
AQM_FN void engine_follow(struct engine *e, u32 id, struct engine_node *n)
{
	const struct engine_host *h = engine_host_of(e, id);
	const struct engine_node *whole = h ? engine_node(e, h->leaf) : NULL;

	if (whole && whole->config.live == ENGINE_NODE && !whole->config.fork)
		engine_say(n, whole);
}

/* Results of engine_known(): the host has no leaf, or its hash chain is
 * full. */
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
 * Returns the leaf for a packet classified to `leaf`: that leaf, or the leaf of
 * the packet's host if the leaf distinguishes hosts. `key` is a hash of the
 * host; 0: unknown. Falls back to `leaf` itself if there is no room for the
 * host.
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
	/* A host without packets needs a free queue. */
	if (!n->queue && parent->queue >= e->queues.rows - e->queues.used)
		return leaf;
	engine_say(n, whole);
	return id;
}

#endif
