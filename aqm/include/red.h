/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The arithmetic of Random Early Detection, shared by RED, ARED and the
 * disciplines for mice and elephants: the average, its decay while the link is
 * idle, the probability curve and the spacing of drops. It does not know flows.
 *
 * Floyd and Jacobson, "Random Early Detection Gateways for Congestion
 * Avoidance", 1993 ("RED"); Floyd, "Recommendation on using the gentle
 * variant", 2000; Floyd, Gummadi and Shenker, "Adaptive RED", 2001 ("ARED");
 * Braithwaite 2006, sections 4.1.2 and 4.2.1.
 *
 * All queue lengths are bytes. A discipline that counts packets passes each as
 * one byte. Averages and thresholds are below 2^30 bytes and have 16 binary
 * places, so they fit in 46 bits.
 */
#ifndef AQM_RED_H
#define AQM_RED_H

#include "aqm.h"
#include "fixed.h"

/* Binary places of an average. */
#define RED_PLACES 16

enum red_gentle {
	RED_NOT_GENTLE = 0, /* RED: everything is dropped
			     * above the upper threshold */
	RED_TO_LIMIT = 1, /* Braithwaite: rises to 1 at the limit */
	RED_TO_DOUBLE = 2, /* Floyd 2000: rises to 1 at twice the threshold */
};

enum red_idle {
	RED_EXACT = 0, /* RED's (1 - w)^m */
	RED_PARABOLA = 1, /* Braithwaite's approximation of it */
};

/* How the queue is measured. */
enum red_measure {
	RED_IN_BYTES = 0, /* as the device counts */
	RED_IN_PACKETS = 1, /* each packet as large as the MTU */
	RED_ON_WIRE = 2, /* with the link layer's overhead */
};

/* Parameters of every discipline that uses this file. */
#define RED_COMMON(P) \
	P(limit_bytes, AQM_BYTES, 0, 0, AQM_MOST_BYTES, \
	  "maximum queue length; 0: four times the upper threshold") \
	P(min_bytes, AQM_BYTES, 0, 0, AQM_MOST_BYTES, \
	  "lower threshold of the average queue; 0: a third of the upper " \
	  "one") \
	P(max_bytes, AQM_BYTES, 0, 0, AQM_MOST_BYTES, \
	  "upper threshold of the average queue; 0: from the link's rate " \
	  "and the target delay, at least 15 MTU") \
	P(delay_ns, AQM_NS, 0, 0, 10000000000ULL, \
	  "target of the mean delay, if the thresholds are automatic; 0: 5 " \
	  "ms, or from the limit if that is set") \
	P(weight, AQM_RATIO, 0, 0, AQM_ONE / 2, \
	  "weight of one arrival in the average queue, at least 2^-24; 0: " \
	  "from the link's rate") \
	P(max_p, AQM_RATIO, 0, 0, AQM_ONE, \
	  "probability at the upper threshold, or its first value if it is " \
	  "adapted, at least 0.000001; 0: 0.1, or less if it is adapted on " \
	  "a fast link") \
	P(measure, "bytes|packets|wire", 0, 0, 2, \
	  "unit in which the queue is measured; a packet counts as one MTU") \
	P(gentle, "off|limit|double", 1, 0, 2, \
	  "where the probability reaches 1: at the upper threshold, at the " \
	  "limit, or at twice the threshold") \
	P(idle, "exact|parabola", 0, 0, 1, \
	  "how the average queue falls while the link is idle")

/* For disciplines that only choose between mark and drop. */
#define RED_ECN(P) \
	P(ecn, AQM_FLAG, 0, 0, 1, \
	  "mark rather than drop where the sender understands it")

/* State of every discipline that uses this file. */
#define RED_CORE(N) \
	N(average, AQM_BYTES_Q16, "average queue") \
	N(idle_since_ns, AQM_NS, \
	  "when the queue was last seen empty; 0: an arrival has found " \
	  "packets queued since") \
	N(progress, AQM_RATIO, "sum of the probabilities since the last drop") \
	N(goal, AQM_RATIO, \
	  "sum of the probabilities at which the next drop is due") \
	N(counting, AQM_FLAG, \
	  "whether the average is above its lower threshold") \
	N(max_p, AQM_RATIO, "probability at the upper threshold, in force") \
	N(limit_bytes, AQM_BYTES, "limit in force") \
	N(min_bytes, AQM_BYTES, "lower threshold in force") \
	N(max_bytes, AQM_BYTES, "upper threshold in force") \
	N(end_bytes, AQM_BYTES, \
	  "average queue at which every packet is dropped") \
	N(weight, AQM_RATIO, "weight in force") \
	N(packet_ns, AQM_NS, "time to send one MTU") \
	N(idle_packets, AQM_PACKETS, \
	  "idle time, in packets, after which the average is 0; 0: exact " \
	  "decay") \
	N(mtu_bytes, AQM_BYTES, "largest packet")

