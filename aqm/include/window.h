/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Chooses the receive window offered to a TCP sender so that it keeps to a rate
 * (Shah 1999, chapter 5). The host sees data segments arrive and
 * acknowledgements leave. This file computes the window that acknowledgements
 * offer, in bytes, and how long to hold one back. It never sees a packet.
 *
 * Three algorithms:
 *
 *     edge   Our own. The right edge of the window, acknowledgement plus
 *            window, is the sequence number up to which the sender may send.
 *            It advances at the rate, in whole segments. So the sender keeps
 *            to the rate whatever the round trip is, and nothing can oscillate.
 *     steps  Shah's algorithm 1 (5.2.1). The window shrinks while the measured
 *            rate is above the limit, and else grows. A step is 4096 bytes
 *            above 8 kB, 1024 down to 2 kB, and 256 below. The window can fall
 *            below one segment; then sender and receiver wait for each other.
 *     mss    Shah's algorithm 2: steps of one segment, never less than one.
 *
 * Shah's algorithms need the measured rate (meter.h).
 *
 * The window never shrinks below what was offered (RFC 9293 section 3.8.6), but
 * for less than a unit of the window scale (RFC 7323 section 2.4). It never
 * exceeds the receiver's own offer.
 *
 * If a queue with an AQM follows, windows need not limit every connection.
 * window_beside.h decides which senders the queue limits as well or better.
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

/* The configuration, common to all connections. */
struct window_rule {
	u64 algorithm; /* enum window_algorithm */
	u64 fixed_bytes; /* use this window always; 0: use the algorithm */
	u64 horizon_ns; /* edge: at most this time's worth of
			 * the rate may be offered, saved up or
			 * owed; at least the longest round trip */
	u64 hold_ns; /* edge: longest delay of an acknowledgement */
	u64 initial_bytes; /* edge: the window offered before data arrives; 0:
			    * the receiver's */
	u64 limit_bytes; /* largest window; 0: no limit */
	struct meter_rule meter;
};

/* Counts arriving data: `bytes` in segments of at most `mss`. */
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

/* Tracks which bytes arrived. Bytes that cross the line a second time are
 * charged, because the edge does not advance for them. Bytes that arrive late,
 * or replace bytes lost before the line, cross it for the first time. */
