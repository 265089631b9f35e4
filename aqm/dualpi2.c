// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * DualPI2: one queue for L4S senders and one for classic ones, with coupled
 * marks (RFC 9332, appendix A). A controller holds the delay of the classic
 * queue at a target by a base probability p'. Classic packets are dropped or
 * marked with its square, and L4S packets are marked with k times p'. So flows
 * of either kind get about the same rate. The L4S queue goes first and also
 * marks by its own delay.
 *
 * Departures from the RFC:
 * 1. The update has no timer. The next arrival or departure makes the updates
 *    that are due, as of those times. No packet arrives or leaves between two
 *    calls, so the delay of a queue's head at each due time is known exactly,
 *    and p' is what a timer would have computed.
 * 2. The longer of both delays is controlled, as in net/sched/sch_dualpi2.c, so
 *    that p' rises if L4S senders alone overload the link.
 * 3. Decisions are random, as in the kernel, where the pseudocode counts up to
 *    one (`recur()`).
 * 4. p' has no effect while less than two full packets are queued, as in the
 *    kernel.
 * 5. The step is at least the time of two packets on the link, where the RFC
 *    has one (`Th_len`). A packet that arrives at an empty L4S queue waits for
 *    a classic one in transmission. Another one before it must not cause a mark
 *    at once.
 * 6. Packets with a certain code point go to the L4S queue whatever their ECN
 *    field is (section 2.5.1.1): NQB (RFC 9956). They are not scalable, so they
 *    are dropped or marked there as in the classic queue. So the code point
 *    improves nothing but delay.
 * 7. If L4S packets arrive in bursts, as after a radio link, the step is
 *    longer. A burst that finds an empty queue waits for itself. A step that is
 *    shorter than the burst would mark a sender that leaves the link idle
 *    between bursts. The size of bursts is an average over some 128 packets,
 *    weighted by packets.
 */
#include "fixed.h"

/* p' has 56 binary places. */
#define DUALPI2_ONE (1ULL << 56)

/* Longer delays are treated as this one, which bounds the values in
 * dualpi2_update(). */
#define DUALPI2_MOST_NS 4000000000LL

/* Most updates made in one call. By default an idle link takes p' from 1 to 0
 * in 416. */
#define DUALPI2_CATCH_UP 1024

/* Packets belong to one burst if each follows the one before within this
 * fraction of a full packet's time on the link. */
#define DUALPI2_CLOSE_PART 8

/* Number of packets over which bursts are averaged. */
#define DUALPI2_BURST_PACKETS 128

enum dualpi2_queue { DUALPI2_C = 0, DUALPI2_L = 1, DUALPI2_QUEUE_COUNT = 2 };
enum dualpi2_scheduler { DUALPI2_SHIFTED = 0, DUALPI2_WEIGHTED = 1 };

#define DUALPI2_PARAMS(P) \
	P(limit_packets, AQM_PACKETS, 10000, 1, 1 << 20, \
	  "maximum length of both queues together") \
	P(target_ns, AQM_NS, 15000000, 1000, 1000000000, \
	  "target delay of classic packets") \
	P(update_ns, AQM_NS, 16000000, 1000000, 1000000000, \
	  "time between updates of the probability") \
	P(alpha, "ratio/2^8 per s", 41, 1, 2048, \
	  "weight of the delay's distance from the target") \
	P(beta, "ratio/2^8 per s", 819, 1, 2048, \
	  "weight of the delay's change") \
	P(coupling, AQM_NUMBER, 2, 1, 16, \
	  "k: marking probability of L4S packets over the base probability") \
	P(step_ns, AQM_NS, 1000000, 0, 1000000000, \
	  "delay from which L4S packets are marked, whatever the probability") \
	P(step_packets, AQM_PACKETS, 2, 0, 64, \
	  "least step, as the time of this many full packets on the link") \
	P(bursts_ns, AQM_NS, 10000000, 0, 100000000, \
	  "most that bursts add to the step; 0: nothing") \
	P(ramp_ns, AQM_NS, 0, 0, 1000000000, \
	  "delay over which marking rises from no packet to all; 0: a step") \
	P(scheduler, "shifted|weighted", 0, 0, 1, \
	  "how the L4S queue gets priority: by a time shift, or by weights") \
	P(shift_ns, AQM_NS, 50000000, 0, 1000000000, \
	  "how much longer a classic packet must have waited to go first") \
	P(classic_percent, AQM_NUMBER, 10, 1, 99, \
	  "with weights: classic share of the bytes while both queues have " \
	  "packets") \
	P(drop_overload, AQM_FLAG, 1, 0, 1, \
	  "drop L4S packets too if marking all of them is not enough") \
	P(nqb_code, AQM_NUMBER, 45, 0, 64, \
	  "code point whose packets also go to the L4S queue; 64: none")

