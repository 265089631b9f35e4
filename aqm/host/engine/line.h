/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A line that several engines share: one engine for each queue of a device, and
 * one rate for all.
 *
 * Each engine takes leases of the line: periods in which it alone may send. A
 * lease begins where the previous one ends, of any engine. So taking a lease is
 * an atomic addition, and no engine waits for a lock. Within a lease the root's
 * gate works as it does on an unshared line. An engine that has used up its
 * lease takes another, which begins after those of all waiting engines. So
 * engines take turns. Unused time is returned.
 *
 * A lease is an engine's part of a round. The part is the sum of the guarantees
 * of those children of its root that may send, and a share of the rest in
 * proportion to their quanta. It is limited to twice the time used of the last
 * lease, or to the time that the queued bytes take if that is more. So children
 * of roots share equally, whichever engine they are in. Priorities hold within
 * an engine only.
 *
 * A late engine may still use its whole lease. When a lease is returned,
 * engines that waited behind it may make up for that time, up to a round. In
 * any time t all engines together send at most rate * (t + two ticks), two
 * rounds, and a full packet of each.
 *
 * The host provides engine_line(e), which returns the line, or NULL if the
 * engine's line is not shared.
 */
#ifndef AQM_ENGINE_LINE_H
#define AQM_ENGINE_LINE_H

#include "engine/cap.h"

/* A round of all engines' leases: sixteen ticks of the wheel (0.5 ms). A
 * shorter round wakes each engine more often. A longer one makes the others
 * wait longer. */
#define ENGINE_ROUND_NS (16ULL << ENGINE_TICK_SHIFT)

/* The shortest lease, for an engine with a tiny part. */
#define ENGINE_LEAST_LEASE_NS 1000

/* Claims are in units of 2^8 bytes, so that their products fit in 64 bits. */
#define ENGINE_CLAIM_SHIFT 8

/* Most retries of the compare-and-swap when engines take leases
 * concurrently. */
#define ENGINE_TAKES_MOST 4

/* Adds the claim of a child of the root that may send. */
AQM_WHOLE_FN int engine_claim(struct engine *e AQM_NONNULL, u32 id, u32 quantum)
{
	struct engine_node *n = engine_node(e, id);

	if (!n)
		return 0;
	/* Store it: the configuration may change before engine_unclaim(). */
	n->claim.guarantee = (u32)aqm_min(
		n->config.guarantee_bytes_s >> ENGINE_CLAIM_SHIFT, ~0U);
	n->claim.quantum = quantum >> ENGINE_CLAIM_SHIFT;
	e->claims.guarantee += n->claim.guarantee;
	e->claims.quanta += n->claim.quantum;
	return 0;
}

/* Subtracts a child's claim. */
AQM_FN void engine_unclaim(struct engine *e, const struct engine_node *n)
{
	e->claims.guarantee -= n->claim.guarantee;
	e->claims.quanta -= n->claim.quantum;
}

/* Returns the sum of the claims of all engines. */
AQM_FN struct engine_claims engine_all_claims(const struct engine *e,
					      struct engine_line *line)
{
	struct engine_claims all = {}, *one;
	u32 i;

	line->member[AQM_MASKED(e->member, ENGINE_MEMBERS - 1)].claims =
		e->claims;
	AQM_QUICK_LOOP (i, ENGINE_MEMBERS) {
		if (i >= e->members)
			break;
		one = &line->member[AQM_MASKED(i, ENGINE_MEMBERS - 1)].claims;
		all.guarantee += one->guarantee;
		all.quanta += one->quanta;
	}
	return all;
}

/* Returns an engine's part of a line with the given rate, in bytes/s. */
AQM_FN u64 engine_part(const struct engine *e, const struct engine_claims *all,
		       u64 rate)
{
	u64 part = e->claims.guarantee;

	rate >>= ENGINE_CLAIM_SHIFT;
	if (all->guarantee > rate)
		part = part * rate / all->guarantee;
	else if (all->quanta)
		part += (rate - all->guarantee) * e->claims.quanta /
			all->quanta;
	return part << ENGINE_CLAIM_SHIFT;
}

/* Reserves `time_ns` of the line and returns when it begins. Idle time of the
 * line can be used later, up to `late_ns`. */
