/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the classes of weir_shaper ask of their disciplines, packet by packet. */
#ifndef SHAPER_TURNS_H
#define SHAPER_TURNS_H

#include "shaper_maps.h"

/*
 * Functions below are global where they are, so that the verifier looks at each
 * once and by itself, and not at every discipline again for every way to it.
 * What they are told and say is in one place, because they may be given numbers
 * and plain memory only.
 */
struct turn {
	struct aqm_packet packet;
	struct aqm_verdict verdict;
	u64 now_ns;
	u32 random;
	u32 queue;
};

#define ARRIVE(number, name) \
	__noinline u32 name##_turn_arrive(struct turn *turn __arg_nonnull) \
	{ \
		u32 key = turn->queue; \
		struct name##_instance *q = \
			bpf_map_lookup_elem(&queues_##name, &key); \
		return q ? name##_host_arrive(q, &turn->packet, turn->random, \
					      &turn->verdict) : \
			   0; \
	}
#define EVICT(number, name) \
	__noinline u32 name##_turn_evict(struct turn *turn __arg_nonnull) \
	{ \
		u32 key = turn->queue; \
		struct name##_instance *q = \
			bpf_map_lookup_elem(&queues_##name, &key); \
		if (!q) \
			return 0; \
		return name##_host_evict(q, turn->now_ns); \
	}
#define DEPART(number, name) \
	__noinline u32 name##_turn_depart(struct turn *turn __arg_nonnull) \
	{ \
		u32 key = turn->queue; \
		struct name##_instance *q = \
			bpf_map_lookup_elem(&queues_##name, &key); \
		if (!q) \
			return 0; \
		return name##_host_depart(q, turn->now_ns, turn->random, \
					  &turn->verdict); \
	}
KINDS(ARRIVE)
KINDS(EVICT)
KINDS(DEPART)

#define ARRIVE_CASE(number, name) \
	case number: \
		return name##_turn_arrive(turn);
#define EVICT_CASE(number, name) \
	case number: \
		return name##_turn_evict(turn);
#define DEPART_CASE(number, name) \
	case number: \
		return name##_turn_depart(turn);

static __always_inline u32 class_arrive(u64 kind, struct turn *turn)
{
	switch (kind) {
		KINDS(ARRIVE_CASE)
	}
	return 0;
}

static __always_inline u32 class_evict(u64 kind, struct turn *turn)
{
	switch (kind) {
		KINDS(EVICT_CASE)
	}
	return 0;
}

static __always_inline u32 class_depart(u64 kind, struct turn *turn)
{
	switch (kind) {
		KINDS(DEPART_CASE)
	}
	turn->verdict.action = AQM_EMPTY;
	return 0;
}

#endif
