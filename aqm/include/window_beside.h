/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef AQM_WINDOW_BESIDE_H
#define AQM_WINDOW_BESIDE_H

#include "share.h"
#include "window_flow.h"

/*
 * Receive windows beside a queue with an AQM: which senders the queue limits as well as
 * or better than a window at a rate does, and the window that these are offered.
 *
 * Windows cost a hundredth of the rate, which the queue has beyond them, and with
 * short flows beside some hundredths that are kept free for those. What the queue costs
 * depends on the segments w that a sender has in a round trip: it loses 1.5 / w^2 of
 * them (RFC 5348 section 3.1, CUBIC as well: RFC 9438 section 4.3), which is 4 % with 6.
 * With more, the queue is better for delay too. It spaces what it lets go, so that
 * segments of several flows do not meet at the far end.
 *
 * A sender that is left to the queue is offered what the path and a short queue hold at
 * its share. So the queue stays below the 5 ms at which CoDel drops (RFC 8289 section
 * 4.4): it never runs empty, spaces the packets that leave, and no sender backs off.
 *
 * Such a sender also uses what others leave of their shares for a moment, by the rate
 * at which packets leave the queue (window_sampled).
 *
 * On slow lines a segment of a queue is itself a delay, so windows hold there.
 *
 * A share changes with each page that is fetched. A loose sender stays loose until it
 * has less than WINDOW_HELD_SEGMENTS, and uses less than WINDOW_USED_SEGMENTS: its offer
 * causes no loss, and a window at a rate would use nothing of what a page leaves.
 */
#define WINDOW_LOOSE_SEGMENTS 6
#define WINDOW_HELD_SEGMENTS 5
#define WINDOW_USED_SEGMENTS 3
#define WINDOW_LOOSE_SEGMENT_NS 1000000

/* The queue of a sender that is left to it. */
#define WINDOW_QUEUED_NS 4000000

/* Who has a shorter queue than this takes what others leave: shorter than the one
 * above, so that nobody takes anything where all have their shares. Where there is
 * none, two segments more are on offer: a few segments grow by less than one else, and
 * a receiver answers two. */
#define WINDOW_FILLED_US 3000
#define WINDOW_NONE_US 1000
#define WINDOW_NONE_SEGMENTS 2

/* Nothing is taken in a connection's first second: others that begin with it have not
 * what is theirs yet. */
#define WINDOW_BEGINS_NS 1000000000

/* A queue that is longer than this is not meant to be, so it is not one. */
#define WINDOW_MEANT_US 5000

/* The rate of the queue is a hundredth above that of windows, at which a path is
 * counted. */
#define WINDOW_BESIDE 64

/* A queue with an AQM is a few of its targets at most. For its share a sender has twice
 * a round trip with it on offer at most, whatever an answer takes inside. */
#define WINDOW_QUEUED_MOST_NS 10000000

/* Who had so much of a share in a second had all of it; who had less than the second
 * of these leaves it to others for longer. */
#define WINDOW_SHARE_HAD (SHARE_ONE - SHARE_ONE / 16)
#define WINDOW_SHARE_LEAST (SHARE_ONE / 4)

/* Inside nothing takes longer than a second that is to be waited for. */
#define WINDOW_INSIDE_MOST_US 1000000

/* A sender that listens sends less than a part of 16 twice where it has as many
 * segments. One is deaf if it sends more, by a quarter of a second of its share:
 * what a slow start has beyond the line is no more than what is on offer. */
#define WINDOW_AGAIN_PART 16
#define WINDOW_DEAF_NS 250000000

/* A timestamp leaves with an acknowledgement (RFC 7323 section 3). The first one that
 * has it is waited for: what the sender sends for one after it echoes the same. */
AQM_FN void window_asks(struct window_flow *flow, u32 stamp, u64 leaves_ns)
{
	if (!flow->asked_ns && stamp != flow->stamp) {
		flow->asked = stamp;
		flow->asked_ns = leaves_ns;
	}
	flow->stamp = stamp;
}

/* A timestamp is echoed with data, which was sent for the acknowledgement that had it
 * or for a later one: that took a round trip or longer. A handshake may have waited in
 * the far end's queue, so the least counts. */
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

/* Once in a round trip: what would be on the way with a short queue, at the rate at
 * which the queue has let go. So it grows by the queue that is missing, and follows the
 * rate down when others come (as FAST TCP does: Wei and others 2006, section IV). The
 * least time that an answer took counts, because others waited for a second segment. */
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

/* An answer took so long inside and in the queue here. A queue that is meant to be does
 * not count, nor any where as much comes as the share. */
AQM_FN void window_learns(struct window_flow *flow, u64 us)
{
	u64 known = flow->inside_us;

	if (us < known)
		flow->inside_us -= (u32)((known - us + 7) / 8);
	else if (flow->had < WINDOW_SHARE_HAD && us > known + WINDOW_MEANT_US)
		flow->inside_us += (u32)((us - known - WINDOW_MEANT_US) / 8);
}

/* Data came whose answer may be waited for: not with a gap, because then an answer
 * waits for what fills it, and not the first of two segments, because an answer may
 * wait for the second (RFC 9293 section 3.8.6.3). */
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

/* An acknowledgement leaves. What it took since the data came is what the end inside
 * takes and the way to it, as of a wireless network, and the queue here. */
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

/* Bytes that a round trip at so many bytes a second has. */
AQM_FN u64 window_path(const struct window_flow *flow, u64 rate)
{
	return aqm_bytes_in(rate, (u64)flow->round_trip_us * 1000);
}

/* What is on offer to a sender that is left to the queue, where so many bytes are on
 * the path: what its share needs, or what others leave with a short queue. */
AQM_FN u32 window_beside(const struct window_flow *flow, u64 share, u64 path)
{
	u64 most = 2 * (path + aqm_bytes_in(share, WINDOW_QUEUED_MOST_NS));
	u64 needed = path + path / WINDOW_BESIDE +
		     aqm_bytes_in(share, (u64)flow->inside_us * 1000 +
						 WINDOW_QUEUED_NS);

	return (u32)aqm_min(aqm_max(aqm_min(needed, most), flow->filled),
			    WINDOW_CAME_MOST);
}

/* Chooses with data that came whether the queue behind holds the sender, which has
 * this share of the rate of all: losses slow it down, are few, and leave the line
 * full. */
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
