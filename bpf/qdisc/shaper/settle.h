/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How weir_shaper applies settings, of one class and of the whole shaper. */
#ifndef SHAPER_SETTLE_H
#define SHAPER_SETTLE_H

#include "shaper/record.h"

/* Empties one discipline's instance. Keeps its counters unless `all`. */
#define CLEAR(number, name) \
	__noinline u32 name##_clear(u32 queue, u32 all) \
	{ \
		u32 key = queue; \
		struct name##_instance *q = \
			bpf_map_lookup_elem(&queues_##name, &key); \
		u64 *vars, *fifos; \
		u32 i; \
		if (!q) \
			return 0; \
		vars = (u64 *)&q->vars; \
		fifos = (u64 *)q->fifos; \
		bpf_for (i, 0, sizeof(q->vars) / 8) \
			vars[i] = 0; \
		bpf_for (i, 0, name##_QUEUES) \
			fifos[i] = 0; \
		__builtin_memset(&q->last, 0, sizeof(q->last)); \
		q->room.fresh = 0; \
		q->room.free = 0; \
		q->counts.queued_packets = 0; \
		q->counts.queued_bytes = 0; \
		q->counts.queued_wire_bytes = 0; \
		if (all) { \
			__builtin_memset(&q->stats, 0, sizeof(q->stats)); \
			__builtin_memset(&q->counts, 0, sizeof(q->counts)); \
		} \
		name##_setup(&q->vars, &q->params, &q->link); \
		return 0; \
	}
KINDS(CLEAR)

#define SETTLE(number, name) \
	__noinline u32 name##_settle(u32 queue, u32 slot, u32 class) \
	{ \
		u32 key = queue; \
		struct name##_instance *q = \
			bpf_map_lookup_elem(&queues_##name, &key); \
		struct shaper_hosted *one = \
			bpf_map_lookup_elem(&instances, &slot); \
		struct shaper_settings *all; \
		struct class_settings *wanted = NULL; \
		if (!q || !one || class >= SHAPER_CLASSES) \
			return 0; \
		all = bpf_map_lookup_elem(&settings, &one->point); \
		if (all) \
			wanted = &all->class[class]; \
		if (wanted) \
			__builtin_memcpy(&q->params, wanted->params, \
					 sizeof(q->params)); \
		else \
			name##_defaults(&q->params); \
		q->link = one->link; \
		q->host = first_slot(queue); \
		one->needs[class] = name##_NEEDS | name##_flows(&q->params) \
							   << SHAPER_FLOWS; \
		name##_setup(&q->vars, &q->params, &q->link); \
		return 0; \
	}
KINDS(SETTLE)

#define CLEAR_CASE(number, name) \
	case number: \
		name##_clear(queue, all); \
		break;
static __always_inline void class_clear(u64 kind, u32 queue, u32 all)
{
	switch (kind) {
		KINDS(CLEAR_CASE)
	}
}

#define SETTLE_CASE(number, name) \
	case number: \
		name##_settle(slot *SHAPER_CLASSES + class, slot, class); \
		break;
static __always_inline void class_settle(u64 kind, u32 slot, u32 class)
{
	switch (kind) {
		KINDS(SETTLE_CASE)
	}
}

/* Frees the packets of a class. Returns their bytes. */
__noinline u32 class_free(u32 queue)
{
	u32 freed = 0;
	u32 i;

	bpf_for (i, 1, ROOM + 1) {
		struct queued_skb *queued = shaper_queued(first_slot(queue), i);
		struct sk_buff *skb;

		if (!queued)
			break;
		skb = bpf_kptr_xchg(&queued->skb, NULL);
		if (skb) {
			bpf_kfree_skb(skb);
			freed += queued->slot.packet.len;
		}
	}
	return freed;
}

/* Applies the settings of one class. Returns the bytes dropped. */
__noinline u32 shaper_settle_class(u32 slot, u32 i)
{
	struct shaper_hosted *one = bpf_map_lookup_elem(&instances, &slot);
	u32 queue = slot * SHAPER_CLASSES + i;
	struct shaper_settings *wanted;
	struct shaper_rule rule = {};
	struct shaper_class *class;
	u32 freed = 0;
	u64 kind = 0;

	if (!one || i >= SHAPER_CLASSES)
		return 0;
	class = &one->shaper.class[i];
	wanted = bpf_map_lookup_elem(&settings, &one->point);
	if (wanted) {
		kind = wanted->class[i].kind;
		rule = wanted->class[i].rule;
	}
	/* The class was replaced or has another discipline: drop its
	 * packets. */
	if (one->kinds[i] != kind || i >= one->shaper.classes ||
	    class->rule.classid != rule.classid) {
		if (class->packets)
			freed = class_free(queue);
		class_clear(one->kinds[i], queue, 0);
		class->packets = 0;
		__builtin_memset(&class->owed, 0, sizeof(class->owed));
		__builtin_memset(&class->excess, 0, sizeof(class->excess));
		class->guarantee.opens_ns = 0;
		class->ceiling.opens_ns = 0;
		class_clear(kind, queue, 1);
		one->kinds[i] = kind;
	}
	shaper_setup(class, &rule, &one->link);
	class_settle(kind, slot, i);
	class_record_state(kind, slot, i);
	return freed;
}

/* Applies the settings, or without any makes a single class. Returns the bytes
 * dropped. */
__noinline u32 shaper_settle(u32 slot, u32 mtu_bytes, u32 queue_packets)
{
	struct shaper_hosted *one = bpf_map_lookup_elem(&instances, &slot);
	struct shaper_settings *wanted;
	struct aqm_link *link;
	u32 freed = 0;
	u32 i;

	if (!one)
		return 0;
	wanted = bpf_map_lookup_elem(&settings, &one->point);
	link = &one->link;
	__builtin_memset(link, 0, sizeof(*link));
	one->shaper.gate.rate_bytes_s = 0;
	one->shaper.classes = 1;
	one->shaper.other = 0;
	one->acks = ACKS_ALL;
	if (wanted) {
		*link = wanted->link;
		one->shaper.gate.rate_bytes_s = wanted->gate_bytes_s;
		one->shaper.classes = wanted->classes;
		one->shaper.other = wanted->other;
		one->acks = wanted->acks;
	}
	one->stamp = marks_stamp(one->point.netns, one->point.ifindex);
	if (!link->mtu_bytes)
		link->mtu_bytes = mtu_bytes;
	if (!link->queue_packets)
		link->queue_packets = queue_packets;
	if (!link->room_packets || link->room_packets >= ROOM)
		link->room_packets = ROOM - 1;
	bpf_for (i, 0, SHAPER_CLASSES)
		freed += shaper_settle_class(slot, i);
	return freed;
}

static __always_inline u32 shaper_settle_on(struct Qdisc *sch)
{
	struct net_device *dev = sch->dev_queue->dev;

	return shaper_settle(shaper_number(sch),
			     dev->mtu + dev->hard_header_len,
			     dev->tx_queue_len);
}

#endif
