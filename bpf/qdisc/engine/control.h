/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How user space controls weir_engine, and the records that the engine writes
 * (engine/record.h). */
#ifndef ENGINE_CONTROL_H
#define ENGINE_CONTROL_H

#include "engine/maps.h"
#include "engine/record.h"

/* Not inlined, to cost nothing while not recording. */
static __noinline int engine_report(struct hosted *one,
				    struct engine_record *record)
{
	u32 key = 0;
	void *ring = bpf_map_lookup_elem(&recorders, &key);

	record->sequence = one->sequence++;
	if (ring)
		bpf_ringbuf_output(ring, record, sizeof(*record), 0);
	return 0;
}

static __noinline int report_rule(struct hosted *one)
{
	u32 key = 0;
	void *ring = bpf_map_lookup_elem(&recorders, &key);
	struct engine_record record = {
		.now_ns = bpf_ktime_get_ns(),
		.event = ENGINE_RULE_EVENT,
	};

	one->recording = ring ? 1 : 0;
	if (!ring)
		return 0;
	engine_report(one, &record);
	bpf_ringbuf_output(ring, &one->engine.rule, sizeof(one->engine.rule),
			   0);
	return 0;
}

static __noinline int report_change(struct hosted *one, u32 id,
				    const struct engine_config *now, u64 now_ns)
{
	u32 key = 0;
	void *ring = bpf_map_lookup_elem(&recorders, &key);
	struct engine_record record = {
		.now_ns = now_ns,
		.event = ENGINE_CHANGE_EVENT,
		.node = id,
	};
	struct engine_config config = *now;

	engine_report(one, &record);
	if (ring)
		bpf_ringbuf_output(ring, &config, sizeof(config), 0);
	return 0;
}

static __noinline int report_host(struct hosted *one, u32 leaf, u32 host,
				  u32 found)
{
	struct engine_record record = {
		.now_ns = bpf_ktime_get_ns(),
		.event = ENGINE_HOST_EVENT,
		.node = leaf,
		.slot = found,
		.host = host,
	};

	return engine_report(one, &record);
}

static __noinline int report_evict(struct hosted *one, u32 leaf, u32 slot,
				   const struct aqm_packet *packet)
{
	struct engine_record record = {
		.now_ns = packet->arrived_ns,
		.event = ENGINE_EVICT_EVENT,
		.node = leaf,
		.slot = slot,
		.len = packet->len,
	};

	return engine_report(one, &record);
}

static __always_inline void report_arrival(struct hosted *one, u32 leaf,
					   const struct aqm_packet *packet,
					   u32 host, u32 slot)
{
	struct engine_record record = {
		.now_ns = packet->arrived_ns,
		.event = ENGINE_ARRIVE_EVENT,
		.node = leaf,
		.slot = slot != ENGINE_FULL ? slot : 0,
		.len = packet->len,
		.wire = packet->wire,
		.flow = packet->flow,
		.host = host,
		.ecn = packet->ecn,
		.action = slot == ENGINE_FULL ? ENGINE_EVICT :
			  slot		      ? ENGINE_KEEP :
						ENGINE_REFUSE,
	};

	engine_report(one, &record);
}

static __noinline int report_departure(struct hosted *one, u32 slot, u64 now_ns)
{
	struct engine_record record = {
		.now_ns = now_ns,
		.event = ENGINE_DEPART_EVENT,
		.node = one->engine.leaf,
		.slot = slot,
	};

	if (record.node) {
		record.action = one->engine.verdict.action;
		record.reason = one->engine.verdict.reason;
	} else {
		record.opens_ns = one->engine.opens_ns;
	}
	return engine_report(one, &record);
}

/* Applies the settings of the engine. */
static __noinline int take_over(struct hosted *one)
{
	u32 key = 0;
	struct engine_settings *wanted = bpf_map_lookup_elem(&settings, &key);
	struct engine *e = &one->engine;
	u32 parts;

	if (!wanted)
		return 0;
	parts = aqm_max(wanted->members, 1);
	one->changes_seen = wanted->changes;
	e->rule = wanted->rule;
	e->members = wanted->members;
	e->queues.rows = wanted->queues / parts;
	e->slots.rows = wanted->slots / parts;
	e->hosts.rows = wanted->hosts;
	one->inner = wanted->inner;
	__builtin_memcpy(e->at, wanted->at, sizeof(wanted->at));
	one->packets = 0;
	e->shared_root = 0;
	if (wanted->members) {
		e->rule.root += e->member;
		e->shared_root = e->rule.root;
		e->rule.other += e->member;
		e->rule.limit_bytes /= parts;
		one->packets = e->member * e->slots.rows;
		e->at[1] += e->member * e->queues.rows *
			    (u32)sizeof(struct engine_queue);
		e->at[2] += one->packets * (u32)sizeof(struct engine_slot);
	}
	engine_ruled(e);
	one->host_parts = wanted->host_parts;
	one->host_stamp = wanted->host_stamp;
	one->acks = wanted->members ? ACKS_ALL : wanted->acks;
	one->first = wanted->first;
	one->stamp = marks_stamp(one->point.netns, one->point.ifindex);
	report_rule(one);
	return 0;
}

/* Applies the pending changes of nodes. */
__noinline int take_asks(struct hosted *one __arg_nonnull, u64 now_ns)
{
	u32 key = 0, i;
	struct engine_asks *all = bpf_map_lookup_elem(&asks, &key);
	struct engine_ask *ask;
	struct engine_node *n;

	bpf_for (i, 0, ENGINE_ASKS) {
		if (!all || all->done == all->asked)
			break;
		ask = &all->ask[AQM_MASKED(all->done, ENGINE_ASKS - 1)];
		n = engine_node(&one->engine, ask->id);
		if (n) {
			if (!ask->stored)
				n->config = ask->config;
			if (one->recording)
				report_change(one, ask->id, &n->config, now_ns);
			engine_look(&one->engine, ask->id, now_ns);
		}
		all->done++;
	}
	return 0;
}

/* Applies changes by user space, if it has signalled any. */
static __always_inline void follow(struct hosted *one, u64 now_ns)
{
	u32 key = 0, bell = engine_bell();
	struct engine_settings *wanted;

	if (bell == one->bell)
		return;
	/* A memory barrier, unlike a plain store: data written before the bell
	 * was incremented is read after it. */
	__sync_lock_test_and_set(&one->bell, bell);
	wanted = bpf_map_lookup_elem(&settings, &key);
	if (wanted && wanted->changes != one->changes_seen)
		take_over(one);
	if (!one->engine.members)
		take_asks(one, now_ns);
}

#endif
