// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * PIE: Proportional Integral controller Enhanced (RFC 8033). Packets are
 * dropped on arrival with a probability that follows the delay of departing
 * packets: in proportion to its distance from a target, and to its change.
 *
 * The delay is that of the last departing packet, as in the RFC's section 5.3
 * and in the kernel by default. The departure rate is not estimated.
 *
 * Departure from the RFC: There is no timer. The next arrival or departure
 * makes the updates that are due, as many as a timer would have and as of those
 * times, until nothing changes any more. At most PIE_CATCH_UP updates are made.
 * By then an idle queue's probability has decayed to (63/64)^512 = 0.0003 of
 * its value, or less.
 */
#include "aqm.h"
#include "fixed.h"

/* Probability 1, with 56 binary places as in the kernel's PIE. */
#define PIE_ONE (1ULL << 56)

#define PIE_CATCH_UP 512

/* A very long delay, RFC 8033 section 5.5. */
#define PIE_LONG_NS 250000000

/* Longer delays are treated as this one. */
#define PIE_MOST_NS 10000000000LL

#define PIE_PARAMS(P) \
	P(limit_packets, AQM_PACKETS, 1000, 1, 1 << 20, \
	  "maximum queue length") \
	P(target_ns, AQM_NS, 15000000, 1000, 1000000000, "target delay") \
	P(update_ns, AQM_NS, 15000000, 1000000, 1000000000, \
	  "time between updates of the probability") \
	P(alpha, "ratio/2^4 per s", 2, 1, 32, \
	  "weight of the delay's distance from the target") \
	P(beta, "ratio/2^4 per s", 20, 1, 160, "weight of the delay's change") \
	P(burst_ns, AQM_NS, 150000000, 0, 10000000000ULL, \
	  "time for which a burst into an idle queue is not dropped") \
	P(ecn, AQM_FLAG, 0, 0, 1, \
	  "mark rather than drop up to a probability of 1/10") \
	P(by_size, AQM_FLAG, 0, 0, 1, \
	  "multiply a packet's drop probability by its size over the MTU")

#define PIE_VARS(N) \
	N(probability, "ratio/2^56", "probability of a drop") \
	N(added, "ratio/2^56", "sum of the probabilities since the last drop") \
	N(delay_ns, AQM_NS, "delay of the last packet that left") \
	N(old_delay_ns, AQM_NS, "that delay at the last update") \
	N(burst_ns, AQM_NS, "time that is left of the burst") \
	N(updated_ns, AQM_NS, "when the last update was due") \
	N(left_ns, AQM_NS, "when the last packet left") \
	N(mtu_bytes, AQM_BYTES, "largest packet") \
	N(limit_packets, AQM_PACKETS, "limit in force") \
	N(begun, AQM_FLAG, "whether a packet has arrived yet")

#define PIE_STATS(N) \
	N(updates, AQM_NUMBER, "updates of the probability") \
	N(peak_probability, "ratio/2^56", "highest probability")

AQM_STRUCT_PARAMS(pie, PIE_PARAMS);
AQM_STRUCT_VARS(pie, PIE_VARS);
AQM_STRUCT_STATS(pie, PIE_STATS);

AQM_FN void pie_setup(struct pie_vars *v, const struct pie_params *p,
		      const struct aqm_link *link)
{
	v->mtu_bytes = aqm_max(link->mtu_bytes, 64);
	v->limit_packets = aqm_min(p->limit_packets, link->room_packets);
	if (!v->begun)
		v->burst_ns = p->burst_ns;
}

/*
 * Scales a weight while p is small (section 5.1): divides it by 2 below 1/10,
 * and by a further 4 for each power of ten down to 10^-6.
 */
AQM_NUMBER_FN u64 pie_scaled(u64 weight, u64 probability)
{
	u64 power = 100;
	u32 i;

	if (probability >= PIE_ONE / 10)
		return weight;
	weight >>= 1;
	AQM_LOOP (i, 5) {
		if (probability >= PIE_ONE / power)
			break;
		weight >>= 2;
		power *= 10;
	}
	return weight;
}

/* Returns the probability after a signed change, while packets wait for
 * `delay`. */
AQM_NUMBER_FN u64 pie_changed(u64 probability, u64 difference, u64 delay)
{
	s64 change = (s64)difference;

	/* Section 5.2: at most 2 % more if p is already 10 %. */
	if (change > (s64)(PIE_ONE / 50) && probability >= PIE_ONE / 10)
		change = (s64)(PIE_ONE / 50);
	/* Section 5.5: faster if the delay is far out of bounds. */
	if (delay > PIE_LONG_NS)
		change += (s64)(PIE_ONE / 50);
	if (change >= 0)
		return aqm_min(probability + (u64)change, PIE_ONE);
	return probability > (u64)-change ? probability - (u64)-change : 0;
}

/*
 * Makes one update (section 4.2): p += alpha (delay - target) + beta (delay -
 * old).
 *
 * alpha and beta are sixteenths per second. One second of delay is 10^9 ns, so
 * a nanosecond changes p by (2^56 / 10^9) / 16 of them. Delays are at most
 * 10^10 ns, alpha is at most 32 and beta at most 160, so the sum is below 2^63.
 */
