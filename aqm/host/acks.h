/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The ACK filter of the shaper and of the engine: which TCP acknowledgement
 * that waits is superfluous because another one of its connection arrives.
 *
 * The later one takes the place of the earlier one in its queue, so disciplines
 * and schedulers see nothing of it. Both have equal lengths, so all counts of
 * bytes stay right. An acknowledgement is dropped only if the later one
 *
 * - acknowledges more, so duplicates and window updates stay
 * - has equal ECN flags and AccECN counter (RFC 3168, RFC 9768), and an equal
 *   DS field and ECN field in the IP header
 * - has no older timestamps (RFC 7323)
 *
 * Neither may have data, flags other than ACK, or options other than
 * timestamps. So SACK, D-SACK and AccECN's option stay. Nothing of the
 * connection may have arrived in between, so nothing is overtaken. An
 * acknowledgement that repeats the one before it is never dropped, so a sender
 * counts all duplicates (RFC 5681 section 3.2).
 *
 * The filter of cake, which the HTB tree uses, is the kernel's
 * (cake_ack_filter, net/sched/sch_cake.c). It also drops acknowledgements with
 * SACK blocks and duplicates if a later one has all of their information.
 */
#ifndef AQM_ACKS_H
#define AQM_ACKS_H

#include "aqm.h"

/* How many acknowledgements of a connection wait. */
enum acks_filter {
	ACKS_ALL = 0,
	ACKS_TWO = 1,
	ACKS_ONE = 2,
};

/* What of a segment the filter compares. */
struct acks_segment {
	u32 ack;
	u32 stamp; /* its timestamp and the echoed one; 0: none */
	u32 echo;
	u32 form; /* 0: not a pure acknowledgement; else all that must be equal:
		   * acks_form() */
};

/* What is known of a connection. A place is a slot of the host, numbered from
 * 1. The time of arrival tells whether its packet is still the same. */
struct acks_flow {
	u64 last_ns;
	u64 before_ns;
	u32 last; /* place of the last one, if it may be dropped; else 0 */
	u32 before; /* place of the one that it followed, if that may be
		     * dropped for it */
	struct acks_segment seen; /* the last segment of the connection */
};

enum acks_step {
	ACKS_QUEUE = 0, /* queue the new one */
	ACKS_REPLACE = 1, /* it takes the place of the last one */
	ACKS_SHIFT = 2, /* the last one takes the place of the one before it,
			 * and the new one that of the last one */
};

/* Combines what must be equal: length of the TCP header in words, the flags
 * from AE to ECE, and the byte of DS field and ECN field. Never 0. */
AQM_FN u32 acks_form(u32 words, u32 flags, u32 tos)
{
	return words << 24 | (flags & 0x1c0) << 8 | (tos & 0xff);
}

AQM_FN int acks_no_older(u32 now, u32 before)
{
	return (s32)(now - before) >= 0;
}

/* Whether an acknowledgement is superfluous once a later one follows it. */
AQM_FN int acks_covers(const struct acks_segment *now,
		       const struct acks_segment *before)
{
	return now->form && now->form == before->form &&
	       now->ack != before->ack &&
	       acks_no_older(now->ack, before->ack) &&
	       acks_no_older(now->stamp, before->stamp) &&
	       acks_no_older(now->echo, before->echo);
}

/* Decides about a segment: enum acks_step. The host then checks that the
 * packets in both places still wait. If one does not, it queues the segment. */
AQM_FN u32 acks_decide(const struct acks_flow *flow,
		       const struct acks_segment *now, u32 filter)
{
	if (!flow->last || !acks_covers(now, &flow->seen))
		return ACKS_QUEUE;
	if (filter == ACKS_ONE)
		return ACKS_REPLACE;
	return filter == ACKS_TWO && flow->before ? ACKS_SHIFT : ACKS_QUEUE;
}

/* Notes that a segment took the place of the last one. */
AQM_FN void acks_replaced(struct acks_flow *flow,
			  const struct acks_segment *now)
{
	flow->seen = *now;
}

/* Notes that a segment was queued in `place`; 0: not in a queue that the filter
 * knows. */
AQM_FN void acks_queued(struct acks_flow *flow, const struct acks_segment *now,
			u32 place, u64 now_ns)
{
	int follows = flow->last && acks_covers(now, &flow->seen);

	flow->before = follows ? flow->last : 0;
	flow->before_ns = flow->last_ns;
	/* One that repeats the last one is a duplicate or a window update. */
	flow->last = now->form && now->ack != flow->seen.ack ? place : 0;
	flow->last_ns = now_ns;
	flow->seen = *now;
}

/* Begins with a connection, whose first segment is this one. */
AQM_FN void acks_begin(struct acks_flow *flow, const struct acks_segment *now)
{
	__builtin_memset(flow, 0, sizeof(*flow));
	flow->seen.ack = now->ack - 1;
}

#endif
