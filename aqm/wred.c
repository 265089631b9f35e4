// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * wred: RED by drop precedence, with coupled averages (RIO-C: Clark and Fang
 * 1998, "Explicit Allocation of Best-Effort Packet Delivery Service"; Mylonas,
 * section 3.3, n-RED), for a class of assured forwarding (RFC 2597).
 *
 * Packets of three precedences wait in one queue, in order of arrival. Each
 * precedence has its own average, thresholds and probability. Its average
 * counts packets of its own and of lower precedences. So traffic within its
 * contract is judged by such traffic alone. Traffic beyond its contract is
 * judged by the whole queue, and is dropped first.
 *
 * The precedence follows from the packet's code point, which the host passes as
 * its flow (AQM_NEEDS_CODE).
 *
 * Departure from the paper: it has two precedences, RFC 2597 three.
 */
#include "red.h"

enum wred_precedence { WRED_LOW = 0, WRED_MIDDLE = 1, WRED_HIGH = 2 };

#define WRED_OWN_PARAMS(P) \
	P(middle_min_bytes, AQM_BYTES, 0, 0, AQM_MOST_BYTES, \
	  "lower threshold of middle precedence; 0: a third of that of low " \
	  "precedence") \
	P(middle_max_bytes, AQM_BYTES, 0, 0, AQM_MOST_BYTES, \
	  "upper threshold of middle precedence; 0: 1.5 times its lower " \
	  "threshold") \
	P(middle_p, AQM_RATIO, AQM_ONE / 10, 1 << 12, AQM_ONE, \
	  "probability at the upper threshold of middle precedence") \
	P(high_min_bytes, AQM_BYTES, 0, 0, AQM_MOST_BYTES, \
	  "lower threshold of high precedence; 0: a ninth of that of low " \
	  "precedence") \
	P(high_max_bytes, AQM_BYTES, 0, 0, AQM_MOST_BYTES, \
	  "upper threshold of high precedence; 0: 1.5 times its lower " \
	  "threshold") \
	P(high_p, AQM_RATIO, AQM_ONE / 10, 1 << 12, AQM_ONE, \
	  "probability at the upper threshold of high precedence") \
	P(other, "low|middle|high", 0, 0, 2, \
	  "precedence of packets outside the assured forwarding classes")

#define WRED_PARAMS(P) RED_COMMON(P) RED_ECN(P) WRED_OWN_PARAMS(P)

