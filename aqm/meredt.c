// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * meredt: mice and elephants by degrees (Braithwaite 2006, section 4.2.4).
 *
 * Every flow has a weight, a piecewise linear function of what it has sent. A
 * packet's drop probability is ARED's times its flow's weight over the average
 * weight of all packets. So the mean stays ARED's, and long flows bear it.
 * Flows are served in bands by what they have sent: two bands for mice and
 * elephants, eight for nearly shortest job first. A flow's size may leak away
 * over time by a share of the link. Then the flow's rate counts rather than its
 * length, as in fair queueing.
 *
 * A flow that returns after a silence is spared. Mice cannot be held back, so
 * elephants pay for the queue that a burst of mice makes, and all of their
 * packets are dropped while it lasts. After that, TCP sends one packet per
 * timeout, and each lost one doubles the next timeout (RFC 6298 section 5.5).
 * With six losses in a row, a link is idle for a minute. Sparing these packets
 * bounds that pause by the first timeout beyond spare_ns. It costs the others
 * one packet of a flow in that time.
 *
 * The average is of the queue behind the first band, because dropping an
 * elephant's packet does not shorten the mice's queue. With the whole queue in
 * the average, elephants lost nearly every packet while many mice arrived, and
 * ARED raised its probability without bound. At 10 Mbit/s a fifth of the line
 * was idle while senders waited for timeouts. So nothing of the first band is
 * dropped early, even if its flows have a weight.
 *
 * Nor does an elephant lose more by chance than most_loss. Its queue grows
 * while mice keep it waiting. If all retransmissions of a window are lost
 * again, only a timeout remains, which takes a minute on a slow line.
 * Unresponsive elephants are limited to half of the limit; the other half is
 * for mice. `averaged=all` and `spare_ns=0` select the thesis's behaviour
 * without all this.
 *
 * L4S senders can have marks of their own (shallow.h). Their flows have sizes
 * and weights like all others, and their classic drop probability is coupled.
 *
 * Other departures from the thesis: The decision with p_p = p_r w_p / w_av uses
 * RED's uniform spacing, which has the same mean and fewer drops in a row. More
 * than two bands are our addition. The host defines flows, by the hash.
 */
#include "ared.h"
#include "flows.h"
#include "shallow.h"

enum meredt_ecn {
	MEREDT_DROP = 0,
	MEREDT_MARK = 1, /* packets that cannot be marked pass */
	MEREDT_MARK_OR_DROP = 2,
};

enum meredt_averaged {
	MEREDT_OF_ALL = 0,
	MEREDT_OF_ELEPHANTS = 1, /* behind the first band,
				  * if there are several */
};

#define MEREDT_BANDS 8

/* A weight of one. */
#define MEREDT_ONE (1 << 16)

#define MEREDT_OWN_PARAMS(P) \
	P(bands, AQM_NUMBER, 2, 1, MEREDT_BANDS, \
	  "number of queues, served in order: 2 for mice and elephants, 8 " \
	  "for nearly shortest job first") \
	P(queue_bytes, AQM_BYTES, 20000, 1, AQM_MOST_BYTES, \
	  "a flow leaves the first band once it has sent this, and each " \
	  "further one at twice as much") \
	P(knot1_bytes, AQM_BYTES, 0, 0, AQM_MOST_BYTES, \
	  "a flow that has sent up to this much has weight1") \
	P(knot2_bytes, AQM_BYTES, 100000, 0, AQM_MOST_BYTES, \
	  "from knot1 to here the weight changes linearly to weight2") \
	P(knot3_bytes, AQM_BYTES, 1000000, 0, AQM_MOST_BYTES, \
	  "from knot2 to here the weight changes linearly to weight3, and " \
	  "then it stays") \
	P(weight1, "ratio/2^16", 0, 0, 1 << 20, "weight at knot1") \
	P(weight2, "ratio/2^16", MEREDT_ONE / 10, 0, 1 << 20, \
	  "weight at knot2") \
	P(weight3, "ratio/2^16", MEREDT_ONE, 0, 1 << 20, "weight at knot3") \
	P(fairness, "ratio/2^16", 0, 0, 1 << 20, \
	  "a flow's size leaks at this multiple of its equal share of the " \
	  "link; 0: never") \
	P(averaged, "all|elephants", MEREDT_OF_ELEPHANTS, 0, 1, \
	  "whose queue is averaged; with `elephants` and several bands, " \
	  "the first band has no early drops") \
	P(most_loss, "ratio/2^16", MEREDT_ONE / 16, 1, MEREDT_ONE, \
	  "with `averaged=elephants`: largest share of a flow's packets " \
	  "that is chosen") \
	P(mark, "drop|mark|mark-or-drop", 0, 0, 2, \
	  "what happens to chosen packets; with `mark`, packets that " \
	  "cannot be marked pass") \
	P(spare_ns, AQM_NS, 1000000000, 0, 3600000000000ULL, \
	  "a packet passes if its flow has sent nothing for this long; 0: " \
	  "never") \
	P(age_ns, AQM_NS, 60000000000ULL, 1000000000, 3600000000000ULL, \
	  "a flow silent for this long is forgotten") \
	AQM_FLOWS_PARAM(P)

