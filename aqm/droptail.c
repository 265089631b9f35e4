// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Drop tail: one queue, first come first served; who finds it full is dropped.
 *
 * This is the template. `weirgate aqm new NAME` copies this file; change, in
 * this order: the tables, NAME_setup(), NAME_arrive(). Read (`weirgate aqm
 * source aqm.h` prints it) aqm.h for what you are given and what you may answer,
 * red.c for random drops, codel.c for decisions on departure, mered.c for two
 * queues.
 */
#include "aqm.h"
#include "fixed.h"

/*
 * What an administrator may set: name, unit, default, least, most, help.
 * The name ends in its unit. Where 0 makes no sense as a value, let it mean
 * "work it out from the link"; setup() does so.
 */
#define DROPTAIL_PARAMS(P) \
	P(limit_packets, AQM_PACKETS, 0, 0, 1 << 20, \
	  "maximum queue length in packets; 0: the device's own queue " \
	  "length") \
	P(limit_bytes, AQM_BYTES, 0, 0, AQM_MOST_BYTES, \
	  "maximum queue length in bytes; 0: only packets are limited") \
	P(measure, "bytes|wire", 0, 0, 1, \
	  "which bytes: as the device counts, or on the wire")

/* What it remembers from one packet to the next. All zero at the start. */
#define DROPTAIL_VARS(N) \
	N(limit_packets, AQM_PACKETS, "limit in force") \
	N(limit_bytes, AQM_BYTES, "limit in force")

/* What it counts. The host already counts arrivals, departures, and every mark
 * and drop by reason; this is for what only the algorithm knows. */
#define DROPTAIL_STATS(N) \
	N(longest_packets, AQM_PACKETS, \
	  "longest queue that an arriving packet found")

AQM_STRUCT_PARAMS(droptail, DROPTAIL_PARAMS);
AQM_STRUCT_VARS(droptail, DROPTAIL_VARS);
AQM_STRUCT_STATS(droptail, DROPTAIL_STATS);

/*
 * Called before the first packet, and again when a parameter or the link
 * changed. Derive here what arrivals should not have to work out; leave alone
 * what describes the queue, because there may be packets in it.
 */
AQM_FN void droptail_setup(struct droptail_vars *v,
			   const struct droptail_params *p,
			   const struct aqm_link *link)
{
	u64 asked = p->limit_packets ? p->limit_packets : link->queue_packets;

	/* A device without a queue length of its own has none to suggest. */
	if (!asked)
		asked = 1000;
	v->limit_packets = aqm_min(asked, link->room_packets);
	v->limit_bytes = p->limit_bytes ? p->limit_bytes : AQM_MOST_BYTES;
}

/* A packet comes. `at` says what is queued without it. */
AQM_FN struct aqm_verdict droptail_arrive(struct droptail_vars *v,
					  const struct droptail_params *p,
					  struct droptail_stats *s,
					  const struct aqm_packet *packet,
					  const struct aqm_context *at)
{
	u64 bytes = p->measure ? at->wire + packet->wire :
				 at->bytes + packet->len;

	if (at->packets > s->longest_packets)
		s->longest_packets = at->packets;
	if (at->packets >= v->limit_packets || bytes > v->limit_bytes)
		return aqm_drop(AQM_LIMIT_REASON);
	return aqm_pass(0);
}

/* One queue, and packets leave as they are. */
AQM_ONE_FIFO(droptail)

AQM_DISCIPLINE(droptail, DROPTAIL, 1, 4096, AQM_NEEDS_NOTHING,
	       "drop tail: first come, first served")
