/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What weir_shaper keeps: the disciplines that a class can have, settings,
 * instances (shaper_layout.h) and packets. shaper.bpf.c says how they belong
 * together. */
#ifndef SHAPER_MAPS_H
#define SHAPER_MAPS_H

#include "shaper_layout.h"

/* Most shapers at a time, settings, and packets of a class. */
#define SHAPERS 8
#define PLACES 64
#define ROOM 4096

#define aqm_slot(q, i) shaper_slot((q)->host, i)

struct aqm_slot;
static __always_inline struct aqm_slot *shaper_slot(u64 first, u32 index);

/* Tells programs of the shaper apart that differ in a discipline which is not of
 * the kit; that of the kit alone has 0. */
#ifndef SHAPER_PROGRAM
#define SHAPER_PROGRAM 0
#endif

/* The build makes it: it includes each discipline of the kit with its queue.h,
 * and defines KINDS(K), a K(number, name) for each. */
#include "disciplines.h"

#define FITS(number, name) \
	_Static_assert(sizeof(struct name##_params) <= \
			       sizeof(((struct class_settings *)0)->params), \
		       #name " has more parameters than MOST_PARAMS"); \
	_Static_assert(!(name##_NEEDS & AQM_NEEDS_HOLD), \
		       #name " holds packets, which no class waits for");
KINDS(FITS)

/* In `needs`: the class is recorded; and from where on the parts of its flows are. */
#define SHAPER_RECORDING 32768
#define SHAPER_FLOWS 16

struct kept {
	struct aqm_slot slot;
	struct sk_buff __kptr *skb;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PLACES);
	__type(key, struct aqm_attach_point);
	__type(value, struct shaper_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SHAPERS);
	__type(key, u32);
	__type(value, struct shaper_hosted);
} instances SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SHAPERS);
	__type(key, u32);
	__type(value, u32);
} changes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SHAPERS *SHAPER_CLASSES *ROOM);
	__type(key, u32);
	__type(value, struct kept);
} packets SEC(".maps");

/* One discipline's instances: for each shaper, one for each class. */
#define QUEUES_MAP(number, name) \
	struct { \
		__uint(type, BPF_MAP_TYPE_ARRAY); \
		__uint(max_entries, SHAPERS *SHAPER_CLASSES); \
		__type(key, u32); \
		__type(value, struct name##_instance); \
	} queues_##name SEC(".maps");
KINDS(QUEUES_MAP)

static __always_inline struct kept *shaper_kept(u64 first, u32 index)
{
	u32 key = (u32)first + index - 1;

	if (!index || index > ROOM)
		return NULL;
	return bpf_map_lookup_elem(&packets, &key);
}

static __always_inline struct aqm_slot *shaper_slot(u64 first, u32 index)
{
	struct kept *kept = shaper_kept(first, index);

	return kept ? &kept->slot : NULL;
}

/* The number of a qdisc's instance. One that waits for the queue of another has
 * SHAPERS more in its `limit`. */
static __always_inline u32 shaper_number(const struct Qdisc *sch)
{
	return (sch->limit - 1) & (SHAPERS - 1);
}

static __always_inline int shaper_waits(const struct Qdisc *sch)
{
	return sch->limit > SHAPERS;
}

static __always_inline struct shaper_hosted *shaper_of(const struct Qdisc *sch)
{
	u32 key = shaper_number(sch);

	if (!sch->limit)
		return NULL;
	return bpf_map_lookup_elem(&instances, &key);
}

/* The first slot of a class. */
static __always_inline u64 first_slot(u32 queue)
{
	return (u64)queue * ROOM;
}

#endif
