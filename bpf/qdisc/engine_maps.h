/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What weir_engine keeps (engine.bpf.c). How many rows of a kind there are is the
 * loader's to say; row 0 of each is none. */
#ifndef ENGINE_MAPS_H
#define ENGINE_MAPS_H

#include "engine_rows.h"
#include "hosts_layout.h"
#include "attach_point_layout.h"

/* A packet, beside its slot. */
struct kept {
	struct sk_buff __kptr *skb;
};

/* What the host of an engine keeps beside it, and the engine of a device: last, as what
 * is far from the beginning takes more instructions. */
struct hosted {
	u64 timer_ns; /* the watchdog is set for then */
	u64 came_ns; /* a packet came then, and nobody has asked since; else 0 */
	u32 used; /* by a device */
	u32 changes_seen;
	u32 key; /* of flows' hashes */
	u32 host_parts;
	u32 recording;
	u32 sequence; /* of records */
	u32 first; /* what skb->priority is for row 0 */
	u32 host_stamp; /* of the program that tells hosts; 0: none */
	u32 inner; /* rows of lists */
	u32 packets; /* the slot of row 0 in all slots */
	u32 bell; /* what user space had changed when this was followed last */
	u32 pad;
	struct aqm_attach_point point;
	u64 stamp; /* of the program that marks; 0: none */
	struct engine engine;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct kept);
} packets SEC(".maps");

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

/* Of the one device that may have it: of its root, or of its first queue below mq. It is
 * found without a look-up. */
struct hosted instance;

/* Of the other queues. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hosted);
} instances SEC(".maps");

/* What they share. */
struct engine_line line;

struct recorder {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/* The ring of one who records, of any size. */
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

/* How many changes user space has told of. */
static __always_inline u32 engine_bell(void)
{
	u64 at = 0;

	/* Not a null pointer, but the row of that number. */
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

static __always_inline struct kept *kept_in(const struct hosted *one, u32 id)
{
	u32 at = one->packets + id;

	return id ? bpf_map_lookup_elem(&packets, &at) : NULL;
}

#include "engine/leaf.h"

/* What the qdisc of a queue has. */
static __always_inline struct hosted *hosted_at(u32 number)
{
	u32 key = number - 1;

	return number ? bpf_map_lookup_elem(&instances, &key) : &instance;
}

/* What a qdisc has: none, where another device had it already. */
static __always_inline struct hosted *hosted_by(const struct Qdisc *sch)
{
	engine_rows_are_used();
	return hosted_at(sch->limit - 1);
}

#endif
