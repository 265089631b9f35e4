/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The interface of a discipline to the native library. crates/aqm/src/ffi.rs
 * has the same structures; a test there compares every size and offset. */
#ifndef AQM_NATIVE_H
#define AQM_NATIVE_H

#define AQM_STRING2(name) #name
#define AQM_STRING(name) AQM_STRING2(name)

/* A row of a table of parameters, state, statistics or reasons. */
struct aqm_row {
	const char *name;
	const char *unit;
	const char *help;
	u64 dflt;
	u64 least;
	u64 most;
};

struct aqm_descriptor {
	const char *name;
	const char *summary;
	const struct aqm_row *params;
	const struct aqm_row *vars;
	const struct aqm_row *stats;
	u32 params_count;
	u32 vars_count;
	u32 stats_count;
	u32 queues;
	u32 packets; /* slots that follow the instance */
	u32 size; /* size of an instance without its slots */
	u32 link_offset;
	u32 params_offset;
	u32 vars_offset;
	u32 vars_size;
	u32 stats_offset;
	u32 counts_offset;
	u32 room_offset;
	u32 needs; /* enum aqm_needs */
	u32 virtual_size; /* size of a virtual queue */
	u32 virtual_offset; /* offset of the instance in a virtual queue */
	void (*setup)(void *instance);
	u32 (*arrive)(void *instance, const struct aqm_packet *packet,
		      u32 random, struct aqm_verdict *verdict);
	u32 (*evict)(void *instance, u64 now_ns);
	u32 (*depart)(void *instance, u64 now_ns, u32 random,
		      struct aqm_verdict *verdict);
	/* Functions of a virtual queue (virtual.h), whose parameters are in its
	 * instance. */
	void (*virtual_setup)(void *queue, const struct aqm_link *link,
			      u64 now_ns);
	void (*virtual_arrive)(void *queue, const struct aqm_packet *packet,
			       u32 random, struct aqm_verdict *verdict);
	void (*virtual_count)(void *queue, const struct aqm_packet *packet);
	void (*virtual_measured)(void *queue, u64 waits_ns, u64 now_ns);
};

#endif
