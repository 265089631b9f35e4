// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * BLUE (Feng, Shin, Kandlur and Saha, "The BLUE Active Queue Management
 * Algorithms", 2002): one probability, with which packets are dropped or marked
 * on arrival. Losses from a full queue raise it, and an idle link lowers it.
 * Two changes are at least the freeze time apart, so that each takes effect
 * before the next.
 *
 * Only a full or an empty queue matters. RED's average measures the length of
 * the queue, which says little about the number of flows.
 *
 * Departures from the paper: There is no timer. The next arrival takes off what
 * the idle time lowers, one step for each freeze time. The paper optionally
 * raises the probability above a queue length (its parameter L); here that is
 * `high_packets`.
 */
#include "red.h"

#define BLUE_PARAMS(P) \
	P(limit_packets, AQM_PACKETS, 0, 0, 1 << 20, \
	  "maximum queue length; 0: the length that the device asks for") \
	P(high_packets, AQM_PACKETS, 0, 0, 1 << 20, \
	  "queue length from which the probability rises; 0: the limit") \
	P(increment, AQM_RATIO, AQM_ONE / 400, 1, AQM_ONE, \
	  "increase of the probability in one step") \
	P(decrement, AQM_RATIO, AQM_ONE / 4000, 1, AQM_ONE, \
	  "decrease of the probability in one step") \
	P(freeze_ns, AQM_NS, 100000000, 1000000, 10000000000ULL, \
	  "shortest time between two steps") \
	RED_ECN(P)

#define BLUE_VARS(N) \
	N(probability, AQM_RATIO, "probability of a drop") \
	N(changed_ns, AQM_NS, "when the probability last changed") \
	N(idle_since_ns, AQM_NS, \
	  "start of the idle time that is not yet counted; 0: the link is " \
	  "not idle") \
	N(limit_packets, AQM_PACKETS, "limit in force") \
	N(high_packets, AQM_PACKETS, \
	  "queue length from which the probability rises")

#define BLUE_STATS(N) \
	N(raises, AQM_NUMBER, "increases of the probability") \
	N(falls, AQM_NUMBER, "decreases of the probability") \
	N(peak_probability, AQM_RATIO, "highest probability")

AQM_STRUCT_PARAMS(blue, BLUE_PARAMS);
AQM_STRUCT_VARS(blue, BLUE_VARS);
AQM_STRUCT_STATS(blue, BLUE_STATS);

/* The limit if neither the user nor the device sets one. */
#define BLUE_LIMIT 1000

AQM_FN void blue_setup(struct blue_vars *v, const struct blue_params *p,
		       const struct aqm_link *link)
{
	u64 limit = p->limit_packets ? p->limit_packets : link->queue_packets;

	limit = limit ? limit : BLUE_LIMIT;
	v->limit_packets = aqm_min(limit, link->room_packets);
	v->high_packets = p->high_packets ?
				  aqm_min(p->high_packets, v->limit_packets) :
				  v->limit_packets;
}

AQM_FN void blue_raise(struct blue_vars *v, const struct blue_params *p,
		       struct blue_stats *s, u64 now_ns)
{
	if (v->changed_ns && now_ns - v->changed_ns < p->freeze_ns)
		return;
	v->probability = aqm_min(v->probability + p->increment, AQM_ONE);
	v->changed_ns = now_ns;
	s->raises++;
	s->peak_probability = aqm_max(s->peak_probability, v->probability);
}

/* Takes the steps down for an idle time: none in the rest of the last step's
 * freeze time, then one for each freeze time. */
AQM_FN void blue_idle(struct blue_vars *v, const struct blue_params *p,
		      struct blue_stats *s, u64 now_ns)
{
	u64 steps, frozen_ns = v->changed_ns + p->freeze_ns;
	u64 from = aqm_max(v->idle_since_ns, frozen_ns);

	v->idle_since_ns = now_ns;
	if (!v->probability || now_ns < from)
		return;
	steps = 1 + (now_ns - from) / p->freeze_ns;
	s->falls += steps;
	v->changed_ns = from + (steps - 1) * p->freeze_ns;
	/* More steps than that reach 0. */
	if (steps > v->probability / p->decrement)
		v->probability = 0;
	else
		v->probability -= steps * p->decrement;
}

AQM_FN struct aqm_verdict blue_toss(const struct blue_vars *v,
				    const struct blue_params *p,
				    const struct aqm_packet *packet, u32 random)
{
	if (random >= v->probability)
		return aqm_pass(0);
	if (p->ecn && v->probability < AQM_ONE && aqm_can_mark(packet))
		return aqm_mark(AQM_EARLY_REASON, 0);
	return aqm_drop(AQM_EARLY_REASON);
}

AQM_FN struct aqm_verdict blue_arrive(struct blue_vars *v,
				      const struct blue_params *p,
				      struct blue_stats *s,
				      const struct aqm_packet *packet,
				      const struct aqm_context *at)
{
	struct aqm_verdict verdict;

	if (at->packets)
		v->idle_since_ns = 0;
	else if (v->idle_since_ns)
		blue_idle(v, p, s, at->now_ns);
	if (at->packets >= v->high_packets)
		blue_raise(v, p, s, at->now_ns);
	if (at->packets >= v->limit_packets)
		return aqm_drop(AQM_LIMIT_REASON);
	verdict = blue_toss(v, p, packet, at->random);
	/* If the packet is dropped, the link stays idle. */
	if (verdict.action != AQM_DROP)
		v->idle_since_ns = 0;
	return verdict;
}

AQM_FN u32 blue_choose(struct blue_vars *v, const struct blue_params *p,
		       const struct aqm_context *at)
{
	return 0;
}

AQM_FN struct aqm_verdict blue_depart(struct blue_vars *v,
				      const struct blue_params *p,
				      struct blue_stats *s, u32 queue,
				      const struct aqm_packet *packet,
				      const struct aqm_context *at)
{
	if (packet)
		return aqm_pass(0);
	if (!v->idle_since_ns)
		v->idle_since_ns = at->now_ns;
	return aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
}

AQM_NO_EVICTION(blue)

AQM_DISCIPLINE(blue, BLUE, 1, 4096, AQM_NEEDS_RANDOM | AQM_NEEDS_ECN,
	       "BLUE: a probability that losses raise and an idle link lowers")
