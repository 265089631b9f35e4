// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * fq_codel: a queue for every flow, served by deficit round robin, new flows
 * first, each with a CoDel of its own (RFC 8290). A flow is a hash, so two
 * flows may share a queue and its drops.
 *
 * Departure from RFC 8290 and the kernel's fq_codel, which this follows
 * otherwise: the limit is in packets only, because the kernel memory of a
 * packet is not known here.
 */
#include "codel.h"

#define FQ_FLOWS 1024

/* Which packets the threshold marks. */
enum fq_codel_threshold { FQ_CODEL_ECN = 0, FQ_CODEL_L4S = 1 };

/* Lists link flows by their number plus one; 0 ends a list. */
enum fq_place { FQ_NOWHERE = 0, FQ_NEW = 1, FQ_OLD = 2 };

/* Enough turns to visit every flow several times: a large packet may leave a
 * flow with a deficit of that many quanta. */
#define FQ_TURNS (8 * FQ_FLOWS)

#define FQ_CODEL_OWN_PARAMS(P) \
	P(limit_packets, AQM_PACKETS, 10240, 1, 1 << 20, \
	  "maximum length of all queues together") \
	P(quantum_bytes, AQM_BYTES, 0, 0, 1 << 20, \
	  "bytes that a flow may send in one turn, at least 256; 0: one MTU") \
	P(drop_batch_packets, AQM_PACKETS, 64, 1, 64, \
	  "most packets dropped from the longest queue when the limit is " \
	  "reached") \
	P(ecn, AQM_FLAG, 1, 0, 1, \
	  "mark rather than drop where the sender understands it") \
	P(ce_threshold_for, "ecn|l4s", 0, 0, 1, \
	  "which packets `ce_threshold_ns` marks: all ECN-capable ones, or " \
	  "only ECT(1)") \
	AQM_FLOWS_PARAM(P)

#define FQ_CODEL_PARAMS(P) CODEL_COMMON(P) FQ_CODEL_OWN_PARAMS(P)

#define FQ_CODEL_VARS(N) \
	N(mtu_bytes, AQM_BYTES, "MTU in force") \
	N(limit_packets, AQM_PACKETS, "limit in force") \
	N(quantum_bytes, AQM_BYTES, "quantum in force") \
	N(new_head, AQM_NUMBER, "number of the first new flow, plus one") \
	N(new_tail, AQM_NUMBER, "number of the last new flow, plus one") \
	N(old_head, AQM_NUMBER, "number of the first old flow, plus one") \
	N(old_tail, AQM_NUMBER, "number of the last old flow, plus one") \
	N(evicting, AQM_NUMBER, \
	  "number of the flow that drops are taken from, plus one") \
	N(evicted_packets, AQM_PACKETS, \
	  "packets dropped from that flow so far") \
	N(evict_from_bytes, AQM_BYTES, "bytes queued when these drops began") \
	N(evict_last_bytes, AQM_BYTES, \
	  "bytes queued at the last of these drops") \
	N(evict_enough_bytes, AQM_BYTES, "bytes after which these drops end")

#define FQ_CODEL_STATS(N) \
	N(new_flows, AQM_NUMBER, "times a flow became new") \
	N(overlimit, AQM_NUMBER, "times the limit was reached")

struct fq_flow {
	struct codel_core codel;
	s32 deficit;
	u32 bytes;
	u16 next;
	u16 place;
};

struct fq_codel_params {
	struct codel_common codel;
	FQ_CODEL_OWN_PARAMS(AQM_PARAM_FIELD)
};

struct fq_codel_vars {
	FQ_CODEL_VARS(AQM_NUMBER_FIELD)
	struct fq_flow flows[FQ_FLOWS];
};

AQM_STRUCT_STATS(fq_codel, FQ_CODEL_STATS);

AQM_FN void fq_codel_setup(struct fq_codel_vars *v,
			   const struct fq_codel_params *p,
			   const struct aqm_link *link)
{
	v->mtu_bytes = p->codel.mtu_bytes ? p->codel.mtu_bytes :
					    link->mtu_bytes;
	v->limit_packets = aqm_min(p->limit_packets, link->room_packets);
	v->quantum_bytes =
		aqm_clamp(p->quantum_bytes ? p->quantum_bytes : link->mtu_bytes,
			  256, 1 << 20);
}

AQM_FN void fq_append(struct fq_codel_vars *v, u32 index, u32 place)
{
	u64 *head = place == FQ_NEW ? &v->new_head : &v->old_head;
	u64 *tail = place == FQ_NEW ? &v->new_tail : &v->old_tail;
	u32 last = (u32)*tail - 1;

	index &= FQ_FLOWS - 1;
	v->flows[index].place = (u16)place;
	v->flows[index].next = 0;
	if (*tail)
		v->flows[last & (FQ_FLOWS - 1)].next = (u16)(index + 1);
	else
		*head = index + 1;
	*tail = index + 1;
}

/* Removes a flow from the head of its list. */
AQM_FN void fq_remove_first(struct fq_codel_vars *v, u32 index)
{
	struct fq_flow *flow = &v->flows[index & (FQ_FLOWS - 1)];
	u64 *head = flow->place == FQ_NEW ? &v->new_head : &v->old_head;
	u64 *tail = flow->place == FQ_NEW ? &v->new_tail : &v->old_tail;

	*head = flow->next;
	if (!*head)
		*tail = 0;
	flow->place = FQ_NOWHERE;
}

