// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * CHOKe (Pan, Prabhakar and Psounis, "CHOKe: A Stateless Active Queue
 * Management Scheme for Approximating Fair Bandwidth Allocation", 2000). While
 * RED's average is above its lower threshold, each arrival is compared with a
 * random packet of the queue. If both are of the same flow, both are dropped. A
 * flow with much of the queue is drawn often and arrives often, so it loses
 * most. Otherwise it works as RED.
 *
 * No flow is stored: the queue itself is the sample.
 *
 * Departures from the paper: A packet in the middle of the queue cannot be
 * removed here. It is flagged, no longer counts, and is dropped when it reaches
 * the head. A flagged packet cannot match, so up to three are drawn. Flows are
 * compared by their hash.
 */
#include "red.h"
#include "mix.h"

#define CHOKE_ROOM 4096
#define CHOKE_DRAWS 3

#define CHOKE_OWN_PARAMS(P) RED_ECN(P) AQM_FLOWS_PARAM(P)

#define CHOKE_PARAMS(P) RED_COMMON(P) CHOKE_OWN_PARAMS(P)

#define CHOKE_OWN_VARS(N) \
	N(head, AQM_NUMBER, "slot of the head in the ring of queued packets") \
	N(gone_packets, AQM_PACKETS, \
	  "queued packets that will be dropped at the head") \
	N(gone_bytes, AQM_BYTES, "their bytes") \
	N(gone_wire_bytes, AQM_BYTES, "their bytes on the wire")

#define CHOKE_VARS(N) RED_CORE(N) CHOKE_OWN_VARS(N)

#define CHOKE_STATS(N) \
	N(draws, AQM_PACKETS, \
	  "queued packets that were compared with an arrival") \
	N(matches, AQM_PACKETS, "those of the same flow as the arrival")

struct choke_waiting {
	u32 flow;
	u32 gone;
	u32 len;
	u32 wire;
};

struct choke_params {
	struct red_common red;
	CHOKE_OWN_PARAMS(AQM_PARAM_FIELD)
};

struct choke_vars {
	struct red_core red;
	CHOKE_OWN_VARS(AQM_NUMBER_FIELD)
	struct choke_waiting ring[CHOKE_ROOM];
};

AQM_STRUCT_STATS(choke, CHOKE_STATS);

AQM_FN void choke_setup(struct choke_vars *v, const struct choke_params *p,
			const struct aqm_link *link)
{
	red_setup_core(&v->red, &p->red, link);
}

AQM_FN struct choke_waiting *choke_at(struct choke_vars *v, u32 place)
{
	return &v->ring[AQM_MASKED(place, CHOKE_ROOM - 1)];
}

/* Returns the context without the flagged packets. */
AQM_FN struct aqm_context choke_without(const struct choke_vars *v,
					const struct aqm_context *at)
{
	struct aqm_context left = *at;

	left.packets -= (u32)aqm_min(v->gone_packets, at->packets);
	left.bytes -= aqm_min(v->gone_bytes, at->bytes);
	left.wire -= aqm_min(v->gone_wire_bytes, at->wire);
	return left;
}

/* Compares an arrival with random queued packets, until one is not flagged. If
 * that is of the same flow, flags it and returns 1. */
AQM_FN int choke_match(struct choke_vars *v, struct choke_stats *s, u32 flow,
		       const struct aqm_context *at)
{
	u32 draw;

	AQM_LONG_LOOP (draw, CHOKE_DRAWS) {
		u32 word = aqm_mix(at->random, draw + 1);
		struct choke_waiting *one = choke_at(
			v, (u32)v->head + aqm_below(word, at->packets));

		if (one->gone)
			continue;
		s->draws++;
		if (one->flow != flow)
			return 0;
		one->gone = 1;
		v->gone_packets++;
		v->gone_bytes += one->len;
		v->gone_wire_bytes += one->wire;
		s->matches++;
		return 1;
	}
	return 0;
}

AQM_FN struct aqm_verdict choke_arrive(struct choke_vars *v,
				       const struct choke_params *p,
				       struct choke_stats *s,
				       const struct aqm_packet *packet,
				       const struct aqm_context *at)
{
	struct aqm_context left = choke_without(v, at);
	struct red_core *red = &v->red;
	struct choke_waiting *last;
	struct aqm_verdict verdict;
	u64 probability;

	red_observe(red, &p->red, &left);
	if (at->packets && red->average >> RED_PLACES >= red->min_bytes &&
	    choke_match(v, s, packet->flow, at))
		return aqm_drop(AQM_EARLY_REASON);
	left = choke_without(v, at);
	probability = red_probability(red, red->average, red->max_p);
	verdict = red_verdict(red, &p->red, p->ecn != 0, probability, packet,
			      &left);
	if (verdict.action == AQM_DROP)
		return verdict;
	last = choke_at(v, (u32)v->head + at->packets);
	last->flow = packet->flow;
	last->gone = 0;
	last->len = packet->len;
	last->wire = packet->wire;
	return verdict;
}

AQM_FN u32 choke_choose(struct choke_vars *v, const struct choke_params *p,
			const struct aqm_context *at)
{
	return 0;
}

AQM_FN struct aqm_verdict choke_depart(struct choke_vars *v,
				       const struct choke_params *p,
				       struct choke_stats *s, u32 queue,
				       const struct aqm_packet *packet,
				       const struct aqm_context *at)
{
	struct choke_waiting *first;

	if (!packet) {
		red_emptied(&v->red, at);
		return aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
	}
	red_departed(&v->red, at);
	first = choke_at(v, (u32)v->head);
	v->head = (v->head + 1) & (CHOKE_ROOM - 1);
	if (!first->gone)
		return aqm_pass(0);
	v->gone_packets -= aqm_min(v->gone_packets, 1);
	v->gone_bytes -= aqm_min(v->gone_bytes, first->len);
	v->gone_wire_bytes -= aqm_min(v->gone_wire_bytes, first->wire);
	return aqm_drop(AQM_EVICTED_REASON);
}

AQM_NO_EVICTION(choke)

AQM_DISCIPLINE(choke, CHOKE, 1, CHOKE_ROOM,
	       AQM_NEEDS_RANDOM | AQM_NEEDS_FLOW | AQM_NEEDS_PARTS |
		       AQM_NEEDS_QUEUE | AQM_NEEDS_ECN,
	       "CHOKe: compares with a packet that waits, and drops both")
