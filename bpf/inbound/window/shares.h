/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What each connection may have of the rate that is for all of a slot (share.h):
 * a part of it, or of what its host may have. One that waits for nothing but its
 * window uses all of its share, whatever has come: else all would get more after
 * each page, while those who were slowed down for it had less.
 *
 * Mice, who have sent little, are not made to wait. Those who have sent much
 * share the whole rate, and go on later by what mice got: else that would stand
 * at the far end until what the rate leaves of the line has carried it away,
 * which takes seconds.
 */
#ifndef INBOUND_WINDOW_SHARE_H
#define INBOUND_WINDOW_SHARE_H

#include "share.h"
#include "lock.h"
#include "window/state.h"

/* What all connections of a slot may have. */
static __always_inline u64 window_rate(const struct window_settings *wanted,
				       u32 slot)
{
	/* Linux 6.1 does not know the bounds of a number that was put aside before it
	 * was compared. */
	u32 at = AQM_MASKED(slot - 1, WINDOW_SLOTS - 1);

	if (!slot || at >= wanted->class_count)
		return wanted->rate_bytes_s;
	return wanted->classes[at].rate_bytes_s;
}

static __always_inline struct window_slot *
window_slot(struct window_totals *all, u32 number)
{
	return &all->slots[number & (WINDOW_SLOTS - 1)];
}

/* The host of a connection, where hosts share; `make` it if nothing has come of it
 * before. */
static __always_inline struct window_host *
window_host(const struct window_settings *wanted,
	    const struct window_receiver *receiver, int make)
{
	struct window_host_key key = {};
	struct window_host *host;
	const void *fresh;
	u32 zero = 0;

	if (!wanted->by_hosts)
		return NULL;
	__builtin_memcpy(key.address, receiver->host, sizeof(key.address));
	key.slot = receiver->slot;
	host = bpf_map_lookup_elem(&hosts, &key);
	if (host || !make)
		return host;
	/* Nothing is as long as that, and more. */
	fresh = bpf_map_lookup_elem(&blank, &zero);
	if (!fresh)
		return NULL;
	bpf_map_update_elem(&hosts, &key, fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&hosts, &key);
}

static __always_inline int
window_large(const struct window_connection *connection)
{
	return connection->bytes >= WINDOW_MUCH;
}

/* Bytes that came in a second of what no window holds. */
static __always_inline u64 window_others(const struct window_settings *wanted,
					 const struct window_totals *all,
					 u64 now_ns)
{
	const struct share_sum *others = &all->others;

	if (!wanted->beside_others || others->epoch + 1 < share_epoch(now_ns))
		return 0;
	return share_most(&others->all) * 1000 / 1074;
}

/* Something came that no window holds. */
static __always_inline void window_other(const struct window_settings *wanted,
					 struct window_totals *all, u32 bytes,
					 u64 now_ns)
{
	if (!wanted->beside_others)
		return;
	share_second(&all->others, share_epoch(now_ns));
	__sync_fetch_and_add(&all->others.all.now, (s64)bytes);
}

/* What each that has sent much may have, or any other, with `more` besides those
 * that there are, and with so many bytes a second of others. */
static __always_inline u64 window_share(const struct window_settings *wanted,
					struct window_totals *all,
					const struct window_host *host,
					u32 number, int large, u64 more,
					u64 others)
{
	const struct window_slot *slot = window_slot(all, number);
	u64 rate = window_rate(wanted, number);

	if (host)
		return share_rate(&host->connections,
				  share_rate(&slot->members, rate, large, 0,
					     others),
				  large, more, 0);
	return share_rate(&slot->members, rate, large, more, others);
}

/* Where all have a few segments a second, how many fall into one is chance: what
 * one of them is above a share is not used. */
