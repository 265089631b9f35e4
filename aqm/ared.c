// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ARED: RED that adapts its maximum probability. The only parameter that
 * matters is the length of the queue; MTU and rate come from the link. The
 * arithmetic is in include/ared.h.
 */
#include "ared.h"

#define ARED_PARAMS(P) ARED_COMMON(P) RED_ECN(P)
#define ARED_VARS(N) ARED_CORE(N)
#define ARED_STATS(N) ARED_COUNTED(N)

struct ared_params {
	struct ared_common ared;
	RED_ECN(AQM_PARAM_FIELD)
};

struct ared_vars {
	struct ared_core ared;
};

struct ared_stats {
	struct ared_counted ared;
};

AQM_FN void ared_setup(struct ared_vars *v, const struct ared_params *p,
		       const struct aqm_link *link)
{
	ared_setup_core(&v->ared, &p->ared, link);
}

AQM_FN struct aqm_verdict ared_arrive(struct ared_vars *v,
				      const struct ared_params *p,
				      struct ared_stats *s,
				      const struct aqm_packet *packet,
				      const struct aqm_context *at)
{
	u64 probability = ared_observe(&v->ared, &p->ared, &s->ared, at);

	return red_verdict(&v->ared.red, &p->ared.red, p->ecn != 0, probability,
			   packet, at);
}

AQM_FN u32 ared_choose(struct ared_vars *v, const struct ared_params *p,
		       const struct aqm_context *at)
{
	return 0;
}

AQM_FN struct aqm_verdict ared_depart(struct ared_vars *v,
				      const struct ared_params *p,
				      struct ared_stats *s, u32 queue,
				      const struct aqm_packet *packet,
				      const struct aqm_context *at)
{
	if (!packet) {
		red_emptied(&v->ared.red, at);
		return aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
	}
	red_departed(&v->ared.red, at);
	return aqm_pass(0);
}

AQM_NO_EVICTION(ared)

AQM_DISCIPLINE_TO(ared, ARED, 1, 4096, AQM_NEEDS_RANDOM | AQM_NEEDS_ECN,
		  red_core_end(&v->ared.red),
		  "Adaptive RED: RED that finds its own probability")
