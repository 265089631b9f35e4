/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is known of a connection whose receive window is chosen (window.h). */
#ifndef AQM_WINDOW_FLOW_H
#define AQM_WINDOW_FLOW_H

#include "aqm.h"
#include "meter.h"

struct window_flow {
	struct meter meter;
	u64 paid_ns; /* the edge's credit is up to then */
	s64 credit; /* bytes that the edge may go on by */
	u64 leaves_ns; /* when the last acknowledgement leaves */
	u64 asked_ns; /* when the one left whose timestamp is waited for; 0: none
		       * is */
	u64 awaited_ns; /* when the data came whose acknowledgement is waited for;
			 * 0: none is */
	u64 sampled_ns; /* when one left that showed it what is on the way */
	u32 mss; /* largest segment that came */
	u32 edge; /* the last byte offered, plus one */
	u32 window; /* of the algorithms with steps */
	u32 began; /* something was offered */
	u32 highest; /* behind the last byte that came */
	u32 numbered; /* something came */
	u32 missing; /* bytes below it that did not */
	u32 acked; /* by the last acknowledgement */
	u32 came; /* bytes that did since */
	u32 selective; /* acknowledgements tell what came beyond a loss */
	u32 round_trip_us; /* of the path; 0: not known */
	u32 asked; /* the timestamp that is waited for */
	u32 stamp; /* of the last acknowledgement */
	u32 loose; /* bytes that may be on offer, whatever was earned; 0: the
		    * edge goes on at the rate */
	u32 awaited; /* behind the last byte of it */
	u32 since; /* bytes that were acknowledged since the last sample */
	u32 filled; /* bytes that would be on the way with a short queue, by it */
	u32 least_us; /* the least that an answer took since; 0: there was none */
	u32 inside_us; /* what an answer takes inside, without a queue */
	u32 had; /* what came in the last second of the share, in SHARE_ONE, or half
		  * of what that was before */
	u32 again; /* bytes that came twice, less those that may */
	u32 deaf; /* losses do not slow the sender down */
};

/* Segments smaller than this are never waited for. */
#define WINDOW_LEAST_MSS 64

/* More than any window. */
#define WINDOW_CAME_MOST (1U << 30)

AQM_FN u32 window_mss(const struct window_flow *flow)
{
	return flow->mss > WINDOW_LEAST_MSS ? flow->mss : WINDOW_LEAST_MSS;
}

#endif
