// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The kernel's pie. */
#include "main.h"
#include "net/sched/sch_pie.c"

static void start(struct Qdisc *sch)
{
	struct pie_sched_data *q = qdisc_priv(sch);

	pie_init(sch, NULL, NULL);
	sch->limit = (u32)argument("limit_packets");
	q->params.limit = sch->limit;
	q->params.target = PSCHED_NS2TICKS(argument("target_ns"));
	q->params.tupdate =
		(u32)usecs_to_jiffies((u32)(argument("update_ns") / 1000));
	q->params.alpha = (u32)argument("alpha");
	q->params.beta = (u32)argument("beta");
	q->params.ecn = (u8)argument("ecn");
	q->params.bytemode = (u8)argument("by_size");
}

int main(int count, char **values)
{
	return decide(&pie_qdisc_ops, count, values);
}
