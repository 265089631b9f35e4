// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Drop tail: one queue, first come, first served. A packet that finds it full
 * is dropped.
 *
 * This file is the template for new disciplines. `weirgate aqm new NAME` copies
 * it. Change the tables first, then NAME_setup(), then NAME_arrive(). aqm.h
 * describes the arguments and the possible answers (`weirgate aqm source aqm.h`
 * prints it). For random drops see red.c, for decisions on departure codel.c,
 * and for two queues mered.c.
 */
#include "aqm.h"
#include "fixed.h"

/*
 * The parameters: name, unit, default, least, most, help. The name ends in its
 * unit. If 0 makes no sense as a value, let it mean "derive it from the link",
 * which setup() does.
 */
#define DROPTAIL_PARAMS(P) \
	P(limit_packets, AQM_PACKETS, 0, 0, 1 << 20, \
	  "maximum queue length in packets; 0: the device's own queue " \
	  "length") \
	P(limit_bytes, AQM_BYTES, 0, 0, AQM_MOST_BYTES, \
	  "maximum queue length in bytes; 0: only packets are limited") \
	P(measure, "bytes|wire", 0, 0, 1, \
	  "which bytes: as the device counts, or on the wire")

/* The state, which starts as all zeros. */
#define DROPTAIL_VARS(N) \
	N(limit_packets, AQM_PACKETS, "limit in force") \
	N(limit_bytes, AQM_BYTES, "limit in force")

/* The statistics. The host already counts arrivals, departures, and marks and
 * drops by reason. Add only what the algorithm alone knows. */
#define DROPTAIL_STATS(N) \
	N(longest_packets, AQM_PACKETS, \
	  "longest queue that an arriving packet found")

AQM_STRUCT_PARAMS(droptail, DROPTAIL_PARAMS);
AQM_STRUCT_VARS(droptail, DROPTAIL_VARS);
AQM_STRUCT_STATS(droptail, DROPTAIL_STATS);

/*
 * Called before the first packet, and after each change of a parameter or of
 * the link. Derive values here to save work at arrivals. Do not change anything
 * that describes the queue, because it may hold packets.
 */
AQM_FN void droptail_setup(struct droptail_vars *v,
			   const struct droptail_params *p,
			   const struct aqm_link *link)
{
	u64 asked = p->limit_packets ? p->limit_packets : link->queue_packets;

	/* The device may not have a queue length of its own. */
	if (!asked)
		asked = 1000;
	v->limit_packets = aqm_min(asked, link->room_packets);
	v->limit_bytes = p->limit_bytes ? p->limit_bytes : AQM_MOST_BYTES;
}

/* Decides on an arriving packet. `at` describes the queue without it. */
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

/* One queue, and no decisions on departure. */
AQM_ONE_FIFO(droptail)

AQM_DISCIPLINE(droptail, DROPTAIL, 1, 4096, AQM_NEEDS_NOTHING,
	       "drop tail: first come, first served")
