/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel host of one discipline on a virtual queue: a program for arriving
 * packets (cls_bpf with direct action, or tcx), which limits their rate without
 * queueing. With a virtual queue (aqm/host/virtual.h) the discipline decides
 * which packets are marked or dropped (Braithwaite 2006, section 4.1.5). Other
 * packets pass on to the filters that follow.
 *
 * The build writes a program for each discipline. It includes the discipline's
 * NAME.c, defines AQM_NAME, and includes this file.
 *
 * Settings are in a map. To change them, user space writes the map and
 * increments the count of changes. The next packet applies them, and the state
 * is kept. Measurements of the queue at the far end (virtual_measured()) come
 * by a map of their own in the same way, so that who writes settings and who
 * measures need not know of each other.
 *
 * If the algorithm has a table of flows, a second table in the same order
 * stores their tuples and counters.
 */
#include "tc.h"
#include "filter_layout.h"
#include "lock.h"
#include "random.h"

#define aqm_slot(q, i) filter_slot(q, i)
struct aqm_slot;
static __always_inline struct aqm_slot *filter_slot(const void *q, u32 index)
{
	return NULL;
}
#include "queue.h"
#include "virtual.h"
#include "record.h"

/* Set before the program is loaded: the key of flow hashes, and whether
 * decisions are recorded. */
const volatile u32 seed;
const volatile u32 recording;

struct filter_settings {
	struct filter_settings_head head;
	struct AQM_OF(_params) params;
};

struct filter_state {
	struct filter_state_head head;
	struct virtual_queue v;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct filter_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct filter_state);
} instances SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct filter_measured);
} measured SEC(".maps");

/* Incremented by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} changes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} records SEC(".maps");

/*
 * Global functions below are checked once by the verifier. Arguments and
 * results are in one structure, because global functions only take numbers, the
 * packet and plain memory.
 */
struct filter_call {
	struct aqm_packet packet;
	struct aqm_verdict verdict;
	struct tuple tuple;
	u32 random;
	u32 is_flow;
};

/* Applies the settings, and a new measurement. */
__noinline u32 filter_settle(struct filter_state *state, u64 now_ns)
{
	u32 key = 0;
	struct filter_settings *wanted = bpf_map_lookup_elem(&settings, &key);
	struct filter_measured *last = bpf_map_lookup_elem(&measured, &key);

	if (!wanted || !last || !state)
		return 0;
	if (!state->head.random)
		state->head.random = random_seed();
	state->head.parts = (u32)wanted->head.parts;
	state->v.q.params = wanted->params;
	virtual_setup(&state->v, &wanted->head.link, now_ns);
	if (last->number != state->head.measured) {
		state->head.measured = last->number;
		__builtin_memcpy(state->head.peer, last->peer,
				 sizeof(last->peer));
		virtual_measured(&state->v, last->waits_ns, now_ns);
	}
	return 1;
}

#ifdef AQM_FLOWS_H
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FLOW_SETS *FLOW_WAYS);
	__type(key, u32);
	__type(value, struct filter_flow);
} flows SEC(".maps");

/* Returns the index of a flow in its table. */
static __always_inline u32 filter_place(const struct flow_table *table,
					u32 hash)
{
	u32 set = (hash >> 22) * FLOW_WAYS;
	u32 way;

	for (way = 0; way < FLOW_WAYS - 1; way++) {
		if (table->flows[set + way].hash == hash &&
		    table->flows[set + way].seen)
			break;
	}
	return set + way;
}

/* Updates the counters of a packet's flow. */
__noinline u32 filter_note(struct filter_state *state, struct filter_call *call)
{
	const struct aqm_packet *packet;
	struct filter_flow *flow;
	u32 key;

	if (!call || !state)
		return 0;
	packet = &call->packet;
	key = filter_place(&state->v.q.vars.table, packet->flow);
	flow = bpf_map_lookup_elem(&flows, &key);
	if (!flow)
		return 0;
	/* The entry now belongs to another flow, or was silent too long. */
	if (flow->hash != packet->flow || !flow->seen_ns ||
	    packet->arrived_ns - flow->seen_ns > state->v.q.params.age_ns) {
		flow->tuple = call->tuple;
		flow->hash = packet->flow;
		flow->packets = 0;
		flow->bytes = 0;
		flow->marks = 0;
		flow->drops = 0;
	}
	flow->seen_ns = packet->arrived_ns;
	flow->packets++;
	flow->bytes += packet->len;
	if (call->verdict.action == AQM_MARK)
		flow->marks++;
	if (call->verdict.action == AQM_DROP)
		flow->drops++;
	return 0;
}
#endif

/* Decides on a packet that has a flow. */
__noinline u32 filter_decide(struct filter_state *state,
			     struct filter_call *call)
{
	if (!call || !state)
		return 0;
	call->verdict = virtual_arrive(&state->v, &call->packet,
				       call->packet.arrived_ns, call->random);
	return 0;
}

/* Returns the size of the TCP header with options, or of the UDP header. */
static __always_inline u32 filter_header(struct __sk_buff *skb, u32 protocol,
					 const struct layout *at)
{
	u8 words;

	if (protocol == IPPROTO_UDP)
		return 8;
	if (tc_load(skb, at->transport + 12, &words, 1))
		return 20;
	return (words >> 4) * 4;
}

/* Returns the bytes on the wire. A merged packet (GRO) counts as the packets it
 * was made of. */
