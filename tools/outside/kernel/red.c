// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The kernel's red, on a FIFO with a limit in bytes. */
#include "main.h"
#include <math.h>

/* Binary places of the average, where it is replaced. */
#define PLACES 16

struct tcf_qevent {
	int unused;
};

#define tcf_qevent_handle(event, sch, skb, to_free, result) \
	((void)(result), (skb))
#define tcf_qevent_init(event, sch, type, attribute, extack) \
	((void)(attribute), 0)
#define tcf_qevent_validate_change(event, attribute, extack) \
	((void)(attribute), 0)
#define tcf_qevent_destroy(event, sch) ((void)(event))
#define tcf_qevent_dump(skb, type, event) ((void)(event), 0)
#define tc_can_offload(dev) ((void)(dev), false)
#define qdisc_offload_dump_helper(sch, type, data) ((void)(data), 0)
#define qdisc_offload_graft_helper(dev, sch, child, old, type, data, extack) \
	((void)(data))
#define qdisc_hash_add(child, invisible) ((void)(child))
#define qdisc_purge_queue(child) ((void)(child))
#define qdisc_put(child) ((void)(child))
#define qdisc_reset(child) qdisc_reset_queue(child)
#define qdisc_replace(sch, child, place) ((void)(sch), *(place) = (child))
#define tc_qdisc_stats_dump(sch, cl, walker) ((void)(walker))
#define IS_ERR(pointer) false
#define PTR_ERR(pointer) 0
#define TC_SETUP_QDISC_RED 0
#define FLOW_BLOCK_BINDER_TYPE_RED_EARLY_DROP 0
#define FLOW_BLOCK_BINDER_TYPE_RED_MARK 0

enum {
	TC_RED_REPLACE,
	TC_RED_DESTROY,
	TC_RED_STATS,
	TC_RED_XSTATS,
	TC_RED_GRAFT
};

struct tc_red_qopt_offload {
	int command;
	u32 handle, parent;
	union {
		u32 child_handle;
		struct {
			u32 min, max, probability, limit;
			bool is_ecn, is_harddrop, is_nodrop;
			struct gnet_stats_queue *qstats;
		} set;
		struct {
			struct gnet_stats_basic_sync *bstats;
			struct gnet_stats_queue *qstats;
		} stats;
		void *xstats;
	};
};

/* net/sched/sch_fifo.c: bfifo. */
static int fifo_enqueue(struct sk_buff *skb, struct Qdisc *sch,
			struct sk_buff **to_free)
{
	if (sch->qstats.backlog + qdisc_pkt_len(skb) <= sch->limit)
		return qdisc_enqueue_tail(skb, sch);
	return qdisc_drop_reason(skb, sch, to_free, QDISC_DROP_OVERLIMIT);
}

static struct Qdisc_ops bfifo_qdisc_ops = {
	.id = "bfifo",
	.enqueue = fifo_enqueue,
	.dequeue = qdisc_dequeue_head,
};

static struct Qdisc noop_qdisc = { .ops = &bfifo_qdisc_ops };

static inline struct Qdisc *fifo_create_dflt(struct Qdisc *sch,
					     struct Qdisc_ops *ops, u32 limit,
					     struct netlink_ext_ack *extack)
{
	struct Qdisc *child = new_qdisc(ops, sch->dev);

	child->limit = limit;
	return child;
}

/* Returns value * part / 2^32, rounded down. */
static u64 part_of(u64 value, u64 part)
{
	return (u64)(((unsigned __int128)value * part) >> 32);
}

/* Returns the average after an arrival. */
static u64 next_average(u64 average, u64 backlog, u8 weight_log)
{
	u64 target = backlog << PLACES;

	if (target >= average)
		return average + ((target - average) >> weight_log);
	return average - ((average - target) >> weight_log);
}

/* Returns the average after an idle time, as if one packet after another had
 * found the queue empty. A packet that is not complete counts in part. */
static u64 idle_average(u64 average, u8 weight_log, u64 idle)
{
	u64 packet_ns =
		argument("mtu") * 1000000000ULL / argument("rate_bytes_s");
	u64 weight = (1ULL << 32) >> weight_log;
	u64 packets = idle / packet_ns, left = 1ULL << 32,
	    power = left - weight;
	u64 part = ((idle % packet_ns) << 32) / packet_ns;

	if (packets > INT_MAX)
		return 0;
	for (; packets; packets >>= 1) {
		if (packets & 1)
			left = part_of(left, power);
		power = part_of(power, power);
	}
	left = part_of(left, (1ULL << 32) - part_of(weight, part));
	return part_of(average, left);
}

/* Returns the probability between the thresholds, in units of 2^-32. */
static u64 probability(u64 average, u32 min, u32 max, u32 most)
{
	u64 above = (average - ((u64)min << PLACES)) >> 14;

	return part_of(most, (above << 32) / ((u64)(max - min) << 2));
}

#include "net/sched/sch_red.c"

/*
 * Makes the table by which the average falls while the link is idle, as tc does
 * (iproute2, tc_red_eval_idle_damping()): for each time, in units of 2^result
 * us, how often the average is halved.
 */
static u8 idle_table(double weight, double packet_us, u8 *stab)
{
	double halvings = -log2(1 - weight) / packet_us;
	u8 log = 0;
	int i;

	while (log < 31 && 31 / halvings / (1 << log) >= 512)
		log++;
	for (i = 1; i < RED_STAB_SIZE - 1; i++)
		stab[i] = (u8)min((double)((u64)i << log) * halvings, 31.0);
	stab[RED_STAB_SIZE - 1] = 31;
	return log;
}

/*
 * Dequeues until the queue is empty, as a device does: after each packet that
 * it has sent, and after each arrival, even a dropped one (net/core/dev.c,
 * __dev_xmit_skb()). From then on red_dequeue() counts idle time.
 */
static void ask_until_empty(struct Qdisc *sch)
{
	if (!qdisc_qlen(sch))
		red_dequeue(sch);
}

static int enqueue(struct sk_buff *skb, struct Qdisc *sch,
		   struct sk_buff **to_free)
{
	int result = red_enqueue(skb, sch, to_free);

	ask_until_empty(sch);
	return result;
}

static struct sk_buff *dequeue(struct Qdisc *sch)
{
	struct sk_buff *skb = red_dequeue(sch);

	ask_until_empty(sch);
	return skb;
}

static void start(struct Qdisc *sch)
{
	struct red_sched_data *q = qdisc_priv(sch);
	u32 limit = (u32)argument("limit_bytes");
	u8 weight_log = (u8)argument("weight_log");
	u8 stab[RED_STAB_SIZE] = {};
	double packet_us = argument("mtu") * 1e6 / argument("rate_bytes_s");
	u8 cell_log = idle_table(1.0 / (1 << weight_log), packet_us, stab);

	timer_setup(&q->adapt_timer, red_adaptative_timer, 0);
	q->sch = sch;
	q->limit = limit;
	/* The kit marks up to the upper threshold, and drops above it. */
	q->flags = argument("ecn") ? TC_RED_ECN | TC_RED_HARDDROP : 0;
	q->qdisc = fifo_create_dflt(sch, &bfifo_qdisc_ops, limit, NULL);
	red_set_parms(&q->parms, (u32)argument("min_bytes"),
		      (u32)argument("max_bytes"), weight_log, 0, cell_log, stab,
		      (u32)argument("max_p"));
	red_set_vars(&q->vars);
}

int main(int count, char **values)
{
	struct Qdisc_ops asked = red_qdisc_ops;

	asked.enqueue = enqueue;
	asked.dequeue = dequeue;
	return decide(&asked, count, values);
}
