/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a qdisc of weir_shaper takes over the queue of the one that it replaces.
 *
 * The kernel creates the new qdisc (init), stops all enqueueing, resets the old
 * one, attaches the new one, and destroys the old one (tc_get_qdisc and
 * qdisc_graft, net/sched/sch_api.c). All of that is under one lock, so at most
 * two qdiscs exist for an attach point. The new one finds the instance of the
 * old one, and owns it from its first packet on. The old one leaves its packets
 * there.
 */
#ifndef SHAPER_HEIR_H
#define SHAPER_HEIR_H

#include "shaper/settle.h"

/* Whether a new qdisc replaces another of the shaper. */
static __always_inline int shaper_is_heir(struct Qdisc *sch)
{
	struct net_device *dev = sch->dev_queue->dev;
	u64 netns = dev->nd_net.net->net_cookie;
	u32 ifindex = dev->ifindex;
	u32 queue = sch->parent == TC_H_ROOT ? 0 : TC_H_MIN(sch->parent);
	struct shaper_hosted *one;
	u32 i;

	bpf_for (i, 0, SHAPERS) {
		u32 key = i;

		one = bpf_map_lookup_elem(&instances, &key);
		if (!one || !one->used || one->heir)
			continue;
		if (one->point.netns != netns ||
		    one->point.ifindex != ifindex || one->point.queue != queue)
			continue;
		one->heir = SHAPER_HEIR;
		one->handed = 0;
		one->program_before = one->program;
		one->program = SHAPER_PROGRAM;
		sch->limit = SHAPERS + key + 1;
		return 1;
	}
	return 0;
}

/* Accounts for packets that a change may have freed. */
static __always_inline void shaper_recount(struct shaper_hosted *one,
					   struct Qdisc *sch)
{
	u32 queued = 0;
	u32 i;

	bpf_for (i, 0, SHAPER_CLASSES)
		queued += one->shaper.class[i].packets;
	sch->qstats.drops += sch->q.qlen - queued;
	sch->q.qlen = queued;
}

/* Takes over the queue, at the heir's first packet. */
static __always_inline void shaper_inherit(struct shaper_hosted *one,
					   struct Qdisc *sch)
{
	u32 key = shaper_number(sch);
	u32 *count = bpf_map_lookup_elem(&changes, &key);
	u32 queued = 0;
	u32 i;

	sch->limit = key + 1;
	one->heir = SHAPER_NO_HEIR;
	one->changes_seen = count ? *count : 0;
	bpf_for (i, 0, SHAPER_CLASSES)
		queued += one->shaper.class[i].packets;
	sch->q.qlen = queued;
	sch->qstats.backlog = one->handed ? one->backlog : 0;
	one->handed = 0;
	sch->qstats.backlog -= shaper_settle_on(sch);
	shaper_recount(one, sch);
}

/* Whether a qdisc that is being reset leaves its packets to its heir. */
static __always_inline int shaper_keeps(struct shaper_hosted *one,
					const struct Qdisc *sch)
{
	if (shaper_waits(sch) || !one->heir)
		return 0;
	/* Destroying it resets it again, when its backlog is 0 already. */
	if (!one->handed)
		one->backlog = sch->qstats.backlog;
	one->handed = 1;
	return 1;
}

/* Whether an instance ends with the qdisc that is being destroyed. */
static __always_inline int shaper_ends(struct shaper_hosted *one,
				       const struct Qdisc *sch)
{
	if (!shaper_waits(sch) && one->heir) {
		one->heir = SHAPER_ORPHAN;
		return 0;
	}
	if (shaper_waits(sch) && one->heir == SHAPER_HEIR) {
		/* The heir was never attached. */
		one->program = one->program_before;
		one->heir = SHAPER_NO_HEIR;
		return 0;
	}
	one->heir = SHAPER_NO_HEIR;
	return 1;
}

#endif
