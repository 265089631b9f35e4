// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * fuzzy: holds the queue at a reference by fuzzy rules (Fuzzy RED, which
 * Mylonas cites as future work for DiffServ, section 6; after Rossides,
 * Pitsillides, Sekercioglu and Chrysostomou, "Fuzzy RED: Congestion Control for
 * TCP/IP Diff-Serv", 2000). Packets are dropped on arrival with a probability
 * that is updated at regular intervals. Two inputs determine the update: how
 * far the queue is from its reference, and how it has changed since the last
 * update.
 *
 * Each input has five triangular sets, NB, NS, Z, PS and PB (negative big to
 * positive big), with equally spaced peaks. So a value belongs to at most two
 * neighbouring sets, and its degrees of membership add up to one. Let g be the
 * value's position on a grid of four steps, and f the fraction of g. The value
 * belongs to set floor(g) by 1 - f, and to the next set by f.
 *
 * The rules are the usual table, in which both inputs have equal weight, so
 * that every diagonal has one consequence (- lower, + raise the probability):
 *
 *                           change of the queue
 *                         NB   NS   Z    PS   PB
 *                    NB   -4   -3   -2   -1    0
 *        queue       NS   -3   -2   -1    0   +1
 *        less its    Z    -2   -1    0   +1   +2
 *        reference   PS   -1    0   +1   +2   +3
 *                    PB    0   +1   +2   +3   +4
 *
 * A rule fires by the product of its two memberships. The consequences are
 * numbers (Sugeno's form), so the result is their weighted mean. The four
 * products add up to one, so no division is needed. A consequence k stands for
 * k |k| / 16. Near the reference, one step is a sixteenth of what it is far
 * away, so a queue close to its reference is hardly changed.
 *
 * The result changes the probability in proportion to its value. TCP's rate is
 * proportional to 1 / sqrt(p) (Mathis et al. 1997). So a change of p by a
 * fraction x changes the total rate by x / 2, whether p is small with few flows
 * or large with many. Fuzzy RED changes p by a fixed amount, which is too much
 * for few flows or too little for many.
 *
 * Other departures from the paper: The queue is the mean of what arrivals found
 * since the last update, where the paper takes one sample. There is no timer:
 * the next arrival makes an update that is due. If nothing arrived for several
 * intervals, the queue is taken as it is now.
 */
#include "red.h"

#define FUZZY_PARAMS(P) \
	P(limit_packets, AQM_PACKETS, 1000, 1, 1 << 20, \
	  "maximum queue length") \
	P(reference_bytes, AQM_BYTES, 0, 0, AQM_MOST_BYTES, \
	  "reference queue length; 0: what the link sends in `target_ns`, " \
	  "at least 3 MTU") \
	P(target_ns, AQM_NS, 15000000, 1000, 1000000000, \
	  "delay from which an automatic reference follows") \
	P(update_ns, AQM_NS, 15000000, 1000000, 1000000000, \
	  "time between updates of the probability; at least the time of 2 " \
	  "MTU") \
	P(gain, AQM_RATIO, AQM_ONE / 8, 1 << 16, AQM_ONE / 2, \
	  "largest change of the probability in one update, as a fraction " \
	  "of it") \
	P(span, AQM_RATIO, AQM_ONE / 4, 1 << 26, AQM_ONE, \
	  "change of the queue between updates that counts as big, as a " \
	  "fraction of the reference") \
	P(ecn, AQM_FLAG, 0, 0, 1, \
	  "mark rather than drop where the sender understands it, up to a " \
	  "probability of 1/10")

#define FUZZY_VARS(N) \
	N(probability, AQM_RATIO, "probability of a drop") \
	N(progress, AQM_RATIO, "sum of the probabilities since the last drop") \
	N(goal, AQM_RATIO, \
	  "sum of the probabilities at which the next drop is due") \
	N(queue_bytes, AQM_BYTES, "mean queue that the last update used") \
	N(found_bytes, AQM_BYTES, \
	  "sum of the queue lengths that arrivals have found since the " \
	  "last update") \
	N(arrivals, AQM_PACKETS, "arrivals since the last update") \
	N(updated_ns, AQM_NS, "when the last update was due") \
	N(reference_bytes, AQM_BYTES, "reference in force") \
	N(span_bytes, AQM_BYTES, "change of the queue that counts as big") \
	N(update_ns, AQM_NS, "time between updates in force") \
	N(limit_packets, AQM_PACKETS, "limit in force") \
	N(mtu_bytes, AQM_BYTES, "largest packet") \
	N(begun, AQM_FLAG, "whether a packet has arrived yet")

#define FUZZY_STATS(N) \
	N(raises, AQM_NUMBER, "increases of the probability") \
	N(falls, AQM_NUMBER, "decreases of the probability") \
	N(peak_probability, AQM_RATIO, "highest probability")

AQM_STRUCT_PARAMS(fuzzy, FUZZY_PARAMS);
AQM_STRUCT_VARS(fuzzy, FUZZY_VARS);
AQM_STRUCT_STATS(fuzzy, FUZZY_STATS);

/* The smallest probability, from which it can rise by fractions of itself. At
 * this value nothing is dropped. */
#define FUZZY_LEAST (AQM_ONE >> 16)

/* A step of the grid, with 16 binary places. The peak of NB is at 0, that of Z
 * at 2 steps, and that of PB at 4. */
#define FUZZY_STEP (1ULL << 16)

AQM_FN void fuzzy_setup(struct fuzzy_vars *v, const struct fuzzy_params *p,
			const struct aqm_link *link)
{
	u64 rate = link->rate_bytes_s ? link->rate_bytes_s : RED_UNKNOWN_RATE;
	u64 reference = p->reference_bytes;

	v->mtu_bytes = aqm_clamp(link->mtu_bytes, 64, 65536);
	if (!reference)
		reference = aqm_max(aqm_bytes_in(rate, p->target_ns),
				    3 * v->mtu_bytes);
	v->reference_bytes = aqm_clamp(reference, 1, AQM_MOST_BYTES / 2);
	v->span_bytes = aqm_max(aqm_scale(v->reference_bytes, p->span), 1);
	v->update_ns =
		aqm_max(p->update_ns, 2 * v->mtu_bytes * 1000000000 / rate);
	v->limit_packets = aqm_min(p->limit_packets, link->room_packets);
	v->probability = aqm_max(v->probability, FUZZY_LEAST);
}

/* Returns the grid position of a queue's distance from the reference. NB is an
 * empty queue, PB twice the reference. Queues are below 2^30. */
AQM_NUMBER_FN u64 fuzzy_distance(u64 queue, u64 reference)
{
	return aqm_min(queue * 2 * FUZZY_STEP / reference, 4 * FUZZY_STEP);
}

/* Returns the grid position of a change of the queue. NB is a fall by the span,
 * PB a rise by it. */
AQM_NUMBER_FN u64 fuzzy_movement(u64 queue, u64 before, u64 span)
{
	u64 moved = queue > before ? queue - before : before - queue;
	u64 place = aqm_min(moved * 2 * FUZZY_STEP / span, 2 * FUZZY_STEP);

	return queue > before ? 2 * FUZZY_STEP + place : 2 * FUZZY_STEP - place;
}

/* Returns the consequence of rules whose set numbers, from 0, add up to `sum`:
 * k |k| + 16 for k = sum - 4, from 0 to 32. */
AQM_NUMBER_FN u64 fuzzy_consequence(u64 sum)
{
	if (sum >= 4)
		return 16 + (sum - 4) * (sum - 4);
	return 16 - (4 - sum) * (4 - sum);
}

/*
 * Returns the result of the rules: 0 lowers by all of the gain, AQM_ONE changes
 * nothing, and 2 AQM_ONE raises by all of it.
 *
 * With the sets i and i + 1 of one input and j and j + 1 of the other, the four
 * rules have consequences for i + j, i + j + 1 twice, and i + j + 2.
 * Memberships have 16 binary places, their products 32, and consequences are at
 * most 32, so the sum is below 2^38.
 */
AQM_NUMBER_FN u64 fuzzy_answer(u64 distance, u64 movement)
{
	u64 i = aqm_min(distance / FUZZY_STEP, 3);
	u64 j = aqm_min(movement / FUZZY_STEP, 3);
	u64 f = distance - i * FUZZY_STEP;
	u64 g = movement - j * FUZZY_STEP;
	u64 low = (FUZZY_STEP - f) * (FUZZY_STEP - g);
	u64 middle = f * (FUZZY_STEP - g) + (FUZZY_STEP - f) * g;

	return (low * fuzzy_consequence(i + j) +
		middle * fuzzy_consequence(i + j + 1) +
		f * g * fuzzy_consequence(i + j + 2)) /
	       16;
}

/* Returns the probability after an update with this result. */
AQM_NUMBER_FN u64 fuzzy_changed(u64 probability, u64 answer, u64 gain)
{
	u64 most = aqm_scale(probability, gain);

	if (answer >= AQM_ONE)
		return aqm_min(probability + aqm_scale(most, answer - AQM_ONE),
			       AQM_ONE);
	return aqm_max(probability - aqm_scale(most, AQM_ONE - answer),
		       FUZZY_LEAST);
}

/* Makes one update, for a given queue. */
AQM_FN void fuzzy_update(struct fuzzy_vars *v, const struct fuzzy_params *p,
			 struct fuzzy_stats *s, u64 queue)
{
	u64 answer = fuzzy_answer(fuzzy_distance(queue, v->reference_bytes),
				  fuzzy_movement(queue, v->queue_bytes,
						 v->span_bytes));

	v->probability = fuzzy_changed(v->probability, answer, p->gain);
	v->queue_bytes = queue;
	s->raises += answer > AQM_ONE;
	s->falls += answer < AQM_ONE;
	s->peak_probability = aqm_max(s->peak_probability, v->probability);
}

/* Returns the probability after updates with an empty, unchanged queue. The
 * sets are NB and Z, whose consequence is -4 of 16. Repeated updates are a
 * power. */
AQM_NUMBER_FN u64 fuzzy_idle(u64 probability, u64 gain, u64 times)
{
	u64 left = AQM_ONE - gain / 4;

	times = aqm_min(times, 0x7fffffff);
	return aqm_max(aqm_scale(probability, aqm_power(left, (u32)times)),
		       FUZZY_LEAST);
}

/* Makes the updates that are due, and counts this arrival. */
AQM_FN void fuzzy_observe(struct fuzzy_vars *v, const struct fuzzy_params *p,
			  struct fuzzy_stats *s, const struct aqm_context *at)
{
	u64 queue = aqm_min(at->bytes, AQM_MOST_BYTES);
	u64 due;

	if (!v->begun) {
		v->begun = 1;
		v->updated_ns = at->now_ns;
	}
	due = (at->now_ns - v->updated_ns) / v->update_ns;
	if (due) {
		fuzzy_update(v, p, s,
			     v->arrivals ? v->found_bytes / v->arrivals :
					   queue);
		if (due > 1)
			fuzzy_update(v, p, s, queue);
		if (due > 2 && !queue)
			v->probability =
				fuzzy_idle(v->probability, p->gain, due - 2);
		v->updated_ns += due * v->update_ns;
		v->found_bytes = 0;
		v->arrivals = 0;
	}
	v->found_bytes += queue;
	v->arrivals++;
}

AQM_FN struct aqm_verdict fuzzy_arrive(struct fuzzy_vars *v,
				       const struct fuzzy_params *p,
				       struct fuzzy_stats *s,
				       const struct aqm_packet *packet,
				       const struct aqm_context *at)
{
	fuzzy_observe(v, p, s, at);
	if (at->packets >= v->limit_packets)
		return aqm_drop(AQM_LIMIT_REASON);
	/* A queue of up to two packets does not count. */
	if (v->probability <= FUZZY_LEAST || at->bytes < 2 * v->mtu_bytes)
		return aqm_pass(0);
	if (!red_due(&v->progress, &v->goal, v->probability, at->random))
		return aqm_pass(0);
	if (p->ecn && v->probability <= AQM_ONE / 10 && aqm_can_mark(packet))
		return aqm_mark(AQM_EARLY_REASON, 0);
	return aqm_drop(AQM_EARLY_REASON);
}

AQM_ONE_FIFO(fuzzy)

AQM_DISCIPLINE(fuzzy, FUZZY, 1, 4096, AQM_NEEDS_RANDOM | AQM_NEEDS_ECN,
	       "Fuzzy RED: holds the queue at a reference by fuzzy rules")
