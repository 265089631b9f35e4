/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef AQM_WINDOW_BESIDE_H
#define AQM_WINDOW_BESIDE_H

#include "share.h"
#include "window_flow.h"

/*
 * Receive windows in front of a queue with an AQM: which senders to leave to
 * the queue, and the window that these are offered.
 *
 * Windows cost a hundredth of the rate, by which the queue is faster, and with
 * short flows some more hundredths that are reserved for those. The cost of the
 * queue depends on the segments w that a sender has per round trip. It loses
 * 1.5 / w^2 of them (RFC 5348 section 3.1, also CUBIC: RFC 9438 section 4.3),
 * which is 4 % with 6. With more segments, the queue is better for delay too.
 * It spaces departing packets, so that segments of several flows do not collide
 * at the far end.
 *
 * A sender that is left to the queue ("loose") is offered what the path and a
 * short queue hold at its share. So the queue stays below the 5 ms at which
 * CoDel drops (RFC 8289 section 4.4). It never runs empty, it spaces departing
 * packets, and no sender backs off.
 *
 * A loose sender also uses what others leave of their shares temporarily,
 * according to the rate at which packets leave the queue (window_sampled()).
 *
 * On slow lines even one queued segment is a long delay, so windows limit all
 * senders there.
 *
 * A share changes with each page that is fetched. A loose sender stays loose
 * until it has less than WINDOW_HELD_SEGMENTS and uses less than
 * WINDOW_USED_SEGMENTS. Its offer causes no loss, and a window at a rate would
 * use nothing of what a page leaves.
 */
#define WINDOW_LOOSE_SEGMENTS 6
#define WINDOW_HELD_SEGMENTS 5
#define WINDOW_USED_SEGMENTS 3
#define WINDOW_LOOSE_SEGMENT_NS 1000000

/* The target queue of a loose sender. */
#define WINDOW_QUEUED_NS 4000000

/* A loose sender with a shorter queue than this uses what others leave. It is
 * shorter than the target above, so that nobody takes anything while all use
 * their shares. If there is no queue, two more segments are offered: a few
 * segments would grow by less than one, and a receiver acknowledges two. */
#define WINDOW_FILLED_US 3000
#define WINDOW_NONE_US 1000
#define WINDOW_NONE_SEGMENTS 2

/* A connection takes nothing in its first second, because others that begin
 * with it have not reached their shares yet. */
#define WINDOW_BEGINS_NS 1000000000

/* A longer delay than this is not the target queue but a delay inside. */
#define WINDOW_MEANT_US 5000

/* The queue's rate is a hundredth above that of windows, on which the size of a
 * path is based: add 1/64. */
#define WINDOW_BESIDE 64

/* A queue with an AQM is at most a few of its targets. A sender is offered at
 * most twice a round trip with this queue at its share, however long
 * acknowledgements take inside. */
#define WINDOW_QUEUED_MOST_NS 10000000

/* From this part of its share in a second on, a sender counts as having used
 * all of it. Below the second value, it leaves its share to others for
 * longer. */
#define WINDOW_SHARE_HAD (SHARE_ONE - SHARE_ONE / 16)
#define WINDOW_SHARE_LEAST (SHARE_ONE / 4)

/* The longest delay inside that is considered, one second. */
#define WINDOW_INSIDE_MOST_US 1000000

/* A sender that reacts to losses retransmits less than 1/16 of its bytes if it
 * has 16 segments per round trip. A sender that retransmits more, by a quarter
 * of a second of its share, is deaf. The excess of a slow start is no more than
 * what is offered. */
#define WINDOW_AGAIN_PART 16
#define WINDOW_DEAF_NS 250000000

/* Notes a timestamp that leaves with an acknowledgement (RFC 7323 section 3).
 * Waits for the echo of the first acknowledgement that carries it, because
 * later ones echo the same value. */
AQM_FN void window_asks(struct window_flow *flow, u32 stamp, u64 leaves_ns)
{
	if (!flow->asked_ns && stamp != flow->stamp) {
		flow->asked = stamp;
		flow->asked_ns = leaves_ns;
	}
	flow->stamp = stamp;
}

/* Takes a round-trip sample from an echoed timestamp. The data was sent in
 * response to the acknowledgement with that timestamp, or to a later one, so
 * the sample is at least a round trip. A handshake may have waited in the far
 * end's queue, so the minimum counts. */
AQM_FN void window_hears(struct window_flow *flow, u32 echo, u64 now_ns)
{
	u64 us;

	if (!flow->asked_ns || (s32)(echo - flow->asked) < 0 ||
	    now_ns < flow->asked_ns)
		return;
	us = aqm_max((now_ns - flow->asked_ns) / 1000, 1);
	if (!flow->round_trip_us || us < flow->round_trip_us)
		flow->round_trip_us = (u32)us;
	flow->asked_ns = 0;
}

/* Computes once per round trip what would be in flight with a short queue, at
 * the rate at which the queue drains. So it grows by the queue that is missing,
 * and follows the rate down when others start (as FAST TCP does: Wei and others
 * 2006, section IV). Uses the shortest time of an acknowledgement, because
 * others waited for a second segment. */
