/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel host of one discipline: a BPF qdisc (net/sched/bpf_qdisc.c) called
 * weir_NAME. The build writes a program for each discipline, which includes the
 * discipline's NAME.c, defines AQM_NAME, and includes this file.
 *
 * Instances. A BPF qdisc has no private area and takes no options. So each
 * qdisc of this kind has an instance in a map. Its number plus one is stored in
 * Qdisc.limit, a field that the kernel does not use for BPF qdiscs and lets
 * programs write. So finding an instance costs one array lookup.
 *
 * Settings are in a second map, keyed by attach point: network namespace,
 * device and transmit queue. User space may write them before the qdisc exists.
 * Without settings, defaults apply. To change them, it writes the map, then
 * increments the instance's count of changes. The next packet applies them. A
 * change drops no packets.
 *
 * Packets. The slots of an instance are a range of one array, each with room
 * for the reference to a packet. All calls for one qdisc are made under its
 * lock.
 *
 * Recording. A ring inserted into `recorders` takes effect at the next change.
 * From then on, every input and verdict of the discipline is written to it
 * (record.h).
 *
 * The kernel does not let a qdisc's programs change a packet's header. A
 * program at the egress hook does it for them, on a later packet of the flow
 * (marks.h). Without that program every packet is presented as not ECN-capable,
 * so no verdict is to mark.
 *
 * Over 500 lines, because the programs of a qdisc and what they share are
 * compiled as one unit: the verifier sees them so, and so should a reader.
 */
#include "kernel.h"
#include "aqm.h"
#include "gate.h"
#include "pending.h"
#include "qdisc_layout.h"
#include "random.h"
#include "record.h"

#define aqm_slot(q, i) bpf_slot((q)->host, i)

/* Most qdiscs of one discipline, and most attach points with settings. */
#define INSTANCES 16
#define PLACES 64

struct aqm_slot;
static __always_inline struct aqm_slot *bpf_slot(u64 first, u32 index);

#include "queue.h"

struct aqm_settings {
	struct aqm_settings_head head;
	struct AQM_OF(_params) params;
};

struct aqm_queued_skb {
	struct aqm_slot slot;
	struct sk_buff __kptr *skb;
};

struct aqm_hosted {
	struct aqm_hosted_head head;
	struct AQM_OF(_instance) q;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PLACES);
	__type(key, struct aqm_attach_point);
	__type(value, struct aqm_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, INSTANCES);
	__type(key, u32);
	__type(value, struct aqm_hosted);
} instances SEC(".maps");

/* Counts of changes, incremented by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, INSTANCES);
	__type(key, u32);
	__type(value, u32);
} changes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, INSTANCES *AQM_OF(_PACKETS));
	__type(key, u32);
	__type(value, struct aqm_queued_skb);
} packets SEC(".maps");

struct recorder {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/* A ring for each recorded instance, of any size. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, INSTANCES);
	__type(key, u32);
	__array(values, struct recorder);
} recorders SEC(".maps");

static __always_inline struct aqm_queued_skb *bpf_queued(u64 first, u32 index)
{
	u32 key = (u32)first + index - 1;

	if (!index || index > AQM_OF(_PACKETS))
		return NULL;
	return bpf_map_lookup_elem(&packets, &key);
}

static __always_inline struct aqm_slot *bpf_slot(u64 first, u32 index)
{
	struct aqm_queued_skb *queued = bpf_queued(first, index);

	return queued ? &queued->slot : NULL;
}

static __always_inline struct aqm_hosted *bpf_instance(const struct Qdisc *sch)
{
	u32 key = sch->limit - 1;

	return bpf_map_lookup_elem(&instances, &key);
}

/* Returns the length of a packet as the kernel's qdiscs count it: with the
 * link-layer header, and for a merged packet with the headers of all
 * segments. */
static __always_inline u32 bpf_packet_len(struct sk_buff *skb)
{
	return ((struct qdisc_skb_cb *)skb->cb)->pkt_len;
}

/* Loads settings from the map, or uses the defaults for this device. */
static __always_inline void bpf_settle(struct aqm_hosted *one,
				       struct Qdisc *sch)
{
	struct aqm_settings *wanted =
		bpf_map_lookup_elem(&settings, &one->head.point);
	struct net_device *dev = sch->dev_queue->dev;
	struct aqm_link *link = &one->q.link;

	if (wanted) {
		one->q.params = wanted->params;
		*link = wanted->head.link;
		one->head.gate.rate_bytes_s = wanted->head.gate_bytes_s;
	} else {
		AQM_OF(_defaults)(&one->q.params);
		__builtin_memset(link, 0, sizeof(*link));
		one->head.gate.rate_bytes_s = 0;
	}
	one->head.stamp =
		marks_stamp(one->head.point.netns, one->head.point.ifindex);
	if (!link->mtu_bytes)
		link->mtu_bytes = dev->mtu + dev->hard_header_len;
	if (!link->queue_packets)
		link->queue_packets = dev->tx_queue_len;
	if (!link->room_packets || link->room_packets >= AQM_OF(_PACKETS))
		link->room_packets = AQM_OF(_PACKETS) - 1;
	AQM_OF(_setup)(&one->q.vars, &one->q.params, link);
}

