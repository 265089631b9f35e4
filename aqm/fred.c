// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * FRED: Flow RED (Lin and Morris, "Dynamics of Random Early Detection", 1997).
 * It is RED that also counts the queued packets of each flow:
 *
 * - Each flow may have a few packets without random drops (`flow_min_packets`),
 *   so that flows with small windows are spared.
 * - No flow may have more than RED's lower threshold, or more than two packets
 *   while the average is above the upper one.
 * - A flow that reaches this bound gets a strike. A flow with more than one
 *   strike may have no more than the mean of the active flows.
 *
 * A flow without queued packets is forgotten, with its strikes.
 *
 * Departures from the paper: Lengths are bytes, and a packet is one MTU where
 * the paper counts packets. A flow is one of 1024 hash buckets. Above the upper
 * threshold, flows below their two packets are admitted (the paper's section on
 * many flows), and others are dropped.
 */
#include "red.h"

#define FRED_FLOWS 1024

/* What a flow may have while the average is above the upper threshold. */
#define FRED_MANY_PACKETS 2

#define FRED_OWN_PARAMS(P) \
	P(flow_min_packets, AQM_PACKETS, 2, 1, 1024, \
	  "full packets that a flow may queue without random drops") \
	RED_ECN(P) \
	AQM_FLOWS_PARAM(P)

#define FRED_PARAMS(P) RED_COMMON(P) FRED_OWN_PARAMS(P)

#define FRED_OWN_VARS(N) \
	N(active, AQM_FLOWS, "flows that have packets in the queue") \
	N(mean_bytes, AQM_BYTES, \
	  "average queue divided by the number of these flows")

#define FRED_VARS(N) RED_CORE(N) FRED_OWN_VARS(N)

#define FRED_STATS(N) \
	N(strikes, AQM_NUMBER, "times that a flow reached its bound") \
	N(peak_active, AQM_FLOWS, "most flows that had packets at one time")

struct fred_flow {
	u32 bytes;
	u32 packets;
	u32 strikes;
	u32 pad;
};

struct fred_params {
	struct red_common red;
	FRED_OWN_PARAMS(AQM_PARAM_FIELD)
};

struct fred_vars {
	struct red_core red;
	FRED_OWN_VARS(AQM_NUMBER_FIELD)
	struct fred_flow flows[FRED_FLOWS];
};

AQM_STRUCT_STATS(fred, FRED_STATS);

AQM_FN void fred_setup(struct fred_vars *v, const struct fred_params *p,
		       const struct aqm_link *link)
{
	red_setup_core(&v->red, &p->red, link);
}

AQM_FN struct fred_flow *fred_flow(struct fred_vars *v,
				   const struct aqm_packet *packet)
{
	return &v->flows[AQM_MASKED(packet->flow >> 22, FRED_FLOWS - 1)];
}

/* Whether a flow has reached its bound, for which it gets a strike. */
AQM_FN int fred_full(const struct fred_vars *v, const struct fred_flow *flow)
{
	const struct red_core *red = &v->red;
	u64 average = red->average >> RED_PLACES;
	u64 most = average >= red->max_bytes ?
			   FRED_MANY_PACKETS * red->mtu_bytes :
			   red->min_bytes;

	if (flow->bytes >= most)
		return 1;
	if (average >= red->max_bytes && flow->bytes > 2 * v->mean_bytes)
		return 1;
	return flow->strikes > 1 && flow->bytes >= v->mean_bytes;
}

AQM_FN struct aqm_verdict fred_arrive(struct fred_vars *v,
				      const struct fred_params *p,
				      struct fred_stats *s,
				      const struct aqm_packet *packet,
				      const struct aqm_context *at)
{
	struct fred_flow *flow = fred_flow(v, packet);
	struct red_core *red = &v->red;
	struct aqm_verdict verdict;
	u64 spared, probability;

	red_observe(red, &p->red, at);
	v->mean_bytes = aqm_max(
		(red->average >> RED_PLACES) / aqm_max(v->active, 1), 1);
	if (flow->packets && fred_full(v, flow)) {
		flow->strikes++;
		s->strikes++;
		return aqm_drop(AQM_FORCED_REASON);
	}
	spared = aqm_max(p->flow_min_packets * red->mtu_bytes, v->mean_bytes);
	probability = red_probability(red, red->average, red->max_p);
	/* Above the upper threshold only the bound counts. */
	if (flow->bytes < spared ||
	    red->average >> RED_PLACES >= red->max_bytes)
		probability = 0;
	verdict =
		red_verdict(red, &p->red, p->ecn != 0, probability, packet, at);
	if (verdict.action == AQM_DROP)
		return verdict;
	if (!flow->packets) {
		v->active++;
		s->peak_active = aqm_max(s->peak_active, v->active);
	}
	flow->packets++;
	flow->bytes += packet->len;
	return verdict;
}

AQM_FN u32 fred_choose(struct fred_vars *v, const struct fred_params *p,
		       const struct aqm_context *at)
{
	return 0;
}

AQM_FN struct aqm_verdict fred_depart(struct fred_vars *v,
				      const struct fred_params *p,
				      struct fred_stats *s, u32 queue,
				      const struct aqm_packet *packet,
				      const struct aqm_context *at)
{
	struct red_core *red = &v->red;
	struct fred_flow *flow;

	if (!packet) {
		red_emptied(red, at);
		return aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
	}
	flow = fred_flow(v, packet);
	flow->packets -= (u32)aqm_min(flow->packets, 1);
	flow->bytes -= (u32)aqm_min(flow->bytes, packet->len);
	if (!flow->packets) {
		flow->bytes = 0;
		flow->strikes = 0;
		v->active -= aqm_min(v->active, 1);
	}
	red_departed(red, at);
	/* The paper updates the average at departures too, so that it falls
	 * while nothing arrives. */
	if (at->packets)
		red->average = red_average(
			red->average, red_queue(red, &p->red, at), red->weight);
	return aqm_pass(0);
}

AQM_NO_EVICTION(fred)

AQM_DISCIPLINE(fred, FRED, 1, 4096,
	       AQM_NEEDS_RANDOM | AQM_NEEDS_FLOW | AQM_NEEDS_PARTS |
		       AQM_NEEDS_QUEUE | AQM_NEEDS_ECN,
	       "Flow RED: RED by what each flow has in the queue")
