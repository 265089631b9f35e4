/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls from the classes of weir_shaper to their disciplines. */
#ifndef SHAPER_CALLS_H
#define SHAPER_CALLS_H

#include "shaper/maps.h"

/*
 * Global functions below are checked once by the verifier, not again for every
 * path to every discipline. Arguments and results are in one structure, because
 * global functions only take numbers and plain memory.
 */
struct class_call {
	struct aqm_packet packet;
	struct aqm_verdict verdict;
	u64 now_ns;
	u32 random;
	u32 queue;
};

#define ARRIVE(number, name) \
	__noinline u32 name##_call_arrive( \
		struct class_call *call __arg_nonnull) \
	{ \
		u32 key = call->queue; \
		struct name##_instance *q = \
			bpf_map_lookup_elem(&queues_##name, &key); \
		return q ? name##_host_arrive(q, &call->packet, call->random, \
					      &call->verdict) : \
			   0; \
	}
#define EVICT(number, name) \
	__noinline u32 name##_call_evict( \
		struct class_call *call __arg_nonnull) \
	{ \
		u32 key = call->queue; \
		struct name##_instance *q = \
			bpf_map_lookup_elem(&queues_##name, &key); \
		if (!q) \
			return 0; \
		return name##_host_evict(q, call->now_ns); \
	}
#define DEPART(number, name) \
	__noinline u32 name##_call_depart( \
		struct class_call *call __arg_nonnull) \
	{ \
		u32 key = call->queue; \
		struct name##_instance *q = \
			bpf_map_lookup_elem(&queues_##name, &key); \
		if (!q) \
			return 0; \
		return name##_host_depart(q, call->now_ns, call->random, \
					  &call->verdict); \
	}
KINDS(ARRIVE)
KINDS(EVICT)
KINDS(DEPART)

#define ARRIVE_CASE(number, name) \
	case number: \
		return name##_call_arrive(call);
#define EVICT_CASE(number, name) \
	case number: \
		return name##_call_evict(call);
#define DEPART_CASE(number, name) \
	case number: \
		return name##_call_depart(call);

static __always_inline u32 class_arrive(u64 kind, struct class_call *call)
{
	switch (kind) {
		KINDS(ARRIVE_CASE)
	}
	return 0;
}

static __always_inline u32 class_evict(u64 kind, struct class_call *call)
{
	switch (kind) {
		KINDS(EVICT_CASE)
	}
	return 0;
}

static __always_inline u32 class_depart(u64 kind, struct class_call *call)
{
	switch (kind) {
		KINDS(DEPART_CASE)
	}
	call->verdict.action = AQM_EMPTY;
	return 0;
}

#endif
