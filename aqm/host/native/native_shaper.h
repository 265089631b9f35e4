/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The interface of the shaper with classes to the native library. */
#ifndef AQM_NATIVE_SHAPER_H
#define AQM_NATIVE_SHAPER_H

#include "shaper.h"
#include "native.h"

#ifndef AQM_QUEUE_H
/* A packet's slot, as in queue.h, which is a template. */
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

/* The result of a request for a packet. */
struct native_departure {
	struct aqm_verdict verdict;
	u32 class; /* SHAPER_CLASSES: none may send */
	u32 pad;
	u64 opens_ns; /* in that case, when the first
		       * may; ~0: none has packets */
};

/* Applies the configuration of the link and of each class. */
void aqm_shaper_setup(struct native_shaper *s, const struct aqm_link *link,
		      u64 gate_bytes_s, const struct shaper_rule *rules,
		      u32 classes, u32 other);
u32 aqm_shaper_classify(const struct native_shaper *s, u32 priority);
/* The arrive and evict functions of a class's discipline. */
u32 aqm_shaper_arrive(struct native_shaper *s, const struct native_class *queue,
		      u32 class, const struct aqm_packet *packet, u32 random,
		      struct aqm_verdict *verdict);
u32 aqm_shaper_evict(struct native_shaper *s, const struct native_class *queue,
		     u32 class, u64 now_ns);
/* Returns whether the line is free, and otherwise sets when it will be. */
int aqm_shaper_open(struct native_shaper *s, u64 now_ns, u64 *opens_ns);
/* Returns the slot of a packet to send or drop, in the queue of
 * `departure->class`; 0 for none. Call only when the line is free. AGAIN asks
 * for another call. */
u32 aqm_shaper_depart(struct native_shaper *s,
		      const struct native_class *queues, u64 now_ns, u32 random,
		      struct native_departure *departure);

#endif
