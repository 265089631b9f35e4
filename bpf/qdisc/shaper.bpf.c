// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The qdisc weir_shaper: a link's rate and its classes, with any discipline of
 * the kit as the queue of each class.
 *
 * Which class sends is aqm/host/shaper.h's to say, what a class does with its
 * packets the discipline's. skb->priority names a packet's class, as it does
 * for HTB, so the same nftables rules serve both.
 *
 * Instances, places and changes are as in qdisc.bpf.h, with one difference: a
 * class that is changed for another, or gets another discipline, starts empty,
 * so what was queued there is dropped; everything else keeps its packets.
 */
#include "kernel.h"
#include "aqm.h"
#include "shaper.h"

#include "droptail.c"
#include "red.c"
#include "ared.c"
#include "mered.c"
#include "meredt.c"
#include "codel.c"
#include "fq_codel.c"
#include "pie.c"

/* Most shapers at a time, settings, and packets of a class. */
#define SHAPERS 8
#define PLACES 64
#define ROOM 4096

/* Room for the parameters of any discipline. */
#define MOST_PARAMS 32

/* K(number, name): the numbers are the order of `Discipline::all()`. */
#define KINDS(K) \
	K(0, droptail) \
	K(1, red) \
	K(2, ared) \
	K(3, mered) \
	K(4, meredt) \
	K(5, codel) \
	K(6, fq_codel) \
	K(7, pie)

#define aqm_slot(q, i) shaper_slot((q)->host, i)

struct aqm_slot;
static __always_inline struct aqm_slot *shaper_slot(u64 first, u32 index);

#define AQM_NAME droptail
#include "queue.h"
#undef AQM_NAME
#define AQM_NAME red
#include "queue.h"
#undef AQM_NAME
#define AQM_NAME ared
#include "queue.h"
#undef AQM_NAME
#define AQM_NAME mered
#include "queue.h"
#undef AQM_NAME
#define AQM_NAME meredt
#include "queue.h"
#undef AQM_NAME
#define AQM_NAME codel
#include "queue.h"
#undef AQM_NAME
#define AQM_NAME fq_codel
#include "queue.h"
#undef AQM_NAME
#define AQM_NAME pie
#include "queue.h"
#undef AQM_NAME

struct aqm_place {
	u64 netns;
	u32 ifindex;
	u32 queue;
};

struct class_settings {
	struct shaper_rule rule;
	u64 kind;
	u64 params[MOST_PARAMS];
};

struct shaper_settings {
	struct aqm_link link;
	u64 gate_bytes_s;
	u32 classes;
	u32 other;
	struct class_settings class[SHAPER_CLASSES];
};

struct shaper_hosted {
	struct shaper shaper;
	struct aqm_link link;
	u64 kinds[SHAPER_CLASSES];
	struct aqm_place place;
	u32 used;
	u32 changes_seen;
	u64 next_ns;
};

struct kept {
	struct aqm_slot slot;
	struct sk_buff __kptr *skb;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PLACES);
	__type(key, struct aqm_place);
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

static __always_inline struct shaper_hosted *shaper_of(const struct Qdisc *sch)
{
	u32 key = sch->limit - 1;

	return bpf_map_lookup_elem(&instances, &key);
}

/* The first slot of a class. */
static __always_inline u64 first_slot(u32 queue)
{
	return (u64)queue * ROOM;
}

/*
 * Functions below are global where they are, so that the verifier looks at each
 * once and by itself, and not at every discipline again for every way to it.
 * What they are told and say is in one place, because they may be given numbers
 * and plain memory only.
 */
struct turn {
	struct aqm_packet packet;
	struct aqm_verdict verdict;
	u64 now_ns;
	u32 random;
	u32 queue;
};

#define ARRIVE(number, name) \
	__noinline u32 name##_turn_arrive(struct turn *turn __arg_nonnull) \
	{ \
		u32 key = turn->queue; \
		struct name##_instance *q = \
			bpf_map_lookup_elem(&queues_##name, &key); \
		return q ? name##_host_arrive(q, &turn->packet, turn->random, \
					      &turn->verdict) : \
			   0; \
	}