/* Records that the packet's flow has a pending mark. */
static __always_inline void bpf_defer_mark(const struct aqm_hosted *one,
					   struct sk_buff *skb, u64 now_ns)
{
	marks_defer(skb, one->head.point.netns, one->head.point.ifindex,
		    now_ns);
}

/* Not inlined, to cost nothing while not recording. */
static __noinline int bpf_record(struct aqm_hosted *one, u32 number,
				 struct aqm_record *record)
{
	void *ring = bpf_map_lookup_elem(&recorders, &number);

	record->sequence = one->head.sequence++;
	if (ring)
		bpf_ringbuf_output(ring, record, sizeof(*record), 0);
	return 0;
}

/* Records the whole state, if there is a ring. */
static __noinline int bpf_record_state(struct aqm_hosted *one, u32 number)
{
	void *ring = bpf_map_lookup_elem(&recorders, &number);
	struct aqm_record record = {
		.now_ns = bpf_ktime_get_ns(),
		.event = AQM_STATE_EVENT,
		.slot = one->q.room.fresh,
		.len = sizeof(one->q),
	};
	struct aqm_queued_skb *queued;
	u32 i;

	one->head.recording = ring ? 1 : 0;
	if (!ring)
		return 0;
	bpf_record(one, number, &record);
	bpf_ringbuf_output(ring, &one->q, sizeof(one->q), 0);
	bpf_for (i, 0, AQM_OF(_PACKETS)) {
		if (i >= one->q.room.fresh)
			break;
		queued = bpf_queued(one->q.host, i + 1);
		if (!queued)
			break;
		bpf_ringbuf_output(ring, &queued->slot, sizeof(queued->slot),
				   0);
	}
	return 0;
}

static __always_inline void
bpf_record_arrival(struct aqm_hosted *one, u32 number,
		   const struct aqm_packet *packet, u32 random, u32 slot,
		   const struct aqm_verdict *verdict)
{
	struct aqm_record record = {
		.now_ns = packet->arrived_ns,
		.event = AQM_ARRIVE_EVENT,
		.slot = slot,
		.len = packet->len,
		.wire = packet->wire,
		.flow = packet->flow,
		.ecn = packet->ecn,
		.random = random,
		.action = verdict->action,
		.reason = verdict->reason,
		.queue = verdict->queue,
		.evict = verdict->evict,
	};

	bpf_record(one, number, &record);
}

static __always_inline void bpf_record_event(struct aqm_hosted *one, u32 number,
					     u32 event, u64 now_ns, u32 slot,
					     u32 random,
					     const struct aqm_verdict *verdict)
{
	struct aqm_record record = {
		.now_ns = now_ns,
		.event = event,
		.slot = slot,
		.random = random,
	};

	if (verdict) {
		record.action = verdict->action;
		record.reason = verdict->reason;
		record.queue = verdict->queue;
		record.evict = verdict->evict;
	}
	bpf_record(one, number, &record);
}

static __always_inline void bpf_follow_changes(struct aqm_hosted *one,
					       struct Qdisc *sch)
{
	u32 key = sch->limit - 1;
	u32 *count = bpf_map_lookup_elem(&changes, &key);

	if (count && *count != one->head.changes_seen) {
		one->head.changes_seen = *count;
		bpf_settle(one, sch);
		bpf_record_state(one, key);
	}
}

/* Zeroes what describes the queue; with `all`, the statistics too. */
static __always_inline void bpf_clear(struct aqm_hosted *one, int all)
{
	u64 *vars = (u64 *)&one->q.vars;
	u64 *fifos = (u64 *)one->q.fifos;
	u32 i;

	bpf_for (i, 0, sizeof(one->q.vars) / 8)
		vars[i] = 0;
	bpf_for (i, 0, AQM_OF(_QUEUES))
		fifos[i] = 0;
	__builtin_memset(&one->q.last, 0, sizeof(one->q.last));
	one->q.room.fresh = 0;
	one->q.room.free = 0;
	one->q.counts.queued_packets = 0;
	one->q.counts.queued_bytes = 0;
	one->q.counts.queued_wire_bytes = 0;
	if (all) {
		__builtin_memset(&one->q.stats, 0, sizeof(one->q.stats));
		__builtin_memset(&one->q.counts, 0, sizeof(one->q.counts));
	}
}

