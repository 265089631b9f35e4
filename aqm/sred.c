// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * SRED: Stabilized RED (Ott, Lakshman and Wong, "SRED: Stabilized RED", 1999).
 * It holds the queue at the same length whatever the number of flows, which it
 * estimates without a table of them.
 *
 * A list stores some recent flows, the paper's zombies. Each arrival is
 * compared with a random one. A match is a hit. After a miss, the packet's flow
 * replaces that entry with probability 1/4. The frequency P of hits is
 * averaged. If n flows send equally it is 1/n, so 1/P is the number of flows.
 *
 * The queue q, in a buffer B, determines a base probability: p_max from B/3 on,
 * a quarter of it from B/6 on, and 0 below. It is multiplied by min(1, 1/(256
 * P)^2), the square of the number of flows up to 256. The probability that TCP
 * needs for its share of the link grows with that square. Full SRED also
 * multiplies by 1 + Hit/P, which drops more packets of flows that are hit
 * often.
 *
 * Departures from the paper: The buffer is in bytes. As in the paper, while the
 * list is not full, it takes a packet's flow without a comparison.
 */
#include "red.h"
#include "mix.h"

#define SRED_ZOMBIES 1024

#define SRED_PARAMS(P) \
	P(limit_bytes, AQM_BYTES, 0, 0, AQM_MOST_BYTES, \
	  "buffer size; 0: what the link sends in `delay_ns`, at least 24 " \
	  "MTU") \
	P(delay_ns, AQM_NS, 60000000, 100000, 10000000000ULL, \
	  "delay of a full buffer, if its size is automatic") \
	P(max_p, AQM_RATIO, AQM_ONE / 20 * 3, 1, AQM_ONE, \
	  "drop probability from a third of the buffer on, for 256 flows " \
	  "or more") \
	P(replace, AQM_RATIO, AQM_ONE / 4, 1, AQM_ONE, \
	  "probability that a flow is replaced in the list after a miss") \
	P(alpha, AQM_RATIO, AQM_ONE / 4000, 1 << 12, AQM_ONE / 2, \
	  "weight of one arrival in the frequency of hits") \
	P(full, AQM_FLAG, 1, 0, 1, \
	  "drop more packets of flows that are hit more often") \
	RED_ECN(P) \
	AQM_FLOWS_PARAM(P)

#define SRED_VARS(N) \
	N(hits, AQM_RATIO, "frequency of hits") \
	N(flows, AQM_FLOWS, "estimated number of flows; 0: unknown") \
	N(known, AQM_FLOWS, "entries of the list that are in use") \
	N(probability, AQM_RATIO, "drop probability of the last packet") \
	N(limit_bytes, AQM_BYTES, "buffer size in force")

#define SRED_STATS(N) \
	N(hit_packets, AQM_PACKETS, "packets whose flow was the one drawn") \
	N(peak_flows, AQM_FLOWS, "highest estimated number of flows")

AQM_STRUCT_PARAMS(sred, SRED_PARAMS);
AQM_STRUCT_STATS(sred, SRED_STATS);

struct sred_vars {
	SRED_VARS(AQM_NUMBER_FIELD)
	u32 zombies[SRED_ZOMBIES];
};

/* The frequency of hits with 256 flows. */
#define SRED_MANY (AQM_ONE / 256)

AQM_FN void sred_setup(struct sred_vars *v, const struct sred_params *p,
		       const struct aqm_link *link)
{
	u64 rate = link->rate_bytes_s ? link->rate_bytes_s : RED_UNKNOWN_RATE;
	u64 mtu = aqm_clamp(link->mtu_bytes, 64, 65536);
	u64 usual = aqm_max(aqm_bytes_in(rate, p->delay_ns), 24 * mtu);

	v->limit_bytes = aqm_clamp(p->limit_bytes ? p->limit_bytes : usual, 1,
				   AQM_MOST_BYTES);
}

AQM_FN u32 *sred_zombie(struct sred_vars *v, u32 place)
{
	return &v->zombies[AQM_MASKED(place, SRED_ZOMBIES - 1)];
}

/* Compares a packet's flow with a random one of the list. Returns whether it
 * was a hit. */
AQM_FN int sred_compare(struct sred_vars *v, const struct sred_params *p,
			u32 flow, u32 random)
{
	u32 *drawn;

	if (v->known < SRED_ZOMBIES) {
		*sred_zombie(v, (u32)v->known) = flow;
		v->known++;
		return 0;
	}
	drawn = sred_zombie(v, aqm_below(aqm_mix(random, 1), SRED_ZOMBIES));
	if (*drawn == flow)
		return 1;
	if (aqm_mix(random, 2) < p->replace)
		*drawn = flow;
	return 0;
}

/* Updates the frequency: P (1 - alpha) + alpha Hit. */
AQM_FN void sred_average(struct sred_vars *v, const struct sred_params *p,
			 struct sred_stats *s, int hit)
{
	v->hits -= aqm_scale(v->hits, p->alpha);
	if (hit)
		v->hits += p->alpha;
	s->hit_packets += hit;
	/* Round to nearest, so that one flow gives one. */
	v->flows = v->hits ? (AQM_ONE + v->hits / 2) / v->hits : 0;
	s->peak_flows = aqm_max(s->peak_flows, v->flows);
}

/*
 * Returns the drop probability of a packet. With P below 1/256 the factor is 1.
 * Otherwise 256 P is above 1, and its inverse is a ratio: 2^32 / (256 P), for P
 * with 32 places 2^56 / P.
 */
AQM_FN u64 sred_probability(const struct sred_vars *v,
			    const struct sred_params *p, u64 queue, int hit)
{
	u64 probability = queue >= v->limit_bytes / 3 ? p->max_p :
			  queue >= v->limit_bytes / 6 ? p->max_p / 4 :
							0;
	u64 inverse;

	if (v->hits > SRED_MANY) {
		inverse = (1ULL << 56) / v->hits;
		probability =
			aqm_scale(probability, aqm_scale(inverse, inverse));
	}
	/* 1 + 1/P. `hits` is at least alpha after a hit. */
	if (hit && p->full && v->hits)
		probability +=
			aqm_min(probability * (AQM_ONE / v->hits), AQM_ONE);
	return aqm_min(probability, AQM_ONE);
}

AQM_FN struct aqm_verdict sred_arrive(struct sred_vars *v,
				      const struct sred_params *p,
				      struct sred_stats *s,
				      const struct aqm_packet *packet,
				      const struct aqm_context *at)
{
	u64 queue = aqm_min(at->bytes, AQM_MOST_BYTES);
	int compared = v->known >= SRED_ZOMBIES;
	int hit = sred_compare(v, p, packet->flow, at->random);

	if (compared)
		sred_average(v, p, s, hit);
	/* The first packet always fits. */
	if (at->packets && queue + packet->len > v->limit_bytes)
		return aqm_drop(AQM_LIMIT_REASON);
	v->probability = compared ? sred_probability(v, p, queue, hit) : 0;
	if (at->random >= v->probability)
		return aqm_pass(0);
	if (p->ecn && v->probability < AQM_ONE && aqm_can_mark(packet))
		return aqm_mark(AQM_EARLY_REASON, 0);
	return aqm_drop(AQM_EARLY_REASON);
}

AQM_ONE_FIFO(sred)

AQM_DISCIPLINE(sred, SRED, 1, 4096,
	       AQM_NEEDS_RANDOM | AQM_NEEDS_FLOW | AQM_NEEDS_PARTS |
		       AQM_NEEDS_ECN,
	       "Stabilized RED: drops by an estimate of the number of flows")
