/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What each connection may have of the rate that is for all of a slot.
 *
 * A connection counts for as much as it used of its share, so that what those
 * leave who send little goes to the others: shares grow until all together have
 * their rate. One that waits for nothing but its window uses all of it, whatever
 * has come: else all would get more after each page, while those who were slowed
 * down for it had less.
 *
 * Mice, who have sent little, are not made to wait. Those who have sent much
 * share the whole rate, and go on later by what mice got: else that would stand
 * at the far end until what the rate leaves of the line has carried it away,
 * which takes seconds.
 */
#ifndef INBOUND_WINDOW_SHARE_H
#define INBOUND_WINDOW_SHARE_H

#include "window_state.h"

/* What all connections of a slot may have. */
static __always_inline u64 window_rate(const struct window_settings *wanted,
				       u32 slot)
{
	u32 at = slot - 1;

	if (!slot || at >= WINDOW_CLASSES || at >= wanted->class_count)
		return wanted->rate_bytes_s;
	return wanted->classes[at].rate_bytes_s;
}

/* Processors may meet at the end of a second, so that one of the sums is below
 * zero for the next. */
static __always_inline u64 window_used(const struct window_used *used)
{
	s64 most = used->before > used->now ? used->before : used->now;

	return most > 0 ? (u64)most : 0;
}

static __always_inline int
window_large(const struct window_connection *connection)
{
	return connection->bytes >= WINDOW_MUCH;
}

/* What each that has sent much may have, or any other, with `more` besides those
 * that there are. */
static __always_inline u64 window_share(const struct window_settings *wanted,
					const struct window_totals *all,
					u32 number, int large, u64 more)
{
	const struct window_slot *slot =
		&all->slots[number & (WINDOW_SLOTS - 1)];
	u64 used = window_used(large ? &slot->large : &slot->all);
	u64 rate = window_rate(wanted, number);

	if (large)
		used = aqm_max(used, window_used(&slot->sent));
	used += more;
	/* A rate has at most 2^37 bytes a second, so that this fits. However many
	 * share it, none of them is without a limit, which is what 0 says. */
	return rate ? aqm_max(rate * WINDOW_ONE / aqm_max(used, WINDOW_ONE),
			      1) :
		      0;
}

/* Where all have a few segments a second, how many fall into one is chance: what
 * one of them is above a share is not used. */
static __always_inline u64
window_forgiven(const struct window_settings *wanted,
		const struct window_connection *connection, u64 part, u64 share)
{
	u64 mss = window_mss(&connection->flow);
	u64 all = window_rate(wanted, connection->receiver.slot);
	u64 above = connection->part + part;

	if (above <= WINDOW_ONE || connection->part >= WINDOW_ONE ||
	    all >= WINDOW_FEW * mss)
		return 0;
	return aqm_min(above - WINDOW_ONE,
		       mss * WINDOW_ONE / aqm_max(share, 1));
}

/* One processor closes a second. */
static __always_inline void window_second(struct window_slot *slot, u64 epoch)
{
	u64 before = slot->epoch;

	if (before >= epoch ||
	    __sync_val_compare_and_swap(&slot->epoch, before, epoch) != before)
		return;
	slot->all.before = epoch == before + 1 ? slot->all.now : 0;
	slot->large.before = epoch == before + 1 ? slot->large.now : 0;
	slot->sent.before = epoch == before + 1 ? slot->sent.now : 0;
	slot->all.now = 0;
	slot->large.now = 0;
	slot->sent.now = 0;
}

/* What the sender may leave of its share for a moment: a sixteenth of a second's. */
#define WINDOW_MOMENT 16

/* Whether a connection that has sent much is to be counted for a whole share: as
 * it waits for nothing but its window, or at once, because it turns out to send
 * much or does so again. */
static __always_inline int
window_whole(const struct window_settings *wanted,
	     const struct window_connection *connection, u32 bytes, u64 epoch,
	     u64 share)
{
	return window_large(connection) &&
	       (connection->bytes - bytes < WINDOW_MUCH ||
		connection->epoch + 1 < epoch ||
		window_binds(&connection->flow, &wanted->rule,
			     share / WINDOW_MOMENT));
}

