/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A table of how much each flow has sent, for mered and meredt (Braithwaite
 * 2006, section 4.2.3). Flows are identified by a 32-bit hash alone.
 *
 * The table is bounded: FLOW_SETS sets of FLOW_WAYS entries. A new flow
 * replaces the flow of its set that has been silent longest. A replaced flow is
 * a mouse again if it returns. A flow that is silent for longer than `age_ns`
 * is forgotten too.
 */
#ifndef AQM_FLOWS_H
#define AQM_FLOWS_H

#include "aqm.h"
#include "fixed.h"

#define FLOW_SETS 1024
#define FLOW_WAYS 4

/*
 * Times of flows are in units of 2^20 ns, about a millisecond, in 32 bits. They
 * wrap after 52 days, so only differences are compared.
 */
#define FLOW_SHIFT 20

/* A flow is active if it sent something within 2^10 units, about a second. */
#define FLOW_EPOCH 10

struct flow {
	u64 bytes; /* sent, less what has leaked away */
	u32 hash;
	u32 seen; /* when it last sent, never 0; 0: a free entry */
};

#define FLOW_CORE(N) \
	N(epoch, AQM_NUMBER, "number of the present second") \
	N(active, AQM_FLOWS, \
	  "flows that sent something in the last whole second") \
	N(active_now, AQM_FLOWS, \
	  "flows that sent something in the present second") \
	N(silence, AQM_NUMBER, \
	  "how long the last packet's flow had sent nothing, in 2^20 ns")

struct flow_core {
	FLOW_CORE(AQM_NUMBER_FIELD)
};

struct flow_table {
	struct flow flows[FLOW_SETS * FLOW_WAYS];
};

/* Starts a new second if one has begun. */
AQM_FN void flow_epoch(struct flow_core *v, u32 now)
{
	u64 epoch = now >> FLOW_EPOCH;

	if (epoch == v->epoch)
		return;
	v->active = epoch == v->epoch + 1 ? v->active_now : 0;
	v->active_now = 0;
	v->epoch = epoch;
}

/* The silence of a free entry: longer than any other. */
#define FLOW_FOREVER 0xffffffff

/* Converts a time to the units of the table. */
AQM_FN u32 flow_time(u64 now_ns)
{
	u32 now = (u32)(now_ns >> FLOW_SHIFT) + 1;

	return now ? now : 1;
}

/* Set in the index of an entry if the flow was found there. */
#define FLOW_FOUND (1U << 31)

/* Returns the entry of a flow, or the one that it is to take. Checked once by
 * the verifier, which would otherwise follow each branch into all code after
 * it. */
AQM_WHOLE_FN u32 flow_place(const struct flow_table *table AQM_NONNULL,
			    u32 hash, u32 now)
{
	/* The upper bits choose the set: lower ones often repeat. */
	u32 set = (hash >> 22) * FLOW_WAYS;
	u32 silent, longest = 0, oldest = set, way;
	const struct flow *flow;

	/* Before Linux 6.8 the verifier ignores AQM_NONNULL. */
	if (!table)
		return oldest;
	AQM_LOOP (way, FLOW_WAYS) {
		flow = &table->flows[set + way];
		if (flow->seen && flow->hash == hash)
			return (set + way) | FLOW_FOUND;
		silent = flow->seen ? now - flow->seen : FLOW_FOREVER;
		if (silent > longest) {
			longest = silent;
			oldest = set + way;
		}
	}
	return oldest;
}

/*
 * Returns the flow of a packet, without counting the packet. A flow's size
 * leaks by `leak_bytes_s`, shared among the active flows (0: never).
 */
AQM_FN struct flow *flow_of(struct flow_table *table, struct flow_core *v,
			    u32 hash, u64 now_ns, u64 age_ns, u64 leak_bytes_s)
{
	u32 now = flow_time(now_ns);
	u32 place = flow_place(table, hash, now);
	struct flow *flow = &table->flows[place & (FLOW_SETS * FLOW_WAYS - 1)];
	u32 silent = now - flow->seen;
	u64 leaked;

	flow_epoch(v, now);
	if (!(place & FLOW_FOUND) || (u64)silent << FLOW_SHIFT > age_ns) {
		v->active_now++;
		v->silence = 0;
		flow->hash = hash;
		flow->bytes = 0;
		flow->seen = now;
		return flow;
	}
	if (flow->seen >> FLOW_EPOCH != now >> FLOW_EPOCH)
		v->active_now++;
	if (leak_bytes_s && silent) {
		leaked = aqm_bytes_in(leak_bytes_s, (u64)silent << FLOW_SHIFT);
		leaked /= aqm_max(aqm_max(v->active, v->active_now), 1);
		flow->bytes = flow->bytes > leaked ? flow->bytes - leaked : 0;
	}
	flow->seen = now;
	v->silence = silent;
	return flow;
}

#endif
