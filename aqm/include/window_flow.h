/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state of a connection whose receive window is controlled (window.h). */
#ifndef AQM_WINDOW_FLOW_H
#define AQM_WINDOW_FLOW_H

#include "aqm.h"
#include "meter.h"

struct window_flow {
	struct meter meter;
	u64 paid_ns; /* credit is computed up to this time */
	s64 credit; /* bytes by which the edge may advance */
	u64 leaves_ns; /* when the last acknowledgement leaves */
	u64 asked_ns; /* departure of the acknowledgement whose timestamp is
		       * awaited; 0: none */
	u64 awaited_ns; /* arrival of the data whose
			 * acknowledgement is awaited; 0: none */
	u64 sampled_ns; /* when `filled` was last computed */
	u32 mss; /* largest segment received */
	u32 edge; /* the last byte offered, plus one, before a
		   * window is rounded up for its scale */
	u32 window; /* window of Shah's algorithms */
	u32 began; /* a window was offered */
	u32 highest; /* sequence number after the last byte received */
	u32 numbered; /* data was received */
	u32 missing; /* bytes below `highest` not received */
	u32 acked; /* the last acknowledgement number */
	u32 came; /* bytes received since the last acknowledgement */
	u32 selective; /* selective acknowledgements are in use */
	u32 round_trip_us; /* round trip of the path; 0: unknown */
	u32 asked; /* the timestamp that is awaited */
	u32 stamp; /* timestamp of the last acknowledgement */
	u32 loose; /* window of a sender left to the queue, in bytes; 0: the
		    * edge advances at the rate */
	u32 awaited; /* sequence number after the awaited data */
	u32 since; /* bytes acknowledged since the last sample */
	u32 filled; /* bytes in flight with a short queue, by that sample */
	u32 least_us; /* shortest time of an acknowledgement since; 0: none */
	u32 inside_us; /* time of an acknowledgement inside, without a queue */
	u32 had; /* part of its share received in the last second, in SHARE_ONE,
		  * or half of the previous value */
	u32 again; /* bytes received twice, less the tolerated part */
	u32 deaf; /* the sender does not react to losses */
};

/* Smaller segments than this are never waited for. */
#define WINDOW_LEAST_MSS 64

/* The largest unit of the window scale (RFC 7323 section 2.3). */
#define WINDOW_UNIT_MOST (1 << 14)

/* An upper bound of any window. */
#define WINDOW_CAME_MOST (1U << 30)

AQM_FN u32 window_mss(const struct window_flow *flow)
{
	return flow->mss > WINDOW_LEAST_MSS ? flow->mss : WINDOW_LEAST_MSS;
}

#endif
