/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The gate: lets one packet after the other onto a link of a given rate, in
 * bytes on the wire, so that the queue forms before it and nowhere behind.
 *
 * A packet of w bytes keeps the gate closed for w / rate. The remainder of the
 * division is carried over to the next packet, so the rate is exact in the long
 * run: it is neither rounded up nor down.
 *
 * A host is woken late, by its timer's granularity or because the machine was
 * busy. Lateness up to `slack_ns` is made up for by the packets that follow;
 * beyond that it is lost, as it is on a link. So in any time t the gate passes
 * at most rate (t + slack) and one packet.
 *
 * A timer for every packet is what a fast link cannot afford: at 1 Gbit/s there
 * would be 83,000 a second, each costlier than all other work for the
 * packet. So above AQM_GATE_GROUPS_FROM packets leave in groups: whenever the
 * line is free, as many as begin within AQM_GATE_GROUP_NS of it. The rate is the
 * same; a queue of that time forms behind the gate and drains with each group.
 *
 * Up to that rate a packet may leave a little before the line is free, if the host
 * runs just then because another packet arrived: that saves a timer. The time
 * by which packets may be early plus their lateness in the last 100 ms is
 * the slack, so that the bound above also holds for any such time.
 */
#ifndef AQM_GATE_H
#define AQM_GATE_H

#include "aqm.h"

/* Lateness that a link's gate makes up for. */
#define AQM_GATE_SLACK_NS 50000

/* Above this rate, in bytes/s (100 Mbit/s), groups of so long a time. */
#define AQM_GATE_GROUPS_FROM 12500000
#define AQM_GATE_GROUP_NS 100000

/* For so long what was late counts: the time over which rates are promised. */
#define AQM_LINE_WINDOW_NS 100000000

/* How far before the time it is set for a timer surely has not gone off. */
#define AQM_LINE_SURE_NS 5000

struct aqm_gate {
	u64 rate_bytes_s; /* 0: always open */
	u64 opens_ns; /* when the last packet will have gone */
	u64 rest; /* of the division, in bytes 10^-9 s */
};

/* When the next packet may go: in the past if it may go now. */
AQM_FN u64 aqm_gate_opens(const struct aqm_gate *gate)
{
	return gate->rate_bytes_s ? gate->opens_ns : 0;
}

/* What a host keeps beside a link's gate. */
struct aqm_line {
	u64 group_ns; /* packets that begin until then are of this group */
	u64 timer_ns; /* when the host will be woken; 0: not known */
	u64 early_ns; /* how long before the line is free a packet may go */
	u64 late_ns; /* the latest of this window */
	u64 before_ns; /* the latest of the window before */
	u64 window_ns; /* when this window ends */
	u64 passed; /* whether a packet went since the host last asked */
};

/* Whether the link's gate is shut. What is not shut is used at once. */
AQM_FN int aqm_line_shut(struct aqm_line *line, const struct aqm_gate *gate,
			 u64 now_ns)
{
	u64 opens = aqm_gate_opens(gate);

	if (opens > now_ns)
		return opens > line->group_ns &&
		       opens > now_ns + line->early_ns;
	line->group_ns = gate->rate_bytes_s > AQM_GATE_GROUPS_FROM ?
				 now_ns + AQM_GATE_GROUP_NS :
				 0;
	return 0;
}

/*
 * Whether the gate is shut because a packet has just gone: a host is asked for
 * the next one at once, and then need not look at its clock. Where time has
 * passed meanwhile, its timer goes off at once.
 */
AQM_FN int aqm_line_passed(struct aqm_line *line)
{
	u64 passed = line->passed;

	line->passed = 0;
	return passed != 0;
}

/* Whether the host has to set its timer for `opens_ns`. It has been set for
 * that already, if it was and has not gone off: which it has not a while before
 * that time, whatever the difference between its clock and this one. */
AQM_FN int aqm_line_timer(struct aqm_line *line, u64 opens_ns, u64 now_ns)
{
	if (line->timer_ns == opens_ns && now_ns + AQM_LINE_SURE_NS < opens_ns)
		return 0;
	line->timer_ns = opens_ns;
	return 1;
}

/* A packet goes. wire < 2^32, so wire * 10^9 < 2^62. */
AQM_FN void aqm_gate_pass(struct aqm_gate *gate, u32 wire, u64 now_ns,
			  u64 slack_ns)
{
	u64 from = gate->opens_ns;
	u64 work, time;

	if (!gate->rate_bytes_s)
		return;
	if (now_ns > slack_ns && from < now_ns - slack_ns) {
		from = now_ns - slack_ns;
		gate->rest = 0;
	}
	work = (u64)wire * 1000000000 + gate->rest;
	time = work / gate->rate_bytes_s;
	gate->rest = work - time * gate->rate_bytes_s;
	gate->opens_ns = from + time;
}

/* A packet goes onto the link. */
AQM_FN void aqm_line_pass(struct aqm_line *line, struct aqm_gate *gate,
			  u32 wire, u64 now_ns)
{
	u64 late = now_ns > gate->opens_ns ? now_ns - gate->opens_ns : 0;

	if (!gate->rate_bytes_s)
		return;
	if (late > AQM_GATE_SLACK_NS)
		late = AQM_GATE_SLACK_NS;
	if (now_ns >= line->window_ns) {
		line->before_ns =
			now_ns < line->window_ns + AQM_LINE_WINDOW_NS ?
				line->late_ns :
				0;
		line->late_ns = 0;
		line->window_ns = now_ns + AQM_LINE_WINDOW_NS;
	}
	if (late > line->late_ns)
		line->late_ns = late;
	late = line->late_ns > line->before_ns ? line->late_ns :
						 line->before_ns;
	line->early_ns = gate->rate_bytes_s > AQM_GATE_GROUPS_FROM ?
				 0 :
				 AQM_GATE_SLACK_NS - late;
	aqm_gate_pass(gate, wire, now_ns, AQM_GATE_SLACK_NS);
	line->passed = gate->opens_ns > now_ns + line->early_ns &&
		       gate->opens_ns > line->group_ns;
}

#endif
