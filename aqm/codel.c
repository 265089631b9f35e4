// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * CoDel: drops at the head of the queue once packets have waited longer than a
 * target for a whole interval. It then drops at increasing frequency until they
 * do not (Nichols and Jacobson 2012; RFC 8289). The arithmetic is in
 * include/codel.h.
 */
#include "codel.h"

#define CODEL_OWN_PARAMS(P) \
	P(limit_packets, AQM_PACKETS, 1000, 1, 1 << 20, \
	  "maximum queue length") \
	P(ecn, AQM_FLAG, 0, 0, 1, \
	  "mark rather than drop where the sender understands it")

#define CODEL_PARAMS(P) CODEL_COMMON(P) CODEL_OWN_PARAMS(P)

#define CODEL_VARS(N) \
	N(mtu_bytes, AQM_BYTES, "MTU in force") \
	N(limit_packets, AQM_PACKETS, "limit in force")

#define CODEL_STATS(N) \
	N(longest_ns, AQM_NS, "longest wait of a packet that was sent")

struct codel_params {
	struct codel_common codel;
	CODEL_OWN_PARAMS(AQM_PARAM_FIELD)
};

struct codel_vars {
	CODEL_VARS(AQM_NUMBER_FIELD)
	struct codel_core codel;
};

AQM_STRUCT_STATS(codel, CODEL_STATS);

AQM_FN void codel_setup(struct codel_vars *v, const struct codel_params *p,
			const struct aqm_link *link)
{
	v->mtu_bytes = p->codel.mtu_bytes ? p->codel.mtu_bytes :
					    link->mtu_bytes;
	v->limit_packets = aqm_min(p->limit_packets, link->room_packets);
}

AQM_FN struct aqm_verdict codel_arrive(struct codel_vars *v,
				       const struct codel_params *p,
				       struct codel_stats *s,
				       const struct aqm_packet *packet,
				       const struct aqm_context *at)
{
	if (at->packets >= v->limit_packets)
		return aqm_drop(AQM_LIMIT_REASON);
	return aqm_pass(0);
}

AQM_FN u32 codel_choose(struct codel_vars *v, const struct codel_params *p,
			const struct aqm_context *at)
{
	return 0;
}

AQM_FN struct aqm_verdict codel_depart(struct codel_vars *v,
				       const struct codel_params *p,
				       struct codel_stats *s, u32 queue,
				       const struct aqm_packet *packet,
				       const struct aqm_context *at)
{
	struct aqm_verdict verdict = codel_head(&v->codel, &p->codel,
						v->mtu_bytes, p->ecn != 0,
						packet, at->bytes, at->now_ns);

	if (packet && verdict.action != AQM_DROP)
		s->longest_ns =
			aqm_max(s->longest_ns, at->now_ns - packet->arrived_ns);
	return verdict;
}

AQM_NO_EVICTION(codel)

AQM_DISCIPLINE(codel, CODEL, 1, 4096, AQM_NEEDS_ECN,
	       "CoDel: controls delay by drops at the head")