struct red_common {
	RED_COMMON(AQM_PARAM_FIELD)
};

struct red_core {
	RED_CORE(AQM_NUMBER_FIELD)
};

/* The target delay if neither a limit nor a delay is set. */
#define RED_DELAY_NS 5000000

/* Assumed rate if the link's is unknown: 10 Mbit/s. It only affects
 * defaults. */
#define RED_UNKNOWN_RATE 1250000

/* Returns avg + w (q - avg). Rounding loses less than 2^-16 byte per
 * arrival. */
AQM_FN u64 red_average(u64 average, u64 queued, u64 weight)
{
	u64 target = queued << RED_PLACES;

	if (target >= average)
		return average + aqm_scale(target - average, weight);
	return average - aqm_scale(average - target, weight);
}

/*
 * Returns the number of packets x0 at which (1 - w)^x0 falls to 1/15,
 * Braithwaite's f: x0 = ln f / ln (1 - w). It uses no logarithms. (1 - w)^n
 * falls with n, so the largest n with (1 - w)^n > f is built bit by bit from
 * the highest, of (1 - w)^(2^i). Used in setup only.
 */
#define RED_IDLE_DIGITS 24

AQM_NUMBER_FN u64 red_idle_packets(u64 weight)
{
	u64 power = AQM_ONE;
	u64 n = 0;
	u32 i, j;

	AQM_LOOP (i, RED_IDLE_DIGITS) {
		u32 digit = RED_IDLE_DIGITS - 1 - i;
		u64 longer = AQM_ONE - weight;

		AQM_LOOP (j, digit)
			longer = aqm_scale(longer, longer);
		longer = aqm_scale(power, longer);
		if (longer > AQM_ONE / 15) {
			power = longer;
			n |= 1ULL << digit;
		}
	}
	return n + 1;
}

/* Returns the part of a packet that could be sent in `rest_ns`, which is less
 * than a packet's time, as a ratio. If a packet takes seconds, some low bits
 * are dropped. */
AQM_FN u64 red_part(const struct red_core *v, u64 rest_ns)
{
	u32 places = v->packet_ns >> 32 ? 16 : 0;

	return aqm_ratio(rest_ns >> places, v->packet_ns >> places);
}

/*
 * Returns the average after an idle time, as if m = idle / s packets had found
 * the queue empty: avg (1 - w)^m. A fraction of a packet counts too, as 1 - w
 * m. Small packets arrive on an idle line at shorter intervals than s, so whole
 * packets alone would never be due.
 *
 * Braithwaite's approximation is (1 - m / x0)^2 up to x0 and 0 beyond. This is
 * the parabola with y(0) = 1, y(x0) = 0 and y'(x0) = 0. It needs one division
 * where the exact power needs up to 64 multiplications, and differs from it by
 * less than 0.08.
 */
AQM_FN u64 red_idle_average(const struct red_core *v, u64 average, u64 idle_ns)
{
	u64 packets = v->packet_ns ? idle_ns / v->packet_ns : 0;
	u64 part = red_part(v, idle_ns - packets * v->packet_ns);
	u64 left;

	if (v->idle_packets) {
		if (packets >= v->idle_packets)
			return 0;
		left = aqm_ratio(v->idle_packets - packets, v->idle_packets) -
		       part / v->idle_packets;
		return aqm_scale(average, aqm_scale(left, left));
	}
	/* This many packets erase any average: (1 - w)^m < 2^-32 is reached at
	 * 22 * 2^24 for the smallest weight allowed, 2^-24. */
	if (packets > 0x7fffffff)
		return 0;
	left = aqm_power(AQM_ONE - v->weight, (u32)packets);
	left = aqm_scale(left, AQM_ONE - aqm_scale(v->weight, part));
	return aqm_scale(average, left);
}

/* Returns (avg - from) / (to - from) as a ratio. Drops 14 of the 16 binary
 * places, so that both fit in 32 bits. */
AQM_FN u64 red_slope(u64 average, u64 from_bytes, u64 to_bytes)
{
	u64 above = average - (from_bytes << RED_PLACES);

	return aqm_ratio(above >> 14, (to_bytes - from_bytes)
					      << (RED_PLACES - 14));
}