#define DUALPI2_VARS(N) \
	N(probability, "ratio/2^56", "base probability p'") \
	N(old_delay_ns, AQM_NS, "longer of both delays at the last update") \
	N(updated_ns, AQM_NS, "when the last update was due") \
	N(owed_bytes, "bytes/100", \
	  "with weights: bytes that the classic queue has earned") \
	N(step_ns, AQM_NS, "step without bursts") \
	N(full_ns, AQM_NS, "time to send a full packet") \
	N(came_ns, AQM_NS, "when the last L4S packet arrived") \
	N(run_packets, AQM_PACKETS, "packets of the present burst so far") \
	N(run_bytes, AQM_BYTES, "bytes of the present burst so far") \
	N(burst_ns, AQM_NS, "mean time that a burst takes on the link") \
	N(two_packets_bytes, AQM_BYTES, "two full packets") \
	N(limit_packets, AQM_PACKETS, "limit in force") \
	N(begun, AQM_FLAG, "whether a packet has arrived yet")

#define DUALPI2_STATS(N) \
	N(updates, AQM_NUMBER, "updates of the probability") \
	N(peak_probability, "ratio/2^56", "highest base probability") \
	N(l4s_packets, AQM_PACKETS, "L4S packets sent") \
	N(l4s_bytes, AQM_BYTES, "their bytes") \
	N(l4s_waited_ns, AQM_NS, "time that they waited, added up") \
	N(l4s_coupled_marks, AQM_PACKETS, \
	  "L4S packets marked by the probability") \
	N(l4s_step_marks, AQM_PACKETS, \
	  "L4S packets marked by their own delay") \
	N(l4s_drops, AQM_PACKETS, "L4S packets dropped because of overload") \
	N(nqb_packets, AQM_PACKETS, \
	  "packets sent from the L4S queue because of their code point " \
	  "alone") \
	N(classic_packets, AQM_PACKETS, "classic packets sent") \
	N(classic_bytes, AQM_BYTES, "their bytes") \
	N(classic_waited_ns, AQM_NS, "time that they waited, added up") \
	N(classic_marks, AQM_PACKETS, "classic packets marked") \
	N(classic_drops, AQM_PACKETS, \
	  "classic packets dropped by the probability")

AQM_STRUCT_PARAMS(dualpi2, DUALPI2_PARAMS);
AQM_STRUCT_VARS(dualpi2, DUALPI2_VARS);
AQM_STRUCT_STATS(dualpi2, DUALPI2_STATS);

AQM_FN void dualpi2_setup(struct dualpi2_vars *v,
			  const struct dualpi2_params *p,
			  const struct aqm_link *link)
{
	u64 mtu = aqm_max(link->mtu_bytes, 64);
	u64 wire = aqm_wire(link, (u32)mtu);

	if (link->rate_bytes_s)
		v->full_ns = wire * 1000000000 / link->rate_bytes_s;
	v->step_ns = aqm_max(p->step_ns, p->step_packets * v->full_ns);
	v->two_packets_bytes = 2 * mtu;
	v->limit_packets = aqm_min(p->limit_packets, link->room_packets);
}

