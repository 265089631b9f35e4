// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The native host of the shaper with classes, the counterpart of
 * bpf/qdisc/shaper.bpf.c. A class's queue is any discipline, given by its
 * descriptor and memory. The caller owns the memory and the packets.
 */
#include "shaper.h"

#include "native_shaper.h"

extern const u32 aqm_shaper_layout[9];

#define AT(type, field) __builtin_offsetof(struct type, field)

/* Sizes, constants and offsets, in the order of shaper.rs. */
const u32 aqm_shaper_layout[9] = {
	sizeof(struct native_shaper),	  SHAPER_CLASSES,
	sizeof(struct shaper_rule),	  AT(shaper_rule, guarantee_bytes_s),
	AT(shaper_rule, ceiling_bytes_s), AT(shaper_rule, weight),
	AT(shaper_rule, credit_ns),	  AT(shaper_rule, priority),
	AT(shaper_rule, classid),
};
void aqm_shaper_setup(struct native_shaper *s, const struct aqm_link *link,
		      u64 gate_bytes_s, const struct shaper_rule *rules,
		      u32 classes, u32 other)
{
	u32 i;

	s->link = *link;
	s->shaper.gate.rate_bytes_s = gate_bytes_s;
	s->shaper.classes = classes < SHAPER_CLASSES ? classes : SHAPER_CLASSES;
	s->shaper.other = other;
	AQM_LOOP (i, SHAPER_CLASSES) {
		if (i >= s->shaper.classes)
			break;
		shaper_setup(&s->shaper.class[i], &rules[i], link);
	}
}

u32 aqm_shaper_classify(const struct native_shaper *s, u32 priority)
{
	return shaper_classify(&s->shaper, priority) & (SHAPER_CLASSES - 1);
}

u32 aqm_shaper_arrive(struct native_shaper *s, const struct native_class *queue,
		      u32 class, const struct aqm_packet *packet, u32 random,
		      struct aqm_verdict *verdict)
{
	u32 slot = queue->kind->arrive(queue->memory, packet, random, verdict);

	if (slot)
		shaper_arrived(&s->shaper, &s->shaper.class[class]);
	return slot;
}

u32 aqm_shaper_evict(struct native_shaper *s, const struct native_class *queue,
		     u32 class, u64 now_ns)
{
	u32 slot = queue->kind->evict(queue->memory, now_ns);

	if (slot)
		shaper_dropped(&s->shaper.class[class]);
	return slot;
}

int aqm_shaper_open(struct native_shaper *s, u64 now_ns, u64 *opens_ns)
{
	*opens_ns = s->shaper.gate.opens_ns;
	return !aqm_line_shut(&s->line, &s->shaper.gate, now_ns);
}

u32 aqm_shaper_depart(struct native_shaper *s,
		      const struct native_class *queues, u64 now_ns, u32 random,
		      struct native_departure *departure)
{
	const struct native_class *queue;
	const struct aqm_slot *slots;
	struct shaper_class *class;
	u32 slot;

	departure->verdict = aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
	departure->class =
		shaper_choose(&s->shaper, now_ns, &departure->opens_ns);
	if (departure->class >= SHAPER_CLASSES)
		return 0;
	class = &s->shaper.class[departure->class];
	queue = &queues[departure->class];
	slot = queue->kind->depart(queue->memory, now_ns, random,
				   &departure->verdict);
	if (!slot) {
		/* Unless it asks for another call, its queue is empty. */
		if (departure->verdict.action != AQM_AGAIN)
			class->packets = 0;
		departure->verdict.action = AQM_AGAIN;
		return 0;
	}
	slots = (const struct aqm_slot *)((const char *)queue->memory +
					  queue->kind->size);
	if (departure->verdict.action == AQM_DROP)
		shaper_dropped(class);
	else
		shaper_sent(&s->shaper, &s->line, class,
			    slots[slot - 1].packet.wire, now_ns);
	return slot;
}
