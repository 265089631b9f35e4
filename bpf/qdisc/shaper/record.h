/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records the inputs and decisions of a class of weir_shaper (record.h). A ring
 * in the class's slot of `recorders` takes effect with the next change. */
#ifndef SHAPER_RECORD_H
#define SHAPER_RECORD_H

#include "shaper/calls.h"
#include "host/record.h"

struct recorder {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/* A ring for each recorded class, of any size. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, SHAPERS *SHAPER_CLASSES);
	__type(key, u32);
	__array(values, struct recorder);
} recorders SEC(".maps");

static __noinline int class_record(struct shaper_hosted *one, u32 queue,
				   struct aqm_record *record)
{
	void *ring = bpf_map_lookup_elem(&recorders, &queue);

	record->sequence = one->sequence[queue % SHAPER_CLASSES]++;
	if (ring)
		bpf_ringbuf_output(ring, record, sizeof(*record), 0);
	return 0;
}

/* Records the result of a call. Not inlined, to cost nothing while not
 * recording. */
static __noinline int class_record_call(struct shaper_hosted *one,
					const struct class_call *call,
					u32 event, u32 slot)
{
	struct aqm_record record = {
		.now_ns = call->now_ns,
		.event = event,
		.slot = slot,
	};

	if (event == AQM_ARRIVE_EVENT) {
		record.len = call->packet.len;
		record.wire = call->packet.wire;
		record.flow = call->packet.flow;
		record.ecn = call->packet.ecn;
	}
	if (event == AQM_ARRIVE_EVENT || event == AQM_DEPART_EVENT) {
		record.random = call->random;
		record.action = call->verdict.action;
		record.reason = call->verdict.reason;
		record.queue = call->verdict.queue;
		record.evict = call->verdict.evict;
	}
	return class_record(one, call->queue, &record);
}

static __always_inline u32 class_records(const struct shaper_hosted *one,
					 u32 class)
{
	return one->needs[class & (SHAPER_CLASSES - 1)] & SHAPER_RECORDING;
}

/* Records the slots of a class that were ever used. */
__noinline u32 class_record_slots(u32 queue, u32 fresh)
{
	u32 key = queue;
	void *ring = bpf_map_lookup_elem(&recorders, &key);
	struct queued_skb *queued;
	u32 i;

	if (!ring)
		return 0;
	bpf_for (i, 0, ROOM) {
		if (i >= fresh)
			break;
		queued = shaper_queued(first_slot(queue), i + 1);
		if (!queued)
			break;
		bpf_ringbuf_output(ring, &queued->slot, sizeof(queued->slot),
				   0);
	}
	return 0;
}

/* Records the whole state of a class, if it has a ring. From then on, inputs
 * that its discipline does not need are computed too, because a recording may
 * be replayed to one that does. */
#define RECORD_STATE(number, name) \
	__noinline u32 name##_record_state(u32 slot, u32 class) \
	{ \
		u32 queue = slot * SHAPER_CLASSES + class; \
		u32 key = queue; \
		struct name##_instance *q = \
			bpf_map_lookup_elem(&queues_##name, &key); \
		struct shaper_hosted *one = \
			bpf_map_lookup_elem(&instances, &slot); \
		void *ring = bpf_map_lookup_elem(&recorders, &key); \
		struct aqm_record record = { \
			.now_ns = bpf_ktime_get_ns(), \
			.event = AQM_STATE_EVENT, \
			.len = sizeof(*q), \
		}; \
		if (!q || !one || !ring || class >= SHAPER_CLASSES) \
			return 0; \
		one->needs[class] |= SHAPER_RECORDING | AQM_NEEDS_FLOW | \
				     AQM_NEEDS_RANDOM; \
		record.slot = q->room.fresh; \
		class_record(one, queue, &record); \
		bpf_ringbuf_output(ring, q, sizeof(*q), 0); \
		return class_record_slots(queue, q->room.fresh); \
	}
KINDS(RECORD_STATE)

#define RECORD_STATE_CASE(number, name) \
	case number: \
		name##_record_state(slot, class); \
		break;
static __always_inline void class_record_state(u64 kind, u32 slot, u32 class)
{
	switch (kind) {
		KINDS(RECORD_STATE_CASE)
	}
}

#endif