AQM_FN u64 engine_line_take(struct engine_line *line, u64 time_ns, u64 late_ns,
			    u64 now_ns)
{
	u64 least = now_ns > late_ns ? now_ns - late_ns : 0;
	u64 taken;
	u32 i;

	AQM_LOOP (i, ENGINE_TAKES_MOST) {
		taken = line->taken_ns;
		if (taken >= least ||
		    __sync_val_compare_and_swap(&line->taken_ns, taken,
						least) == taken)
			break;
	}
	return __sync_fetch_and_add(&line->taken_ns, time_ns);
}

/* Returns the time that the queued bytes take. It counts them as one packet, so
 * it is slightly too short. */
AQM_FN u64 engine_queued_ns(const struct engine *e, u64 rate)
{
	return aqm_max(e->bytes, e->rule.link.mpu_bytes) * 1000000000 / rate;
}

/* Takes a lease for a root that has something to send, unless it has one. */
AQM_WHOLE_FN int engine_lease(struct engine *e AQM_NONNULL, u64 now_ns)
{
	struct engine_node *root = engine_node(e, e->rule.root);
	struct engine_line *line = engine_line(e);
	u64 rate, length, paid, late = ENGINE_LATE_NS;
	struct engine_claims all;

	if (!root || !line)
		return 0;
	rate = root->config.ceiling_bytes_s;
	if (!rate || root->ceiling.opens_ns < e->until_ns)
		return 0;
	all = engine_all_claims(e, line);
	/* The last packet of a lease may exceed it. The next leases pay for
	 * that. A lease that is used up by the debt ends as it begins. */
	e->debt_ns += root->ceiling.opens_ns - e->until_ns;
	/* The debt is a time, which is wrong at another rate. */
	if (rate != e->line_rate)
		e->debt_ns = 0;
	e->line_rate = rate;
	length = aqm_max(engine_part(e, &all, rate) * ENGINE_ROUND_NS / rate,
			 ENGINE_LEAST_LEASE_NS);
	length = aqm_min(length,
			 e->debt_ns + aqm_max(e->wants_ns,
					      engine_queued_ns(e, rate)));
	paid = aqm_min(length, e->debt_ns);
	e->debt_ns -= paid;
	e->wants_ns = 2 * length;
	/* An engine that waited behind a returned lease did not get that
	 * time. */
	if (e->leased || all.quanta != e->claims.quanta)
		late += ENGINE_ROUND_NS;
	e->leased = 1;
	e->until_ns = engine_line_take(line, length, late, now_ns) + length;
	root->ceiling.opens_ns = e->until_ns - length + paid;
	return 1;
}

/* Whether a lease is used up, perhaps entirely by debt. */
AQM_FN int engine_is_spent(const struct engine *e,
			   const struct engine_node *root)
{
	return root->config.ceiling_bytes_s &&
	       root->ceiling.opens_ns >= e->until_ns;
}

/* Returns the unused lease of a root that has nothing to send. */
AQM_FN void engine_return(struct engine *e, struct engine_node *root)
{
	struct engine_line *line = engine_line(e);
	u64 rest;

	if (!line)
		return;
	e->leased = 0;
	line->member[AQM_MASKED(e->member, ENGINE_MEMBERS - 1)].claims =
		(struct engine_claims){};
	if (root->ceiling.opens_ns >= e->until_ns)
		return;
	rest = e->until_ns - root->ceiling.opens_ns;
	e->wants_ns = e->wants_ns / 2 > rest ? e->wants_ns / 2 - rest : 0;
	e->until_ns = root->ceiling.opens_ns;
	__sync_fetch_and_add(&line->taken_ns, 0 - rest);
}

/* Adapts to a new rate of the line while the root waits for a lease. The wait
 * is limited to the time of a full packet of each engine. */
AQM_FN void engine_line_look(struct engine *e, struct engine_node *root,
			     u64 packet_ns, u64 now_ns)
{
	struct engine_line *line = engine_line(e);
	u64 taken = line ? line->taken_ns : 0;
	u64 most = now_ns + packet_ns * e->members;

	if (!line)
		return;
	e->until_ns = root->ceiling.opens_ns;
	e->debt_ns = 0;
	if (taken > most)
		__sync_val_compare_and_swap(&line->taken_ns, taken, most);
}

#endif
