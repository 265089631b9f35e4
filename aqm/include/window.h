/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The receive window that is offered to a TCP sender so that it keeps to a rate
 * (Shah 1999, chapter 5). The host sees data segments arrive and
 * acknowledgements leave. This file calculates the window that these offer, in
 * bytes, and how long to hold one back. It never sees a packet.
 *
 * Three algorithms:
 *
 *   edge   ours. The right edge of the window, acknowledgement plus window, is
 *          the number of the last byte that the sender may send; it advances at
 *          the rate, in whole segments. So the sender keeps to the rate
 *          whatever the round trip is, and nothing can oscillate.
 *   steps  Shah's algorithm 1 (5.2.1). The window shrinks while the measured
 *          rate is above the limit and grows while it is not. A step is 4096
 *          bytes above 8 kB, 1024 down to 2 kB, and 256 below. The window can
 *          fall under one segment; then sender and receiver wait for each other.
 *   mss    Shah's algorithm 2: steps of one segment, never less than one.
 *
 * Shah's algorithms need the measured rate (meter.h).
 *
 * The window never shrinks below what was offered (RFC 9293 section 3.8.6), and
 * never exceeds the receiver's own offer.
 *
 * If a queue with an AQM follows, windows need not limit every connection.
 * window_beside.h says whom the queue holds as well or better.
 */
#ifndef AQM_WINDOW_H
#define AQM_WINDOW_H

#include "window_beside.h"
#include "window_flow.h"

enum window_algorithm {
	WINDOW_EDGE = 0,
	WINDOW_STEPS = 1,
	WINDOW_MSS = 2,
};

/* The configuration, the same for all connections. */
struct window_rule {
	u64 algorithm; /* enum window_algorithm */
	u64 fixed_bytes; /* this window and no other; 0: by the algorithm */
	u64 horizon_ns; /* edge: at most the rate's bytes of so long are offered,
			 * earned by waiting, or owed; no less than the longest
			 * round trip */
	u64 hold_ns; /* edge: an acknowledgement is held back so long at most */
	u64 initial_bytes; /* edge: on offer before anything came; 0: what the
			    * receiver offers */
	u64 limit_bytes; /* never more than this; 0: no such limit */
	struct meter_rule meter;
};

/* Data came: so many bytes, in segments of at most `mss`. */
AQM_FN void window_arrived(struct window_flow *flow,
			   const struct window_rule *rule, u32 bytes, u32 mss,
			   u64 now_ns)
{
	if (mss > flow->mss)
		flow->mss = mss;
	flow->came = (u32)aqm_min((u64)flow->came + bytes, WINDOW_CAME_MOST);
	window_awaits(flow, bytes, now_ns);
	meter_arrived(&flow->meter, &rule->meter, bytes, now_ns);
}

/* Which bytes came: what crosses the line a second time is owed, because the
 * edge does not go on for it. What comes late, or in place of what was lost
 * before the line, crosses it for the first time. */
AQM_FN void window_numbered(struct window_flow *flow, u32 first, u32 bytes)
{
	u32 end = first + bytes;
	u32 late;

	/* The sender sends nothing that was not offered; whoever else made such
	 * a segment decides nothing. */
	if (!flow->began || (s32)(end - flow->edge) > 0)
		return;
	if (!flow->numbered || (s32)(end - flow->highest) > 0) {
		if (flow->numbered && (s32)(first - flow->highest) > 0)
			flow->missing += first - flow->highest;
		flow->highest = end;
		flow->numbered = 1;
		return;
	}
	late = bytes < flow->missing ? bytes : flow->missing;
	flow->missing -= late;
	flow->credit -= bytes - late;
	flow->again =
		(u32)aqm_min((u64)flow->again + bytes - late, WINDOW_CAME_MOST);
}

/* Of the bytes offered, those that are still to come. */
AQM_FN u32 window_left(const struct window_flow *flow, u32 ack)
{
	s32 left = (s32)(flow->edge - ack);

	return flow->began && left > 0 ? (u32)left : 0;
}

/* The window that is offered before anything came: from the SYN on, because what
 * it offered could not be taken back. */
