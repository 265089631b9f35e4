// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * SRED: Stabilized RED (Ott, Lakshman and Wong, "SRED: Stabilized RED", 1999). It holds
 * the queue at the same length whatever the number of flows, which it estimates without
 * a table of them.
 *
 * A list remembers some flows that were seen, the paper's zombies. A packet that comes is
 * compared with one of them, drawn at random. A hit is counted. After a miss the packet's
 * flow takes the drawn one's place, with probability 1/4. The frequency P of hits is
 * averaged. If n flows send alike it is 1/n, so 1/P is the number of flows.
 *
 * The queue q, of a buffer B, gives one of three probabilities: p_max from B/3 on, a
 * quarter of it from B/6 on, and none below. That is multiplied by min(1, 1/(256 P)^2):
 * by the square of the number of flows up to 256, because the probability that TCP needs
 * for a share of the link grows with that square. Full SRED multiplies by 1 + Hit/P, too:
 * who is hit often is dropped more.
 *
 * Departures from the paper: the buffer is of bytes. The list takes a packet's flow for
 * as long as it is not full, without a comparison, as in the paper.
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

/* The frequency of hits at which there are 256 flows. */
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

/* Compares a packet's flow with one of the list; whether that was a hit. */
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

/* P (1 - alpha) + alpha Hit. */
AQM_FN void sred_average(struct sred_vars *v, const struct sred_params *p,
			 struct sred_stats *s, int hit)
{
	v->hits -= aqm_scale(v->hits, p->alpha);
	if (hit)
		v->hits += p->alpha;
	s->hit_packets += hit;
	/* Nearest, so that one flow is one. */
	v->flows = v->hits ? (AQM_ONE + v->hits / 2) / v->hits : 0;
	s->peak_flows = aqm_max(s->peak_flows, v->flows);
}

/*
 * The probability of a packet. With P below 1/256 the square is above 1, else 256 P is
 * above 1, and its inverse a ratio: 2^32 / (256 P), for P with 32 places 2^56 / P.
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
	/* 1 + 1/P: hits is at least alpha where one has just been counted. */
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
	/* The first packet of an empty queue always finds room. */
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
