// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The qdisc weir_engine: the tree of aqm/host/engine.h in the kernel, as the
 * root qdisc of one device.
 *
 * skb->priority minus a configured number is the number of a packet's leaf.
 * User space maps the rows of nodes into its memory and changes a rate by a
 * plain store, or requests a change that takes effect at once
 * (engine/control.h). The functions that choose and count are checked once by
 * the verifier. Packets themselves are handled in this file only.
 */
#include "kernel.h"
#include "aqm.h"
#include "pending.h"

#include "engine/control.h"

/* Most steps of one dequeue. Each sends or drops a packet, or finds an empty
 * leaf. */
#define TURNS 256

/* Whether a node is in this engine's tree. Engines that share a line have their
 * rows in one table. */
static __always_inline int is_own(struct engine *e, u32 id)
{
	struct engine_node *n;
	u32 i;

	AQM_LOOP (i, ENGINE_LEVELS) {
		if (id == e->rule.root)
			return 1;
		n = engine_node(e, id);
		if (!n)
			return 0;
		id = n->config.parent;
	}
	return 0;
}

/* Resets the tree. Keeps the configuration that user space wrote. */
__noinline int clear(struct hosted *one __arg_nonnull)
{
	struct engine *e = &one->engine;
	struct engine_pool none = {};
	struct engine_config config;
	struct engine_fork *f;
	struct engine_node *n;
	u32 i, slots = e->slots.rows, queues = e->queues.rows;
	u32 hosts = e->hosts.rows;
	struct engine_host *h;

	bpf_for (i, 1, e->rule.lent + hosts + 1) {
		n = engine_node(e, i);
		if (!n)
			break;
		if (e->members && !is_own(e, i))
			continue;
		config = n->config;
		f = e->members ? engine_fork(e, config.fork) : NULL;
		if (f)
			__builtin_memset(f, 0, sizeof(*f));
		__builtin_memset(n, 0, sizeof(*n));
		/* The configuration of a host's leaf is written by the
		 * program. */
		if (!engine_lent(e, i))
			n->config = config;
		h = engine_host_of(e, i);
		if (h)
			__builtin_memset(h, 0, sizeof(*h));
	}
	bpf_for (i, 1, e->members ? 1 : one->inner + 1) {
		f = engine_fork(e, i);
		if (f)
			__builtin_memset(f, 0, sizeof(*f));
	}
	bpf_for (i, 0, ENGINE_TICKS)
		e->wheel.bucket[i & (ENGINE_TICKS - 1)] = 0;
	bpf_for (i, 0, ENGINE_TICKS / 64)
		e->wheel.low[i & (ENGINE_TICKS / 64 - 1)] = 0;
	bpf_for (i, 0, 64)
		e->wheel.middle[i & 63] = 0;
	e->wheel.top = 0;
	bpf_for (i, 0, ENGINE_HOSTS)
		e->host[i & (ENGINE_HOSTS - 1)] = 0;
	e->resting = 0;
	e->hosts = none;
	e->hosts.rows = hosts;
	e->slots = none;
	e->queues = none;
	e->slots.rows = slots;
	e->queues.rows = queues;
	e->bytes = 0;
	e->claims = (struct engine_claims){};
	e->until_ns = 0;
	e->debt_ns = 0;
	e->wants_ns = 0;
	e->leased = 0;
	line.member[AQM_MASKED(e->member, ENGINE_MEMBERS - 1)].claims =
		(struct engine_claims){};
	return 0;
}

SEC("struct_ops")
int BPF_PROG(engine_init, struct Qdisc *sch, struct nlattr *arg,
	     struct netlink_ext_ack *extack)
{
	struct net_device *dev = sch->dev_queue->dev;
	struct engine_settings *wanted;
	u32 number = 0, key = 0;
	struct hosted *one;

	engine_rows_are_used();
	/* Classes of mq are numbered by queue, from 1. An engine with its own
	 * line may be at any of them, but only at one. */
	wanted = bpf_map_lookup_elem(&settings, &key);
	if (wanted && wanted->members && sch->parent != TC_H_ROOT) {
		number = TC_H_MIN(sch->parent) - 1;
		if (number >= wanted->members)
			return -ENODEV;
	}
	one = hosted_at(number);
	if (!one)
		return -ENODEV;
	if (__sync_val_compare_and_swap(&one->used, 0, 1))
		return -ENOSPC;
	sch->limit = number + 1;
	one->engine.member = number;
	one->key = bpf_get_prandom_u32();
	one->timer_ns = 0;
	one->came_ns = 0;
	one->sequence = 0;
	/* Apply earlier requests at the first packet. */
	one->bell = engine_bell() - 1;
	one->point.netns = dev->nd_net.net->net_cookie;
	one->point.ifindex = dev->ifindex;
	one->point.queue = 0;
	take_over(one);
	return 0;
}

