// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The native host of the engine, the counterpart of bpf/qdisc/engine.bpf.c. The
 * caller owns the rows and the packets.
 */
#include "engine.h"

/* The engine and the addresses of its rows. */
struct native_engine {
	struct engine engine;
	struct engine_node *nodes;
	struct engine_fork *forks;
	struct engine_queue *queues;
	struct engine_slot *slots;
	struct engine_host *hosts;
	struct engine_line *line; /* NULL: the line is not shared */
	u64 node_rows; /* including row 0, which means none */
	u64 fork_rows;
	u64 queue_rows;
	u64 slot_rows;
	u64 host_rows;
};

static struct engine_node *engine_node(struct engine *e, u32 id)
{
	struct native_engine *n = (struct native_engine *)e;

	return id && id < n->node_rows ? &n->nodes[id] : NULL;
}

static struct engine_fork *engine_fork(struct engine *e, u32 id)
{
	struct native_engine *n = (struct native_engine *)e;

	return id && id < n->fork_rows ? &n->forks[id] : NULL;
}

static struct engine_queue *engine_queue(struct engine *e, u32 id)
{
	struct native_engine *n = (struct native_engine *)e;

	return id && id < n->queue_rows ? &n->queues[id] : NULL;
}

static struct engine_slot *engine_slot(struct engine *e, u32 id)
{
	struct native_engine *n = (struct native_engine *)e;

	return id && id < n->slot_rows ? &n->slots[id] : NULL;
}

static struct engine_host *engine_host(struct engine *e, u32 id)
{
	struct native_engine *n = (struct native_engine *)e;

	return id && id < n->host_rows ? &n->hosts[id] : NULL;
}

static struct engine_line *engine_line(struct engine *e)
{
	return ((struct native_engine *)e)->line;
}

#include "engine/leaf.h"
#include "engine/record.h"

extern const u32 aqm_engine_layout[45];

#define AT(type, field) __builtin_offsetof(struct type, field)

/* Sizes, offsets and constants, in the order of engine/ffi.rs. */
const u32 aqm_engine_layout[45] = {
	sizeof(struct native_engine),
	sizeof(struct engine_queue),
	sizeof(struct engine_slot),
	sizeof(struct engine_line),
	sizeof(struct engine_fork),
	AT(engine_fork, head),
	sizeof(struct engine_config),
	AT(engine_config, guarantee_bytes_s),
	AT(engine_config, live),
	AT(engine_config, parent),
	AT(engine_config, target_ns),
	AT(engine_config, cap),
	AT(engine_config, burst_bytes),
	AT(engine_config, hosts),
	AT(engine_config, ceiling_burst_bytes),
	sizeof(struct engine_node),
	AT(engine_node, ceiling),
	AT(engine_node, guarantee),
	AT(engine_node, sent_wire_bytes),
	AT(engine_node, state),
	AT(engine_node, deficit),
	AT(engine_node, wheel),
	AT(engine_node, queue),
	AT(engine_node, marks),
	AT(engine_node, claim),
	sizeof(struct engine_rule),
	AT(engine_rule, codel),
	AT(engine_rule, limit_bytes),
	AT(engine_rule, other),
	AT(engine_rule, lent),
	sizeof(struct engine_host),
	AT(engine_host, rests),
	sizeof(struct engine_record),
	AT(engine_record, event),
	AT(engine_record, reason),
	ENGINE_LEVELS,
	ENGINE_LISTS,
	ENGINE_LEAST_QUANTUM,
	ENGINE_TICK_SHIFT,
	ENGINE_CREDIT_NS,
	ENGINE_IDLE_CREDIT_NS,
	ENGINE_MEMBERS,
	ENGINE_ROUND_NS,
	ENGINE_SLOW_TICKS,
	ENGINE_SLOW_NS,
};

/* The rows of an engine. Each count includes row 0. */
struct native_engine_rows {
	struct engine_node *nodes;
	struct engine_fork *forks;
	struct engine_queue *queues;
	struct engine_slot *slots;
	struct engine_host *hosts;
	u64 node_rows;
	u64 fork_rows;
	u64 queue_rows;
	u64 slot_rows;
	u64 host_rows;
};

/* The result of a request for a packet. */
struct native_engine_departure {
	struct aqm_verdict verdict;
	u32 leaf; /* 0: none may send */
	u32 slot;
	u64 opens_ns; /* in that case, when to ask again; ~0: nothing waits */
};

void aqm_engine_setup(struct native_engine *n, const struct engine_rule *rule,
		      const struct native_engine_rows *rows);
void aqm_engine_share(struct native_engine *n, struct engine_line *line,
		      u32 members, u32 member);
