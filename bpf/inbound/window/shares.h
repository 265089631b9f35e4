/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The share of each connection in the rate of its slot (share.h), or in the
 * part of its host. A connection that is limited by its window alone counts as
 * using all of its share, whatever has arrived. Otherwise every share would
 * grow after each page, although connections were slowed down for it.
 *
 * Mice, which have sent little, are not delayed. Large senders share the whole
 * rate, and are charged for what mice received. Otherwise that would wait at
 * the far end until the spare rate of the line has drained it, which takes
 * seconds.
 */
#ifndef INBOUND_WINDOW_SHARE_H
#define INBOUND_WINDOW_SHARE_H

#include "share.h"
#include "lock.h"
#include "window/state.h"

/* Returns the rate of a slot, for all its connections. */
static __always_inline u64 window_rate(const struct window_settings *wanted,
				       u32 slot)
{
	/* Linux 6.1 loses the bounds of a number that is spilled before it is
	 * compared. */
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

/* Returns the host of a connection, or NULL if hosts do not share. Creates it
 * if `make` is set. */
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
	/* The blank connection is at least as long, and all zero. */
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

/* Returns the bytes/s of traffic without window control. */
static __always_inline u64 window_others(const struct window_settings *wanted,
					 const struct window_totals *all,
					 u64 now_ns)
{
	const struct share_sum *others = &all->others;

	if (!wanted->beside_others || others->epoch + 1 < share_epoch(now_ns))
		return 0;
	return share_most(&others->all) * 1000 / 1074;
}

/* Counts bytes of traffic without window control. */
static __always_inline void window_other(const struct window_settings *wanted,
					 struct window_totals *all, u32 bytes,
					 u64 now_ns)
{
	if (!wanted->beside_others)
		return;
	share_second(&all->others, share_epoch(now_ns));
	__sync_fetch_and_add(&all->others.all.now, (s64)bytes);
}

/* Returns the share of a member, `large` or not, in bytes/s. `more` is added
 * to the present shares. `others` is the rate of traffic without window
 * control. */
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

/* Returns how much of the excess over a share to ignore. At a few segments per
 * second it is chance how many fall into one second. */
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

/* How much of its share a sender may leave unused: a sixteenth of a
 * second's. */
#define WINDOW_MOMENT 16

/* Updates the part of its share that a connection received. A new large sender
 * counts as having used all. */
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

/* Whether a large connection counts for a whole share. It does if it is limited
 * by its window alone. It also does at once when it becomes large or sends
 * again after a pause. So does a connection that is left to the queue, unless
 * it has left most of its share unused for some seconds. What it leaves
 * temporarily, others take by themselves (window_sampled()) and return when it
 * grows. */
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

/* Counts arriving bytes as a part of a share. */
static __always_inline void
window_counted(const struct window_settings *wanted,
	       const struct window_connection *connection,
	       struct share_sum *sum, struct share_member *member, u32 bytes,
	       u64 share, int whole)
{
	u64 part = (u64)bytes * SHARE_ONE / aqm_max(share, 1);

	share_anew(member, sum->epoch);
	part -= window_forgiven(wanted, connection, member, part, share);
	/* The queue takes back what its sender has beyond its share. */
	if (connection->flow.loose)
		part = aqm_min(part,
			       SHARE_ONE - aqm_min(member->part, SHARE_ONE));
	share_count(sum, member, part, window_large(connection), whole);
}

/* Returns the present share, in bytes per epoch (share_epoch()). */
static __always_inline u64 window_share_bytes(
	const struct window_settings *wanted, struct window_totals *all,
	const struct window_host *host, u32 number, int large, u64 others)
{
	return aqm_bytes_in(window_share(wanted, all, host, number, large, 0,
					 others),
			    1ULL << 30);
}

/* Updates shares when data of a connection arrives. */
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
	/* Without `beside_others` the rate is kept, whatever queue follows. */
	if (wanted->beside_others)
		window_loosens(&connection->flow, bytes, share,
			       window_rate(wanted, number));
	share = aqm_bytes_in(share, 1ULL << 30);
	whole = window_whole(wanted, connection, bytes, epoch, share);
	window_counted(wanted, connection,
		       host ? &host->connections : &slot->members,
		       &connection->member, bytes, share, whole);
	/* A host uses all of its share if one of its connections does. */
	if (!host || !lock_take(&host->lock))
		return;
	share = window_share_bytes(wanted, all, NULL, number, large, others);
	window_counted(wanted, connection, &slot->members, &host->member, bytes,
		       share, whole);
	lock_release(&host->lock);
}

/* Counts arriving bytes of a flow without window control, up to a whole
 * share. */
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

/* Counts arriving bytes of a flow that has no window control but slows down by
 * itself; `sent` is its total. It counts for what it uses of its share, at most
 * a whole share. The queue takes back what it has beyond that. If more counted,
 * controlled senders would yield to whatever fills the gap, and never get it
 * back. */
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

/* Ends a connection. With the last one, ends its host's use of its share. */
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

/* Adds to the debt of large senders what a mouse received, and its outstanding
 * offer when it becomes large. The debt is at most half a second of the rate,
 * which is paid in one and a half seconds. What large senders leave of the rate
 * reduces it. */
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

/* Lets a large sender pay some of the debt with its acknowledgement. */
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