SEC("struct_ops")
int BPF_PROG(qdisc_init, struct Qdisc *sch, struct nlattr *arg,
	     struct netlink_ext_ack *extack)
{
	struct net_device *dev = sch->dev_queue->dev;
	struct aqm_hosted *one;
	u32 *count;
	u32 i;

	bpf_for (i, 0, INSTANCES) {
		u32 key = i;

		one = bpf_map_lookup_elem(&instances, &key);
		if (!one || __sync_val_compare_and_swap(&one->head.used, 0, 1))
			continue;
		bpf_clear(one, 1);
		one->head.point.netns = dev->nd_net.net->net_cookie;
		one->head.point.ifindex = dev->ifindex;
		one->head.point.queue =
			sch->parent == TC_H_ROOT ? 0 : TC_H_MIN(sch->parent);
		one->q.host = (u64)key * AQM_OF(_PACKETS);
		count = bpf_map_lookup_elem(&changes, &key);
		one->head.changes_seen = count ? *count : 0;
		one->head.recording = 0;
		__builtin_memset(&one->head.line, 0, sizeof(one->head.line));
		one->head.gate.opens_ns = 0;
		one->head.gate.rest = 0;
		one->head.key = bpf_get_prandom_u32();
		one->head.random = random_seed();
		bpf_settle(one, sch);
		sch->limit = key + 1;
		return 0;
	}
	return -ENOSPC;
}

SEC("struct_ops")
int BPF_PROG(qdisc_enqueue, struct sk_buff *skb, struct Qdisc *sch,
	     struct bpf_sk_buff_ptr *to_free)
{
	struct aqm_hosted *one = bpf_instance(sch);
	struct aqm_verdict verdict = {};
	struct aqm_packet packet = {};
	struct aqm_queued_skb *queued;
	u32 number = sch->limit - 1;
	struct sk_buff *old;
	u32 index, i;
	u32 random = 0;

	if (!one)
		goto drop;
	bpf_follow_changes(one, sch);
	packet.arrived_ns = bpf_ktime_get_ns();
	packet.len = bpf_packet_len(skb);
	packet.wire = aqm_wire(&one->q.link, packet.len);
	packet.ecn = marks_ecn(skb, one->head.stamp);
	/* While recording, also supply inputs that this discipline does not
	 * need: the recording may be replayed to one that does. */
	if (AQM_OF(_NEEDS) &AQM_NEEDS_CODE)
		packet.flow = flow_code(skb);
	else if (AQM_OF(_NEEDS) &AQM_NEEDS_FLOW || one->head.recording)
		packet.flow = flow_hash(skb, (u32)one->head.key,
					AQM_OF(_flows)(&one->q.params));
	if (AQM_OF(_NEEDS) &AQM_NEEDS_RANDOM || one->head.recording)
		random = random_word(&one->head.random);
	index = AQM_OF(_host_arrive)(&one->q, &packet, random, &verdict);
	if (one->head.recording)
		bpf_record_arrival(one, number, &packet, random, index,
				   &verdict);
	queued = bpf_queued(one->q.host, index);
	if (!queued)
		goto drop;
	if (verdict.action == AQM_MARK)
		bpf_defer_mark(one, skb, packet.arrived_ns);
	old = bpf_kptr_xchg(&queued->skb, skb);
	if (old)
		bpf_qdisc_skb_drop(old, to_free);
	sch->q.qlen++;
	sch->qstats.backlog += packet.len;
	if (!(AQM_OF(_NEEDS) &AQM_NEEDS_EVICTION) || !verdict.evict)
		return NET_XMIT_SUCCESS;
	bpf_for (i, 0, AQM_EVICT_CALLS) {
		index = AQM_OF(_host_evict)(&one->q, packet.arrived_ns);
		if (one->head.recording)
			bpf_record_event(one, number, AQM_EVICT_EVENT,
					 packet.arrived_ns, index, 0, NULL);
		queued = bpf_queued(one->q.host, index);
		if (!queued)
			break;
		old = bpf_kptr_xchg(&queued->skb, NULL);
		packet.len = queued->slot.packet.len;
		sch->q.qlen--;
		sch->qstats.backlog -= packet.len;
		sch->qstats.drops++;
		if (old)
			bpf_qdisc_skb_drop(old, to_free);
	}
	return NET_XMIT_SUCCESS;
drop:
	sch->qstats.drops++;
	bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_DROP;
}

SEC("struct_ops")
struct sk_buff *BPF_PROG(qdisc_dequeue, struct Qdisc *sch)
{
	struct aqm_hosted *one = bpf_instance(sch);
	struct aqm_verdict verdict = {};
	u32 number = sch->limit - 1;
	struct sk_buff *skb = NULL;
	struct aqm_queued_skb *queued;
	u32 index, wire, i;
	u32 random = 0;
	u64 now, until;
	int passed;

