// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * mered: mice and elephants (Braithwaite 2006, sections 4.1.4 and 4.2.3).
 *
 * A flow is a mouse until it has sent a threshold of bytes, then an elephant.
 * Mice have a queue with strict priority. If ARED chooses a mouse's packet for
 * a drop, the packet is spared. The drop is deferred to the next packet of an
 * elephant, unless the queue fills up first. The queue and drops have separate
 * thresholds.
 *
 * As in the thesis, the queue is measured in packets unless configured
 * otherwise.
 */
#include "ared.h"
#include "flows.h"

enum { MERED_MICE = 0, MERED_ELEPHANTS = 1 };

#define MERED_OWN_PARAMS(P) \
	P(queue_bytes, AQM_BYTES, 20000, 0, AQM_MOST_BYTES, \
	  "a flow goes to the elephants' queue once it has sent this") \
	P(drop_bytes, AQM_BYTES, 20000, 0, AQM_MOST_BYTES, \
	  "a flow may lose packets to early drops once it has sent this") \
	P(age_ns, AQM_NS, 60000000000ULL, 1000000000, 3600000000000ULL, \
	  "a flow silent for this long is forgotten") \
	AQM_FLOWS_PARAM(P)

#define MERED_PARAMS(P) ARED_OF_PAPER(P) RED_ECN(P) MERED_OWN_PARAMS(P)

#define MERED_OWN_VARS(N) \
	N(owed, AQM_FLAG, \
	  "whether a mouse was spared, and no elephant's packet has been " \
	  "dropped in its place yet") \
	N(mice_packets, AQM_PACKETS, "packets in the mice's queue")

#define MERED_VARS(N) ARED_CORE(N) FLOW_CORE(N) MERED_OWN_VARS(N)

#define MERED_OWN_STATS(N) \
	N(mouse_packets, AQM_PACKETS, "arrivals for the mice's queue") \
	N(spared, AQM_PACKETS, \
	  "packets of mice that were chosen for a drop and spared")

#define MERED_STATS(N) ARED_COUNTED(N) MERED_OWN_STATS(N)

struct mered_params {
	struct ared_common ared;
	RED_ECN(AQM_PARAM_FIELD)
	MERED_OWN_PARAMS(AQM_PARAM_FIELD)
};

struct mered_vars {
	struct ared_core ared;
	struct flow_core flow;
	MERED_OWN_VARS(AQM_NUMBER_FIELD)
	struct flow_table table;
};

struct mered_stats {
	struct ared_counted ared;
	MERED_OWN_STATS(AQM_NUMBER_FIELD)
};

AQM_FN void mered_setup(struct mered_vars *v, const struct mered_params *p,
			const struct aqm_link *link)
{
	ared_setup_core(&v->ared, &p->ared, link);
}

AQM_FN struct aqm_verdict mered_arrive(struct mered_vars *v,
				       const struct mered_params *p,
				       struct mered_stats *s,
				       const struct aqm_packet *packet,
				       const struct aqm_context *at)
{
	const struct red_common *common = &p->ared.red;
	struct red_core *red = &v->ared.red;
	u64 probability = ared_observe(&v->ared, &p->ared, &s->ared, at);
	struct flow *flow = flow_of(&v->table, &v->flow, packet->flow,
				    at->now_ns, p->age_ns, 0);
	u32 queue = flow->bytes < p->queue_bytes ? MERED_MICE : MERED_ELEPHANTS;
	int mouse = flow->bytes < p->drop_bytes;
	u32 reason = AQM_NONE_REASON;

	flow->bytes += packet->len;
	if (queue == MERED_MICE)
		s->mouse_packets++;
	if (red_queue(red, common, at) + red_size(red, common, packet) >
	    red->limit_bytes) {
		/* The queue is full: this drop replaces the deferred one. */
		v->owed = 0;
		return aqm_drop(AQM_LIMIT_REASON);
	}
	if (v->owed) {
		if (!mouse)
			reason = AQM_OWED_REASON;
	} else if (red_chosen(red, probability, at->random)) {
		if (probability >= AQM_ONE && !mouse)
			return aqm_drop(AQM_FORCED_REASON);
		if (mouse) {
			v->owed = 1;
			s->spared++;
		} else {
			reason = AQM_EARLY_REASON;
		}
	}
	if (reason != AQM_NONE_REASON) {
		v->owed = 0;
		if (!p->ecn || !aqm_can_mark(packet))
			return aqm_drop(reason);
	}
	if (queue == MERED_MICE)
		v->mice_packets++;
	if (reason != AQM_NONE_REASON)
		return aqm_mark(reason, queue);
	return aqm_pass(queue);
}

AQM_FN u32 mered_choose(struct mered_vars *v, const struct mered_params *p,
			const struct aqm_context *at)
{
	return v->mice_packets ? MERED_MICE : MERED_ELEPHANTS;
}

AQM_FN struct aqm_verdict mered_depart(struct mered_vars *v,
				       const struct mered_params *p,
				       struct mered_stats *s, u32 queue,
				       const struct aqm_packet *packet,
				       const struct aqm_context *at)
{
	if (!packet) {
		red_emptied(&v->ared.red, at);
		return aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
	}
	if (queue == MERED_MICE)
		v->mice_packets--;
	red_departed(&v->ared.red, at);
	return aqm_pass(queue);
}

AQM_NO_EVICTION(mered)

AQM_DISCIPLINE_TO(mered, MERED, 2, 4096,
		  AQM_NEEDS_RANDOM | AQM_NEEDS_FLOW | AQM_NEEDS_PARTS |
			  AQM_NEEDS_ECN,
		  red_core_end(&v->ared.red),
		  "mice and elephants: short flows go first and are spared")