/* Returns the leaf that a packet is classified to. Hosts' leaves cannot be
 * named. */
static __always_inline u32 leaf_of(struct hosted *one, u32 priority)
{
	struct engine *e = &one->engine;
	u32 id = priority - one->first;
	struct engine_node *n;

	/* The kernel has put a packet of another queue into this one. */
	if (e->members && priority >> ENGINE_MEMBER_SHIFT != e->member)
		return e->rule.other;
	if (e->members)
		id &= (1U << ENGINE_MEMBER_SHIFT) - 1;
	n = engine_node(e, id);

	return n && id <= e->rule.lent && n->config.live == ENGINE_NODE &&
			       !n->config.fork ?
		       id :
		       e->rule.other;
}

/* Returns a hash of a packet's host: from the egress program, or else from the
 * configured header fields. */
static __always_inline u32 host_of(struct hosted *one, struct sk_buff *skb,
				   u32 flow)
{
	struct qdisc_skb_cb *cb = (struct qdisc_skb_cb *)skb->cb;

	if (one->host_stamp)
		return *(u32 *)&cb->data[4 * HOSTS_STAMP_WORD] ==
				       one->host_stamp ?
			       *(u32 *)&cb->data[4 * HOSTS_WORD] :
			       0;
	if (one->host_parts == AQM_CONNECTION)
		return flow;
	return one->host_parts ? flow_host(skb, one->key, one->host_parts) : 0;
}

/* Returns a leaf itself, or that of the packet's host next to it. */
static __noinline u32 leaf_beside(struct hosted *one, u32 leaf, u32 host)
{
	u32 found = engine_leaf_of(&one->engine, leaf, host);

	if (one->recording)
		report_host(one, leaf, host, found);
	return found;
}

/* Returns the place of a packet if it is still there, or NULL. */
static __always_inline struct queued_skb *place_of(struct hosted *one, u32 id,
						   u64 arrived_ns)
{
	const struct engine_slot *slot = engine_slot(&one->engine, id);

	return slot && slot->packet.arrived_ns == arrived_ns ?
		       queued_in(one, id) :
		       NULL;
}

SEC("struct_ops")
int BPF_PROG(engine_enqueue, struct sk_buff *skb, struct Qdisc *sch,
	     struct bpf_sk_buff_ptr *to_free)
{
	struct acks_known *known = NULL;
	struct acks_segment now = {};
	struct acks_flow *flow;
	struct aqm_packet packet = {};
	struct hosted *one = hosted_by(sch);
	u32 i, leaf, index, evicted, host = 0;
	struct engine_node *named;
	struct engine *e;
	struct sk_buff *old;
	struct queued_skb *queued;

	if (!one)
		goto drop;
	e = &one->engine;
	packet.arrived_ns = bpf_ktime_get_ns();
	one->came_ns = packet.arrived_ns;
	follow(one, packet.arrived_ns);
	packet.len = ((struct qdisc_skb_cb *)skb->cb)->pkt_len;
	packet.wire = aqm_wire(&e->rule.link, packet.len);
	packet.ecn = marks_ecn(skb, one->stamp);
	leaf = leaf_of(one, skb->priority);
	packet.flow = flow_hash(skb, one->key, AQM_CONNECTION);
	named = engine_node(e, leaf);
	if (named && named->config.hosts) {
		host = host_of(one, skb, packet.flow);
		leaf = leaf_beside(one, leaf, host);
	} else if (one->host_parts == AQM_CONNECTION) {
		host = packet.flow;
	} else if (one->host_parts) {
		host = flow_host(skb, one->key, one->host_parts);
	}
	if (one->acks)
		known = acks_find(skb, 0, one->key, leaf, &now);
	flow = known ? &known->flow : NULL;
	if (flow &&
	    acks_supersedes(skb, one->acks, flow, &now,
			    place_of(one, flow->last, flow->last_ns),
			    place_of(one, flow->before, flow->before_ns),
			    to_free)) {
		sch->qstats.drops++;
		return NET_XMIT_SUCCESS;
	}
	index = engine_offer(e, leaf, &packet, host);
	AQM_QUICK_LOOP (i, ENGINE_EVICT_MOST + 1) {
		if (index != ENGINE_FULL)
			break;
		evicted = engine_evict(e, leaf);
		if (one->recording)
			report_evict(one, leaf, evicted, &packet);
		queued = queued_in(one, evicted);
		if (!queued)
			break;
		old = bpf_kptr_xchg(&queued->skb, NULL);
		sch->qstats.backlog -= engine_slot(e, evicted)->packet.len;
		sch->qstats.drops++;
		sch->q.qlen--;
		if (old)
			bpf_qdisc_skb_drop(old, to_free);
		if (i < ENGINE_EVICT_MOST)
			index = engine_offer(e, leaf, &packet, host);
	}
	if (one->recording)
		report_arrival(one, leaf, &packet, host, index);
	queued = index != ENGINE_FULL ? queued_in(one, index) : NULL;
	if (flow)
		acks_queued(flow, &now, queued ? index : 0, packet.arrived_ns);
	if (!queued)
		goto drop;
	old = bpf_kptr_xchg(&queued->skb, skb);
	if (old)
		bpf_qdisc_skb_drop(old, to_free);
	sch->q.qlen++;
	sch->qstats.backlog += packet.len;
	return NET_XMIT_SUCCESS;
drop:
	sch->qstats.drops++;
	bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_DROP;
}

