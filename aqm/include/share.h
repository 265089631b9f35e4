/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How members share a rate.
 *
 * A member counts for as much of its share as it used. So members that send
 * little leave their rest to others, and shares grow until all members together
 * use the rate. Time counts in whole seconds, as in flows.h. Members that have
 * sent much ("large") share the whole rate among themselves; the others share
 * it with all.
 *
 * Members may be hosts. Then the connections of a host are members of another
 * sum, whose rate is the host's share.
 *
 * Several CPUs may count at once, but only one at a time for each member.
 */
#ifndef AQM_SHARE_H
#define AQM_SHARE_H

#include "aqm.h"
#include "fixed.h"

/* A whole share, and the most that a member counts for. */
#define SHARE_ONE 65536
#define SHARE_MOST (2 * SHARE_ONE)

/* Shares used, in units of SHARE_ONE: in the last whole second and in the
 * current one. */
struct share_used {
	s64 before;
	s64 now;
};

/* The sums of the members that share a rate. */
struct share_sum {
	u64 epoch; /* number of the current second */
	struct share_used all;
	struct share_used large; /* of large members */
	struct share_used sent; /* parts that large members used, not rounded up
				 * to whole shares */
};

/* A member of a sum. */
struct share_member {
	u64 epoch; /* the last second in which data came */
	u64 part; /* part of its share that it used then, in SHARE_ONE */
	u64 counted; /* what it has been counted for in this second */
	u64 large; /* the same in the sum of large members */
};

/* Returns the number of the second (of 2^30 ns), from 1. */
AQM_FN u64 share_epoch(u64 now_ns)
{
	return (now_ns >> 30) + 1;
}

/* Returns the larger of both seconds. CPUs may race at the end of a second, so
 * a sum may be negative for the next one. */
AQM_FN u64 share_most(const struct share_used *used)
{
	s64 most = used->before > used->now ? used->before : used->now;

	return most > 0 ? (u64)most : 0;
}

/* Returns the share of a rate in bytes/s, for a large member or any other, if
 * `more` shares are added to the present ones. `others` is the rate in bytes/s
 * of traffic that is not controlled. It counts for what it uses, as one member
 * would, for at most SHARE_MOST. A rate is at most 2^37 bytes/s, so this does
 * not overflow. The result is at least 1, because 0 means no limit. */
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

/* Closes a second, on one CPU. */
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

/* Resets a member at its first data in a new second. */
AQM_FN void share_anew(struct share_member *member, u64 epoch)
{
	if (member->epoch == epoch)
		return;
	member->epoch = epoch;
	member->part = 0;
	member->counted = 0;
	member->large = 0;
}

/* Counts `part` more of its share for a member, or its whole share if it waits
 * for nothing else (`whole`). */
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

/* Ends a member. Removes also what it was counted for in this second. Otherwise
 * the share of a single page would stay reserved for up to two seconds. */
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