static __always_inline u64
window_forgiven(const struct window_settings *wanted,
		const struct window_connection *connection,
		const struct share_member *member, u64 part, u64 share)
{
	u64 mss = window_mss(&connection->flow);
	u64 all = window_rate(wanted, connection->receiver.slot);
	u64 above = member->part + part;

	if (above <= SHARE_ONE || member->part >= SHARE_ONE ||
	    all >= WINDOW_FEW * mss)
		return 0;
	return aqm_min(above - SHARE_ONE, mss * SHARE_ONE / aqm_max(share, 1));
}

/* What the sender may leave of its share for a moment: a sixteenth of a second's. */
#define WINDOW_MOMENT 16

/* What a connection had of its share. One that turns out to send much may have all. */
static __always_inline void window_had(struct window_connection *connection,
				       u32 bytes, u64 epoch)
{
	struct window_flow *flow = &connection->flow;

	if (connection->member.epoch != epoch)
		flow->had =
			(u32)aqm_max(connection->member.part, flow->had / 2);
	if (window_large(connection) && connection->bytes - bytes < WINDOW_MUCH)
		flow->had = SHARE_ONE;
}

/* Whether a connection that has sent much is to be counted for a whole share: as
 * it waits for nothing but its window, or at once, because it turns out to send
 * much or does so again. One that the queue holds is, too, unless it has left most of
 * its share for some seconds: what it leaves for a moment others take by themselves
 * (window_sampled), and give back when it grows. */
static __always_inline int
window_whole(const struct window_settings *wanted,
	     const struct window_connection *connection, u32 bytes, u64 epoch,
	     u64 share)
{
	return window_large(connection) &&
	       (connection->bytes - bytes < WINDOW_MUCH ||
		connection->member.epoch + 1 < epoch ||
		(connection->flow.loose &&
		 connection->flow.had >= WINDOW_SHARE_LEAST) ||
		window_binds(&connection->flow, &wanted->rule,
			     share / WINDOW_MOMENT));
}

/* So many bytes of a second's share came. */
static __always_inline void
window_counted(const struct window_settings *wanted,
	       const struct window_connection *connection,
	       struct share_sum *sum, struct share_member *member, u32 bytes,
	       u64 share, int whole)
{
	u64 part = (u64)bytes * SHARE_ONE / aqm_max(share, 1);

	share_anew(member, sum->epoch);
	part -= window_forgiven(wanted, connection, member, part, share);
	/* What one has beyond its share that the queue holds, the queue takes back. */
	if (connection->flow.loose)
		part = aqm_min(part,
			       SHARE_ONE - aqm_min(member->part, SHARE_ONE));
	share_count(sum, member, part, window_large(connection), whole);
}

/* The share that one has now, in bytes of an epoch (share_epoch). */
static __always_inline u64 window_share_bytes(
	const struct window_settings *wanted, struct window_totals *all,
	const struct window_host *host, u32 number, int large, u64 others)
{
	return aqm_bytes_in(window_share(wanted, all, host, number, large, 0,
					 others),
			    1ULL << 30);
}

/* Data came of a connection. */
static __always_inline void window_active(const struct window_settings *wanted,
					  struct window_totals *all,
					  struct window_host *host,
					  struct window_connection *connection,
					  u32 bytes, u64 now_ns)
{
	u32 number = connection->receiver.slot;
	struct window_slot *slot = window_slot(all, number);
	int large = window_large(connection);
	u64 epoch = share_epoch(now_ns);
	u64 others = window_others(wanted, all, now_ns);
	u64 share;
	int whole;

	share_second(&slot->members, epoch);
	if (host)
		share_second(&host->connections, epoch);
	window_had(connection, bytes, epoch);
	share = window_share(wanted, all, host, number, large, 0, others);
	/* A rate that is stated is kept to, whatever is behind. */
	if (wanted->beside_others)
		window_loosens(&connection->flow, bytes, share,
			       window_rate(wanted, number));
	share = aqm_bytes_in(share, 1ULL << 30);
	whole = window_whole(wanted, connection, bytes, epoch, share);
	window_counted(wanted, connection,
		       host ? &host->connections : &slot->members,
		       &connection->member, bytes, share, whole);
	/* A host uses all of its share where one of its connections waits. */
	if (!host || !lock_take(&host->lock))
		return;
	share = window_share_bytes(wanted, all, NULL, number, large, others);
	window_counted(wanted, connection, &slot->members, &host->member, bytes,
		       share, whole);
	lock_release(&host->lock);
}