AQM_FN void window_sampled(struct window_flow *flow, u64 us, u64 now_ns)
{
	u64 elapsed_us = (now_ns - flow->sampled_ns) / 1000;
	u64 filled_us =
		(u64)flow->round_trip_us + flow->inside_us + WINDOW_FILLED_US;
	u64 filled;

	if (!flow->least_us || us < flow->least_us)
		flow->least_us = (u32)aqm_max(us, 1);
	if (!flow->sampled_ns)
		flow->sampled_ns = now_ns + WINDOW_BEGINS_NS;
	if (now_ns < flow->sampled_ns) {
		flow->since = 0;
		return;
	}
	if (elapsed_us < (u64)flow->round_trip_us + us)
		return;
	filled = (u64)flow->since * filled_us / aqm_max(elapsed_us, 1);
	if (flow->least_us < (u64)flow->inside_us + WINDOW_NONE_US)
		filled += WINDOW_NONE_SEGMENTS * window_mss(flow);
	flow->filled = (u32)aqm_min(filled, WINDOW_CAME_MOST);
	flow->since = 0;
	flow->least_us = 0;
	flow->sampled_ns = now_ns;
}

/* Updates the delay inside from the time of an acknowledgement, which includes
 * the queue here. The target queue does not count. Nor does any queue while the
 * sender has its full share. */
AQM_FN void window_learns(struct window_flow *flow, u64 us)
{
	u64 known = flow->inside_us;

	if (us < known)
		flow->inside_us -= (u32)((known - us + 7) / 8);
	else if (flow->had < WINDOW_SHARE_HAD && us > known + WINDOW_MEANT_US)
		flow->inside_us += (u32)((us - known - WINDOW_MEANT_US) / 8);
}

/* Starts waiting for the acknowledgement of arriving data. Not if there is a
 * gap, because the acknowledgement then waits for the missing data. Not for the
 * first of two segments, because it may wait for the second (RFC 9293 section
 * 3.8.6.3). */
AQM_FN void window_awaits(struct window_flow *flow, u32 bytes, u64 now_ns)
{
	if (!flow->numbered || flow->missing)
		return;
	if (flow->awaited_ns &&
	    (flow->awaited != flow->highest - bytes || flow->came <= bytes ||
	     flow->came > 2 * window_mss(flow)))
		return;
	flow->awaited = flow->highest;
	flow->awaited_ns = now_ns;
}

/* Handles a departing acknowledgement. The time since the data arrived is the
 * delay of the end inside and of the way to it, for example over a wireless
 * network, plus the queue here. */
AQM_FN void window_answers(struct window_flow *flow, u32 ack, u64 now_ns)
{
	s32 further = (s32)(ack - flow->acked);
	u64 us;

	if (further > 0)
		flow->since = (u32)aqm_min((u64)flow->since + (u32)further,
					   WINDOW_CAME_MOST);
	if (!flow->awaited_ns || (s32)(ack - flow->awaited) < 0)
		return;
	if (!flow->missing && now_ns >= flow->awaited_ns) {
		us = aqm_min((now_ns - flow->awaited_ns) / 1000,
			     WINDOW_INSIDE_MOST_US);
		window_learns(flow, us);
		window_sampled(flow, us, now_ns);
	}
	flow->awaited_ns = 0;
}

/* Returns the bytes of one round trip at a rate in bytes/s. */
AQM_FN u64 window_path(const struct window_flow *flow, u64 rate)
{
	return aqm_bytes_in(rate, (u64)flow->round_trip_us * 1000);
}

/* Returns the window of a loose sender whose path holds `path` bytes: what its
 * share needs, or what others leave with a short queue. */
AQM_FN u32 window_beside(const struct window_flow *flow, u64 share, u64 path)
{
	u64 most = 2 * (path + aqm_bytes_in(share, WINDOW_QUEUED_MOST_NS));
	u64 needed = path + path / WINDOW_BESIDE +
		     aqm_bytes_in(share, (u64)flow->inside_us * 1000 +
						 WINDOW_QUEUED_NS);

	return (u32)aqm_min(aqm_max(aqm_min(needed, most), flow->filled),
			    WINDOW_CAME_MOST);
}

/* Decides at arriving data whether to leave the sender to the queue. `share` is
 * its share of the total rate `all`. It is left to the queue if losses slow it
 * down, are rare, and keep the line full. */
AQM_FN void window_loosens(struct window_flow *flow, u32 bytes, u64 share,
			   u64 all)
{
	u64 path = window_path(flow, share);
	u64 mss = window_mss(flow);
	u64 used = flow->loose ? flow->filled : 0;
	u64 least = flow->loose ? WINDOW_HELD_SEGMENTS : WINDOW_LOOSE_SEGMENTS;

	flow->again -= (u32)aqm_min(flow->again, bytes / WINDOW_AGAIN_PART);
	if (flow->again > aqm_bytes_in(share, WINDOW_DEAF_NS))
		flow->deaf = 1;
	if (!flow->deaf &&
	    (path >= least * mss || used >= WINDOW_USED_SEGMENTS * mss) &&
	    aqm_bytes_in(all, WINDOW_LOOSE_SEGMENT_NS) >= mss) {
		flow->loose = window_beside(flow, share, path);
	} else {
		flow->loose = 0;
	}
}

#endif
