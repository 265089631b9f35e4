/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the native library sees of the shaper with classes. */
#ifndef AQM_NATIVE_SHAPER_H
#define AQM_NATIVE_SHAPER_H

#include "shaper.h"
#include "native.h"

#ifndef AQM_QUEUE_H
/* A packet's slot, as queue.h has it, which is a template. */
struct aqm_slot {
	struct aqm_packet packet;
	u32 next;
	u32 pad;
};
#endif

struct native_shaper {
	struct shaper shaper;
	struct aqm_link link;
	struct aqm_line line;
};

/* A class's queue. */
struct native_class {
	const struct aqm_descriptor *kind;
	void *memory;
};

/* What became of an opportunity to send. */
struct native_departure {
	struct aqm_verdict verdict;
	u32 class; /* SHAPER_CLASSES: none may send */
	u32 pad;
	u64 opens_ns; /* then: when the first may; ~0: none has packets */
};

/* Takes over the configuration of the link and of each class. */
void aqm_shaper_setup(struct native_shaper *s, const struct aqm_link *link,
		      u64 gate_bytes_s, const struct shaper_rule *rules,
		      u32 classes, u32 other);
u32 aqm_shaper_classify(const struct native_shaper *s, u32 priority);
/* As a discipline's functions, of a class. */
u32 aqm_shaper_arrive(struct native_shaper *s, const struct native_class *queue,
		      u32 class, const struct aqm_packet *packet, u32 random,
		      struct aqm_verdict *verdict);
u32 aqm_shaper_evict(struct native_shaper *s, const struct native_class *queue,
		     u32 class, u64 now_ns);
/* Whether the line is free; where not, when it will be. */
int aqm_shaper_open(struct native_shaper *s, u64 now_ns, u64 *opens_ns);
/* With an open line: the slot of a packet to send or to drop, in the queue of
 * `departure->class`; 0 for none, where AGAIN asks for another departure. */
u32 aqm_shaper_depart(struct native_shaper *s,
		      const struct native_class *queues, u64 now_ns, u32 random,
		      struct native_departure *departure);

#endif
