/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads events from standard input, lets one of the kernel's disciplines
 * decide, and writes its decisions. src/decisions/event.rs has the other side
 * of both formats.
 *
 * A file that includes this defines OPS, the discipline's operations, and
 * start(), which configures it. Arguments are `name=number`.
 */
#ifndef OUTSIDE_MAIN_H
#define OUTSIDE_MAIN_H

#include "qdisc.h"

enum event_kind { EVENT_BEGIN, EVENT_ARRIVE, EVENT_DEPART };

struct event {
	u64 now_ns;
	u32 kind;
	u32 len;
	u32 flow;
	u32 ecn;
	u32 random;
	u32 id;
};

/* The result of an event: `id` of the packet sent or stored (0: none),
 * whether it was marked, the number of drops, and an order-dependent sum of
 * their ids. */
struct outcome {
	u32 id;
	u32 marked;
	u32 dropped;
	u32 digest;
};

u64 now_ns;
u32 random_word;
struct timer_list *timer;
struct hrtimer *hrtimer;

static struct outcome outcome;
static struct sk_buff *spare;
static int argument_count;
static char **arguments;

void drop_packet(struct sk_buff *skb)
{
	outcome.dropped++;
	outcome.digest = outcome.digest * 31 + skb->id;
	skb->next = spare;
	spare = skb;
}

static u64 argument(const char *name)
{
	size_t length = strlen(name);
	int i;

	for (i = 1; i < argument_count; i++) {
		const char *text = arguments[i];

		if (!strncmp(text, name, length) && text[length] == '=')
			return strtoull(text + length + 1, NULL, 10);
	}
	fprintf(stderr, "argument %s is missing\n", name);
	exit(2);
}

static struct Qdisc *new_qdisc(const struct Qdisc_ops *ops,
			       struct net_device *dev)
{
	struct Qdisc *sch = calloc(1, sizeof(*sch));

	if (!sch)
		exit(3);
	sch->ops = ops;
	sch->dev = dev;
	sch->handle = 0x10000;
	sch->private = calloc(1, ops->priv_size ? ops->priv_size : 1);
	if (!sch->private)
		exit(3);
	return sch;
}

static void arrive(struct Qdisc *sch, const struct event *event)
{
	struct sk_buff *skb = spare, *to_free = NULL;
	u32 before;

	if (skb)
		spare = skb->next;
	else
		skb = malloc(sizeof(*skb));
	if (!skb)
		exit(3);
	memset(skb, 0, sizeof(*skb));
	skb->len = event->len;
	skb->hash = event->flow;
	skb->ecn = (u8)event->ecn;
	skb->id = event->id;
	/* The kit does not know the memory of a packet. */
	skb->truesize = 0;
	before = outcome.dropped;
	sch->ops->enqueue(skb, sch, &to_free);
	if (outcome.dropped == before)
		outcome.marked = event->ecn != 3 && skb->ecn == 3;
}

static void depart(struct Qdisc *sch)
{
	struct sk_buff *skb = sch->ops->dequeue(sch);

	if (!skb)
		return;
	outcome.id = skb->id;
	outcome.marked = skb->ecn;
	skb->next = spare;
	spare = skb;
}

/* Runs the timers that are due up to a time, each at its own time. */
static void run_timers(u64 end_ns)
{
	const u64 jiffy_ns = NSEC_PER_SEC / HZ;

	while (timer && timer->due && timer->due * jiffy_ns <= end_ns) {
		now_ns = timer->due * jiffy_ns;
		timer->due = 0;
		timer->function(timer);
	}
	while (hrtimer && hrtimer->due_ns && hrtimer->due_ns <= end_ns) {
		now_ns = hrtimer->due_ns;
		if (hrtimer->function(hrtimer) == HRTIMER_NORESTART)
			hrtimer->due_ns = 0;
	}
}

static void start(struct Qdisc *sch);

static int decide(const struct Qdisc_ops *ops, int count, char **values)
{
	static struct event events[4096];
	static struct outcome outcomes[4096];
	struct net_device dev = {};
	struct Qdisc *sch = NULL;
	size_t read, i;

	argument_count = count;
	arguments = values;
	dev.mtu = (u32)argument("mtu");
	while ((read = fread(events, sizeof(*events), 4096, stdin)) != 0) {
		for (i = 0; i < read; i++) {
			const struct event *event = &events[i];

			memset(&outcome, 0, sizeof(outcome));
			run_timers(event->now_ns);
			now_ns = event->now_ns;
			random_word = event->random;
			if (event->kind == EVENT_BEGIN) {
				if (sch) {
					sch->ops->reset(sch);
					if (sch->ops->destroy)
						sch->ops->destroy(sch);
					free(sch->private);
					free(sch);
					timer = NULL;
					hrtimer = NULL;
				}
				sch = new_qdisc(ops, &dev);
				start(sch);
				memset(&outcome, 0, sizeof(outcome));
			} else if (event->kind == EVENT_ARRIVE) {
				arrive(sch, event);
			} else {
				depart(sch);
			}
			outcomes[i] = outcome;
		}
		if (fwrite(outcomes, sizeof(*outcomes), read, stdout) != read)
			return 1;
	}
	return fflush(stdout) ? 1 : 0;
}

#endif