/* Counts by the second, as aqm/include/flows.h counts flows. */
static __always_inline void window_active(const struct window_settings *wanted,
					  struct window_totals *all,
					  struct window_connection *connection,
					  u32 bytes, u64 now_ns)
{
	struct window_slot *slot =
		&all->slots[connection->receiver.slot & (WINDOW_SLOTS - 1)];
	int large = window_large(connection);
	u64 epoch = (now_ns >> 30) + 1;
	u64 share, part;
	int whole;

	window_second(slot, epoch);
	share = aqm_bytes_in(window_share(wanted, all,
					  connection->receiver.slot, large, 0),
			     1ULL << 30);
	whole = window_whole(wanted, connection, bytes, epoch, share);
	if (connection->epoch != epoch) {
		connection->epoch = epoch;
		connection->part = 0;
		connection->counted = 0;
		connection->large = 0;
	}
	part = (u64)bytes * WINDOW_ONE / aqm_max(share, 1);
	part -= window_forgiven(wanted, connection, part, share);
	part = aqm_min(part, WINDOW_MOST - connection->part);
	connection->part += part;
	if (large)
		__sync_fetch_and_add(&slot->sent.now, part);
	part = aqm_max(whole ? WINDOW_ONE : connection->part,
		       connection->counted);
	__sync_fetch_and_add(&slot->all.now, part - connection->counted);
	connection->counted = part;
	if (!large)
		return;
	__sync_fetch_and_add(&slot->large.now, part - connection->large);
	connection->large = part;
}

/* A connection that has ended needs no part any more, also not of this second's
 * that it had: what was one page would be kept free for up to two. */
static __always_inline void window_ended(struct window_totals *all,
					 struct window_connection *connection)
{
	struct window_slot *slot =
		&all->slots[connection->receiver.slot & (WINDOW_SLOTS - 1)];

	if (connection->epoch != slot->epoch)
		return;
	__sync_fetch_and_add(&slot->all.now, -connection->counted);
	__sync_fetch_and_add(&slot->large.now, -connection->large);
	connection->part = 0;
	connection->counted = 0;
	connection->large = 0;
}

/* What comes of a mouse is owed by those who have sent much, and so is what one
 * has on offer when it becomes one of them: at most half a second's, which is
 * paid in one and a half. Nothing is where they leave as much of the rate. */
static __always_inline void
window_owe(const struct window_settings *wanted, struct window_totals *all,
	   const struct window_connection *connection, u32 bytes, u64 now_ns)
{
	struct window_slot *slot =
		&all->slots[connection->receiver.slot & (WINDOW_SLOTS - 1)];
	u64 rate = window_rate(wanted, connection->receiver.slot);
	u64 used = aqm_min(window_used(&slot->large), WINDOW_ONE);
	u64 before = slot->owed_ns;
	s64 owed = bytes;
	s64 left;

	if (window_large(connection)) {
		if (connection->bytes - bytes >= WINDOW_MUCH)
			return;
		owed += window_left(&connection->flow,
				    connection->flow.highest);
	}
	if (before < now_ns &&
	    __sync_val_compare_and_swap(&slot->owed_ns, before, now_ns) ==
		    before) {
		left = aqm_bytes_in(rate * (WINDOW_ONE - used) / WINDOW_ONE,
				    aqm_min(now_ns - before, 1ULL << 30));
		if (left > slot->owed)
			left = slot->owed;
		owed -= left > 0 ? left : 0;
	}
	left = (s64)(rate / 2) - slot->owed;
	if (owed > left)
		owed = left;
	__sync_fetch_and_add(&slot->owed, owed);
}

/* Whose acknowledgement leaves pays. */
static __always_inline void window_pays(struct window_totals *all,
					struct window_connection *connection,
					u32 ack)
{
	struct window_slot *slot =
		&all->slots[connection->receiver.slot & (WINDOW_SLOTS - 1)];
	s64 owed = slot->owed;

	if (owed > 0 && window_large(connection))
		__sync_fetch_and_add(&slot->owed,
				     -(s64)window_pay(&connection->flow, ack,
						      (u64)owed));
}

#endif
