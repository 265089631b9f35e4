/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The adaptation step of Adaptive RED, for ared, mered and meredt. The maximum
 * probability follows the load, so that the average queue stays near its target
 * with few flows and with many (Floyd, Gummadi and Shenker 2001; Braithwaite
 * 2006, sections 4.1.3 and 4.2.2).
 *
 * Two targets are available. Braithwaite's is the middle between the
 * thresholds. The paper's is the band from 40 % to 60 % of the way between
 * them, in which nothing changes.
 *
 * Departures from the paper: By default, ared's steps down are the inverse of
 * its steps up (see below). There is no timer; the first arrival after each
 * interval takes the step. After a longer silence, in which the average shows
 * nothing new, there is at most one step.
 */
#ifndef AQM_ARED_H
#define AQM_ARED_H

#include "red.h"

#define ARED_OWN_PARAMS(P, BETA) \
	P(rule, "middle|band", 0, 0, 1, \
	  "hold the average at the middle between the thresholds, or in " \
	  "the band from 40 % to 60 %") \
	P(interval_ns, AQM_NS, 0, 0, 10000000000ULL, \
	  "time between steps; 0: 0.5 s, or more if limit_bytes is set and " \
	  "stands for round trips above 0.1 s") \
	P(alpha, AQM_RATIO, AQM_ONE / 100, 1, AQM_ONE, \
	  "largest increase of the probability in one step, and at most a " \
	  "quarter of it") \
	P(beta, AQM_RATIO, BETA, 0, AQM_ONE - 1, \
	  "factor by which a step lowers the probability; 0: the inverse " \
	  "of an increase") \
	P(most_p, AQM_RATIO, AQM_ONE / 2, 1 << 12, AQM_ONE, \
	  "probability above which it is not increased") \
	P(least_p, AQM_RATIO, 0, 0, AQM_ONE, \
	  "probability below which it is not decreased, at least 0.000001; " \
	  "0: 0.01, or less on a fast link")

/*
 * With the paper's decrease of 0.9 and increase of a quarter, the average is
 * below its target in two of three steps if steps up and down alternate. So
 * ared's decrease is the inverse of the increase. mered and meredt keep the
 * paper's decrease, because they drop packets of few flows only.
 */
#define ARED_COMMON(P) RED_COMMON(P) ARED_OWN_PARAMS(P, 0)
#define ARED_OF_PAPER(P) RED_COMMON(P) ARED_OWN_PARAMS(P, AQM_ONE / 10 * 9)

#define ARED_OWN_VARS(N) \
	N(stepped_ns, AQM_NS, "when the last step was due") \
	N(least_p, AQM_RATIO, "least probability at the upper threshold") \
	N(interval_ns, AQM_NS, "time between steps in force") \
	N(low, AQM_BYTES_Q16, \
	  "average queue below which the probability is decreased") \
	N(high, AQM_BYTES_Q16, \
	  "average queue above which the probability is increased")

#define ARED_CORE(N) RED_CORE(N) ARED_OWN_VARS(N)

#define ARED_COUNTED(N) \
	N(increases, AQM_NUMBER, "increases of the probability") \
	N(decreases, AQM_NUMBER, "decreases of the probability") \
	N(peak_average, AQM_BYTES_Q16, "highest average queue")

/* The base round-trip time that defaults assume. */
#define ARED_ROUND_NS 100000000

struct ared_common {
	struct red_common red;
	ARED_OWN_PARAMS(AQM_PARAM_FIELD, 0)
};

struct ared_core {
	struct red_core red;
	ARED_OWN_VARS(AQM_NUMBER_FIELD)
};

struct ared_counted {
	ARED_COUNTED(AQM_NUMBER_FIELD)
};

/*
 * Derives where the probability starts and how low it may fall.
 *
 * A flow whose window fills the link at a round trip of 100 ms has W packets in
 * flight. If one packet in W is lost, it loses one in each round trip and
 * halves its window each time. So the start value need not be more than 1 / W.
 *
 * It fills the link at a loss of 1.5 / W^2 (RFC 5348 section 3.1, without
 * timeouts). In the middle between the thresholds, that is half of the
 * probability at the upper one. ARED's authors name 0.1 and 0.01, which are
 * more than that above 1.2 and 2.1 Mbit/s. There, a single flow could not fill
 * the link until many steps had been taken, or ever.
 *
 * If the limit determines the thresholds, the target queue is part of the round
 * trip: a limit of one second of the link is for windows of that size.
 *
 * A step waits for five round trips, until the effect of the last one shows,
 * because a sender that loses less takes some round trips to grow. With two
 * round trips, the probability overshot by up to a factor of three. As a queue
 * falls faster than it rises, the average was at 60 % of the way and more with
 * ten and thirty flows.
 */