#define MEREDT_PARAMS(P) ARED_OF_PAPER(P) SHALLOW_PARAMS(P) MEREDT_OWN_PARAMS(P)

#define MEREDT_OWN_VARS(N) \
	N(average_weight, AQM_RATIO, \
	  "average weight of the flows that are averaged") \
	N(weighed, AQM_FLAG, "whether there is an average weight yet") \
	N(leak_bytes_s, "bytes/s", \
	  "rate at which the sizes of all flows together leak") \
	N(filled, AQM_NUMBER, "bands that are not empty, one bit for each") \
	N(behind_packets, AQM_PACKETS, "packets queued behind the first band") \
	N(behind_bytes, AQM_BYTES, "their bytes") \
	N(behind_wire_bytes, AQM_BYTES, "their bytes on the wire")

#define MEREDT_VARS(N) \
	ARED_CORE(N) FLOW_CORE(N) SHALLOW_VARS(N) MEREDT_OWN_VARS(N)

#define MEREDT_OWN_STATS(N) \
	N(first_packets, AQM_PACKETS, "arrivals for the first band") \
	N(certain, AQM_PACKETS, "arrivals whose probability was 1 or more") \
	N(returned, AQM_PACKETS, \
	  "arrivals that passed because their flow had been silent")

#define MEREDT_STATS(N) ARED_COUNTED(N) SHALLOW_STATS(N) MEREDT_OWN_STATS(N)

struct meredt_params {
	struct ared_common ared;
	struct shallow_params shallow;
	MEREDT_OWN_PARAMS(AQM_PARAM_FIELD)
};

struct meredt_vars {
	struct ared_core ared;
	struct flow_core flow;
	struct shallow_vars shallow;
	MEREDT_OWN_VARS(AQM_NUMBER_FIELD)
	u64 packets[MEREDT_BANDS];
	struct flow_table table;
};

struct meredt_stats {
	struct ared_counted ared;
	struct shallow_stats shallow;
	MEREDT_OWN_STATS(AQM_NUMBER_FIELD)
};

AQM_FN void meredt_setup(struct meredt_vars *v, const struct meredt_params *p,
			 const struct aqm_link *link)
{
	u64 rate = link->rate_bytes_s ? link->rate_bytes_s : RED_UNKNOWN_RATE;

	ared_setup_core(&v->ared, &p->ared, link);
	shallow_setup(&v->shallow, &p->shallow, link);
	v->leak_bytes_s = aqm_scale(rate, p->fairness << 16);
}

/* Interpolates linearly from (x0, y0) to (x1, y1), where x0 <= x < x1. */
AQM_FN u64 meredt_between(u64 x, u64 x0, u64 y0, u64 x1, u64 y1)
{
	u64 fraction = aqm_ratio(x - x0, x1 - x0);

	return y1 >= y0 ? y0 + aqm_scale(y1 - y0, fraction) :
			  y0 - aqm_scale(y0 - y1, fraction);
}

