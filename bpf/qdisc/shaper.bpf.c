// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The qdisc weir_shaper: a link's rate and its classes, with any discipline of
 * the kit as the queue of each class.
 *
 * aqm/host/shaper.h decides which class sends. The discipline decides about the
 * packets of a class. skb->priority selects a packet's class, as in HTB, so the
 * same nftables rules serve both.
 *
 * Instances, attach points and changes work as in qdisc.bpf.h, with one
 * difference. A class that is replaced, or gets another discipline, starts
 * empty, and its packets are dropped. All other classes keep theirs.
 *
 * One program includes the kit's disciplines. Each user-written discipline
 * makes another program that includes it too (SHAPER_PROGRAM). The programs
 * share their maps, so a qdisc of one takes over the queue of another that it
 * replaces (shaper/heir.h).
 */
#include "kernel.h"
#include "aqm.h"
#include "pending.h"
#include "random.h"
#include "shaper.h"

#include "shaper/heir.h"

/* Returns the class of a packet by its skb->priority. */
__noinline u32 shaper_class_of(struct shaper_hosted *one __arg_nonnull,
			       u32 priority)
{
	return shaper_classify(&one->shaper, priority);
}

/* Returns the place of a packet in a class if it is still there, or NULL. */
static __always_inline struct queued_skb *shaper_place(u32 queue, u32 index,
						       u64 arrived_ns)
{
	struct queued_skb *place = shaper_queued(first_slot(queue), index);

	return place && place->slot.packet.arrived_ns == arrived_ns ? place :
								      NULL;
}

/* Returns the class to send. If none may, sets when one may in `next_ns`. */
__noinline u32 shaper_next(struct shaper_hosted *one __arg_nonnull, u64 now_ns)
{
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

	if (shaper_is_heir(sch))
		return 0;
	bpf_for (i, 0, SHAPERS) {
		u32 key = i;

		one = bpf_map_lookup_elem(&instances, &key);
		if (!one || __sync_val_compare_and_swap(&one->used, 0, 1))
			continue;
		sch->limit = key + 1;
		__builtin_memset(&one->shaper.gate, 0,
				 sizeof(one->shaper.gate));
		__builtin_memset(&one->shaper.starts, 0,
				 sizeof(one->shaper.starts));
		bpf_for (j, 0, SHAPER_CLASSES) {
			__builtin_memset(&one->shaper.class[j], 0,
					 sizeof(one->shaper.class[j]));
			/* No kind yet, so settling initializes each class. */
			one->kinds[j] = ~0ULL;
		}
		one->point.netns = dev->nd_net.net->net_cookie;
		one->point.ifindex = dev->ifindex;
		one->point.queue =
			sch->parent == TC_H_ROOT ? 0 : TC_H_MIN(sch->parent);
		__builtin_memset(&one->line, 0, sizeof(one->line));
		one->key = bpf_get_prandom_u32();
		one->random = random_seed();
		one->program = SHAPER_PROGRAM;
		one->heir = SHAPER_NO_HEIR;
		one->handed = 0;
		count = bpf_map_lookup_elem(&changes, &key);
		one->changes_seen = count ? *count : 0;
		shaper_settle_on(sch);
		return 0;
	}
	return -ENOSPC;
}

SEC("struct_ops")
int BPF_PROG(shaper_enqueue, struct sk_buff *skb, struct Qdisc *sch,
	     struct bpf_sk_buff_ptr *to_free)
{
	struct shaper_hosted *one = shaper_of(sch);
	u32 key = shaper_number(sch);
	struct acks_known *known = NULL;
	struct acks_segment now = {};
	struct acks_flow *flow;
	struct shaper_class *class;
	struct class_call call;
	struct sk_buff *old;
	struct queued_skb *queued;
	u32 *count;
	u32 index, i;
	u64 kind;

