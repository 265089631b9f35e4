// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * drt: a delay class of the dynamic real-time and non-real-time behaviours
 * (DRT: Loukola, Ruutu and Kilkki, "Dynamic RT/NRT PHB Group", 1998; Mylonas,
 * section 2.3). A packet's urgency selects the class. Its importance, from 1 to
 * 6, decides here whether it is queued.
 *
 * The queue has six levels, a sixth of its limit each. A packet of importance n
 * is queued while the queue is below level n, and dropped above it. In the
 * upper half of level n, the probability that it is queued falls from one to
 * zero. So as the queue grows, the least important packets are dropped first,
 * and the space above is left to more important ones.
 *
 * The importance follows from the packet's code point, which the host passes as
 * its flow (AQM_NEEDS_CODE). No code points are standardized for DRT. These are
 * from the pool for local use (RFC 2474 section 6, pool 2): u iii 11 in binary,
 * where u is 1 for real time and iii is the importance.
 *
 * Departure from the draft: a level refers to the class's own queue, where the
 * draft uses both classes' together.
 */
#include "red.h"

#define DRT_PARAMS(P) \
	P(limit_bytes, AQM_WIRE_BYTES, 0, 0, AQM_MOST_BYTES, \
	  "maximum queue length; 0: what the link sends in " \
	  "`delay_ns`, at least 12 MTU") \
	P(delay_ns, AQM_NS, 60000000, 100000, 10000000000ULL, \
	  "delay of a full queue, if its limit is automatic") \
	P(other, AQM_NUMBER, 1, 1, 6, \
	  "importance of packets whose code point has none of its own")

#define DRT_VARS(N) N(limit_bytes, AQM_WIRE_BYTES, "limit in force")

#define DRT_ARRIVED(N, level) \
	N(arrived_##level, AQM_PACKETS, "packets of importance " #level)
#define DRT_DROPPED(N, level) \
	N(dropped_##level, AQM_PACKETS, "dropped packets of importance " #level)

#define DRT_STATS(N) \
	DRT_ARRIVED(N, 1) \
	DRT_ARRIVED(N, 2) \
	DRT_ARRIVED(N, 3) \
	DRT_ARRIVED(N, 4) \
	DRT_ARRIVED(N, 5) \
	DRT_ARRIVED(N, 6) \
	DRT_DROPPED(N, 1) \
	DRT_DROPPED(N, 2) \
	DRT_DROPPED(N, 3) \
	DRT_DROPPED(N, 4) \
	DRT_DROPPED(N, 5) \
	DRT_DROPPED(N, 6)

AQM_STRUCT_PARAMS(drt, DRT_PARAMS);
AQM_STRUCT_VARS(drt, DRT_VARS);
AQM_STRUCT_STATS(drt, DRT_STATS);

#define DRT_LEVELS 6

AQM_FN void drt_setup(struct drt_vars *v, const struct drt_params *p,
		      const struct aqm_link *link)
{
	u64 rate = link->rate_bytes_s ? link->rate_bytes_s : RED_UNKNOWN_RATE;
	u64 mtu = aqm_clamp(link->mtu_bytes, 64, 65536);
	u64 usual =
		aqm_max(aqm_bytes_in(rate, p->delay_ns), 2 * DRT_LEVELS * mtu);

	v->limit_bytes = aqm_clamp(p->limit_bytes ? p->limit_bytes : usual, 1,
				   AQM_MOST_BYTES);
}

/* Returns the importance that a code point encodes. */
AQM_NUMBER_FN u64 drt_importance(u64 code, u64 other)
{
	u64 level = code >> 2 & 7;

	return (code & 3) == 3 && level >= 1 && level <= DRT_LEVELS ? level :
								      other;
}

/*
 * Returns the drop probability of a packet that would make the queue this long.
 * With a level's height h = limit / 6 it is (queue - (n - 1/2) h) / (h / 2).
 * Computed in twelfths to avoid rounding: (12 queue - (2 n - 1) limit) / limit.
 */
AQM_NUMBER_FN u64 drt_probability(u64 queue, u64 level, u64 limit)
{
	u64 from = (2 * level - 1) * limit;
	u64 twelfths = queue * 2 * DRT_LEVELS;

	if (twelfths <= from)
		return 0;
	return aqm_ratio(twelfths - from, limit);
}

/* Counts by importance without an index, which the verifier could not bound. */
AQM_FN void drt_count(struct drt_stats *s, u64 level, u64 dropped)
{
	s->arrived_1 += level == 1;
	s->arrived_2 += level == 2;
	s->arrived_3 += level == 3;
	s->arrived_4 += level == 4;
	s->arrived_5 += level == 5;
	s->arrived_6 += level == 6;
	s->dropped_1 += dropped & (level == 1);
	s->dropped_2 += dropped & (level == 2);
	s->dropped_3 += dropped & (level == 3);
	s->dropped_4 += dropped & (level == 4);
	s->dropped_5 += dropped & (level == 5);
	s->dropped_6 += dropped & (level == 6);
}

AQM_FN struct aqm_verdict
drt_arrive(struct drt_vars *v, const struct drt_params *p, struct drt_stats *s,
	   const struct aqm_packet *packet, const struct aqm_context *at)
{
	u64 level = drt_importance(packet->flow, p->other);
	u64 queue = aqm_min(at->wire, AQM_MOST_BYTES) + packet->wire;
	u64 probability = drt_probability(queue, level, v->limit_bytes);
	u64 dropped = at->random < probability;

	/* The first packet always fits. */
	if (!at->packets)
		dropped = 0;
	drt_count(s, level, dropped);
	if (!dropped)
		return aqm_pass(0);
	if (queue > v->limit_bytes)
		return aqm_drop(AQM_LIMIT_REASON);
	return aqm_drop(probability >= AQM_ONE ? AQM_FORCED_REASON :
						 AQM_EARLY_REASON);
}

AQM_ONE_FIFO(drt)

AQM_DISCIPLINE(drt, DRT, 1, 4096, AQM_NEEDS_RANDOM | AQM_NEEDS_CODE,
	       "DRT: six importance levels, the least important dropped first")
