// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * meredt: mice and elephants by degrees (Braithwaite 2006, section 4.2.4).
 *
 * Every flow has a weight, a piecewise-linear function of what it has sent. A
 * packet's probability of being dropped is ARED's times its flow's weight over
 * the average weight of all packets, so the mean stays ARED's and long flows
 * bear it. Flows are served in bands by what they have sent: with two bands
 * these are mice and elephants, with eight nearly shortest job first. A flow's
 * size may leak away while time goes by, by a share of the link: then it is the
 * flow's rate that counts rather than its length, as in fair queueing.
 *
 * Who comes after a silence is let go. Mice cannot be held back, so elephants
 * pay for the queue that a burst of mice makes, and all of their packets go
 * while it lasts. What TCP sends after that comes one packet to a timeout, and
 * for each one lost the next comes after twice the time (RFC 6298 section 5.5):
 * with six lost in a row a link stands idle for a minute. Letting them go bounds
 * that pause by the first timeout beyond spare_ns, and costs the others one
 * packet of a flow in that time.
 *
 * The average is of the queue behind the first band. No drop of an elephant's
 * packet shortens what mice have queued. With the whole queue in the average,
 * elephants lost nearly every packet while many mice came, and ARED raised its
 * probability without end. At 10 Mbit/s a fifth of the line stood idle while
 * senders waited out timeouts. So nothing of the first band is dropped early, even
 * where its flows have a weight. Nor does an elephant lose more by chance than
 * most_loss: its queue grows while mice keep it waiting, and of a window of which
 * all that is resent is lost again nothing is left but a timeout, a minute on a
 * slow line. What bounds elephants that do not listen is half of the limit; the
 * other half is for mice. `averaged=all` and `spare_ns=0` are the thesis's,
 * without all this.
 *
 * Senders of L4S have marks of their own where that is asked for (shallow.h). Their
 * flows have sizes and weights as all others, and what they would have been dropped
 * or marked with is coupled.
 *
 * Departures from the thesis beside that: the coin p_p = p_r w_p / w_av is
 * tossed by RED's uniform spacing, which has the same mean and fewer drops in a
 * row; bands beyond two are ours. What defines a flow is the host's to say, by
 * the hash.
 */
#include "ared.h"
#include "flows.h"
#include "shallow.h"

enum meredt_ecn {
	MEREDT_DROP = 0,
	MEREDT_MARK = 1, /* and let go who cannot be marked */
	MEREDT_MARK_OR_DROP = 2,
};

enum meredt_averaged {
	MEREDT_OF_ALL = 0,
	MEREDT_OF_ELEPHANTS = 1, /* behind the first band, if there is more */
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

/* On the straight line from (x0, y0) to (x1, y1), where x0 <= x < x1. */
AQM_FN u64 meredt_between(u64 x, u64 x0, u64 y0, u64 x1, u64 y1)
{
	u64 way = aqm_ratio(x - x0, x1 - x0);

	return y1 >= y0 ? y0 + aqm_scale(y1 - y0, way) :
			  y0 - aqm_scale(y0 - y1, way);
}

/*
 * The weight of a flow that has sent so much.
 *
 * This and the next function are looked at by the kernel's verifier once, which would
 * follow each weight and each band into all that comes after.
 */
AQM_WHOLE_FN u64 meredt_weight(const struct meredt_params *p AQM_NONNULL,
			       u64 bytes)
{
	/* Before Linux 6.8 the verifier takes no word for AQM_NONNULL. */
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

/* The band of one, of so many. */
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
 * p_r w_p / w_av, at most AQM_ONE. w_p has 16 binary places and is below 2^21,
 * w_av has 32. Their quotient with 16 places is (w_p 2^32) / w_av; where it is
 * below 2^32, its product with p_r <= 2^32 fits.
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

/* Whether the packet that came is its flow's first after a silence. */
AQM_FN int meredt_returns(const struct meredt_vars *v,
			  const struct meredt_params *p)
{
	return p->spare_ns && v->flow.silence << FLOW_SHIFT >= p->spare_ns;
}

/* Whether the first band has nothing to do with the average. */
AQM_FN int meredt_apart(const struct meredt_params *p)
{
	return p->averaged == MEREDT_OF_ELEPHANTS && p->bands > 1;
}

/* The context as it would be without the first band. */
AQM_FN struct aqm_context meredt_behind(const struct meredt_vars *v,
					const struct aqm_context *at)
{
	struct aqm_context behind = *at;

	behind.packets = (u32)v->behind_packets;
	behind.bytes = v->behind_bytes;
	behind.wire = v->behind_wire_bytes;
	return behind;
}

/* Brings both averages up to date and answers ARED's probability. */
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
	/* Where the thesis's ARED has no choice left, neither has the weight. */
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
		/* What is marked anyway is of L4S. */
		if (reason != AQM_NONE_REASON || p->mark == MEREDT_DROP ||
		    (p->mark == MEREDT_MARK_OR_DROP && !can))
			return aqm_drop(AQM_EARLY_REASON);
		if (can)
			reason = AQM_EARLY_REASON;
	}
	/*
	 * An elephant that comes after a silence has lost what it sent before,
	 * or waits for it; it may use the mice's half.
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
