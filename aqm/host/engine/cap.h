/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ceilings of the engine: a node's own, and caps, which several nodes share.
 *
 * In any time t, a node starts to send at most ceiling * (t + slack) bytes and
 * one more packet. The slack is the time of its burst and a full packet at the
 * ceiling, as in the kit's shaper, but at least two ticks. For the root, which
 * waits for no other node, it is two ticks. So a burst is the depth of a token
 * bucket, which fills while the node sends less than its ceiling.
 *
 * A cap is a row outside the tree that has a ceiling. It limits all nodes that
 * name it, wherever they are, together. A node finds out that another has used
 * up the cap only when its own turn comes, so nothing is searched. A packet
 * costs at most one more step for each node of its cap.
 */
#ifndef AQM_ENGINE_CAP_H
#define AQM_ENGINE_CAP_H

#include "engine/wheel.h"

/* Updates derived values after a change of the rule or of the number of
 * rows. */
AQM_FN void engine_ruled(struct engine *e)
{
	e->full = aqm_wire(&e->rule.link, e->rule.link.mtu_bytes);
	e->hosts_from = e->hosts.rows ? e->rule.lent : ~0U;
	e->slow_bytes_s = (u64)e->full * 1000000000 / ENGINE_SLOW_NS;
}

/* Returns the cap of a node, or NULL. */
AQM_FN struct engine_node *engine_cap(struct engine *e,
				      const struct engine_node *n)
{
	struct engine_node *cap = engine_node(e, n->config.cap);

	return cap && cap->config.live == ENGINE_CAP ? cap : NULL;
}

/* Returns until when a node is above its ceiling or that of its cap. */
AQM_FN u64 engine_opens_by(const struct engine_node *n,
			   const struct engine_node *cap)
{
	u64 opens = n->config.ceiling_bytes_s ? n->ceiling.opens_ns : 0;

	if (cap && cap->config.ceiling_bytes_s)
		opens = aqm_max(opens, cap->ceiling.opens_ns);
	return opens;
}

AQM_FN u64 engine_opens(struct engine *e, const struct engine_node *n)
{
	return engine_opens_by(n, engine_cap(e, n));
}

/*
 * Holds a node in the wheel until `opens_ns`. A slow node is woken only every
 * few ticks, so that the host wakes many nodes at once. The added delay is at
 * most half of what its ceiling compensates for. Nodes of a cap take turns
 * within a tick, so they may wait for any tick. So may the root, whose ceiling
 * compensates for two ticks only.
 */
AQM_FN void engine_wait(struct engine *e, u32 id, struct engine_node *n,
			u64 opens_ns)
{
	if (n->config.ceiling_bytes_s <= e->slow_bytes_s && !n->config.cap &&
	    id != e->rule.root)
		opens_ns |= (ENGINE_SLOW_TICKS - 1) << ENGINE_TICK_SHIFT;
	n->state = ENGINE_HELD;
	engine_wheel_put(e, id, opens_ns);
}

/* Returns the priority of a node's ancestor that is a child of the root, or of
 * the node itself if it is one. */
AQM_FN u32 engine_rank(struct engine *e, const struct engine_node *n)
{
	const struct engine_node *above;
	u32 i;

	AQM_LOOP (i, ENGINE_LEVELS) {
		above = engine_node(e, n->config.parent);
		if (!above || n->config.parent == e->rule.root)
			break;
		n = above;
	}
	return (u32)n->config.priority;
}

/*
 * Returns until when the node that sent last leaves its cap to the node that
 * waits for it (cap->prev); 0: it need not wait. It waits for the time of one
 * full packet at most, and never for a less urgent node.
 *
 * Without this, a class that is owed its guarantee would take all of a host's
 * limit and starve the host's other classes. A class would also starve if its
 * parent is at its own ceiling each time the cap opens. So the wait also covers
 * a parent whose ceiling opens within that time.
 */