AQM_FN void window_numbered(struct window_flow *flow, u32 first, u32 bytes)
{
	u32 end = first + bytes;
	u32 late;

	/* A sender sends only what was offered, which may exceed the edge by
	 * less than a unit of the window scale. Ignore a segment beyond that:
	 * it is forged. */
	if (!flow->began || (s32)(end - flow->edge) >= WINDOW_UNIT_MOST)
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

/* Returns the offered bytes that have not been acknowledged. */
AQM_FN u32 window_left(const struct window_flow *flow, u32 ack)
{
	s32 left = (s32)(flow->edge - ack);

	return flow->began && left > 0 ? (u32)left : 0;
}

/* Returns the window to offer before data arrives. This starts with the SYN,
 * because an offer cannot be taken back. */
AQM_FN u32 window_initial(const struct window_rule *rule, u32 offered)
{
	u64 most = rule->fixed_bytes;

	if (!most && rule->algorithm == WINDOW_EDGE)
		most = rule->initial_bytes;
	if (rule->limit_bytes)
		most = aqm_min(most ? most : offered, rule->limit_bytes);
	return most ? (u32)aqm_min(most, offered) : offered;
}

/* Notes the window that was offered with an acknowledgement before data
 * arrived. */
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

/* Whether the sender is limited by its window alone. Then the edge has advanced
 * by all credit except `few` bytes, or except four segments: the two that an
 * acknowledgement covers and the two that window_goes_on() retains. */
AQM_FN int window_binds(const struct window_flow *flow,
			const struct window_rule *rule, u64 few)
{
	return rule->algorithm == WINDOW_EDGE && !rule->fixed_bytes &&
	       flow->began && !flow->loose &&
	       flow->credit < (s64)aqm_max(4 * window_mss(flow), few);
}

/* Pays the debt of large senders by not advancing: with each acknowledgement by
 * half of what it covers, so that the sender continues to send. Returns the
 * bytes paid. */
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

/* Takes one step of Shah's algorithms, after data arrived. */
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

/* Adds the credit earned since the last acknowledgement. */
AQM_FN void window_earn(struct window_flow *flow, u64 rate, u64 most,
			u64 now_ns)
{
	u64 elapsed = now_ns - flow->paid_ns;

	if (now_ns < flow->paid_ns)
		return;
	/* Time below a microsecond earns nothing yet but is not lost. */
	elapsed = elapsed / 1000 * 1000;
	flow->paid_ns += elapsed;
	elapsed = aqm_min(aqm_bytes_in(rate, elapsed), 2 * most);
	flow->credit += (s64)elapsed;
	if (flow->credit > (s64)most)
		flow->credit = (s64)most;
}

/* Returns the most bytes that may be offered or owed. */
AQM_FN u64 window_most(const struct window_flow *flow,
		       const struct window_rule *rule, u64 rate)
{
	return aqm_max(2 * window_mss(flow),
		       aqm_bytes_in(rate, rule->horizon_ns));
}

/*
 * Returns how far an acknowledgement advances the edge: by as much as arrived
 * since the last one. If at least two segments of credit remain, also by a
 * quarter of the rest, at least one segment.
 *
 * Using all credit at once would make one burst of a sender's flight. The first
 * acknowledgement after a pause would release what the whole pause has earned,
 * and the pause would recur in each round trip. So segments keep the spacing
 * that the line gave them (Jacobson 1988, section 1: self-clocking). If no data
 * arrived, all credit is used, because no later acknowledgement is certain.
 */
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

/* Whether this is a duplicate acknowledgement, for a sender without SACK. To
 * it, the same acknowledgement with the same window signals a loss (RFC 5681
 * section 2), so the window must not change. A sender with SACK learns of a
 * loss from the blocks (RFC 6675), and its edge advances. Otherwise everything
 * that a loss holds up would be offered at once after the repair, and would be
 * lost again in a short queue. */
AQM_FN int window_repeats(const struct window_flow *flow, u32 ack)
{
	return !flow->selective && flow->began && flow->came &&
	       flow->acked == ack;
}

/*
 * Returns the window for an acknowledgement, in bytes. The receiver itself
 * offers `offered`; `rate` is the rate to keep, 0: none. The host reports the
 * window that it wrote by window_advertised().
 */
AQM_FN u32 window_offer(struct window_flow *flow,
			const struct window_rule *rule, u64 rate, u32 ack,
			u32 offered, u64 now_ns)
{
	u64 mss = window_mss(flow);
	u64 left = window_left(flow, ack);
	u64 wanted, most;

	/* But only while the sender may still send a segment. */
	if (window_repeats(flow, ack) && left >= mss)
		return (u32)aqm_min(left, offered);
	if (rule->fixed_bytes) {
		wanted = rule->fixed_bytes;
	} else if (!rate) {
		wanted = offered;
	} else if (flow->loose) {
		/* The offer beyond a round trip counts as debt once the edge
		 * advances at the rate again. Do not offer it all at once when
		 * the queue takes over a sender: that would be a burst. As in
		 * slow start, allow two segments for each one that arrived. */
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
		/* In whole segments, also at the maximum. */
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
 * Notes the window that was offered, before the host rounds it up to units of
 * the window scale. If the rounded edge were noted, it would advance by what
 * each acknowledgement covers, whatever the credit is, if that is less than a
 * unit. Returns how long to hold the acknowledgement back. If it had to offer
 * more than the credit, because less than a segment must not be offered, it
 * leaves when that much has been earned.
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
	/* Keep acknowledgements in order, however long each is held. */
	flow->leaves_ns = aqm_max(flow->leaves_ns, leaves);
	return flow->leaves_ns - now_ns;
}

#endif