void aqm_engine_look(struct native_engine *n, u32 id, u64 now_ns);
u32 aqm_engine_leaf_of(struct native_engine *n, u32 leaf, u32 host);
u32 aqm_engine_admit(struct native_engine *n, u32 leaf, u32 len);
u32 aqm_engine_evict(struct native_engine *n, u32 leaf);
u32 aqm_engine_arrive(struct native_engine *n, u32 leaf,
		      const struct aqm_packet *packet, u32 host);
void aqm_engine_depart(struct native_engine *n, u64 now_ns,
		       struct native_engine_departure *departure);
void aqm_engine_packet(struct native_engine *n, u32 slot,
		       struct aqm_packet *packet);
void aqm_engine_counts(const struct native_engine *n, u64 counts[5]);
u32 aqm_engine_first(struct native_engine *n, u32 leaf, u32 flow);
u32 aqm_engine_behind(struct native_engine *n, u32 slot);
u64 aqm_engine_lowest(u64 word);

/* Applies the configuration of the engine. Keeps queued packets. */
void aqm_engine_setup(struct native_engine *n, const struct engine_rule *rule,
		      const struct native_engine_rows *rows)
{
	n->engine.rule = *rule;
	n->nodes = rows->nodes;
	n->forks = rows->forks;
	n->queues = rows->queues;
	n->slots = rows->slots;
	n->hosts = rows->hosts;
	n->node_rows = rows->node_rows;
	n->fork_rows = rows->fork_rows;
	n->queue_rows = rows->queue_rows;
	n->slot_rows = rows->slot_rows;
	n->host_rows = rows->host_rows;
	n->engine.queues.rows = (u32)rows->queue_rows - 1;
	n->engine.slots.rows = (u32)rows->slot_rows - 1;
	n->engine.hosts.rows = (u32)rows->host_rows - 1;
	engine_ruled(&n->engine);
}

/* Makes an engine share a line. Call before the first packet. */
void aqm_engine_share(struct native_engine *n, struct engine_line *line,
		      u32 members, u32 member)
{
	n->line = line;
	n->engine.members = members;
	n->engine.shared_root = n->engine.rule.root;
	n->engine.member = member;
}

/* Applies the changed configuration of a node. */
void aqm_engine_look(struct native_engine *n, u32 id, u64 now_ns)
{
	engine_look(&n->engine, id, now_ns);
}

u32 aqm_engine_leaf_of(struct native_engine *n, u32 leaf, u32 host)
{
	return engine_leaf_of(&n->engine, leaf, host);
}

u32 aqm_engine_admit(struct native_engine *n, u32 leaf, u32 len)
{
	return (u32)engine_admit(&n->engine, leaf, len);
}

u32 aqm_engine_evict(struct native_engine *n, u32 leaf)
{
	return engine_evict(&n->engine, leaf);
}

u32 aqm_engine_arrive(struct native_engine *n, u32 leaf,
		      const struct aqm_packet *packet, u32 host)
{
	return engine_keep(&n->engine, leaf, packet, host);
}

/* One step of dequeue: sets the slot of a packet to send or drop, and the
 * verdict. If it sets a leaf but no slot, the host calls again. */
void aqm_engine_depart(struct native_engine *n, u64 now_ns,
		       struct native_engine_departure *departure)
{
	struct engine *e = &n->engine;

	departure->slot = engine_next(e, now_ns);
	departure->leaf = e->leaf;
	departure->opens_ns = e->opens_ns;
	departure->verdict = aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
	if (departure->leaf)
		departure->verdict = e->verdict;
}

/* Copies the packet in a slot, which may just have been removed. */
void aqm_engine_packet(struct native_engine *n, u32 slot,
		       struct aqm_packet *packet)
{
	*packet = engine_slot(&n->engine, slot)->packet;
}

/* Reports bytes queued, slots and queues in use, packets refused, and hosts
 * that have a row. */
void aqm_engine_counts(const struct native_engine *n, u64 counts[5])
{
	counts[0] = n->engine.bytes;
	counts[1] = n->engine.slots.used;
	counts[2] = n->engine.queues.used;
	counts[3] = n->engine.refused;
	counts[4] = n->engine.hosts.used;
}

/* Returns the first slot of a leaf's queue; 0: it is empty. */
u32 aqm_engine_first(struct native_engine *n, u32 leaf, u32 flow)
{
	struct engine_node *node = engine_node(&n->engine, leaf);
	struct engine_queue *q;

	if (node->queue & ENGINE_LONE)
		return flow ? 0 : node->queue & ~ENGINE_LONE;
	q = engine_queue(&n->engine, node->queue);
	return q && flow < ENGINE_FLOWS ? q->flow[flow].head : 0;
}

/* Returns the slot behind another in its queue; 0: it is the last. */
u32 aqm_engine_behind(struct native_engine *n, u32 slot)
{
	return engine_slot(&n->engine, slot)->next;
}

/* Exported for a test. */
u64 aqm_engine_lowest(u64 word)
{
	return engine_lowest(word);
}