#define EVICT(number, name) \
	__noinline u32 name##_turn_evict(struct turn *turn __arg_nonnull) \
	{ \
		u32 key = turn->queue; \
		struct name##_instance *q = \
			bpf_map_lookup_elem(&queues_##name, &key); \
		return q ? name##_host_evict(q, turn->now_ns) : 0; \
	}
#define DEPART(number, name) \
	__noinline u32 name##_turn_depart(struct turn *turn __arg_nonnull) \
	{ \
		u32 key = turn->queue; \
		struct name##_instance *q = \
			bpf_map_lookup_elem(&queues_##name, &key); \
		return q ? name##_host_depart(q, turn->now_ns, \
					      &turn->verdict) : \
			   0; \
	}
#define RELEASE(number, name) \
	__noinline u32 name##_turn_release(u32 key, u32 index) \
	{ \
		struct name##_instance *q = \
			bpf_map_lookup_elem(&queues_##name, &key); \
		if (q) \
			name##_give_slot(q, index); \
		return 0; \
	}
KINDS(ARRIVE)
EVICT(6, fq_codel)
KINDS(DEPART)
KINDS(RELEASE)

#define ARRIVE_CASE(number, name) \
	case number: \
		return name##_turn_arrive(turn);
#define DEPART_CASE(number, name) \
	case number: \
		return name##_turn_depart(turn);
#define RELEASE_CASE(number, name) \
	case number: \
		name##_turn_release(turn->queue, index); \
		break;

#define NEEDS_CASE(number, name) \
	case number: \
		return name##_NEEDS;

/* What a class's discipline has to be told; finding it out costs time. */
static __always_inline u32 class_needs(u64 kind)
{
	switch (kind) {
		KINDS(NEEDS_CASE)
	}
	return 0;
}

static __always_inline u32 class_arrive(u64 kind, struct turn *turn)
{
	switch (kind) {
		KINDS(ARRIVE_CASE)
	}
	return 0;
}

static __always_inline u32 class_depart(u64 kind, struct turn *turn)
{
	switch (kind) {
		KINDS(DEPART_CASE)
	}
	turn->verdict.action = AQM_EMPTY;
	return 0;
}

static __always_inline void class_release(u64 kind, struct turn *turn,
					  u32 index)
{
	switch (kind) {
		KINDS(RELEASE_CASE)
	}
}

/* Empties one discipline's instance; keeps what was counted unless `all`. */
#define CLEAR(number, name) \
	__noinline u32 name##_clear(u32 queue, u32 all) \
	{ \
		u32 key = queue; \
		struct name##_instance *q = \
			bpf_map_lookup_elem(&queues_##name, &key); \
		u64 *vars, *fifos; \
		u32 i; \
		if (!q) \
			return 0; \
		vars = (u64 *)&q->vars; \
		fifos = (u64 *)q->fifos; \
		bpf_for (i, 0, sizeof(q->vars) / 8) \
			vars[i] = 0; \
		bpf_for (i, 0, name##_QUEUES) \
			fifos[i] = 0; \
		q->room.fresh = 0; \
		q->room.free = 0; \
		q->counts.queued_packets = 0; \
		q->counts.queued_bytes = 0; \
		q->counts.queued_wire_bytes = 0; \
		if (all) { \
			__builtin_memset(&q->stats, 0, sizeof(q->stats)); \
			__builtin_memset(&q->counts, 0, sizeof(q->counts)); \
		} \
		name##_setup(&q->vars, &q->params, &q->link); \
		return 0; \
	}
KINDS(CLEAR)

#define SETTLE(number, name) \
	__noinline u32 name##_settle(u32 queue, u32 slot, u32 class) \
	{ \
		u32 key = queue; \
		struct name##_instance *q = \
			bpf_map_lookup_elem(&queues_##name, &key); \
		struct shaper_hosted *one = \
			bpf_map_lookup_elem(&instances, &slot); \
		struct shaper_settings *all; \
		struct class_settings *wanted = NULL; \
		if (!q || !one || class >= SHAPER_CLASSES) \
			return 0; \
		all = bpf_map_lookup_elem(&settings, &one->place); \
		if (all) \
			wanted = &all->class[class]; \
		if (wanted) \
			__builtin_memcpy(&q->params, wanted->params, \
					 sizeof(q->params)); \
		else \
			name##_defaults(&q->params); \
		q->link = one->link; \
		q->host = first_slot(queue); \
		name##_setup(&q->vars, &q->params, &q->link); \
		return 0; \
	}
KINDS(SETTLE)

#define CLEAR_CASE(number, name) \
	case number: \
		name##_clear(queue, all); \
		break;
static __always_inline void class_clear(u64 kind, u32 queue, u32 all)
{
	switch (kind) {
		KINDS(CLEAR_CASE)
	}
}

#define SETTLE_CASE(number, name) \
	case number: \
		name##_settle(slot *SHAPER_CLASSES + class, slot, class); \
		break;
static __always_inline void class_settle(u64 kind, u32 slot, u32 class)
{
	switch (kind) {
		KINDS(SETTLE_CASE)
	}
}

/* Frees what a class holds and returns how many bytes that were. */
__noinline u32 class_free(u32 queue)
{
	u32 freed = 0;
	u32 i;

	bpf_for (i, 1, ROOM + 1) {
		struct kept *kept = shaper_kept(first_slot(queue), i);
		struct sk_buff *skb;

		if (!kept)
			break;
		skb = bpf_kptr_xchg(&kept->skb, NULL);
		if (skb) {
			bpf_kfree_skb(skb);
			freed += kept->slot.packet.len;
		}
	}
	return freed;
}

/* Takes one class's settings over and returns the bytes that were dropped. */
__noinline u32 shaper_settle_class(u32 slot, u32 i)
{
	struct shaper_hosted *one = bpf_map_lookup_elem(&instances, &slot);
	u32 queue = slot * SHAPER_CLASSES + i;
	struct shaper_settings *wanted;
	struct shaper_rule rule = {};
	struct shaper_class *class;
	u32 freed = 0;
	u64 kind = 0;

	if (!one || i >= SHAPER_CLASSES)
		return 0;
	class = &one->shaper.class[i];
	wanted = bpf_map_lookup_elem(&settings, &one->place);
	if (wanted) {
		kind = wanted->class[i].kind;
		rule = wanted->class[i].rule;
	}
	/* Another class in this place, or another discipline: not its packets. */
	if (one->kinds[i] != kind || i >= one->shaper.classes ||
	    class->rule.classid != rule.classid) {
		if (class->packets)
			freed = class_free(queue);
		class_clear(one->kinds[i], queue, 0);
		class->packets = 0;
		class->start = 0;
		class->rest = 0;
		class->guarantee.opens_ns = 0;
		class->ceiling.opens_ns = 0;
		class_clear(kind, queue, 1);
		one->kinds[i] = kind;
	}
	shaper_setup(class, &rule, &one->link);
	class_settle(kind, slot, i);
	return freed;
}

/* Takes settings over, or makes one class of everything; returns the bytes that
 * were dropped. */
__noinline u32 shaper_settle(u32 slot, u32 mtu_bytes, u32 queue_packets)
{
	struct shaper_hosted *one = bpf_map_lookup_elem(&instances, &slot);
	struct shaper_settings *wanted;
	struct aqm_link *link;
	u32 freed = 0;
	u32 i;

	if (!one)
		return 0;
	wanted = bpf_map_lookup_elem(&settings, &one->place);
	link = &one->link;
	__builtin_memset(link, 0, sizeof(*link));
	one->shaper.gate.rate_bytes_s = 0;
	one->shaper.classes = 1;
	one->shaper.other = 0;
	if (wanted) {
		*link = wanted->link;
		one->shaper.gate.rate_bytes_s = wanted->gate_bytes_s;
		one->shaper.classes = wanted->classes;
		one->shaper.other = wanted->other;
	}
	if (!link->mtu_bytes)
		link->mtu_bytes = mtu_bytes;
	if (!link->queue_packets)
		link->queue_packets = queue_packets;
	if (!link->room_packets || link->room_packets > ROOM)
		link->room_packets = ROOM;
	bpf_for (i, 0, SHAPER_CLASSES)
		freed += shaper_settle_class(slot, i);
	return freed;
}

static __always_inline u32 shaper_settle_on(struct Qdisc *sch)
{
	struct net_device *dev = sch->dev_queue->dev;

	return shaper_settle(sch->limit - 1, dev->mtu + dev->hard_header_len,
			     dev->tx_queue_len);
}

/* The class of a packet, by its skb->priority. */
__noinline u32 shaper_class_of(u32 slot, u32 priority)
{
	struct shaper_hosted *one = bpf_map_lookup_elem(&instances, &slot);

	return one ? shaper_classify(&one->shaper, priority) : 0;
}

/* The class to send; where none may, `next_ns` says when one may. */
__noinline u32 shaper_next(u32 slot, u64 now_ns)
{
	struct shaper_hosted *one = bpf_map_lookup_elem(&instances, &slot);

	if (!one)
		return SHAPER_CLASSES;
	return shaper_choose(&one->shaper, now_ns, &one->next_ns);
}

SEC("struct_ops")
int BPF_PROG(shaper_init, struct Qdisc *sch, struct nlattr *arg,
	     struct netlink_ext_ack *extack)
{
	struct net_device *dev = sch->dev_queue->dev;
	struct shaper_hosted *one;
	u32 *count;
	u32 i, j;

	bpf_for (i, 0, SHAPERS) {
		u32 key = i;

		one = bpf_map_lookup_elem(&instances, &key);
		if (!one || __sync_val_compare_and_swap(&one->used, 0, 1))
			continue;
		sch->limit = key + 1;
		__builtin_memset(&one->shaper.gate, 0,
				 sizeof(one->shaper.gate));
		__builtin_memset(one->shaper.starts, 0,
				 sizeof(one->shaper.starts));
		bpf_for (j, 0, SHAPER_CLASSES) {
			__builtin_memset(&one->shaper.class[j], 0,
					 sizeof(one->shaper.class[j]));
			/* No kind yet: settling makes each class anew. */
			one->kinds[j] = ~0ULL;
		}
		one->place.netns = dev->nd_net.net->net_cookie;
		one->place.ifindex = dev->ifindex;
		one->place.queue =
			sch->parent == TC_H_ROOT ? 0 : TC_H_MIN(sch->parent);
		count = bpf_map_lookup_elem(&changes, &key);
		one->changes_seen = count ? *count : 0;
		shaper_settle_on(sch);
		return 0;
	}
	return -ENOSPC;
}

/* Counts what a change may have freed. */
static __always_inline void shaper_recount(struct shaper_hosted *one,
					   struct Qdisc *sch)
{
	u32 queued = 0;
	u32 i;

	bpf_for (i, 0, SHAPER_CLASSES)
		queued += one->shaper.class[i].packets;
	sch->qstats.drops += sch->q.qlen - queued;
	sch->q.qlen = queued;
}

SEC("struct_ops")
int BPF_PROG(shaper_enqueue, struct sk_buff *skb, struct Qdisc *sch,
	     struct bpf_sk_buff_ptr *to_free)
{
	struct shaper_hosted *one = shaper_of(sch);
	u32 key = sch->limit - 1;
	struct shaper_class *class;
	struct turn turn = {};
	struct sk_buff *old;
	struct kept *kept;
	u32 *count;
	u32 index, i;
	u64 kind;

	if (!one)
		goto drop;
	count = bpf_map_lookup_elem(&changes, &key);
	if (count && *count != one->changes_seen) {
		one->changes_seen = *count;
		sch->qstats.backlog -= shaper_settle_on(sch);
		shaper_recount(one, sch);
	}
	i = shaper_class_of(key, skb->priority) & (SHAPER_CLASSES - 1);
	class = &one->shaper.class[i];
	kind = one->kinds[i];
	turn.queue = key * SHAPER_CLASSES + i;
	turn.now_ns = bpf_ktime_get_ns();
	if (class_needs(kind) & AQM_NEEDS_RANDOM)
		turn.random = bpf_get_prandom_u32();
	turn.packet.arrived_ns = turn.now_ns;
	turn.packet.len = ((struct qdisc_skb_cb *)skb->cb)->pkt_len;
	turn.packet.wire = aqm_wire(&one->link, turn.packet.len);
	if (class_needs(kind) & AQM_NEEDS_FLOW)
		turn.packet.flow = bpf_skb_get_hash(skb);
	index = class_arrive(kind, &turn);
	kept = shaper_kept(first_slot(turn.queue), index);
	if (!kept)
		goto drop;
	old = bpf_kptr_xchg(&kept->skb, skb);
	if (old)
		bpf_qdisc_skb_drop(old, to_free);
	shaper_arrived(&one->shaper, class);
	sch->q.qlen++;
	sch->qstats.backlog += turn.packet.len;
	if (kind != 6 || !turn.verdict.evict)
		return NET_XMIT_SUCCESS;
	bpf_for (i, 0, AQM_EVICT_CALLS) {
		index = fq_codel_turn_evict(&turn);
		kept = shaper_kept(first_slot(turn.queue), index);
		if (!kept)
			break;
		old = bpf_kptr_xchg(&kept->skb, NULL);
		sch->qstats.backlog -= kept->slot.packet.len;
		class_release(kind, &turn, index);
		shaper_dropped(class);
		sch->q.qlen--;
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
struct sk_buff *BPF_PROG(shaper_dequeue, struct Qdisc *sch)
{
	struct shaper_hosted *one = shaper_of(sch);
	u32 base = (sch->limit - 1) * SHAPER_CLASSES;
	struct shaper_class *class;
	struct turn turn = {};
	struct sk_buff *skb;
	struct kept *kept;
	u32 index, wire, i, c;
	u64 opens;

	if (!one || !sch->q.qlen)
		return NULL;
	turn.now_ns = bpf_ktime_get_ns();
	opens = aqm_gate_opens(&one->shaper.gate);
	if (opens > turn.now_ns) {
		bpf_qdisc_watchdog_schedule(sch, opens, 0);
		return NULL;
	}
	/* Each turn sends or drops a packet or ends a flow's turn. */
	bpf_for (i, 0, 8 * ROOM) {
		c = shaper_next(sch->limit - 1, turn.now_ns);
		if (c >= SHAPER_CLASSES)
			break;
		class = &one->shaper.class[c];
		turn.queue = base + c;
		index = class_depart(one->kinds[c], &turn);
		kept = shaper_kept(first_slot(turn.queue), index);
		if (!kept) {
			if (turn.verdict.action == AQM_AGAIN)
				continue;
			/* It says that it has nothing. */
			class->packets = 0;
			continue;
		}
		skb = bpf_kptr_xchg(&kept->skb, NULL);
		wire = kept->slot.packet.wire;
		sch->qstats.backlog -= kept->slot.packet.len;
		sch->q.qlen--;
		class_release(one->kinds[c], &turn, index);
		if (!skb) {
			shaper_dropped(class);
			continue;
		}
		if (turn.verdict.action != AQM_DROP) {
			shaper_sent(&one->shaper, class, wire, turn.now_ns);
			bpf_qdisc_bstats_update(sch, skb);
			return skb;
		}
		shaper_dropped(class);
		sch->qstats.drops++;
		bpf_kfree_skb(skb);
	}
	/* Every class that has packets is at its ceiling. */
	opens = one->next_ns == ~0ULL ? turn.now_ns + 1000000 : one->next_ns;
	if (sch->q.qlen)
		bpf_qdisc_watchdog_schedule(sch, opens, 0);
	return NULL;
}

SEC("struct_ops")
void BPF_PROG(shaper_reset, struct Qdisc *sch)
{
	struct shaper_hosted *one = shaper_of(sch);
	u32 base = (sch->limit - 1) * SHAPER_CLASSES;
	u32 i;

	if (!one)
		return;
	bpf_for (i, 0, SHAPER_CLASSES) {
		class_free(base + i);
		class_clear(one->kinds[i], base + i, 0);
		one->shaper.class[i].packets = 0;
	}
}

SEC("struct_ops")
void BPF_PROG(shaper_destroy, struct Qdisc *sch)
{
	struct shaper_hosted *one = shaper_of(sch);

	if (one)
		__sync_val_compare_and_swap(&one->used, 1, 0);
	sch->limit = 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";

SEC(".struct_ops.link")
struct Qdisc_ops qdisc = {
	.id = "weir_shaper",
	.enqueue = (void *)shaper_enqueue,
	.dequeue = (void *)shaper_dequeue,
	.init = (void *)shaper_init,
	.reset = (void *)shaper_reset,
	.destroy = (void *)shaper_destroy,
};