AQM_FN void pie_update(struct pie_vars *v, const struct pie_params *p,
		       struct pie_stats *s, int queued)
{
	s64 delay = (s64)aqm_min(v->delay_ns, PIE_MOST_NS);
	s64 old = (s64)aqm_min(v->old_delay_ns, PIE_MOST_NS);
	s64 unit = (s64)(PIE_ONE / 1000000000);
	u64 alpha = pie_scaled((p->alpha * (u64)unit) >> 4, v->probability);
	u64 beta = pie_scaled((p->beta * (u64)unit) >> 4, v->probability);
	s64 change = (s64)alpha * (delay - (s64)p->target_ns) +
		     (s64)beta * (delay - old);
	u64 probability = pie_changed(v->probability, (u64)change, (u64)delay);

	s->updates++;
	/* Section 5.4: decays while the link is idle. */
	if (!delay && !old && !queued)
		probability -= probability / 64;
	v->probability = probability;
	v->old_delay_ns = v->delay_ns;
	s->peak_probability = aqm_max(s->peak_probability, probability);
	/* Section 4.4: a queue that is well below target may burst again. */
	if (!probability && (u64)delay < p->target_ns / 2 &&
	    (u64)old < p->target_ns / 2) {
		v->burst_ns = p->burst_ns;
		v->added = 0;
		/* Packets until the next departure are not part of a burst. */
		v->left_ns = 0;
	}
}

/* Makes the updates that are due since the last call; `queued`: a packet has
 * waited since then. */
AQM_FN void pie_catch_up(struct pie_vars *v, const struct pie_params *p,
			 struct pie_stats *s, const struct aqm_context *at,
			 int queued)
{
	u64 old;
	u32 i;

	if (!v->begun) {
		v->begun = 1;
		v->updated_ns = at->now_ns;
	}
	AQM_LONG_LOOP (i, PIE_CATCH_UP) {
		if (at->now_ns - v->updated_ns < p->update_ns)
			return;
		v->updated_ns += p->update_ns;
		old = v->old_delay_ns;
		pie_update(v, p, s, queued);
		/* The second update with no delay allows a burst again. */
		if (!v->probability && !v->delay_ns && !old)
			break;
	}
	/* The remaining updates change nothing. Keep their schedule. */
	v->updated_ns +=
		(at->now_ns - v->updated_ns) / p->update_ns * p->update_ns;
}

/* Whether to drop an arrival (section 4.1). */
AQM_FN int pie_chosen(struct pie_vars *v, const struct pie_params *p,
		      const struct aqm_packet *packet,
		      const struct aqm_context *at)
{
	u64 probability = v->probability;

	if (v->burst_ns)
		return 0;
	if (v->old_delay_ns < p->target_ns / 2 && probability < PIE_ONE / 5)
		return 0;
	if (at->bytes < 2 * v->mtu_bytes)
		return 0;
	if (p->by_size && packet->len <= v->mtu_bytes)
		probability = probability / v->mtu_bytes * packet->len;
	/* Section 5.6: avoid two drops in a row by chance, and long gaps. */
	if (!probability)
		v->added = 0;
	else
		v->added += probability;
	if (v->added < PIE_ONE / 100 * 85)
		return 0;
	if (v->added < PIE_ONE / 2 * 17 && (u64)at->random << 24 >= probability)
		return 0;
	v->added = 0;
	return 1;
}

AQM_FN struct aqm_verdict
pie_arrive(struct pie_vars *v, const struct pie_params *p, struct pie_stats *s,
	   const struct aqm_packet *packet, const struct aqm_context *at)
{
	pie_catch_up(v, p, s, at, at->packets != 0);
	if (at->packets >= v->limit_packets) {
		/* Any drop resets the sum (appendix A.1). */
		v->added = 0;
		return aqm_drop(AQM_LIMIT_REASON);
	}
	if (!pie_chosen(v, p, packet, at))
		return aqm_pass(0);
	if (p->ecn && v->probability <= PIE_ONE / 10 && aqm_can_mark(packet))
		return aqm_mark(AQM_EARLY_REASON, 0);
	return aqm_drop(AQM_EARLY_REASON);
}

AQM_FN u32 pie_choose(struct pie_vars *v, const struct pie_params *p,
		      const struct aqm_context *at)
{
	return 0;
}

AQM_FN struct aqm_verdict pie_depart(struct pie_vars *v,
				     const struct pie_params *p,
				     struct pie_stats *s, u32 queue,
				     const struct aqm_packet *packet,
				     const struct aqm_context *at)
{
	u64 since;

	/* The departing packet has waited, although it no longer counts. */
	pie_catch_up(v, p, s, at, packet != NULL);
	if (!packet) {
		if (!at->packets)
			v->delay_ns = 0;
		return aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
	}
	since = v->left_ns ? at->now_ns - v->left_ns : 0;
	v->left_ns = at->now_ns;
	v->delay_ns = at->packets ? at->now_ns - packet->arrived_ns : 0;
	v->burst_ns = v->burst_ns > since ? v->burst_ns - since : 0;
	return aqm_pass(0);
}

AQM_NO_EVICTION(pie)

AQM_DISCIPLINE(pie, PIE, 1, 4096, AQM_NEEDS_RANDOM | AQM_NEEDS_ECN,
	       "PIE: drops on arrival by a controller of delay")
