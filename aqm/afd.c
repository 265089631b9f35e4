// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * AFD: Approximate Fair Dropping (Pan, Breslau, Prabhakar and Shenker,
 * "Approximate Fairness through Differential Dropping", 2003). A flow with more
 * than a fair share of recent arrivals loses the excess, and others lose
 * nothing.
 *
 * A shadow buffer stores a sample of the arrivals, and m_i is flow i's part of
 * it. A packet of the flow is dropped with probability 1 - m_fair / m_i, if
 * that is above 0. The fair share is not computed but adjusted until the queue
 * is at its target. At regular intervals
 *
 *     m_fair += alpha (q_before - target) - beta (q - target)
 *
 * with alpha = 1.7 and beta = 1.8, 160 times a second.
 *
 * Departures from the paper: Queues, shares and the shadow buffer count bytes.
 * A flow is one of 1024 hash buckets, so two flows in one bucket have one
 * share. There is no timer: the next arrival makes the updates that are due,
 * with the queue as it is then. The share is at most what is in the shadow
 * buffer.
 */
#include "red.h"
#include "mix.h"

#define AFD_SHADOW 1024
#define AFD_FLOWS 1024

#define AFD_PARAMS(P) \
	P(limit_packets, AQM_PACKETS, 1000, 1, 1 << 20, \
	  "maximum queue length") \
	P(target_bytes, AQM_BYTES, 0, 0, AQM_MOST_BYTES / 2, \
	  "target queue length; 0: what the link sends in `target_ns`, at " \
	  "least 3 MTU") \
	P(target_ns, AQM_NS, 15000000, 1000, 1000000000, \
	  "delay from which an automatic target follows") \
	P(update_ns, AQM_NS, 6250000, 1000000, 1000000000, \
	  "time between updates of the fair share") \
	P(alpha, "ratio/2^8", 435, 0, 4096, \
	  "weight of the queue at the previous update") \
	P(beta, "ratio/2^8", 461, 0, 4096, "weight of the present queue") \
	P(sample, AQM_NUMBER, 5, 1, 1024, \
	  "one packet in this many goes into the shadow buffer") \
	RED_ECN(P) \
	AQM_FLOWS_PARAM(P)

#define AFD_VARS(N) \
	N(fair_bytes, AQM_BYTES, "fair share of the shadow buffer") \
	N(own_bytes, AQM_BYTES, \
	  "share of the shadow buffer that the last packet's flow has") \
	N(probability, AQM_RATIO, "drop probability of the last packet") \
	N(shadow_bytes, AQM_BYTES, "bytes in the shadow buffer") \
	N(next, AQM_NUMBER, "slot of the oldest packet in the shadow buffer") \
	N(queue_bytes, AQM_BYTES, "queue at the last update") \
	N(updated_ns, AQM_NS, "when the last update was due") \
	N(target_bytes, AQM_BYTES, "target in force") \
	N(mtu_bytes, AQM_BYTES, "largest packet") \
	N(limit_packets, AQM_PACKETS, "limit in force") \
	N(begun, AQM_FLAG, "whether a packet has arrived yet")

#define AFD_STATS(N) \
	N(sampled, AQM_PACKETS, "packets that went into the shadow buffer") \
	N(above, AQM_PACKETS, "packets of flows above their fair share")

AQM_STRUCT_PARAMS(afd, AFD_PARAMS);
AQM_STRUCT_STATS(afd, AFD_STATS);

struct afd_sample {
	u32 flow;
	u32 bytes;
};

struct afd_vars {
	AFD_VARS(AQM_NUMBER_FIELD)
	struct afd_sample shadow[AFD_SHADOW];
	u32 flows[AFD_FLOWS];
};

AQM_FN void afd_setup(struct afd_vars *v, const struct afd_params *p,
		      const struct aqm_link *link)
{
	u64 rate = link->rate_bytes_s ? link->rate_bytes_s : RED_UNKNOWN_RATE;
	u64 target = p->target_bytes;

	v->mtu_bytes = aqm_clamp(link->mtu_bytes, 64, 65536);
	if (!target)
		target = aqm_max(aqm_bytes_in(rate, p->target_ns),
				 3 * v->mtu_bytes);
	v->target_bytes = aqm_min(target, AQM_MOST_BYTES / 2);
	v->limit_packets = aqm_min(p->limit_packets, link->room_packets);
}