static __always_inline u32 filter_wire(struct __sk_buff *skb,
				       const struct aqm_link *link,
				       u32 protocol, const struct layout *at)
{
	u32 segments = skb->gso_segs;
	u32 size = skb->gso_size;
	u32 own, rest;

	if (segments < 2 || !size)
		return aqm_wire(link, skb->len);
	/* Each segment repeats the headers of the first. */
	own = tc_network(skb, at) + at->transport +
	      filter_header(skb, protocol, at) + size;
	rest = (segments - 1) * size;
	rest = skb->len > rest ? skb->len - rest : skb->len;
	return (segments - 1) * aqm_wire(link, own) + aqm_wire(link, rest);
}

/* Whether a packet may answer a probe of the queue at the far end. It is not
 * dropped, because what it measures is worth more than its bytes. */
static __always_inline int filter_answers(const struct filter_state *state,
					  const struct tuple *tuple)
{
	const u32 *from = tuple->address[0];
	const u32 *peer = state->head.peer;

	return state->head.measured &&
	       (tuple->protocol == IPPROTO_ICMP ||
		tuple->protocol == IPPROTO_ICMPV6) &&
	       from[0] == peer[0] && from[1] == peer[1] && from[2] == peer[2] &&
	       from[3] == peer[3];
}

/* Reads the facts about a packet from its headers. */
__noinline u32 filter_look(struct __sk_buff *skb, struct filter_state *state,
			   struct filter_call *call)
{
	struct layout at = {};

	if (!call || !state)
		return 0;
	call->is_flow = tc_plain(skb, &call->tuple, &at) ||
			tc_tuple(skb, &call->tuple, &at);
	call->packet.len = skb->len;
	call->packet.ecn = at.ecn;
	call->packet.wire =
		filter_wire(skb, &state->v.q.link, call->tuple.protocol, &at);
	if (filter_answers(state, &call->tuple))
		call->is_flow = 0;
	if (state->head.parts != AQM_CONNECTION)
		tuple_reduce(&call->tuple, state->head.parts);
	if (AQM_OF(_NEEDS) &AQM_NEEDS_CODE)
		call->packet.flow = at.code;
	else
		call->packet.flow = tuple_hash(&call->tuple, seed);
	return 0;
}

static __always_inline void filter_record(const struct filter_call *call)
{
	struct aqm_record record = {
		.now_ns = call->packet.arrived_ns,
		.event = AQM_ARRIVE_EVENT,
		.slot = call->is_flow,
		.len = call->packet.len,
		.wire = call->packet.wire,
		.flow = call->packet.flow,
		.ecn = call->packet.ecn,
		.random = call->random,
		.action = call->verdict.action,
		.reason = call->verdict.reason,
	};

	bpf_ringbuf_output(&records, &record, sizeof(record), 0);
}

/* Takes the lock. A packet that cannot passes, and leaves its bytes to the next
 * one that can. */
static __always_inline int filter_lock(struct filter_state *state, u32 wire)
{
	if (lock_take(&state->head.lock))
		return 1;
	__sync_fetch_and_add(&state->head.missed, 1);
	__sync_fetch_and_add(&state->head.missed_wire, wire);
	return 0;
}

/* Adds the bytes of packets that could not take the lock to the virtual
 * queue. */
__noinline u32 filter_missed(struct filter_state *state, u64 now_ns)
{
	u64 wire;

	if (!state)
		return 0;
	wire = aqm_min(state->head.missed_wire, ~0U);
	__sync_fetch_and_sub(&state->head.missed_wire, wire);
	virtual_carried(&state->v, wire, now_ns);
	return 1;
}

/* Applies new settings, unless another CPU has done so. */
static __always_inline void filter_change(struct filter_state *state, u32 count,
					  u64 now_ns)
{
	if (!lock_take(&state->head.lock))
		return;
	if (count != state->head.changes_seen) {
		filter_settle(state, now_ns);
		state->head.changes_seen = count;
	}
	lock_release(&state->head.lock);
}

SEC("tc")
int inbound(struct __sk_buff *skb)
{
	u32 key = 0;
	struct filter_state *state = bpf_map_lookup_elem(&instances, &key);
	u32 *count = bpf_map_lookup_elem(&changes, &key);
	struct filter_call call = {};
	u32 action;

	if (!state || !count)
		return TC_ACT_UNSPEC;
	call.packet.arrived_ns = bpf_ktime_get_ns();
	/* A packet that cannot take the lock uses the previous settings. */
	if (*count != state->head.changes_seen)
		filter_change(state, *count, call.packet.arrived_ns);
	if (!state->v.full_wire)
		return TC_ACT_UNSPEC;
	filter_look(skb, state, &call);
	if (!filter_lock(state, call.packet.wire))
		return TC_ACT_UNSPEC;
	call.random = random_word(&state->head.random);
	call.packet.arrived_ns = virtual_now(&state->v, call.packet.arrived_ns);
	if (state->head.missed_wire)
		filter_missed(state, call.packet.arrived_ns);
	if (call.is_flow) {
		filter_decide(state, &call);
#ifdef AQM_FLOWS_H
		filter_note(state, &call);
#endif
	} else {
		state->head.other++;
		virtual_count(&state->v, &call.packet, call.packet.arrived_ns);
	}
	lock_release(&state->head.lock);
	if (recording)
		filter_record(&call);
	action = call.verdict.action;
	/* Drop a packet that cannot be marked although its ECN field says
	 * so. */
	if (action == AQM_MARK && !bpf_skb_ecn_set_ce(skb))
		return TC_ACT_SHOT;
	return action == AQM_DROP ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual BSD/GPL";