/* Returns how long a queue's head has waited at a time. */
AQM_FN s64 dualpi2_delay(u64 head_ns, u64 now_ns)
{
	if (head_ns == AQM_NO_HEAD || head_ns > now_ns)
		return 0;
	return (s64)aqm_min(now_ns - head_ns, DUALPI2_MOST_NS);
}

/*
 * Makes one update: p' += alpha (delay - target) + beta (delay - old), limited
 * to 0 to 1 (appendix A.1), or to 1/k if nothing is dropped for overload.
 *
 * alpha and beta are 256ths per second. One second of delay is 10^9 ns, so a
 * nanosecond changes p' by 2^48 / 10^9 = 281474.976710 of 2^-56 for each 256th.
 * The sum is at most 2 * 2048 * 4 * 10^9 < 1.7 * 10^13, and that times 976710
 * is below 2^64.
 */
AQM_FN void dualpi2_update(struct dualpi2_vars *v,
			   const struct dualpi2_params *p,
			   struct dualpi2_stats *s, s64 delay)
{
	u64 most = p->drop_overload ? DUALPI2_ONE : DUALPI2_ONE / p->coupling;
	s64 sum = (s64)p->alpha * (delay - (s64)p->target_ns) +
		  (s64)p->beta * (delay - (s64)v->old_delay_ns);
	u64 size = (u64)(sum < 0 ? -sum : sum);
	u64 change = size * 281474 + size * 976710 / 1000000;
	u64 probability = v->probability;

	if (sum >= 0)
		probability = aqm_min(probability + change, most);
	else
		probability = aqm_min(
			probability - aqm_min(change, probability), most);
	v->probability = probability;
	v->old_delay_ns = (u64)delay;
	s->updates++;
	s->peak_probability = aqm_max(s->peak_probability, probability);
}

/* Makes the updates that are due since the last call. Since then, these were
 * the arrival times of the queues' heads. */
AQM_FN void dualpi2_catch_up(struct dualpi2_vars *v,
			     const struct dualpi2_params *p,
			     struct dualpi2_stats *s, u64 classic_ns,
			     u64 l4s_ns, u64 now_ns)
{
	s64 delay, other;
	u32 i;

	if (!v->begun) {
		v->begun = 1;
		v->updated_ns = now_ns;
	}
	AQM_LONG_LOOP (i, DUALPI2_CATCH_UP) {
		if (now_ns - v->updated_ns < p->update_ns)
			return;
		v->updated_ns += p->update_ns;
		delay = dualpi2_delay(classic_ns, v->updated_ns);
		other = dualpi2_delay(l4s_ns, v->updated_ns);
		dualpi2_update(v, p, s, other > delay ? other : delay);
		if (!v->probability && !v->old_delay_ns)
			break;
	}
	/* The remaining updates change nothing. Keep their schedule. */
	v->updated_ns += (now_ns - v->updated_ns) / p->update_ns * p->update_ns;
}

/* Whether a packet is L4S: ECT(1), or CE, which may have been ECT(1) (RFC 9331,
 * section 5.1). */
AQM_FN int dualpi2_scalable(const struct aqm_packet *packet)
{
	return (packet->ecn & AQM_ECT_1) != 0;
}

/* Adds an L4S arrival to the present burst. If it starts a new one, first adds
 * the previous burst to the average, weighted by its packets. */
AQM_FN void dualpi2_gather(struct dualpi2_vars *v,
			   const struct aqm_packet *packet, u64 now_ns)
{
	u64 packets = v->run_packets;
	u64 took;

	if (now_ns - v->came_ns > v->full_ns / DUALPI2_CLOSE_PART) {
		took = v->run_bytes * 2 * v->full_ns / v->two_packets_bytes;
		v->burst_ns = (v->burst_ns * (DUALPI2_BURST_PACKETS - packets) +
			       took * packets) /
			      DUALPI2_BURST_PACKETS;
		v->run_packets = 0;
		v->run_bytes = 0;
	}
	v->came_ns = now_ns;
	if (v->run_packets == DUALPI2_BURST_PACKETS)
		return;
	v->run_packets++;
	v->run_bytes += packet->len;
}