	if (!one)
		return NULL;
	passed = aqm_line_passed(&one->head.line);
	if (!sch->q.qlen) {
		/* If the rate is known, the next arrival tells of it. */
		if (!one->q.last.empty_pending || one->q.link.rate_bytes_s)
			return NULL;
		now = bpf_ktime_get_ns();
		AQM_OF(_host_empty)(&one->q, now);
		verdict.action = AQM_EMPTY;
		if (one->head.recording)
			bpf_record_event(one, number, AQM_DEPART_EVENT, now, 0,
					 0, &verdict);
		return NULL;
	}
	if (passed) {
		one->head.line.timer_ns = one->head.gate.opens_ns;
		bpf_qdisc_watchdog_schedule(sch, one->head.gate.opens_ns, 0);
		return NULL;
	}
	now = bpf_ktime_get_ns();
	if (aqm_line_shut(&one->head.line, &one->head.gate, now)) {
		if (aqm_line_timer(&one->head.line, one->head.gate.opens_ns,
				   now))
			bpf_qdisc_watchdog_schedule(sch,
						    one->head.gate.opens_ns, 0);
		return NULL;
	}
	/* Each iteration sends or drops a packet, or ends a flow's turn. */
	bpf_for (i, 0, 4 * (AQM_OF(_PACKETS) + AQM_OF(_QUEUES))) {
		if (AQM_OF(_NEEDS) &AQM_NEEDS_RANDOM_OUT)
			random = random_word(&one->head.random);
		index = AQM_OF(_host_depart)(&one->q, now, random, &verdict);
		if (one->head.recording)
			bpf_record_event(one, number, AQM_DEPART_EVENT, now,
					 index, random, &verdict);
		queued = bpf_queued(one->q.host, index);
		if (!queued) {
			if (verdict.action == AQM_AGAIN)
				continue;
			break;
		}
		skb = bpf_kptr_xchg(&queued->skb, NULL);
		sch->q.qlen--;
		sch->qstats.backlog -= queued->slot.packet.len;
		wire = queued->slot.packet.wire;
		if (!skb)
			continue;
		if (verdict.action != AQM_DROP) {
			if (verdict.action == AQM_MARK)
				bpf_defer_mark(one, skb, now);
			aqm_line_pass(&one->head.line, &one->head.gate, wire,
				      now);
			bpf_qdisc_bstats_update(sch, skb);
			return skb;
		}
		sch->qstats.drops++;
		bpf_kfree_skb(skb);
	}
	/* Packets are held until a certain time. If none is set, or if the loop
	 * has reached its bound, the watchdog fires after 1 ms. */
	until = AQM_OF(_NEEDS) &AQM_NEEDS_HOLD ? AQM_OF(_until)(&one->q.vars) :
						 0;
	if (until <= now)
		until = now + 1000000;
	if (sch->q.qlen && aqm_line_timer(&one->head.line, until, now))
		bpf_qdisc_watchdog_schedule(sch, until, 0);
	return NULL;
}

SEC("struct_ops")
void BPF_PROG(qdisc_reset, struct Qdisc *sch)
{
	struct aqm_hosted *one = bpf_instance(sch);
	struct aqm_queued_skb *queued;
	struct sk_buff *skb;
	u32 i;

	if (!one)
		return;
	bpf_for (i, 0, AQM_OF(_PACKETS)) {
		if (i >= one->q.room.fresh)
			break;
		queued = bpf_queued(one->q.host, i + 1);
		if (!queued)
			break;
		skb = bpf_kptr_xchg(&queued->skb, NULL);
		if (skb)
			bpf_kfree_skb(skb);
	}
	bpf_clear(one, 0);
	/* The kernel cancels the timer. */
	one->head.line.timer_ns = 0;
	one->head.line.passed = 0;
	AQM_OF(_setup)(&one->q.vars, &one->q.params, &one->q.link);
	if (one->head.recording)
		bpf_record_event(one, sch->limit - 1, AQM_RESET_EVENT,
				 bpf_ktime_get_ns(), 0, 0, NULL);
}

SEC("struct_ops")
void BPF_PROG(qdisc_destroy, struct Qdisc *sch)
{
	struct aqm_hosted *one = bpf_instance(sch);

	if (one)
		__sync_val_compare_and_swap(&one->head.used, 1, 0);
	sch->limit = 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";

/* The qdisc's name for tc and netlink: weir_NAME. */
#define AQM_ID2(name) "weir_" #name
#define AQM_ID(name) AQM_ID2(name)

SEC(".struct_ops.link")
struct Qdisc_ops qdisc = {
	.id = AQM_ID(AQM_NAME),
	.enqueue = (void *)qdisc_enqueue,
	.dequeue = (void *)qdisc_dequeue,
	.init = (void *)qdisc_init,
	.reset = (void *)qdisc_reset,
	.destroy = (void *)qdisc_destroy,
};