/*
 * Returns RED's p_b as a ratio: 0 below the lower threshold, then rising
 * linearly to max_p at the upper one, then (gentle) linearly to 1 at the end.
 * AQM_ONE means that the packet must be dropped.
 */
AQM_FN u64 red_probability(const struct red_core *v, u64 average, u64 max_p)
{
	u64 whole = average >> RED_PLACES;

	if (whole < v->min_bytes)
		return 0;
	if (whole < v->max_bytes)
		return aqm_scale(max_p, red_slope(average, v->min_bytes,
						  v->max_bytes));
	if (whole >= v->end_bytes)
		return AQM_ONE;
	return max_p +
	       aqm_scale(AQM_ONE - max_p,
			 red_slope(average, v->max_bytes, v->end_bytes));
}

/*
 * RED's uniform spacing. p_a = p_b / (1 - count p_b) makes the gap between
 * drops uniform on 1 .. 1/p_b. The same distribution comes from one random
 * number R in [0, 1) drawn at each drop: the next drop is the first packet with
 * count p_b >= R (RED section 11, "Efficient implementation"). The mean gap is
 * (1 + 1/p_b) / 2. This function counts in steps of p_b. That is the same for a
 * constant p_b and follows changes of p_b.
 *
 * Returns whether a drop is due, and then starts the next gap.
 */
AQM_FN int red_due(u64 *progress, u64 *goal, u64 probability, u32 random)
{
	*progress += probability;
	if (*progress < *goal && probability < AQM_ONE)
		return 0;
	*progress = 0;
	*goal = random;
	return 1;
}

/*
 * Returns ARED's automatic weight (its section 4): w = 1 - exp(-1/C) for a link
 * of C packets a second. So the average follows within a second at any speed.
 * As a series with x = 1/C: x - x^2/2 + x^3/6. For C >= 8 the next term is
 * below 2^-18; slower links use C = 8.
 */
AQM_FN u64 red_automatic_weight(u64 packets_s)
{
	u64 x = AQM_ONE / aqm_max(packets_s, 8);
	u64 x2 = aqm_scale(x, x);

	return x - x2 / 2 + aqm_scale(x2, x) / 6;
}

/* The value of RED's authors (RED section 4). */
#define RED_MAX_P (AQM_ONE / 10)

/* The smallest probability that can be set or reached by adaptation. */
#define RED_LEAST_P (AQM_ONE >> 20)

/* Whether `limit_bytes` is the only parameter that limits the queue. */
AQM_FN int red_by_limit(const struct red_common *p)
{
	return p->limit_bytes && !p->min_bytes && !p->max_bytes && !p->delay_ns;
}

/*
 * Derives the values in force. ARED section 4: the lower threshold is 5 packets
 * or half the target delay, whichever is more, and the upper one is three times
 * that. The limit is by default four times the upper threshold. So if only the
 * limit is set, the upper threshold is a quarter of it, and at least 15
 * packets. Does not change the average and the spacing.
 *
 * Checked once by the verifier, which requires a global function to return a
 * value.
 */
AQM_WHOLE_FN u32 red_setup_core(struct red_core *v AQM_NONNULL,
				const struct red_common *p AQM_NONNULL,
				const struct aqm_link *link AQM_NONNULL)
{
	u64 rate, mtu, max, delay, least;

	/* Before Linux 6.8 the verifier ignores AQM_NONNULL. */
	if (!v || !p || !link)
		return 0;
	rate = link->rate_bytes_s ? link->rate_bytes_s : RED_UNKNOWN_RATE;
	mtu = aqm_clamp(link->mtu_bytes, 64, 65536);
	max = p->max_bytes;
	delay = p->delay_ns ? p->delay_ns : RED_DELAY_NS;
	least = aqm_max(5 * mtu, aqm_bytes_in(rate, delay) / 2);
	if (!max) {
		max = 3 * (p->min_bytes ? p->min_bytes : least);
		if (red_by_limit(p))
			max = aqm_max(15 * mtu, p->limit_bytes / 4);
		max = aqm_min(max, AQM_MOST_BYTES / 4);
		if (p->limit_bytes)
			max = aqm_min(max, p->limit_bytes / 2);
	}
	v->max_bytes = aqm_max(max, 2);
	v->min_bytes = p->min_bytes ? p->min_bytes : max / 3;
	/* The slope between them must not be empty. */
	if (v->min_bytes >= v->max_bytes)
		v->min_bytes = v->max_bytes - 1;
	v->limit_bytes = p->limit_bytes ? p->limit_bytes :
					  aqm_min(4 * max, AQM_MOST_BYTES);
	v->end_bytes = v->max_bytes;
	if (p->gentle == RED_TO_LIMIT)
		v->end_bytes = aqm_max(v->limit_bytes, v->max_bytes + 1);
	else if (p->gentle == RED_TO_DOUBLE)
		v->end_bytes = aqm_min(2 * v->max_bytes, AQM_MOST_BYTES);
	v->weight = p->weight ? aqm_max(p->weight, AQM_ONE >> 24) :
				red_automatic_weight(rate / mtu);
	v->packet_ns = mtu * 1000000000 / rate;
	v->idle_packets =
		p->idle == RED_PARABOLA ? red_idle_packets(v->weight) : 0;
	v->mtu_bytes = mtu;
	v->max_p = p->max_p ? aqm_max(p->max_p, RED_LEAST_P) : RED_MAX_P;
	return 1;
}