AQM_FN u32 window_initial(const struct window_rule *rule, u32 offered)
{
	u64 most = rule->fixed_bytes;

	if (!most && rule->algorithm == WINDOW_EDGE)
		most = rule->initial_bytes;
	if (rule->limit_bytes)
		most = aqm_min(most ? most : offered, rule->limit_bytes);
	return most ? (u32)aqm_min(most, offered) : offered;
}

/* What was offered then, in the end, with an acknowledgement. */
AQM_FN void window_begun(struct window_flow *flow, u32 ack, u32 window,
			 u64 now_ns)
{
	u32 edge = ack + window;

	if (!flow->began || (s32)(edge - flow->edge) > 0)
		flow->edge = edge;
	flow->began = 1;
	flow->acked = ack;
	flow->paid_ns = now_ns;
}

/* Whether the sender waits for nothing but its window: the edge has gone on by what
 * was earned, but for `few` bytes, or the two segments that an acknowledgement is for
 * and the two that window_goes_on() keeps. */
AQM_FN int window_binds(const struct window_flow *flow,
			const struct window_rule *rule, u64 few)
{
	return rule->algorithm == WINDOW_EDGE && !rule->fixed_bytes &&
	       flow->began && !flow->loose &&
	       flow->credit < (s64)aqm_max(4 * window_mss(flow), few);
}

/* What others are owed is paid by not going on: with each acknowledgement half of
 * what it is for, so that the sender goes on meanwhile. Returns the bytes. */
AQM_FN u64 window_pay(struct window_flow *flow, u32 ack, u64 owed)
{
	s32 further = (s32)(ack - flow->acked);
	u64 paid;

	if (!flow->began || further <= 0)
		return 0;
	paid = aqm_min(owed, (u64)further / 2);
	flow->credit -= (s64)paid;
	return paid;
}

/* Shah's algorithms: one step, where data came. */
AQM_FN u64 window_step(const struct window_flow *flow,
		       const struct window_rule *rule, u64 rate)
{
	u64 window = flow->window;
	u64 mss = window_mss(flow);
	u64 step = mss;
	u64 least = mss;

	if (rule->algorithm == WINDOW_STEPS) {
		least = 256;
		step = 256;
		if (window > 8192)
			step = 4096;
		else if (window > 2048)
			step = 1024;
	}
	if (flow->meter.rate_bytes_s > rate)
		return window > least + step ? window - step : least;
	return window + step;
}

/* What the time since the last acknowledgement has earned. */
AQM_FN void window_earn(struct window_flow *flow, u64 rate, u64 most,
			u64 now_ns)
{
	u64 elapsed = now_ns - flow->paid_ns;

	if (now_ns < flow->paid_ns)
		return;
	/* Below a microsecond nothing is earned, nor forgotten. */
	elapsed = elapsed / 1000 * 1000;
	flow->paid_ns += elapsed;
	elapsed = aqm_min(aqm_bytes_in(rate, elapsed), 2 * most);
	flow->credit += (s64)elapsed;
	if (flow->credit > (s64)most)
		flow->credit = (s64)most;
}

/* The most that may be on offer, or owed. */
AQM_FN u64 window_most(const struct window_flow *flow,
		       const struct window_rule *rule, u64 rate)
{
	return aqm_max(2 * window_mss(flow),
		       aqm_bytes_in(rate, rule->horizon_ns));
}

/* How far an acknowledgement lets the edge go on, of what was earned: by as much as
 * came since the last one, and where two segments are left by a quarter of the rest,
 * one at least. All of it at once would make one burst of what a sender has on its
 * way: the first acknowledgement after a pause would let go what the whole pause has
 * earned, and the pause would be there again after each round trip. So segments keep
 * the distances that the line gave them (Jacobson 1988, section 1: self-clocking).
 * Where nothing came, no later one is sure to move the edge. */
AQM_FN u64 window_goes_on(const struct window_flow *flow)
{
	u64 earned = flow->credit > 0 ? (u64)flow->credit : 0;
	u64 mss = window_mss(flow);

	if (!flow->came || earned <= flow->came)
		return earned;
	if (earned - flow->came < 2 * mss)
		return flow->came;
	return flow->came + aqm_max((earned - flow->came) / 4, mss);
}