/* What came of a share, where more than a whole one does not count. */
static __always_inline void window_unheld_counted(struct share_sum *sum,
						  struct share_member *member,
						  u32 bytes, u64 share,
						  int large)
{
	u64 part = (u64)bytes * SHARE_ONE / aqm_max(share, 1);

	share_anew(member, sum->epoch);
	part = aqm_min(part, SHARE_ONE - aqm_min(member->part, SHARE_ONE));
	share_count(sum, member, part, large, 0);
}

/* So many bytes came of a flow that no window holds and that slows down by itself;
 * with them it has sent `sent`. It counts for what it uses of one share,
 * for a whole one at most: what it has beyond that is the queue's to take back. Were
 * it more, those with windows would yield to whatever fills what they leave, and
 * never have it back. */
static __always_inline void
window_unheld(const struct window_settings *wanted, struct window_totals *all,
	      const struct window_receiver *receiver,
	      struct share_member *member, u64 sent, u32 bytes, u64 now_ns)
{
	u32 number = receiver->slot;
	struct window_slot *slot = window_slot(all, number);
	u64 others = window_others(wanted, all, now_ns);
	int large = sent >= WINDOW_MUCH;
	u64 epoch = share_epoch(now_ns);
	struct window_host *host = window_host(wanted, receiver, 1);
	u64 share;

	share_second(&slot->members, epoch);
	if (host)
		share_second(&host->connections, epoch);
	share = window_share_bytes(wanted, all, host, number, large, others);
	window_unheld_counted(host ? &host->connections : &slot->members,
			      member, bytes, share, large);
	if (!host || !lock_take(&host->lock))
		return;
	share = window_share_bytes(wanted, all, NULL, number, large, others);
	window_unheld_counted(&slot->members, &host->member, bytes, share,
			      large);
	lock_release(&host->lock);
}

/* A connection has ended; so has a host's use of its share with its last one. */
static __always_inline void window_ended(struct window_totals *all,
					 struct window_host *host,
					 struct window_connection *connection)
{
	struct window_slot *slot = window_slot(all, connection->receiver.slot);

	if (!host) {
		share_ended(&slot->members, &connection->member);
		return;
	}
	share_ended(&host->connections, &connection->member);
	if (host->connections.all.now > 0 || !lock_take(&host->lock))
		return;
	share_ended(&slot->members, &host->member);
	lock_release(&host->lock);
}

/* What comes of a mouse is owed by those who have sent much, and so is what one
 * has on offer when it becomes one of them: at most half a second's, which is
 * paid in one and a half. Nothing is where they leave as much of the rate. */
static __always_inline void
window_owe(const struct window_settings *wanted, struct window_totals *all,
	   const struct window_connection *connection, u32 bytes, u64 now_ns)
{
	struct window_slot *slot = window_slot(all, connection->receiver.slot);
	u64 rate = window_rate(wanted, connection->receiver.slot);
	u64 used = aqm_min(share_most(&slot->members.large), SHARE_ONE);
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
		left = aqm_bytes_in(rate * (SHARE_ONE - used) / SHARE_ONE,
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
	struct window_slot *slot = window_slot(all, connection->receiver.slot);
	s64 owed = slot->owed;

	if (owed > 0 && window_large(connection))
		__sync_fetch_and_add(&slot->owed,
				     -(s64)window_pay(&connection->flow, ack,
						      (u64)owed));
}

#endif
