// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The kernel's fq_codel. */
#include "main.h"
#define tc_qdisc_stats_dump(sch, cl, walker) ((void)(walker), true)
#include "net/sched/sch_fq_codel.c"

static void start(struct Qdisc *sch)
{
	struct fq_codel_sched_data *q = qdisc_priv(sch);
	u64 threshold = argument("ce_threshold_ns");
	u64 quantum = argument("quantum_bytes");

	fq_codel_init(sch, NULL, NULL);
	sch->limit = (u32)argument("limit_packets");
	if (quantum)
		q->quantum = (u32)max(256, quantum);
	q->drop_batch_size = (u32)argument("drop_batch_packets");
	q->cparams.target = argument("target_ns") >> CODEL_SHIFT;
	q->cparams.interval = argument("interval_ns") >> CODEL_SHIFT;
	q->cparams.ecn = argument("ecn");
	if (threshold)
		q->cparams.ce_threshold = threshold >> CODEL_SHIFT;
	if (argument("ce_threshold_for")) {
		q->cparams.ce_threshold_mask = 3;
		q->cparams.ce_threshold_selector = 1;
	}
}

int main(int count, char **values)
{
	return decide(&fq_codel_qdisc_ops, count, values);
}