/*
 * Whether this dequeue can be answered without reading the clock: a packet has
 * just arrived, but no node may send before the timer fires. Nodes that become
 * due in the meantime are sent when it fires.
 */
static __always_inline int is_in_vain(struct hosted *one)
{
	struct engine *e = &one->engine;
	u64 due = e->wheel.due, came_ns = one->came_ns;
	struct engine_node *root;

	one->came_ns = 0;
	if (came_ns >> ENGINE_TICK_SHIFT >= due || !came_ns ||
	    one->timer_ns != due << ENGINE_TICK_SHIFT || !e->rule.root)
		return 0;
	root = engine_node(e, e->rule.root);
	return root->state == ENGINE_IDLE && one->bell == engine_bell();
}

SEC("struct_ops")
struct sk_buff *BPF_PROG(engine_dequeue, struct Qdisc *sch)
{
	struct hosted *one;
	struct sk_buff *skb;
	struct engine *e;
	struct queued_skb *queued;
	u32 i, index;
	u64 now_ns;

	/* The kernel asks for another packet after each one. */
	if (!sch->q.qlen)
		return NULL;
	one = hosted_by(sch);
	if (!one)
		return NULL;
	e = &one->engine;
	/* If it has just fired, it fires again. */
	if (is_in_vain(one)) {
		bpf_qdisc_watchdog_schedule(sch, one->timer_ns, 0);
		return NULL;
	}
	now_ns = bpf_ktime_get_ns();
	follow(one, now_ns);
	AQM_QUICK_LOOP (i, TURNS) {
		index = engine_next(e, now_ns);
		if (one->recording)
			report_departure(one, index, now_ns);
		if (!e->leaf)
			break;
		queued = queued_in(one, index);
		if (!queued)
			continue;
		skb = bpf_kptr_xchg(&queued->skb, NULL);
		sch->q.qlen--;
		sch->qstats.backlog -= engine_slot(e, index)->packet.len;
		if (!skb)
			continue;
		if (e->verdict.action != AQM_DROP) {
			if (e->verdict.action == AQM_MARK)
				marks_defer(skb, one->point.netns,
					    one->point.ifindex, now_ns);
			bpf_qdisc_bstats_update(sch, skb);
			return skb;
		}
		sch->qstats.drops++;
		bpf_kfree_skb(skb);
		/* Many drops take time, so read the clock again. A few do not
		 * matter, and the node whose turn it is stays the same. */
		if ((i & 15) == 15)
			now_ns = bpf_ktime_get_ns();
	}
	/* All turns dropped a packet: go on at once. */
	if (e->leaf)
		e->opens_ns = now_ns;
	if (!sch->q.qlen || e->opens_ns == ~0ULL)
		return NULL;
	/* The timer is set for this time already and surely has not fired. */
	if (one->timer_ns == e->opens_ns &&
	    now_ns + AQM_LINE_SURE_NS < e->opens_ns)
		return NULL;
	one->timer_ns = e->opens_ns;
	bpf_qdisc_watchdog_schedule(sch, e->opens_ns, 0);
	return NULL;
}

SEC("struct_ops")
void BPF_PROG(engine_reset, struct Qdisc *sch)
{
	struct hosted *one = hosted_by(sch);
	struct sk_buff *skb;
	struct queued_skb *queued;
	u32 i;

	if (!one)
		return;
	/* The kernel cancels the timer. A recording ends here. */
	one->timer_ns = 0;
	one->came_ns = 0;
	one->recording = 0;
	bpf_for (i, 1, one->engine.slots.fresh + 1) {
		queued = queued_in(one, i);
		if (!queued)
			break;
		skb = bpf_kptr_xchg(&queued->skb, NULL);
		if (skb)
			bpf_kfree_skb(skb);
	}
	clear(one);
}

SEC("struct_ops")
void BPF_PROG(engine_destroy, struct Qdisc *sch)
{
	struct hosted *one = hosted_by(sch);

	if (one)
		__sync_val_compare_and_swap(&one->used, 1, 0);
	sch->limit = 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";

SEC(".struct_ops.link")
struct Qdisc_ops qdisc = {
	.id = "weir_engine",
	.enqueue = (void *)engine_enqueue,
	.dequeue = (void *)engine_dequeue,
	.init = (void *)engine_init,
	.reset = (void *)engine_reset,
	.destroy = (void *)engine_destroy,
};