AQM_WHOLE_FN u64 engine_yields(struct engine *e AQM_NONNULL, u32 id, u64 now_ns)
{
	const struct engine_node *n = engine_node(e, id), *other, *above;
	struct engine_node *cap;
	u64 until;

	cap = n ? engine_cap(e, n) : NULL;
	if (!cap || !cap->prev || cap->next != id || cap->prev == id ||
	    !cap->config.ceiling_bytes_s)
		return 0;
	other = engine_node(e, cap->prev);
	above = other ? engine_node(e, other->parent) : NULL;
	until = cap->ceiling.opens_ns +
		(u64)e->full * 1000000000 / cap->config.ceiling_bytes_s;
	if (!above || other->config.cap != n->config.cap ||
	    other->state != ENGINE_READY || until <= now_ns ||
	    (above->state != ENGINE_READY &&
	     above->ceiling.opens_ns >= until)) {
		cap->prev = 0;
		return 0;
	}
	return engine_rank(e, other) <= engine_rank(e, n) ? until : 0;
}

/* Whether the node or its cap is above its ceiling. */
AQM_FN int engine_shut(struct engine *e, const struct engine_node *n,
		       u64 now_ns)
{
	return engine_opens(e, n) > now_ns;
}

/* Counts a packet as sent, unless it was dropped. (A dropped packet may still
 * be charged to ceilings.) */
AQM_FN void engine_count(const struct engine *e, struct engine_node *n,
			 u32 wire)
{
	if (e->verdict.action == AQM_DROP)
		return;
	n->sent_wire_bytes += wire;
	n->sent_packets++;
}

/* Charges a packet of `wire` bytes to a ceiling. The ceiling compensates for
 * `late_ns` of lateness, or for the time of its burst and `full` bytes if that
 * is longer. */
AQM_FN void engine_through(struct engine_node *n, u32 wire, u64 late_ns,
			   u32 full, u64 now_ns)
{
	const u64 rate = n->config.ceiling_bytes_s;
	struct aqm_gate gate = {
		.rate_bytes_s = rate,
		.opens_ns = n->ceiling.opens_ns,
		.rest = n->ceiling.rest,
	};
	u64 spared = (u64)full + n->config.ceiling_burst_bytes;

	if (!rate)
		return;
	/* Up to ENGINE_LATE_NS the limit makes no difference: skip the
	 * division. */
	if (full &&
	    (n->ceiling.light || gate.opens_ns + ENGINE_LATE_NS < now_ns))
		late_ns = aqm_max(late_ns, spared * 1000000000 / rate);
	/* The last packet found the whole slack unused: charge it now. */
	if (full && n->ceiling.light) {
		gate.opens_ns -= aqm_min(gate.opens_ns, late_ns);
		gate.rest = 0;
		aqm_gate_pass(&gate, (u32)n->ceiling.light, 0, 0);
		n->ceiling.light = 0;
	}
	aqm_gate_pass(&gate, wire, now_ns, late_ns);
	n->ceiling.opens_ns = gate.opens_ns;
	n->ceiling.rest = gate.rest;
}

/* Packets of a node that is far below its ceiling are further apart than the time in
 * which the ceiling gives all that it makes up for, or what the last one took of that.
 * Nothing but this is known of a longer time, so that the product has room. */
#define ENGINE_IDLE_MOST_NS ((1ULL << 28) - 1)

/*
 * A packet went through a node. One that finds all unused that its ceiling makes up for,
 * and takes no more than a full packet, leaves the ceiling open. Then no more is noted
 * than its bytes and its time, which costs no division. Returns until when the node is
 * above its ceiling.
 */
AQM_FN u64 engine_pass(const struct engine *e, struct engine_node *n, u32 wire,
		       u64 now_ns)
{
	const u64 rate = n->config.ceiling_bytes_s;
	u64 opens = n->ceiling.opens_ns, needs = n->ceiling.light;
	int idle = 1;

	if (!rate)
		return 0;
	if (!needs) {
		needs = (u64)e->full + n->config.ceiling_burst_bytes;
		idle = opens + ENGINE_LATE_NS < now_ns;
	}
	if (idle && wire <= e->full &&
	    aqm_min(now_ns - opens, ENGINE_IDLE_MOST_NS) * rate >=
		    needs * 1000000000) {
		n->ceiling.light = wire;
		n->ceiling.opens_ns = now_ns;
		return 0;
	}
	engine_through(n, wire, ENGINE_LATE_NS, e->full, now_ns);
	return n->ceiling.opens_ns;
}

#endif