	if (!one)
		goto drop;
	if (shaper_waits(sch))
		shaper_inherit(one, sch);
	count = bpf_map_lookup_elem(&changes, &key);
	if (count && *count != one->changes_seen) {
		one->changes_seen = *count;
		sch->qstats.backlog -= shaper_settle_on(sch);
		shaper_recount(one, sch);
	}
	i = shaper_class_of(one, skb->priority) & (SHAPER_CLASSES - 1);
	class = &one->shaper.class[i];
	kind = one->kinds[i];
	call.queue = key * SHAPER_CLASSES + i;
	if (one->acks)
		known = acks_find(skb, key * ACKS_FLOWS, (u32)one->key,
				  call.queue, &now);
	flow = known ? &known->flow : NULL;
	if (flow &&
	    acks_supersedes(skb, one->acks, flow, &now,
			    shaper_place(call.queue, flow->last, flow->last_ns),
			    shaper_place(call.queue, flow->before,
					 flow->before_ns),
			    to_free)) {
		sch->qstats.drops++;
		return NET_XMIT_SUCCESS;
	}
	call.now_ns = bpf_ktime_get_ns();
	call.random = 0;
	if (one->needs[i] & AQM_NEEDS_RANDOM)
		call.random = random_word(&one->random);
	call.packet.arrived_ns = call.now_ns;
	call.packet.len = ((struct qdisc_skb_cb *)skb->cb)->pkt_len;
	call.packet.wire = aqm_wire(&one->link, call.packet.len);
	call.packet.ecn = marks_ecn(skb, one->stamp);
	call.packet.flow = 0;
	if (one->needs[i] & AQM_NEEDS_CODE)
		call.packet.flow = flow_code(skb);
	else if (one->needs[i] & AQM_NEEDS_FLOW)
		call.packet.flow = flow_hash(skb, (u32)one->key,
					     one->needs[i] >> SHAPER_FLOWS);
	index = class_arrive(kind, &call);
	if (class_records(one, i))
		class_record_call(one, &call, AQM_ARRIVE_EVENT, index);
	if (flow)
		acks_queued(flow, &now, index, call.now_ns);
	queued = shaper_queued(first_slot(call.queue), index);
	if (!queued)
		goto drop;
	if (call.verdict.action == AQM_MARK)
		marks_defer(skb, one->point.netns, one->point.ifindex,
			    call.now_ns);
	old = bpf_kptr_xchg(&queued->skb, skb);
	if (old)
		bpf_qdisc_skb_drop(old, to_free);
	shaper_arrived(&one->shaper, class);
	sch->q.qlen++;
	sch->qstats.backlog += call.packet.len;
	if (!call.verdict.evict)
		return NET_XMIT_SUCCESS;
	bpf_for (i, 0, AQM_EVICT_CALLS) {
		index = class_evict(kind, &call);
		if (class_records(one, call.queue))
			class_record_call(one, &call, AQM_EVICT_EVENT, index);
		queued = shaper_queued(first_slot(call.queue), index);
		if (!queued)
			break;
		old = bpf_kptr_xchg(&queued->skb, NULL);
		sch->qstats.backlog -= queued->slot.packet.len;
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

/*
 * Makes one attempt to send. Returns a packet or NULL. NULL without `done`
 * means that one was dropped or a flow's turn ended, and the caller tries
 * again.
 */
static __always_inline struct sk_buff *shaper_try(struct shaper_hosted *one,
						  struct Qdisc *sch,
						  struct class_call *call,
						  int *done)
{
	u32 c = shaper_next(one, call->now_ns);
	struct shaper_class *class;
	struct sk_buff *skb;
	struct queued_skb *queued;
	u32 index;

	*done = c >= SHAPER_CLASSES;
	if (*done)
		return NULL;
	class = &one->shaper.class[c];
	call->queue = shaper_number(sch) * SHAPER_CLASSES + c;
	call->random = 0;
	if (one->needs[c & (SHAPER_CLASSES - 1)] & AQM_NEEDS_RANDOM_OUT)
		call->random = random_word(&one->random);
	index = class_depart(one->kinds[c], call);
	if (class_records(one, c))
		class_record_call(one, call, AQM_DEPART_EVENT, index);
	queued = shaper_queued(first_slot(call->queue), index);
	if (!queued) {
		/* Unless it asks for another attempt, its queue is empty. */
		if (call->verdict.action != AQM_AGAIN)
			class->packets = 0;
		return NULL;
	}
	skb = bpf_kptr_xchg(&queued->skb, NULL);
	sch->qstats.backlog -= queued->slot.packet.len;
	sch->q.qlen--;
	if (!skb) {
		shaper_dropped(class);
		return NULL;
	}
	if (call->verdict.action != AQM_DROP) {
		if (call->verdict.action == AQM_MARK)
			marks_defer(skb, one->point.netns, one->point.ifindex,
				    call->now_ns);
		shaper_sent(&one->shaper, &one->line, class,
			    queued->slot.packet.wire, call->now_ns);
		bpf_qdisc_bstats_update(sch, skb);
		return skb;
	}
	shaper_dropped(class);
	sch->qstats.drops++;
	bpf_kfree_skb(skb);
	return NULL;
}

SEC("struct_ops")
struct sk_buff *BPF_PROG(shaper_dequeue, struct Qdisc *sch)
{
	struct shaper_hosted *one = shaper_of(sch);
	struct class_call call;
	struct sk_buff *skb;
	int passed, done;
	u64 opens;
	u32 i;

	if (!one)
		return NULL;
	/* It takes over the queue with its first packet. */
	if (shaper_waits(sch))
		return NULL;
	passed = aqm_line_passed(&one->line);
	if (!sch->q.qlen)
		return NULL;
	opens = one->shaper.gate.opens_ns;
	if (passed) {
		one->line.timer_ns = opens;
		bpf_qdisc_watchdog_schedule(sch, opens, 0);
		return NULL;
	}
	call.now_ns = bpf_ktime_get_ns();
	if (aqm_line_shut(&one->line, &one->shaper.gate, call.now_ns)) {
		if (aqm_line_timer(&one->line, opens, call.now_ns))
			bpf_qdisc_watchdog_schedule(sch, opens, 0);
		return NULL;
	}
	/* The first attempt nearly always sends. */
	skb = shaper_try(one, sch, &call, &done);
	if (skb)
		return skb;
	bpf_for (i, 0, 8 * ROOM) {
		if (done)
			break;
		skb = shaper_try(one, sch, &call, &done);
		if (skb)
			return skb;
	}
	/* Every class with packets is above its ceiling. */
	opens = one->next_ns == ~0ULL ? call.now_ns + 1000000 : one->next_ns;
	if (sch->q.qlen && aqm_line_timer(&one->line, opens, call.now_ns))
		bpf_qdisc_watchdog_schedule(sch, opens, 0);
	return NULL;
}

SEC("struct_ops")
void BPF_PROG(shaper_reset, struct Qdisc *sch)
{
	struct shaper_hosted *one = shaper_of(sch);
	u32 base = shaper_number(sch) * SHAPER_CLASSES;
	struct class_call call = { .now_ns = bpf_ktime_get_ns() };
	u32 i;

	if (!one || (shaper_waits(sch) && one->heir == SHAPER_HEIR))
		return;
	/* The kernel cancels the timer. */
	one->line.timer_ns = 0;
	one->line.passed = 0;
	if (shaper_keeps(one, sch))
		return;
	bpf_for (i, 0, SHAPER_CLASSES) {
		class_free(base + i);
		class_clear(one->kinds[i], base + i, 0);
		one->shaper.class[i].packets = 0;
		call.queue = base + i;
		if (class_records(one, i))
			class_record_call(one, &call, AQM_RESET_EVENT, 0);
	}
}

SEC("struct_ops")
void BPF_PROG(shaper_destroy, struct Qdisc *sch)
{
	struct shaper_hosted *one = shaper_of(sch);

	if (one && shaper_ends(one, sch))
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
