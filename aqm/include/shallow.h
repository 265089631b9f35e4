/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Marks for senders of L4S (RFC 9331) where they have no queue of their own: beside
 * an AQM of one queue, or of a virtual one, as behind the coupled AQM of two
 * (RFC 9332). It owns what would wait in the second one.
 *
 * In two queues theirs goes first, so it has to pass the whole link. What would wait
 * there is known by the times of their packets alone: each keeps the link for as
 * long as it takes. The longer a packet finds it kept, the more likely it is marked:
 * the probability rises in a ramp, from 0 where nothing is before it. With a step, all
 * senders hear of it at once, and fall back and grow together.
 *
 * The probability that the AQM has for classic packets is coupled (section 2.1):
 * where that is p'^2, L4S packets are marked with k p' at least. Where k p' is 1 or
 * more, marks say no more, and the AQM drops them as classic ones (section 4.2.3).
 */
#ifndef AQM_SHALLOW_H
#define AQM_SHALLOW_H

#include "aqm.h"
#include "fixed.h"

#define SHALLOW_PARAMS(P) \
	P(l4s_ramp_ns, AQM_NS, 0, 0, 1000000000, \
	  "an L4S packet is marked for certain if those before it keep the " \
	  "link for this long, and in proportion if for less; at least " \
	  "four full packets; 0: L4S packets are treated as all others") \
	P(coupling, AQM_NUMBER, 2, 1, 16, \
	  "k: probability for L4S packets over the root of the classic one")

#define SHALLOW_VARS(N) \
	N(l4s_rate, AQM_NUMBER, "bytes/s of the link, for L4S packets alone") \
	N(l4s_ramp_ns, AQM_NS, "ramp in force") \
	N(l4s_until_ns, AQM_NS, "for how long L4S packets would keep the link")

#define SHALLOW_STATS(N) \
	N(l4s_packets, AQM_PACKETS, "arrivals of L4S packets") \
	N(l4s_ramp_marks, AQM_PACKETS, "of them marked by the ramp") \
	N(l4s_coupled_marks, AQM_PACKETS, \
	  "of them marked by the classic probability alone")

/* What would wait says no more beyond so many ramps, and is forgotten as soon. */
#define SHALLOW_RAMPS_MOST 8

struct shallow_params {
	SHALLOW_PARAMS(AQM_PARAM_FIELD)
};

struct shallow_vars {
	SHALLOW_VARS(AQM_NUMBER_FIELD)
};

struct shallow_stats {
	SHALLOW_STATS(AQM_NUMBER_FIELD)
};

/* What is to happen to a packet of L4S. */
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
	u64 least = v->l4s_rate ? 4 * full * 1000000000 / v->l4s_rate : 0;

	v->l4s_ramp_ns = 0;
	/* What is divided by it must be below 2^32. */
	if (p->l4s_ramp_ns)
		v->l4s_ramp_ns =
			aqm_min(aqm_max(p->l4s_ramp_ns, least), 0xffffffffU);
}

/* Whether a packet is one of L4S: ECT(1) says so, and CE may have been that
 * (RFC 9331, section 5.1). */
AQM_FN int shallow_is(const struct shallow_params *p,
		      const struct aqm_packet *packet)
{
	return p->l4s_ramp_ns && packet->ecn & AQM_ECT_1;
}

/*
 * For how long the packets before this one would keep the link; it is added.
 *
 * This and the next function are looked at by the kernel's verifier once, which would
 * follow each of their ways into all that comes after.
 */
AQM_WHOLE_FN u64 shallow_add(struct shallow_vars *v AQM_NONNULL, u32 wire,
			     u64 now_ns)
{
	u64 waits, most;

	/* Before Linux 6.8 the verifier takes no word for AQM_NONNULL. */
	if (!v || !v->l4s_rate)
		return 0;
	waits = v->l4s_until_ns > now_ns ? v->l4s_until_ns - now_ns : 0;
	most = SHALLOW_RAMPS_MOST * v->l4s_ramp_ns;
	v->l4s_until_ns =
		now_ns +
		aqm_min(waits + (u64)wire * 1000000000 / v->l4s_rate, most);
	return waits;
}

/*
 * What happens to a packet that finds others before it for so long, where a classic
 * one would be chosen with a probability.
 *
 * The AQM spaces its choices evenly (red.h): the mean gap is (1 + 1/p) / 2, so that
 * 2 p / (1 + p) of all packets are chosen, and p' is the root of that.
 */
AQM_NUMBER_FN u32 shallow_answer(u64 waits, u64 ramp_ns, u64 coupling,
				 u64 probability, u32 random)
{
	u64 coupled = AQM_ONE;

	if (probability < AQM_ONE)
		coupled = coupling *
			  aqm_root(aqm_ratio(probability,
					     (AQM_ONE + probability) / 2));
	if (coupled >= AQM_ONE)
		return SHALLOW_OVERLOAD;
	if (random < aqm_ratio(waits, ramp_ns))
		return SHALLOW_MARK;
	return random < coupled ? SHALLOW_COUPLED : SHALLOW_PASS;
}

/* The same of a packet that came. */
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
