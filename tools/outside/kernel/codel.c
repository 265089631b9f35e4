// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The kernel's codel. */
#include "main.h"
#include "net/sched/sch_codel.c"

static void start(struct Qdisc *sch)
{
	struct codel_sched_data *q = qdisc_priv(sch);
	u64 threshold = argument("ce_threshold_ns");

	codel_init(sch, NULL, NULL);
	sch->limit = (u32)argument("limit_packets");
	q->params.target = argument("target_ns") >> CODEL_SHIFT;
	q->params.interval = argument("interval_ns") >> CODEL_SHIFT;
	q->params.ecn = argument("ecn");
	if (threshold)
		q->params.ce_threshold = threshold >> CODEL_SHIFT;
}

int main(int count, char **values)
{
	return decide(&codel_qdisc_ops, count, values);
}