/*
 * Returns the weight of a flow that has sent `bytes`.
 *
 * The verifier checks this function and the next one once. Otherwise it would
 * follow each weight and each band into all code after them.
 */
AQM_WHOLE_FN u64 meredt_weight(const struct meredt_params *p AQM_NONNULL,
			       u64 bytes)
{
	/* Before Linux 6.8 the verifier ignores AQM_NONNULL. */
	if (!p)
		return 0;
	if (bytes >= p->knot3_bytes)
		return p->weight3;
	if (bytes >= p->knot2_bytes)
		return meredt_between(bytes, p->knot2_bytes, p->weight2,
				      p->knot3_bytes, p->weight3);
	if (bytes > p->knot1_bytes)
		return meredt_between(bytes, p->knot1_bytes, p->weight1,
				      p->knot2_bytes, p->weight2);
	return p->weight1;
}

/* Returns the band of a flow that has sent `bytes`. */
AQM_NUMBER_FN u32 meredt_band(u64 bands, u64 queue_bytes, u64 bytes)
{
	u64 until = queue_bytes;
	u32 band;

	AQM_LOOP (band, MEREDT_BANDS - 1) {
		if (band + 1 >= bands || bytes < until)
			break;
		until *= 2;
	}
	return band;
}

/*
 * Returns p_r w_p / w_av, at most AQM_ONE. w_p has 16 binary places and is
 * below 2^21; w_av has 32. Their quotient with 16 places is (w_p 2^32) / w_av.
 * If it is below 2^32, its product with p_r <= 2^32 fits.
 */
AQM_FN u64 meredt_probability(u64 probability, u64 weight, u64 average)
{
	u64 share;

	if (!average)
		return probability;
	share = (weight << 32) / average;
	if (share >> 32)
		return probability ? AQM_ONE : 0;
	return aqm_min((probability * share) >> 16, AQM_ONE);
}

/* Whether an arrival is its flow's first after a silence. */
AQM_FN int meredt_returns(const struct meredt_vars *v,
			  const struct meredt_params *p)
{
	return p->spare_ns && v->flow.silence << FLOW_SHIFT >= p->spare_ns;
}

/* Whether the average excludes the first band. */
AQM_FN int meredt_apart(const struct meredt_params *p)
{
	return p->averaged == MEREDT_OF_ELEPHANTS && p->bands > 1;
}

/* Returns the context without the first band. */
AQM_FN struct aqm_context meredt_behind(const struct meredt_vars *v,
					const struct aqm_context *at)
{
	struct aqm_context behind = *at;

	behind.packets = (u32)v->behind_packets;
	behind.bytes = v->behind_bytes;
	behind.wire = v->behind_wire_bytes;
	return behind;
}

/* Updates both averages. Returns ARED's probability. */
AQM_FN u64 meredt_observe(struct meredt_vars *v, const struct meredt_params *p,
			  struct meredt_stats *s, u64 weight,
			  const struct aqm_context *at)
{
	v->average_weight = v->weighed ? red_average(v->average_weight, weight,
						     v->ared.red.weight) :
					 weight << RED_PLACES;
	v->weighed = 1;
	return ared_observe(&v->ared, &p->ared, &s->ared, at);
}