AQM_FN u32 *afd_flow(struct afd_vars *v, u32 place)
{
	return &v->flows[AQM_MASKED(place, AFD_FLOWS - 1)];
}

/* Stores a packet in the shadow buffer, in place of the oldest. */
AQM_FN void afd_sample(struct afd_vars *v, u32 flow, u32 bytes)
{
	struct afd_sample *old =
		&v->shadow[AQM_MASKED((u32)v->next, AFD_SHADOW - 1)];
	u32 *count = afd_flow(v, old->flow);

	*count -= (u32)aqm_min(*count, old->bytes);
	v->shadow_bytes -= aqm_min(v->shadow_bytes, old->bytes);
	old->flow = flow;
	old->bytes = bytes;
	*afd_flow(v, flow) += bytes;
	v->shadow_bytes += bytes;
	v->next = (v->next + 1) & (AFD_SHADOW - 1);
}

/* More updates than that move the share from one end to the other. */
#define AFD_MOST_STEPS (1 << 16)

/* Makes the updates of the share that are due. Queues are below 2^30 and
 * weights below 2^13, so no product reaches 2^60. */
AQM_FN void afd_update(struct afd_vars *v, const struct afd_params *p,
		       const struct aqm_context *at)
{
	s64 target = (s64)v->target_bytes;
	s64 queue = (s64)aqm_min(at->bytes, AQM_MOST_BYTES);
	s64 before = (s64)v->queue_bytes;
	s64 alpha = (s64)p->alpha, beta = (s64)p->beta;
	u64 steps = (at->now_ns - v->updated_ns) / p->update_ns;
	s64 fair, most;

	if (!steps)
		return;
	v->updated_ns += steps * p->update_ns;
	steps = aqm_min(steps, AFD_MOST_STEPS);
	fair = (alpha * (before - target) - beta * (queue - target)) +
	       (s64)(steps - 1) * (alpha - beta) * (queue - target);
	fair = (s64)v->fair_bytes + (fair >> 8);
	most = (s64)aqm_max(v->shadow_bytes, v->mtu_bytes);
	fair = fair > most ? most : fair;
	v->fair_bytes = fair > (s64)v->mtu_bytes ? (u64)fair : v->mtu_bytes;
	v->queue_bytes = (u64)queue;
}

AQM_FN struct aqm_verdict
afd_arrive(struct afd_vars *v, const struct afd_params *p, struct afd_stats *s,
	   const struct aqm_packet *packet, const struct aqm_context *at)
{
	u32 place = packet->flow >> 22;

	if (!v->begun) {
		v->begun = 1;
		v->updated_ns = at->now_ns;
		/* The whole shadow buffer, until the queue corrects it. */
		v->fair_bytes = AFD_SHADOW * v->mtu_bytes;
	}
	if (!aqm_below(aqm_mix(at->random, 1), (u32)p->sample)) {
		afd_sample(v, place, packet->len);
		s->sampled++;
	}
	afd_update(v, p, at);
	v->own_bytes = *afd_flow(v, place);
	v->probability =
		v->own_bytes > v->fair_bytes ?
			AQM_ONE - aqm_ratio(v->fair_bytes, v->own_bytes) :
			0;
	s->above += v->own_bytes > v->fair_bytes;
	if (at->packets >= v->limit_packets)
		return aqm_drop(AQM_LIMIT_REASON);
	/* A queue of up to two packets does not count. */
	if (at->random >= v->probability || at->bytes < 2 * v->mtu_bytes)
		return aqm_pass(0);
	if (p->ecn && aqm_can_mark(packet))
		return aqm_mark(AQM_EARLY_REASON, 0);
	return aqm_drop(AQM_EARLY_REASON);
}

AQM_ONE_FIFO(afd)

AQM_DISCIPLINE(
	afd, AFD, 1, 4096,
	AQM_NEEDS_RANDOM | AQM_NEEDS_FLOW | AQM_NEEDS_PARTS | AQM_NEEDS_ECN,
	"Approximate Fair Dropping: by how far a flow is above its share")