/* Returns the step in force. An acknowledgement of two packets releases two at
 * once, and now and then three, which does not count as a burst. For larger
 * bursts of varying size, the longest are more than twice the mean. */
AQM_FN u64 dualpi2_step(const struct dualpi2_vars *v,
			const struct dualpi2_params *p)
{
	u64 two = 2 * v->full_ns;

	if (v->burst_ns <= two + two / 8)
		return v->step_ns;
	return v->step_ns + aqm_min(4 * (v->burst_ns - two), p->bursts_ns);
}

AQM_FN struct aqm_verdict dualpi2_arrive(struct dualpi2_vars *v,
					 const struct dualpi2_params *p,
					 struct dualpi2_stats *s,
					 const struct aqm_packet *packet,
					 const struct aqm_context *at)
{
	dualpi2_catch_up(v, p, s, at->heads_ns[DUALPI2_C],
			 at->heads_ns[DUALPI2_L], at->now_ns);
	if (at->packets >= v->limit_packets)
		return aqm_drop(AQM_LIMIT_REASON);
	if (!dualpi2_scalable(packet) && packet->flow != p->nqb_code)
		return aqm_pass(DUALPI2_C);
	dualpi2_gather(v, packet, at->now_ns);
	return aqm_pass(DUALPI2_L);
}

/* Returns the queue that is next (section 4.1.1 and appendix A.1,
 * `scheduler()`). */
AQM_FN u32 dualpi2_choose(struct dualpi2_vars *v,
			  const struct dualpi2_params *p,
			  const struct aqm_context *at)
{
	u64 classic = at->heads_ns[DUALPI2_C];
	u64 l4s = at->heads_ns[DUALPI2_L];

	if (l4s == AQM_NO_HEAD)
		return DUALPI2_C;
	if (classic == AQM_NO_HEAD)
		return DUALPI2_L;
	if (p->scheduler == DUALPI2_WEIGHTED)
		return v->owed_bytes >= v->two_packets_bytes / 2 *
						(100 - p->classic_percent) ?
			       DUALPI2_C :
			       DUALPI2_L;
	return l4s <= classic + p->shift_ns ? DUALPI2_L : DUALPI2_C;
}

/* Accounts for the classic queue's share of the bytes sent while both queues
 * have packets. */
AQM_FN void dualpi2_weigh(struct dualpi2_vars *v,
			  const struct dualpi2_params *p, u32 queue,
			  const struct aqm_packet *packet,
			  const struct aqm_context *at)
{
	u64 paid = (u64)packet->len * (100 - p->classic_percent);

	if (queue == DUALPI2_L && at->heads_ns[DUALPI2_C] != AQM_NO_HEAD)
		v->owed_bytes += (u64)packet->len * p->classic_percent;
	if (queue == DUALPI2_C && at->heads_ns[DUALPI2_L] != AQM_NO_HEAD)
		v->owed_bytes -= aqm_min(paid, v->owed_bytes);
}

/* Decides at random with a probability of at most AQM_ONE. */
AQM_FN int dualpi2_falls(u64 probability, const struct aqm_context *at)
{
	return at->random < probability;
}

/* Returns the probability of a mark by the packet's own delay (appendix A.1,
 * `laqm()`). */
AQM_FN u64 dualpi2_native(const struct dualpi2_vars *v,
			  const struct dualpi2_params *p, u64 delay_ns)
{
	u64 step = dualpi2_step(v, p);

	if (delay_ns < step || !delay_ns)
		return 0;
	return aqm_ratio(delay_ns - step, p->ramp_ns);
}

