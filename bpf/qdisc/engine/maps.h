/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of weir_engine (engine.bpf.c). The loader sets the number of rows of
 * each kind. Row 0 of each means none. */
#ifndef ENGINE_MAPS_H
#define ENGINE_MAPS_H

#include "engine/rows.h"
#include "hosts_layout.h"
#include "attach_point_layout.h"

/* The queued packet of a slot. */
struct queued_skb {
	struct sk_buff __kptr *skb;
};

/* An engine of a device, and the state of its host. The engine comes last,
 * because distant fields take more instructions. */
struct hosted {
	u64 timer_ns; /* when the watchdog timer fires */
	u64 came_ns; /* arrival of a packet after which
		      * there was no dequeue; else 0 */
	u32 used; /* whether a device uses it */
	u32 changes_seen;
	u32 key; /* key of flow hashes */
	u32 host_parts;
	u32 recording;
	u32 sequence; /* sequence number of records */
	u32 first; /* skb->priority of row 0 */
	u32 host_stamp; /* stamp of the program that finds hosts; 0: none */
	u32 inner; /* rows of children's lists */
	u32 packets; /* index of its slot 0 among all slots */
	u32 bell; /* value of the bell at the last check */
	u32 acks; /* enum acks_filter */
	struct aqm_attach_point point;
	u64 stamp; /* stamp of the program that marks; 0: none */
	struct engine engine;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct queued_skb);
} packets SEC(".maps");

#define ACKS_INSTANCES 1
#include "acks.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct engine_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct engine_asks);
} asks SEC(".maps");

/* The engine of the device's root, or of its first queue below mq. It is found
 * without a lookup. Only one device can use it. */
struct hosted instance;

/* The engines of the other queues. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hosted);
} instances SEC(".maps");

/* The line that they share. */
struct engine_line line;

struct recorder {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/* The ring of a recorder, of any size. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct recorder);
} recorders SEC(".maps");

static __always_inline struct engine_node *engine_node(struct engine *e, u32 id)
{
	return ENGINE_ROW(struct engine_node, 0, id);
}

/* Returns the number of changes that user space has signalled. */
static __always_inline u32 engine_bell(void)
{
	u64 at = 0;

	/* Hide from the compiler that this is address 0, which is row 0. */
	asm volatile("" : "+r"(at));
	return ((struct engine_node __attribute__((address_space(1))) *)at)
		->state;
}

static __always_inline struct engine_fork *engine_fork(struct engine *e, u32 id)
{
	return ENGINE_ROW(struct engine_fork, e->at[0], id);
}

static __always_inline struct engine_queue *engine_queue(struct engine *e,
							 u32 id)
{
	return ENGINE_ROW(struct engine_queue, e->at[1], id);
}

static __always_inline struct engine_slot *engine_slot(struct engine *e, u32 id)
{
	return ENGINE_ROW(struct engine_slot, e->at[2], id);
}

static __always_inline struct engine_host *engine_host(struct engine *e, u32 id)
{
	return ENGINE_ROW(struct engine_host, e->at[3], id);
}

static __always_inline struct engine_line *engine_line(struct engine *e)
{
	return e->members ? &line : NULL;
}

static __always_inline struct queued_skb *queued_in(const struct hosted *one,
						    u32 id)
{
	u32 at = one->packets + id;

	return id ? bpf_map_lookup_elem(&packets, &at) : NULL;
}

#include "engine/leaf.h"

/* Returns the engine of a queue. */
static __always_inline struct hosted *hosted_at(u32 number)
{
	u32 key = number - 1;

	return number ? bpf_map_lookup_elem(&instances, &key) : &instance;
}

/* Returns the engine of a qdisc, or NULL if another device has it. */
static __always_inline struct hosted *hosted_by(const struct Qdisc *sch)
{
	engine_rows_are_used();
	return hosted_at(sch->limit - 1);
}

#endif