/* RED's state of one precedence. */
#define WRED_CORE(N, its, of) \
	N(its##_average, AQM_BYTES_Q16, "average queue of " of) \
	N(its##_idle_since_ns, AQM_NS, \
	  "when that queue was last seen empty; 0: it is not empty") \
	N(its##_progress, AQM_RATIO, \
	  "sum of its probabilities since the last drop") \
	N(its##_goal, AQM_RATIO, \
	  "sum of its probabilities at which the next drop is due") \
	N(its##_counting, AQM_FLAG, \
	  "whether its average is above its lower threshold") \
	N(its##_max_p, AQM_RATIO, "its probability at the upper threshold") \
	N(its##_limit_bytes, AQM_BYTES, "limit of the whole queue in force") \
	N(its##_min_bytes, AQM_BYTES, "its lower threshold in force") \
	N(its##_max_bytes, AQM_BYTES, "its upper threshold in force") \
	N(its##_end_bytes, AQM_BYTES, \
	  "average queue at which every packet of it is dropped") \
	N(its##_weight, AQM_RATIO, "weight in force") \
	N(its##_packet_ns, AQM_NS, "time to send one MTU") \
	N(its##_idle_packets, AQM_PACKETS, \
	  "idle time, in packets, after which its average is 0; 0: exact " \
	  "decay") \
	N(its##_mtu_bytes, AQM_BYTES, "largest packet")

/* The queued packets of one precedence. */
#define WRED_QUEUED(N, its, of) \
	N(its##_packets, AQM_PACKETS, "queued packets of " of) \
	N(its##_bytes, AQM_BYTES, "their bytes") \
	N(its##_wire, AQM_BYTES, "their bytes on the wire")

#define WRED_VARS(N) \
	WRED_CORE(N, low, "low precedence") \
	WRED_CORE(N, middle, "low and middle precedence") \
	WRED_CORE(N, high, "all precedences") \
	WRED_QUEUED(N, low, "low precedence") \
	WRED_QUEUED(N, middle, "middle precedence") \
	WRED_QUEUED(N, high, "high precedence")

#define WRED_STATS(N) \
	N(low_arrived, AQM_PACKETS, "packets of low precedence that came") \
	N(middle_arrived, AQM_PACKETS, \
	  "packets of middle precedence that came") \
	N(high_arrived, AQM_PACKETS, "packets of high precedence that came") \
	N(low_dropped, AQM_PACKETS, \
	  "packets of low precedence that were dropped") \
	N(middle_dropped, AQM_PACKETS, \
	  "packets of middle precedence that were dropped") \
	N(high_dropped, AQM_PACKETS, \
	  "packets of high precedence that were dropped") \
	N(peak_average, AQM_BYTES_Q16, \
	  "highest average queue of all precedences")

struct wred_queued {
	u64 packets;
	u64 bytes;
	u64 wire;
};

struct wred_params {
	struct red_common red;
	RED_ECN(AQM_PARAM_FIELD)
	WRED_OWN_PARAMS(AQM_PARAM_FIELD)
};

struct wred_vars {
	struct red_core low;
	struct red_core middle;
	struct red_core high;
	struct wred_queued queued_low;
	struct wred_queued queued_middle;
	struct wred_queued queued_high;
};

AQM_STRUCT_STATS(wred, WRED_STATS);

/* Returns the precedence of a code point. RFC 2597 section 6: AFnm is 8 n + 2
 * m, for n from 1 to 4 and m from 1 to 3. */
AQM_FN u32 wred_precedence(u32 code, u64 other)
{
	u32 class = code >> 3 & 7;
	u32 drop = code >> 1 & 3;

	if (code & 1 || class < 1 || class > 4 || !drop)
		return (u32)other;
	return drop - 1;
}

/* Returns the lower threshold: the configured one or the default, kept below
 * the upper one if only that is configured. This function and the next take
 * numbers only, so the verifier checks each once and not in every
 * combination. */
AQM_NUMBER_FN u64 wred_min_bytes(u64 min, u64 max, u64 usual)
{
	u64 bytes = min ? min : usual;

	if (!min && max)
		bytes = aqm_min(bytes, max / 2);
	return aqm_max(bytes, 1);
}

AQM_NUMBER_FN u64 wred_max_bytes(u64 min_bytes, u64 max)
{
	u64 bytes = max ? max : min_bytes + min_bytes / 2;

	return aqm_clamp(bytes, 2, AQM_MOST_BYTES / 2);
}

/* Returns the default upper threshold of low precedence. It puts RED's own
 * lower threshold between those of high precedence. So traffic beyond its
 * contract gets as short a queue as with RED. */
AQM_NUMBER_FN u64 wred_low_max_bytes(u64 red_min_bytes, u64 limit_bytes)
{
	u64 bytes = aqm_min(12 * red_min_bytes, AQM_MOST_BYTES / 4);

	if (limit_bytes)
		bytes = aqm_min(bytes, limit_bytes / 2);
	return aqm_max(bytes, 2);
}

/* Sets the thresholds of middle or high precedence: configured ones, or a part
 * of those of low precedence, so that each ends where the next begins. */
AQM_FN void wred_lower(struct red_core *v, const struct red_core *low,
		       const struct red_common *p, u64 part, u64 min, u64 max,
		       u64 max_p)
{
	v->min_bytes = wred_min_bytes(min, max, low->min_bytes / part);
	v->max_bytes = wred_max_bytes(v->min_bytes, max);
	if (v->min_bytes >= v->max_bytes)
		v->min_bytes = v->max_bytes - 1;
	v->end_bytes = p->gentle ? 2 * v->max_bytes : v->max_bytes;
	/* The average reacts slowly; reserve space for low precedence. */
	v->limit_bytes = aqm_min(low->limit_bytes, v->end_bytes);
	v->weight = low->weight;
	v->packet_ns = low->packet_ns;
	v->idle_packets = low->idle_packets;
	v->mtu_bytes = low->mtu_bytes;
	v->max_p = max_p;
}

AQM_FN void wred_setup(struct wred_vars *v, const struct wred_params *p,
		       const struct aqm_link *link)
{
	struct red_common common = p->red;
	struct red_core *low = &v->low;

	red_setup_core(low, &common, link);
	if (!p->red.min_bytes && !p->red.max_bytes) {
		common.max_bytes =
			wred_low_max_bytes(low->min_bytes, p->red.limit_bytes);
		common.min_bytes = aqm_max(common.max_bytes / 2, 1);
		if (!p->red.limit_bytes)
			common.limit_bytes = 2 * common.max_bytes;
		red_setup_core(low, &common, link);
	}
	wred_lower(&v->middle, low, &p->red, 3, p->middle_min_bytes,
		   p->middle_max_bytes, p->middle_p);
	wred_lower(&v->high, low, &p->red, 9, p->high_min_bytes,
		   p->high_max_bytes, p->high_p);
}

AQM_FN void wred_add(struct aqm_context *at, const struct wred_queued *queued)
{
	at->packets += (u32)queued->packets;
	at->bytes += queued->bytes;
	at->wire += queued->wire;
}

/* Returns the context of a precedence's average. */
AQM_FN struct aqm_context wred_context(const struct wred_vars *v,
				       u32 precedence,
				       const struct aqm_context *at)
{
	struct aqm_context own = {
		.now_ns = at->now_ns,
		.random = at->random,
	};

	if (precedence == WRED_HIGH)
		return *at;
	wred_add(&own, &v->queued_low);
	if (precedence == WRED_MIDDLE)
		wred_add(&own, &v->queued_middle);
	return own;
}

AQM_FN void wred_observe(struct wred_vars *v, struct red_core *core,
			 const struct wred_params *p, u32 precedence,
			 const struct aqm_context *at)
{
	struct aqm_context own = wred_context(v, precedence, at);

	red_observe(core, &p->red, &own);
}

AQM_FN struct wred_queued *wred_own(struct wred_vars *v, u32 precedence)
{
	if (precedence == WRED_LOW)
		return &v->queued_low;
	return precedence == WRED_MIDDLE ? &v->queued_middle : &v->queued_high;
}

AQM_FN struct aqm_verdict wred_decide(struct red_core *core,
				      const struct wred_params *p,
				      const struct aqm_packet *packet,
				      const struct aqm_context *at)
{
	u64 probability = red_probability(core, core->average, core->max_p);

	return red_verdict(core, &p->red, p->ecn != 0, probability, packet, at);
}

/* Ends the idle time of the averages that count a queued packet. */
AQM_FN void wred_began(struct wred_vars *v, u32 precedence)
{
	if (precedence == WRED_LOW)
		v->low.idle_since_ns = 0;
	if (precedence <= WRED_MIDDLE)
		v->middle.idle_since_ns = 0;
	v->high.idle_since_ns = 0;
}

AQM_FN struct aqm_verdict wred_arrive(struct wred_vars *v,
				      const struct wred_params *p,
				      struct wred_stats *s,
				      const struct aqm_packet *packet,
				      const struct aqm_context *at)
{
	u32 precedence = wred_precedence(packet->flow, p->other);
	struct wred_queued *queued = wred_own(v, precedence);
	struct aqm_verdict verdict;
	int dropped;

	if (precedence == WRED_LOW)
		wred_observe(v, &v->low, p, WRED_LOW, at);
	if (precedence <= WRED_MIDDLE)
		wred_observe(v, &v->middle, p, WRED_MIDDLE, at);
	wred_observe(v, &v->high, p, WRED_HIGH, at);
	s->peak_average = aqm_max(s->peak_average, v->high.average);
	if (precedence == WRED_LOW)
		verdict = wred_decide(&v->low, p, packet, at);
	else if (precedence == WRED_MIDDLE)
		verdict = wred_decide(&v->middle, p, packet, at);
	else
		verdict = wred_decide(&v->high, p, packet, at);
	dropped = verdict.action == AQM_DROP;
	if (!dropped) {
		queued->packets++;
		queued->bytes += packet->len;
		queued->wire += packet->wire;
		wred_began(v, precedence);
	}
	if (precedence == WRED_LOW) {
		s->low_arrived++;
		s->low_dropped += dropped;
	} else if (precedence == WRED_MIDDLE) {
		s->middle_arrived++;
		s->middle_dropped += dropped;
	} else {
		s->high_arrived++;
		s->high_dropped += dropped;
	}
	return verdict;
}

AQM_FN u32 wred_choose(struct wred_vars *v, const struct wred_params *p,
		       const struct aqm_context *at)
{
	return 0;
}

AQM_FN void wred_ended(struct wred_vars *v, struct red_core *core,
		       u32 precedence, const struct aqm_context *at)
{
	struct aqm_context own = wred_context(v, precedence, at);

	/* Keep the start of an idle time. */
	if (!core->idle_since_ns)
		red_departed(core, &own);
}

AQM_FN struct aqm_verdict wred_depart(struct wred_vars *v,
				      const struct wred_params *p,
				      struct wred_stats *s, u32 queue,
				      const struct aqm_packet *packet,
				      const struct aqm_context *at)
{
	struct wred_queued *queued;

	if (!packet)
		return aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
	queued = wred_own(v, wred_precedence(packet->flow, p->other));
	queued->packets -= aqm_min(queued->packets, 1);
	queued->bytes -= aqm_min(queued->bytes, packet->len);
	queued->wire -= aqm_min(queued->wire, packet->wire);
	/* Packets queued before `other` was changed were counted for another
	 * precedence. Correct that when the queue is empty. */
	if (!at->packets) {
		v->queued_low = (struct wred_queued){ 0 };
		v->queued_middle = (struct wred_queued){ 0 };
		v->queued_high = (struct wred_queued){ 0 };
	}
	wred_ended(v, &v->low, WRED_LOW, at);
	wred_ended(v, &v->middle, WRED_MIDDLE, at);
	wred_ended(v, &v->high, WRED_HIGH, at);
	return aqm_pass(0);
}

AQM_NO_EVICTION(wred)

AQM_DISCIPLINE(wred, WRED, 1, 4096,
	       AQM_NEEDS_RANDOM | AQM_NEEDS_CODE | AQM_NEEDS_QUEUE |
		       AQM_NEEDS_ECN,
	       "RED by drop precedence with coupled averages: what exceeds its "
	       "contract goes first")