AQM_FN struct aqm_verdict meredt_arrive(struct meredt_vars *v,
					const struct meredt_params *p,
					struct meredt_stats *s,
					const struct aqm_packet *packet,
					const struct aqm_context *at)
{
	const struct red_common *common = &p->ared.red;
	struct red_core *red = &v->ared.red;
	int apart = meredt_apart(p);
	struct aqm_context behind = meredt_behind(v, at);
	u64 limit = red->limit_bytes;
	int returns;
	u64 probability = 0;
	struct flow *flow = flow_of(&v->table, &v->flow, packet->flow,
				    at->now_ns, p->age_ns, v->leak_bytes_s);
	u64 weight = meredt_weight(p, flow->bytes);
	u32 band =
		AQM_MASKED(meredt_band(p->bands, p->queue_bytes, flow->bytes),
			   MEREDT_BANDS - 1);
	u64 size = red_size(red, common, packet);
	u32 shallow = SHALLOW_OVERLOAD;
	u32 reason = AQM_NONE_REASON;

	flow->bytes += size;
	if (!band)
		s->first_packets++;
	if (band || !apart)
		probability =
			meredt_observe(v, p, s, weight, apart ? &behind : at);
	returns = meredt_returns(v, p);
	/* In the thesis, probability 1 applies whatever the weight. */
	if (apart || probability < AQM_ONE)
		probability = returns ? 0 :
					meredt_probability(probability, weight,
							   v->average_weight);
	if (apart)
		probability = aqm_min(probability, p->most_loss << 16);
	if (returns)
		s->returned++;
	if (shallow_is(&p->shallow, packet)) {
		shallow = shallow_decide(&v->shallow, &p->shallow, &s->shallow,
					 packet, probability, at);
		if (shallow != SHALLOW_PASS)
			reason = shallow == SHALLOW_MARK ?
					 AQM_THRESHOLD_REASON :
					 AQM_EARLY_REASON;
	}
	if (shallow == SHALLOW_OVERLOAD &&
	    red_chosen(red, probability, at->random)) {
		int can = aqm_can_mark(packet);

		if (probability >= AQM_ONE)
			s->certain++;
		/* A packet that is marked already is L4S. */
		if (reason != AQM_NONE_REASON || p->mark == MEREDT_DROP ||
		    (p->mark == MEREDT_MARK_OR_DROP && !can))
			return aqm_drop(AQM_EARLY_REASON);
		if (can)
			reason = AQM_EARLY_REASON;
	}
	/*
	 * An elephant that returns after a silence has lost what it sent
	 * before, or waits for it. It may use the mice's half.
	 */
	if (red_queue(red, common, at) + size > limit ||
	    (band && apart && !returns && behind.packets &&
	     red_queue(red, common, &behind) + size > limit / 2))
		return aqm_drop(AQM_LIMIT_REASON);
	v->packets[band & (MEREDT_BANDS - 1)]++;
	v->filled |= 1ULL << band;
	if (band) {
		v->behind_packets++;
		v->behind_bytes += packet->len;
		v->behind_wire_bytes += packet->wire;
	}
	return aqm_verdict(reason == AQM_NONE_REASON ? AQM_PASS : AQM_MARK,
			   reason, band);
}

AQM_FN u32 meredt_choose(struct meredt_vars *v, const struct meredt_params *p,
			 const struct aqm_context *at)
{
	u32 band;

	AQM_LOOP (band, MEREDT_BANDS - 1) {
		if (v->filled >> band & 1)
			break;
	}
	return band;
}

AQM_FN struct aqm_verdict meredt_depart(struct meredt_vars *v,
					const struct meredt_params *p,
					struct meredt_stats *s, u32 queue,
					const struct aqm_packet *packet,
					const struct aqm_context *at)
{
	u64 *packets = &v->packets[queue & (MEREDT_BANDS - 1)];

	if (!packet) {
		red_emptied(&v->ared.red, at);
		return aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
	}
	if (!--*packets)
		v->filled &= ~(1ULL << (queue & (MEREDT_BANDS - 1)));
	if (queue) {
		v->behind_packets--;
		v->behind_bytes -= packet->len;
		v->behind_wire_bytes -= packet->wire;
	}
	if (meredt_apart(p) ? queue && !v->behind_packets : !at->packets)
		v->ared.red.idle_since_ns = at->now_ns;
	return aqm_pass(queue);
}

AQM_NO_EVICTION(meredt)

AQM_DISCIPLINE_TO(meredt, MEREDT, MEREDT_BANDS, 4096,
		  AQM_NEEDS_RANDOM | AQM_NEEDS_FLOW | AQM_NEEDS_PARTS |
			  AQM_NEEDS_ECN,
		  red_core_end(&v->ared.red),
		  "mice and elephants by degrees: long flows bear the drops")
