/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The part of a rate for each of the members that share it.
 *
 * A member counts for as much of its share as it used, so that others get what members
 * leave that send little: shares grow until all members together have the rate.
 * Time counts in whole seconds, as flows.h counts flows. Members that have sent much
 * share the whole rate among themselves; the others share it with all.
 *
 * Members may be hosts, and each host's connections the members of another sum,
 * whose rate is the host's part.
 *
 * Several processors may count at once, each member by one at a time.
 */
#ifndef AQM_SHARE_H
#define AQM_SHARE_H

#include "aqm.h"
#include "fixed.h"

/* A whole share, and the most that a member counts for. */
#define SHARE_ONE 65536
#define SHARE_MOST (2 * SHARE_ONE)

/* Shares used, in SHARE_ONE: in the last whole second, and in this one. */
struct share_used {
	s64 before;
	s64 now;
};

/* What those count for who share a rate. */
struct share_sum {
	u64 epoch; /* which second it is */
	struct share_used all;
	struct share_used large; /* of those who have sent much */
	struct share_used sent; /* by them, whatever they count for */
};

/* One of them. */
struct share_member {
	u64 epoch; /* the last second in which data came */
	u64 part; /* of its share that it had then, in SHARE_ONE */
	u64 counted; /* for so much in this second */
	u64 large; /* and among those who have sent much */
};

/* Which second it is, from 1. */
AQM_FN u64 share_epoch(u64 now_ns)
{
	return (now_ns >> 30) + 1;
}

/* Processors may meet at the end of a second, so that one of the sums is below
 * zero for the next. */
AQM_FN u64 share_most(const struct share_used *used)
{
	s64 most = used->before > used->now ? used->before : used->now;

	return most > 0 ? (u64)most : 0;
}

/* What each that has sent much may have of a rate in bytes a second, or any other,
 * with `more` besides those that there are. `others` in bytes a second, whom nobody
 * holds, count for what they use, as one member does, for SHARE_MOST at most. A rate
 * has at most 2^37 bytes a second, so that this fits. However many share it, none of
 * them is without a limit, which is what 0 says. */
AQM_WHOLE_FN u64 share_rate(const struct share_sum *sum, u64 rate, int large,
			    u64 more, u64 others)
{
	u64 left = rate - aqm_min(others, rate);
	u64 used, least;

	if (!sum)
		return 0;
	used = share_most(large ? &sum->large : &sum->all);
	if (large)
		used = aqm_max(used, share_most(&sum->sent));
	used = aqm_max(used + more, SHARE_ONE);
	least = others ? rate * SHARE_ONE / (used + SHARE_MOST) : 0;
	left = left * SHARE_ONE / used;
	return rate ? aqm_max(aqm_max(left, least), 1) : 0;
}

/* One processor closes a second. */
AQM_FN void share_second(struct share_sum *sum, u64 epoch)
{
	u64 before = sum->epoch;

	if (before >= epoch ||
	    __sync_val_compare_and_swap(&sum->epoch, before, epoch) != before)
		return;
	sum->all.before = epoch == before + 1 ? sum->all.now : 0;
	sum->large.before = epoch == before + 1 ? sum->large.now : 0;
	sum->sent.before = epoch == before + 1 ? sum->sent.now : 0;
	sum->all.now = 0;
	sum->large.now = 0;
	sum->sent.now = 0;
}

/* Nothing has come of a member yet in this second. */
AQM_FN void share_anew(struct share_member *member, u64 epoch)
{
	if (member->epoch == epoch)
		return;
	member->epoch = epoch;
	member->part = 0;
	member->counted = 0;
	member->large = 0;
}

/* What a member uses of its share: so much more, or the whole where it waits for
 * nothing else. */
AQM_FN void share_count(struct share_sum *sum, struct share_member *member,
			u64 part, int large, int whole)
{
	part = aqm_min(part, SHARE_MOST - aqm_min(member->part, SHARE_MOST));
	member->part += part;
	if (large)
		__sync_fetch_and_add(&sum->sent.now, part);
	part = aqm_max(whole ? SHARE_ONE : member->part, member->counted);
	__sync_fetch_and_add(&sum->all.now, part - member->counted);
	member->counted = part;
	if (!large)
		return;
	__sync_fetch_and_add(&sum->large.now, part - member->large);
	member->large = part;
}

/* One that has ended needs no part any more, also not of this second's that it
 * had: what was one page would be kept free for up to two. */
AQM_FN void share_ended(struct share_sum *sum, struct share_member *member)
{
	if (member->epoch != sum->epoch)
		return;
	__sync_fetch_and_add(&sum->all.now, -member->counted);
	__sync_fetch_and_add(&sum->large.now, -member->large);
	member->part = 0;
	member->counted = 0;
	member->large = 0;
}

#endif
