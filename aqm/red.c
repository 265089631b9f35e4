// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * RED: Random Early Detection (Floyd and Jacobson 1993; Braithwaite 2006,
 * sections 2.1, 4.1.2 and 4.2.1).
 *
 * Each arrival updates the average queue. Between two thresholds of the
 * average, packets are dropped or marked at random. The probability rises with
 * the average, and the gaps between drops are uniformly distributed. The
 * arithmetic is in include/red.h.
 *
 * Departure from the paper: the probability does not depend on a packet's size
 * (the paper's byte mode). meredt does that for flows.
 */
#include "red.h"

#define RED_PARAMS(P) RED_COMMON(P) RED_ECN(P)

#define RED_VARS(N) RED_CORE(N)

#define RED_STATS(N) N(peak_average, AQM_BYTES_Q16, "highest average")

struct red_params {
	struct red_common red;
	RED_ECN(AQM_PARAM_FIELD)
};

struct red_vars {
	struct red_core red;
};

AQM_STRUCT_STATS(red, RED_STATS);

AQM_FN void red_setup(struct red_vars *v, const struct red_params *p,
		      const struct aqm_link *link)
{
	red_setup_core(&v->red, &p->red, link);
}

AQM_FN struct aqm_verdict
red_arrive(struct red_vars *v, const struct red_params *p, struct red_stats *s,
	   const struct aqm_packet *packet, const struct aqm_context *at)
{
	struct red_core *red = &v->red;
	u64 probability;

	red_observe(red, &p->red, at);
	s->peak_average = aqm_max(s->peak_average, red->average);
	probability = red_probability(red, red->average, red->max_p);
	return red_verdict(red, &p->red, p->ecn != 0, probability, packet, at);
}

AQM_FN u32 red_choose(struct red_vars *v, const struct red_params *p,
		      const struct aqm_context *at)
{
	return 0;
}

AQM_FN struct aqm_verdict red_depart(struct red_vars *v,
				     const struct red_params *p,
				     struct red_stats *s, u32 queue,
				     const struct aqm_packet *packet,
				     const struct aqm_context *at)
{
	if (!packet) {
		red_emptied(&v->red, at);
		return aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
	}
	red_departed(&v->red, at);
	return aqm_pass(0);
}

AQM_NO_EVICTION(red)

AQM_DISCIPLINE_TO(red, RED, 1, 4096, AQM_NEEDS_RANDOM | AQM_NEEDS_ECN,
		  red_core_end(&v->red), "Random Early Detection")
