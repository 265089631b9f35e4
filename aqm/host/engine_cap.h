/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ceilings of the engine: a node's own, and those that nodes share.
 *
 * Over any time t, the packets of a node that begin in it have at most
 * ceiling * (t + slack) bytes, and the last packet. The slack is the time of its
 * burst and a full packet at the ceiling, as in the kit's shaper, and two ticks at
 * least; of the root, which waits for nobody, it is two ticks. So a burst is the
 * depth of a token bucket: what a node has left of its ceiling, up to that.
 *
 * A cap is a row that is in no tree and has a ceiling. Nodes that name it are held
 * by that as by their own, wherever they are, and what they send counts for it
 * together. One finds that another has used it up when its own turn comes, so that
 * nothing is searched for: a packet costs at most a step more for each node of its
 * cap.
 */
#ifndef AQM_ENGINE_CAP_H
#define AQM_ENGINE_CAP_H

#include "engine_wheel.h"

/* The cap of a node; NULL for none. */
AQM_FN struct engine_node *engine_cap(struct engine *e,
				      const struct engine_node *n)
{
	struct engine_node *cap = engine_node(e, n->config.cap);

	return cap && cap->config.live == ENGINE_CAP ? cap : NULL;
}

/* Until when a node is above its ceiling, or its cap's. */
AQM_FN u64 engine_opens(struct engine *e, const struct engine_node *n)
{
	u64 opens = n->config.ceiling_bytes_s ? n->ceiling.opens_ns : 0;
	const struct engine_node *cap = engine_cap(e, n);

	if (cap && cap->config.ceiling_bytes_s)
		opens = aqm_max(opens, cap->ceiling.opens_ns);
	return opens;
}

/* The priority of a node among the children of the root, or of who is above it
 * there. */
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
 * Until when a node that went last leaves its cap to another, which found it used up
 * when its own turn came: for the time of a full packet at most, and to none that is
 * less urgent. 0: for no time. Else a class that is owed its guarantee would have all
 * of a host's limit, and the host's other classes nothing. Nor would another have any
 * whose parent is held by its own ceiling each time that the cap opens; so its parent
 * may open within that time.
 */
AQM_WHOLE_FN u64 engine_yields(struct engine *e AQM_NONNULL, u32 id, u64 now_ns)
{
	u64 full = aqm_wire(&e->rule.link, e->rule.link.mtu_bytes);
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
		full * 1000000000 / cap->config.ceiling_bytes_s;
	if (!above || other->config.cap != n->config.cap ||
	    other->state != ENGINE_READY || until <= now_ns ||
	    (above->state != ENGINE_READY &&
	     above->ceiling.opens_ns >= until)) {
		cap->prev = 0;
		return 0;
	}
	return engine_rank(e, other) <= engine_rank(e, n) ? until : 0;
}

/* Whether it is. */
AQM_FN int engine_shut(struct engine *e, const struct engine_node *n,
		       u64 now_ns)
{
	return engine_opens(e, n) > now_ns;
}

/* A packet of so many bytes went through a node, or a cap, whose ceiling makes up for so
 * much lateness, and for a packet of `full` bytes and its burst. One that was dropped,
 * where that counts, was not sent. */
AQM_FN void engine_pass(const struct engine *e, struct engine_node *n, u32 wire,
			u64 late_ns, u32 full, u64 now_ns)
{
	u64 spared;

	if (e->verdict.action != AQM_DROP) {
		n->sent_wire_bytes += wire;
		n->sent_packets++;
	}
	n->ceiling.rate_bytes_s = n->config.ceiling_bytes_s;
	/* What is less late than that is made up for in any case. */
	if (full && n->ceiling.rate_bytes_s &&
	    n->ceiling.opens_ns + ENGINE_LATE_NS < now_ns) {
		spared = (u64)full + n->config.ceiling_burst_bytes;
		late_ns = aqm_max(late_ns, spared * 1000000000 /
						   n->ceiling.rate_bytes_s);
	}
	aqm_gate_pass(&n->ceiling, wire, now_ns, late_ns);
}

#endif