/* Returns the queue in the unit of the thresholds. */
AQM_FN u64 red_queue(const struct red_core *v, const struct red_common *p,
		     const struct aqm_context *at)
{
	u64 queue = at->bytes;

	if (p->measure == RED_IN_PACKETS)
		queue = at->packets * v->mtu_bytes;
	else if (p->measure == RED_ON_WIRE)
		queue = at->wire;
	return aqm_min(queue, AQM_MOST_BYTES);
}

/* Returns the size of a packet in the same unit. */
AQM_FN u64 red_size(const struct red_core *v, const struct red_common *p,
		    const struct aqm_packet *packet)
{
	if (p->measure == RED_IN_PACKETS)
		return v->mtu_bytes;
	return p->measure == RED_ON_WIRE ? packet->wire : packet->len;
}

/* Updates the average at an arrival. An arrival at an empty queue ends the idle
 * time if it is kept. If it is dropped, the idle time continues from now on. */
AQM_FN void red_observe(struct red_core *v, const struct red_common *p,
			const struct aqm_context *at)
{
	if (!at->packets && v->idle_since_ns)
		v->average = red_idle_average(v, v->average,
					      at->now_ns - v->idle_since_ns);
	else
		v->average =
			red_average(v->average, red_queue(v, p, at), v->weight);
	v->idle_since_ns = at->packets ? 0 : at->now_ns;
}

/* Notes that a departure has left the queue empty. */
AQM_FN void red_departed(struct red_core *v, const struct aqm_context *at)
{
	if (!at->packets)
		v->idle_since_ns = at->now_ns;
}

/* Notes that the queue is empty if no departure did: in a virtual queue
 * (host/virtual.h) none does. */
AQM_FN void red_emptied(struct red_core *v, const struct aqm_context *at)
{
	if (!v->idle_since_ns)
		red_departed(v, at);
}

/* Returns the queue at which everything is dropped; AQM_MOST_BYTES if the limit
 * is smaller. */
AQM_FN u64 red_core_end(const struct red_core *v)
{
	return v->end_bytes <= v->limit_bytes ? v->end_bytes : AQM_MOST_BYTES;
}

/*
 * Whether this arrival is chosen. Below the lower threshold counting stops. The
 * first packet above it only draws the first gap, as RED's count of -1 does.
 */
AQM_FN int red_chosen(struct red_core *v, u64 probability, u32 random)
{
	if (!probability) {
		/* Exactly on the threshold, counting continues. */
		if (v->average >> RED_PLACES < v->min_bytes)
			v->counting = 0;
		return 0;
	}
	if (!v->counting) {
		v->counting = 1;
		v->progress = 0;
		v->goal = random;
		return probability >= AQM_ONE;
	}
	return red_due(&v->progress, &v->goal, probability, random);
}

/* Returns the verdict for an arrival with this probability; `ecn`: whether it
 * may be marked. */
AQM_FN struct aqm_verdict red_verdict(struct red_core *v,
				      const struct red_common *p, int ecn,
				      u64 probability,
				      const struct aqm_packet *packet,
				      const struct aqm_context *at)
{
	u64 queue = red_queue(v, p, at);
	int room = queue + red_size(v, p, packet) <= v->limit_bytes;

	if (red_chosen(v, probability, at->random)) {
		/* RFC 3168 section 7: at probability 1, drop. */
		if (probability >= AQM_ONE)
			return aqm_drop(AQM_FORCED_REASON);
		if (!ecn || !aqm_can_mark(packet))
			return aqm_drop(AQM_EARLY_REASON);
		if (room)
			return aqm_mark(AQM_EARLY_REASON, 0);
	}
	return room ? aqm_pass(0) : aqm_drop(AQM_LIMIT_REASON);
}

#endif
