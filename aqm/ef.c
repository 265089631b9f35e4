// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ef: expedited forwarding (RFC 3246; Mylonas, section 2.3.3). Packets of one
 * code point have a small queue with priority over all others, and a rate. The
 * rate gives each of them a scheduled time: not before its arrival, and not
 * before the packets ahead of it have had their time on a line of that rate. A
 * packet that could be sent before its scheduled time is ahead of schedule. The
 * parameter `early` selects what happens to it, as Mylonas lists:
 *
 *     forward   it is sent at once;
 *     hold      it is sent at its scheduled time, and others go first;
 *     discard   it is dropped on arrival.
 *
 * Held packets leave no faster than the rate, whatever their bursts: a shaper,
 * which trades delay for less jitter.
 *
 * Departure from Mylonas: everything else is drop tail, where his figure has
 * RED.
 */
#include "red.h"

enum ef_early { EF_FORWARD = 0, EF_HOLD = 1, EF_DISCARD = 2 };

enum ef_queue { EF_FIRST = 0, EF_REST = 1 };

#define EF_PARAMS(P) \
	P(limit_packets, AQM_PACKETS, 1000, 1, 1 << 20, \
	  "maximum length of all queues together") \
	P(first_packets, AQM_PACKETS, 20, 1, 4096, \
	  "maximum length of the first queue") \
	P(code, AQM_NUMBER, 46, 0, 63, "code point of the first queue") \
	P(rate_kbit, "kbit/s", 0, 0, 1 << 30, \
	  "rate of the first queue on the wire; 0: a fifth of the link's") \
	P(burst_bytes, AQM_BYTES, 0, 0, 1 << 24, \
	  "bytes that may be ahead of schedule and still count as on time") \
	P(early, "forward|hold|discard", 0, 0, 2, \
	  "whether packets ahead of schedule are sent, held or dropped")

#define EF_VARS(N) \
	N(until_ns, AQM_NS, "until when the head is held; 0: it is not held") \
	N(next_ns, AQM_NS, "scheduled time of the next packet") \
	N(first_packets, AQM_PACKETS, "packets in the first queue") \
	N(rate_bytes_s, "bytes/s", "rate in force") \
	N(burst_ns, AQM_NS, "time of `burst_bytes` at the rate in force") \
	N(limit_packets, AQM_PACKETS, "limit in force")

#define EF_STATS(N) \
	N(first_arrived, AQM_PACKETS, "packets of the code point") \
	N(early_packets, AQM_PACKETS, "those that arrived ahead of schedule")

AQM_STRUCT_PARAMS(ef, EF_PARAMS);
AQM_STRUCT_VARS(ef, EF_VARS);
AQM_STRUCT_STATS(ef, EF_STATS);

AQM_FN void ef_setup(struct ef_vars *v, const struct ef_params *p,
		     const struct aqm_link *link)
{
	u64 rate = link->rate_bytes_s ? link->rate_bytes_s : RED_UNKNOWN_RATE;

	v->rate_bytes_s =
		aqm_max(p->rate_kbit ? p->rate_kbit * 125 : rate / 5, 125);
	v->burst_ns = p->burst_bytes * 1000000000 / v->rate_bytes_s;
	v->limit_packets = aqm_min(p->limit_packets, link->room_packets);
}

/* Returns when a packet that arrived at `came_ns` may be sent. */
AQM_FN u64 ef_due(const struct ef_vars *v, u64 came_ns)
{
	u64 next = v->next_ns - aqm_min(v->next_ns, v->burst_ns);

	return aqm_max(came_ns, next);
}

/* Advances the schedule by a packet's time on a line of that rate. */
AQM_FN void ef_scheduled(struct ef_vars *v, const struct aqm_packet *packet)
{
	v->next_ns = aqm_max(v->next_ns, packet->arrived_ns) +
		     (u64)packet->wire * 1000000000 / v->rate_bytes_s;
}

AQM_FN struct aqm_verdict
ef_arrive(struct ef_vars *v, const struct ef_params *p, struct ef_stats *s,
	  const struct aqm_packet *packet, const struct aqm_context *at)
{
	if (packet->flow != p->code)
		return at->packets < v->limit_packets ?
			       aqm_pass(EF_REST) :
			       aqm_drop(AQM_LIMIT_REASON);
	s->first_arrived++;
	if (at->packets >= v->limit_packets ||
	    v->first_packets >= p->first_packets)
		return aqm_drop(AQM_LIMIT_REASON);
	if (p->early == EF_DISCARD) {
		if (at->now_ns < ef_due(v, at->now_ns)) {
			s->early_packets++;
			return aqm_drop(AQM_EARLY_REASON);
		}
		ef_scheduled(v, packet);
	}
	v->first_packets++;
	return aqm_pass(EF_FIRST);
}

AQM_FN u32 ef_choose(struct ef_vars *v, const struct ef_params *p,
		     const struct aqm_context *at)
{
	u64 due;

	v->until_ns = 0;
	if (at->heads_ns[EF_FIRST] != AQM_NO_HEAD) {
		due = ef_due(v, at->heads_ns[EF_FIRST]);
		if (p->early != EF_HOLD || at->now_ns >= due)
			return EF_FIRST;
		v->until_ns = due;
	}
	return at->heads_ns[EF_REST] != AQM_NO_HEAD ? EF_REST : AQM_NO_QUEUE;
}

AQM_FN struct aqm_verdict ef_depart(struct ef_vars *v,
				    const struct ef_params *p,
				    struct ef_stats *s, u32 queue,
				    const struct aqm_packet *packet,
				    const struct aqm_context *at)
{
	if (!packet)
		return aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
	if (queue == EF_FIRST) {
		v->first_packets -= aqm_min(v->first_packets, 1);
		if (p->early != EF_DISCARD) {
			s->early_packets += packet->arrived_ns <
					    ef_due(v, packet->arrived_ns);
			ef_scheduled(v, packet);
		}
	}
	return aqm_pass(0);
}

AQM_NO_EVICTION(ef)

AQM_DISCIPLINE_HELD(ef, EF, 2, 4096,
		    AQM_NEEDS_CODE | AQM_NEEDS_QUEUE | AQM_NEEDS_HEADS |
			    AQM_NEEDS_HOLD,
		    v->until_ns,
		    "expedited forwarding: its own queue, rate and schedule")