AQM_FN struct aqm_verdict fq_codel_arrive(struct fq_codel_vars *v,
					  const struct fq_codel_params *p,
					  struct fq_codel_stats *s,
					  const struct aqm_packet *packet,
					  const struct aqm_context *at)
{
	u32 index = (u32)(((u64)packet->flow * FQ_FLOWS) >> 32);
	struct fq_flow *flow = &v->flows[index & (FQ_FLOWS - 1)];
	struct aqm_verdict verdict = aqm_pass(index);

	flow->bytes += packet->len;
	if (flow->place == FQ_NOWHERE) {
		flow->deficit = (s32)v->quantum_bytes;
		fq_append(v, index, FQ_NEW);
		s->new_flows++;
	}
	if (at->packets + 1 > v->limit_packets) {
		v->evicting = 0;
		verdict.evict = 1;
		s->overlimit++;
	}
	return verdict;
}

/* Evicts from the flow with the most bytes: half of them, or a batch of
 * packets. */
AQM_FN u32 fq_codel_evict(struct fq_codel_vars *v,
			  const struct fq_codel_params *p,
			  struct fq_codel_stats *s,
			  const struct aqm_context *at)
{
	struct fq_flow *flow;
	u32 i, fattest = 0, most = 0;

	if (!v->evicting) {
		AQM_LONG_LOOP (i, FQ_FLOWS) {
			if (v->flows[i].bytes > most) {
				most = v->flows[i].bytes;
				fattest = i;
			}
		}
		v->evicting = fattest + 1;
		v->evicted_packets = 0;
		v->evict_from_bytes = at->bytes;
		v->evict_last_bytes = at->bytes;
		v->evict_enough_bytes = most / 2;
	}
	flow = &v->flows[(v->evicting - 1) & (FQ_FLOWS - 1)];
	/* Account for the packet evicted last. */
	flow->bytes -= (u32)(v->evict_last_bytes - at->bytes);
	v->evict_last_bytes = at->bytes;
	if (v->evicted_packets &&
	    (v->evicted_packets >= p->drop_batch_packets ||
	     v->evict_from_bytes - at->bytes >= v->evict_enough_bytes)) {
		/* Raise CoDel's count: a flow that overflows should back
		 * off. */
		flow->codel.count += (u32)v->evicted_packets;
		return AQM_NO_QUEUE;
	}
	v->evicted_packets++;
	return (u32)(v->evicting - 1) & (FQ_FLOWS - 1);
}

/* Returns the first flow with a positive deficit. Others get another quantum
 * and move to the end of the old flows. If the deficits are too large to pay
 * back in one call, returns the first flow: a packet is always found if one is
 * queued. */
AQM_FN u32 fq_codel_choose(struct fq_codel_vars *v,
			   const struct fq_codel_params *p,
			   const struct aqm_context *at)
{
	u64 first;
	u32 i;

	AQM_LONG_LOOP (i, FQ_TURNS) {
		struct fq_flow *flow;
		u32 index;

		first = v->new_head ? v->new_head : v->old_head;
		index = (u32)(first - 1) & (FQ_FLOWS - 1);
		if (!first)
			break;
		flow = &v->flows[index];
		if (flow->deficit > 0)
			return index;
		flow->deficit += (s32)v->quantum_bytes;
		fq_remove_first(v, index);
		fq_append(v, index, FQ_OLD);
	}
	first = v->new_head ? v->new_head : v->old_head;
	return first ? (u32)(first - 1) & (FQ_FLOWS - 1) : AQM_NO_QUEUE;
}

/* Whether to undo a mark by the threshold. For L4S it applies to ECT(1) alone,
 * as with `ce_threshold_mask 3 ce_threshold_selector 1` in
 * net/sched/sch_fq_codel.c. */
AQM_FN int fq_codel_spared(const struct fq_codel_params *p,
			   const struct aqm_packet *packet,
			   struct aqm_verdict verdict)
{
	return p->ce_threshold_for == FQ_CODEL_L4S &&
	       verdict.action == AQM_MARK &&
	       verdict.reason == AQM_THRESHOLD_REASON &&
	       packet->ecn != AQM_ECT_1;
}

AQM_FN struct aqm_verdict fq_codel_depart(struct fq_codel_vars *v,
					  const struct fq_codel_params *p,
					  struct fq_codel_stats *s, u32 queue,
					  const struct aqm_packet *packet,
					  const struct aqm_context *at)
{
	struct fq_flow *flow = &v->flows[queue & (FQ_FLOWS - 1)];
	struct aqm_verdict verdict;
	u32 place = flow->place;

	if (packet)
		flow->bytes -= packet->len;
	verdict = codel_head(&flow->codel, &p->codel, v->mtu_bytes, p->ecn != 0,
			     packet, at->bytes, at->now_ns);
	if (!packet) {
		/* An empty new flow moves to the old ones, so that it cannot
		 * starve them by returning as new. */
		fq_remove_first(v, queue);
		if (place == FQ_NEW && v->old_head)
			fq_append(v, queue, FQ_OLD);
		return aqm_verdict(AQM_AGAIN, AQM_NONE_REASON, 0);
	}
	if (verdict.action != AQM_DROP)
		flow->deficit -= (s32)packet->len;
	if (fq_codel_spared(p, packet, verdict))
		return aqm_pass(0);
	return verdict;
}

AQM_DISCIPLINE(fq_codel, FQ_CODEL, FQ_FLOWS, 16384,
	       AQM_NEEDS_FLOW | AQM_NEEDS_EVICTION | AQM_NEEDS_PARTS |
		       AQM_NEEDS_QUEUE | AQM_NEEDS_ECN,
	       "a queue and a CoDel for every flow, served in turns")