/* Whether something came and the acknowledgement is the last one's again: to a
 * sender without SACK such a one tells of a loss, if its window is the same too
 * (RFC 5681 section 2). One with SACK learns it from the blocks (RFC 6675), and
 * the edge goes on: what a loss holds up would else be on offer at once when it
 * has been repaired, and be lost again where it meets a short queue. */
AQM_FN int window_repeats(const struct window_flow *flow, u32 ack)
{
	return !flow->selective && flow->began && flow->came &&
	       flow->acked == ack;
}

/*
 * The window that an acknowledgement offers, in bytes, where the receiver
 * itself offers `offered` and the rate, unless it is 0, is to be kept. The host
 * reports by window_advertised() what it made of it.
 */
AQM_FN u32 window_offer(struct window_flow *flow,
			const struct window_rule *rule, u64 rate, u32 ack,
			u32 offered, u64 now_ns)
{
	u64 mss = window_mss(flow);
	u64 left = window_left(flow, ack);
	u64 wanted, most;

	/* As long as the sender has something to go on with. */
	if (window_repeats(flow, ack) && left >= mss)
		return (u32)aqm_min(left, offered);
	if (rule->fixed_bytes) {
		wanted = rule->fixed_bytes;
	} else if (!rate) {
		wanted = offered;
	} else if (flow->loose) {
		/* What was on offer beyond a round trip is owed when the edge
		 * goes on at the rate again. All at once, when the queue begins
		 * to hold a sender, would be a burst: as in a slow start, two
		 * segments may leave for each that came. */
		flow->paid_ns = now_ns;
		flow->credit = (s64)window_path(flow, rate) - flow->loose;
		wanted = flow->loose;
		if (flow->came)
			wanted = aqm_min(wanted, left + 2 * (u64)flow->came);
		wanted = aqm_max(wanted, mss);
	} else if (rule->algorithm == WINDOW_EDGE) {
		if (!flow->began) {
			flow->paid_ns = now_ns;
			flow->credit = (s64)(2 * mss);
		}
		most = window_most(flow, rule, rate);
		window_earn(flow, rate, most, now_ns);
		wanted = left;
		/* In whole segments, also up to the most. */
		if (most > left)
			wanted += aqm_min(window_goes_on(flow), most - left) /
				  mss * mss;
		wanted = aqm_max(wanted, mss);
	} else {
		if (!flow->window)
			flow->window = offered < 65535 ? offered : 65535;
		wanted = aqm_min(window_step(flow, rule, rate), offered);
		flow->window = (u32)wanted;
	}
	if (rule->limit_bytes)
		wanted = aqm_min(wanted, aqm_max(rule->limit_bytes, mss));
	return (u32)aqm_min(aqm_max(wanted, left), offered);
}

/*
 * What was offered in the end, after scaling. Returns for how long the
 * acknowledgement is to be held back: where it had to offer more than has been
 * earned, as less than a segment must not be offered, it leaves when that has
 * been.
 */
AQM_FN u64 window_advertised(struct window_flow *flow,
			     const struct window_rule *rule, u64 rate, u32 ack,
			     u32 window, u64 now_ns)
{
	u32 edge = ack + window;
	s64 least = -(s64)window_most(flow, rule, rate);
	u64 leaves = now_ns;
	s32 further;

	if (!flow->began) {
		flow->began = 1;
		flow->edge = ack;
	}
	window_answers(flow, ack, now_ns);
	flow->acked = ack;
	flow->came = 0;
	if ((s32)(ack - flow->highest) >= 0)
		flow->missing = 0;
	further = (s32)(edge - flow->edge);
	if (further > 0) {
		flow->edge = edge;
		flow->credit -= further;
	}
	if (flow->credit < least)
		flow->credit = least;
	if (rule->fixed_bytes || rule->algorithm != WINDOW_EDGE ||
	    flow->loose || !rule->hold_ns || !rate)
		return 0;
	if (flow->credit < 0 && further > 0)
		leaves += (u64)-flow->credit * 1000000000 / aqm_max(rate, 1);
	leaves = aqm_min(leaves, now_ns + rule->hold_ns);
	/* In the order in which they came, however long each is held. */
	flow->leaves_ns = aqm_max(flow->leaves_ns, leaves);
	return flow->leaves_ns - now_ns;
}

#endif