/* Decides on an L4S packet; `base` is p' and `squared` is p'^2, as ratios. */
AQM_FN struct aqm_verdict dualpi2_l4s(struct dualpi2_vars *v,
				      const struct dualpi2_params *p,
				      struct dualpi2_stats *s,
				      const struct aqm_packet *packet, u64 base,
				      u64 squared, const struct aqm_context *at)
{
	u64 delay = at->now_ns - packet->arrived_ns;
	u64 coupled = base * p->coupling;

	if (coupled > AQM_ONE) {
		if (p->drop_overload && dualpi2_falls(squared, at)) {
			s->l4s_drops++;
			return aqm_drop(AQM_EARLY_REASON);
		}
		coupled = AQM_ONE;
	}
	if (dualpi2_falls(coupled, at)) {
		s->l4s_coupled_marks++;
		return aqm_mark(AQM_EARLY_REASON, DUALPI2_L);
	}
	if (dualpi2_falls(dualpi2_native(v, p, delay), at)) {
		s->l4s_step_marks++;
		return aqm_mark(AQM_THRESHOLD_REASON, DUALPI2_L);
	}
	return aqm_pass(DUALPI2_L);
}

/* Decides on a packet of a classic sender, in either queue. Once all L4S
 * packets are marked, classic ones are dropped and no longer marked (section
 * 4.2.3 and appendix A.2). */
AQM_FN struct aqm_verdict dualpi2_classic(const struct dualpi2_params *p,
					  struct dualpi2_stats *s, u32 queue,
					  const struct aqm_packet *packet,
					  u64 base, u64 squared,
					  const struct aqm_context *at)
{
	if (!dualpi2_falls(squared, at))
		return aqm_pass(queue);
	if (!aqm_can_mark(packet) || base * p->coupling > AQM_ONE) {
		s->classic_drops++;
		return aqm_drop(AQM_EARLY_REASON);
	}
	s->classic_marks++;
	return aqm_mark(AQM_EARLY_REASON, queue);
}

AQM_FN struct aqm_verdict dualpi2_depart(struct dualpi2_vars *v,
					 const struct dualpi2_params *p,
					 struct dualpi2_stats *s, u32 queue,
					 const struct aqm_packet *packet,
					 const struct aqm_context *at)
{
	struct aqm_verdict verdict;
	u64 base, squared, waited;
	u64 classic_ns = at->heads_ns[DUALPI2_C];
	u64 l4s_ns = at->heads_ns[DUALPI2_L];

	/* The departing packet was the head of its queue until now. */
	if (packet && queue == DUALPI2_L)
		l4s_ns = packet->arrived_ns;
	else if (packet)
		classic_ns = packet->arrived_ns;
	dualpi2_catch_up(v, p, s, classic_ns, l4s_ns, at->now_ns);
	if (!packet) {
		v->owed_bytes = 0;
		return aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
	}
	base = at->bytes < v->two_packets_bytes ? 0 : v->probability >> 24;
	squared = aqm_scale(base, base);
	verdict =
		dualpi2_scalable(packet) ?
			dualpi2_l4s(v, p, s, packet, base, squared, at) :
			dualpi2_classic(p, s, queue, packet, base, squared, at);
	if (verdict.action == AQM_DROP)
		return verdict;
	dualpi2_weigh(v, p, queue, packet, at);
	waited = at->now_ns - packet->arrived_ns;
	if (queue == DUALPI2_L) {
		s->l4s_packets++;
		s->l4s_bytes += packet->len;
		s->l4s_waited_ns += waited;
		s->nqb_packets += !dualpi2_scalable(packet);
	} else {
		s->classic_packets++;
		s->classic_bytes += packet->len;
		s->classic_waited_ns += waited;
	}
	return verdict;
}

AQM_NO_EVICTION(dualpi2)

AQM_DISCIPLINE(dualpi2, DUALPI2, DUALPI2_QUEUE_COUNT, 10240,
	       AQM_NEEDS_HEADS | AQM_NEEDS_QUEUE | AQM_NEEDS_RANDOM_OUT |
		       AQM_NEEDS_ECN | AQM_NEEDS_CODE,
	       "DualPI2: a queue for L4S and one for classic senders, coupled")
