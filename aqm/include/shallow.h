/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ECN marks for L4S senders (RFC 9331) that share a single real or virtual
 * queue with classic traffic. A coupled AQM with two queues (RFC 9332) is
 * emulated: this file computes what would wait in the second queue.
 *
 * With two queues, the L4S queue goes first and has the whole link. What would
 * wait in it follows from the arrival times of L4S packets alone: each occupies
 * the link for its own transmission time. The longer a packet would wait, the
 * more likely it is marked. The probability rises in a ramp from 0. With a
 * step, all senders would get marks at once, and slow down and grow together.
 *
 * The ramp is a square root, and its scale is a number of marks. Two marks per
 * round trip hold a scalable sender's rate, however fast it is. Below 25 ms,
 * Prague assumes a round trip of 25 ms
 * (draft-briscoe-iccrg-prague-congestion-control). So the waiting time
 * determines the number of marks in 25 ms. It is `l4s_marks` if one full packet
 * waits, and grows with the square root of what waits. The more senders there
 * are, the less one packet more or less changes. With a linear ramp, the
 * senders' rates and the queue oscillate more.
 *
 * The AQM's probability for classic packets is coupled (section 2.1). If it is
 * p'^2, L4S packets are marked with at least k p'. If k p' is 1 or more, marks
 * have no effect, and the AQM drops L4S packets like classic ones (section
 * 4.2.3).
 */
#ifndef AQM_SHALLOW_H
#define AQM_SHALLOW_H

#include "aqm.h"
#include "fixed.h"

#define SHALLOW_PARAMS(P) \
	P(l4s_marks, AQM_NUMBER, 0, 0, 1000, \
	  "L4S marks in 25 ms on a full link if one full packet would " \
	  "wait; they grow with the square root of what would wait; 0: L4S " \
	  "packets are treated as all others") \
	P(coupling, AQM_NUMBER, 2, 1, 16, \
	  "k: marking probability of L4S packets over the square root of " \
	  "the classic one")

#define SHALLOW_VARS(N) \
	N(l4s_rate, AQM_NUMBER, "bytes/s of the link, for L4S packets alone") \
	N(l4s_ramp_ns, AQM_NS, "delay from which every L4S packet is marked") \
	N(l4s_until_ns, AQM_NS, "until when L4S packets would occupy the link")

#define SHALLOW_STATS(N) \
	N(l4s_packets, AQM_PACKETS, "L4S packets that arrived") \
	N(l4s_ramp_marks, AQM_PACKETS, "L4S packets marked by the ramp") \
	N(l4s_coupled_marks, AQM_PACKETS, \
	  "L4S packets marked by the classic probability alone")

/* The round-trip time over which marks are counted. */
#define SHALLOW_ROUND_NS 25000000ULL

struct shallow_params {
	SHALLOW_PARAMS(AQM_PARAM_FIELD)
};

struct shallow_vars {
	SHALLOW_VARS(AQM_NUMBER_FIELD)
};

struct shallow_stats {
	SHALLOW_STATS(AQM_NUMBER_FIELD)
};

/* What happens to an L4S packet. */
enum shallow_answer {
	SHALLOW_PASS = 0,
	SHALLOW_MARK = 1, /* by the ramp */
	SHALLOW_COUPLED = 2, /* marked by the classic probability alone */
	SHALLOW_OVERLOAD = 3, /* marked, unless the AQM drops it */
};

AQM_FN void shallow_setup(struct shallow_vars *v,
			  const struct shallow_params *p,
			  const struct aqm_link *link)
{
	u64 full = aqm_wire(link, (u32)aqm_clamp(link->mtu_bytes, 64, 65536));

	v->l4s_rate = link->rate_bytes_s;
	u64 full_ns = v->l4s_rate ? full * 1000000000 / v->l4s_rate : 0;

	v->l4s_ramp_ns = 0;
	if (!p->l4s_marks || !full_ns)
		return;
	/* Choose the ramp so that sqrt(full_ns / ramp) is the ratio of
	 * l4s_marks to the packets of a round: l4s_marks full_ns /
	 * SHALLOW_ROUND_NS. */
	u64 each_ns = SHALLOW_ROUND_NS / p->l4s_marks;
	u64 ramp_ns = each_ns * each_ns / full_ns;

	/* aqm_ratio() requires numbers below 2^32. */
	v->l4s_ramp_ns = aqm_min(aqm_max(ramp_ns, 4 * full_ns), 0xffffffffU);
}

/* Whether a packet is L4S: ECT(1), or CE, which may have been ECT(1) (RFC 9331,
 * section 5.1). */
AQM_FN int shallow_is(const struct shallow_params *p,
		      const struct aqm_packet *packet)
{
	return p->l4s_marks && packet->ecn & AQM_ECT_1;
}

/*
 * Adds a packet to the virtual L4S queue. Returns how long the packets before
 * it occupy the link. Waiting time beyond the ramp makes no difference and is
 * not stored.
 *
 * The verifier checks this function and the next one once. Otherwise it would
 * follow each of their branches into all code after them.
 */
AQM_WHOLE_FN u64 shallow_add(struct shallow_vars *v AQM_NONNULL, u32 wire,
			     u64 now_ns)
{
	u64 waits;

	/* Before Linux 6.8 the verifier ignores AQM_NONNULL. */
	if (!v || !v->l4s_rate)
		return 0;
	waits = v->l4s_until_ns > now_ns ? v->l4s_until_ns - now_ns : 0;
	v->l4s_until_ns =
		now_ns + aqm_min(waits + (u64)wire * 1000000000 / v->l4s_rate,
				 v->l4s_ramp_ns);
	return waits;
}

/*
 * Decides on a packet that would wait for `waits`, if a classic packet would be
 * chosen with `probability`.
 *
 * The AQM spaces its choices evenly (red.h). The mean gap is (1 + 1/p) / 2, so
 * that 2 p / (1 + p) of all packets are chosen, and p' is the square root of
 * that.
 */
AQM_NUMBER_FN u32 shallow_answer(u64 waits, u64 ramp_ns, u64 coupling,
				 u64 probability, u32 random)
{
	/* Without a rate there is no ramp. */
	u64 part = ramp_ns ? aqm_ratio(waits, ramp_ns) : 0;
	u64 coupled = AQM_ONE;

	if (probability < AQM_ONE)
		coupled = coupling *
			  aqm_root(aqm_ratio(probability,
					     (AQM_ONE + probability) / 2));
	if (coupled >= AQM_ONE)
		return SHALLOW_OVERLOAD;
	if (part >= AQM_ONE || random < aqm_root(part))
		return SHALLOW_MARK;
	return random < coupled ? SHALLOW_COUPLED : SHALLOW_PASS;
}

/* Decides on an arriving L4S packet and counts it. */
AQM_FN u32 shallow_decide(struct shallow_vars *v,
			  const struct shallow_params *p,
			  struct shallow_stats *s,
			  const struct aqm_packet *packet, u64 probability,
			  const struct aqm_context *at)
{
	u64 waits = shallow_add(v, packet->wire, at->now_ns);
	u32 answer = shallow_answer(waits, v->l4s_ramp_ns, p->coupling,
				    probability, at->random);

	s->l4s_packets++;
	s->l4s_ramp_marks += answer == SHALLOW_MARK;
	s->l4s_coupled_marks += answer == SHALLOW_COUPLED;
	return answer;
}

#endif