AQM_FN void ared_automatic(struct ared_core *v, const struct ared_common *p)
{
	u64 packet_ns = aqm_clamp(v->red.packet_ns, 1, 10000000000ULL);
	u64 target_bytes = (v->red.min_bytes + v->red.max_bytes) / 2;
	u64 round_ns = ARED_ROUND_NS;
	u64 window;

	if (red_by_limit(&p->red))
		round_ns += target_bytes * packet_ns / v->red.mtu_bytes;
	window = aqm_max(round_ns / packet_ns, 1);
	if (!p->red.max_p)
		v->red.max_p =
			aqm_clamp(AQM_ONE / window, RED_LEAST_P, v->red.max_p);
	v->least_p = p->least_p ? p->least_p :
				  aqm_min(AQM_ONE / 100,
					  3 * AQM_ONE / window / window);
	v->least_p = aqm_max(v->least_p, RED_LEAST_P);
	v->interval_ns = p->interval_ns;
	if (!v->interval_ns)
		v->interval_ns =
			aqm_clamp(5 * round_ns, 500000000, 10000000000ULL);
}

/* Applies parameters and link. Checked once by the verifier, which requires a
 * global function to return a value. */
AQM_WHOLE_FN u32 ared_setup_core(struct ared_core *v AQM_NONNULL,
				 const struct ared_common *p AQM_NONNULL,
				 const struct aqm_link *link AQM_NONNULL)
{
	u64 adapted, min, width;

	/* Before Linux 6.8 the verifier ignores AQM_NONNULL. */
	if (!v || !p || !link)
		return 0;
	adapted = v->red.max_p;
	red_setup_core(&v->red, &p->red, link);
	ared_automatic(v, p);
	/* Keep what was learned if something else has changed. */
	if (adapted)
		v->red.max_p = adapted;
	min = v->red.min_bytes << RED_PLACES;
	width = (v->red.max_bytes << RED_PLACES) - min;
	if (p->rule) {
		v->low = min + width / 10 * 4;
		v->high = min + width / 10 * 6;
	} else {
		v->low = min + width / 2;
		v->high = v->low;
	}
	return 1;
}

/* Returns the probability after a step down: by beta, or by the inverse of a
 * step up by `more`. Halves fit in 32 bits. */
AQM_FN u64 ared_less(const struct ared_common *p, u64 max_p, u64 more)
{
	u64 factor = p->beta;

	if (!factor)
		factor = aqm_ratio(max_p / 2, (max_p + more) / 2);
	return aqm_scale(max_p, factor);
}

/* Takes one step of the rule in ARED's section 3.1, if one is due. */
AQM_FN void ared_step(struct ared_core *v, const struct ared_common *p,
		      struct ared_counted *s, u64 now_ns)
{
	u64 max_p = v->red.max_p;
	u64 more = aqm_min(p->alpha, max_p / 4);

	if (now_ns - v->stepped_ns < v->interval_ns)
		return;
	if (now_ns - v->stepped_ns < 2 * v->interval_ns)
		v->stepped_ns += v->interval_ns;
	else
		v->stepped_ns = now_ns;
	if (v->red.average > v->high && max_p <= p->most_p) {
		max_p += more;
		s->increases++;
	} else if (v->red.average < v->low && max_p >= v->least_p) {
		max_p = ared_less(p, max_p, more);
		s->decreases++;
	}
	/* From 0 it could not rise again. */
	v->red.max_p = aqm_clamp(max_p, RED_LEAST_P, AQM_ONE);
}

/* Updates the average and the maximum probability at an arrival. Returns RED's
 * p_b. Checked once by the verifier. */
AQM_WHOLE_FN u64 ared_observe(struct ared_core *v AQM_NONNULL,
			      const struct ared_common *p AQM_NONNULL,
			      struct ared_counted *s AQM_NONNULL,
			      const struct aqm_context *at AQM_NONNULL)
{
	/* Before Linux 6.8 the verifier ignores AQM_NONNULL. */
	if (!v || !p || !s || !at)
		return 0;
	red_observe(&v->red, &p->red, at);
	ared_step(v, p, s, at->now_ns);
	s->peak_average = aqm_max(s->peak_average, v->red.average);
	return red_probability(&v->red, v->red.average, v->red.max_p);
}

#endif
