/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The gate: lets packets onto a link of a given rate one at a time, counted in
 * bytes on the wire. So the queue builds before the gate and not behind it.
 *
 * A packet of w bytes closes the gate for w / rate. The remainder of the
 * division is carried over to the next packet. So the rate is exact in the long
 * run.
 *
 * A host is woken late, because of its timer's granularity or because the
 * machine was busy. The following packets make up for lateness up to
 * `slack_ns`. More than that is lost, as it is on a link. So in any time t the
 * gate passes at most rate (t + slack) and one packet.
 *
 * A fast link cannot afford a timer for every packet. At 1 Gbit/s there would
 * be 83,000 a second, each costlier than all other work for the packet. So
 * above AQM_GATE_GROUPS_FROM packets are sent in groups: whenever the line is
 * free, all that begin within AQM_GATE_GROUP_NS. The rate is the same. A queue
 * of that time forms behind the gate and drains with each group.
 *
 * Up to that rate a packet may be sent slightly before the line is free, if the
 * host runs then anyway because another packet arrived. That saves a timer. The
 * time by which packets may be early and their lateness in the last 100 ms add
 * up to the slack. So the bound above still holds.
 */
#ifndef AQM_GATE_H
#define AQM_GATE_H

#include "aqm.h"

/* Lateness that a link's gate compensates for. */
#define AQM_GATE_SLACK_NS 50000

/* Above this rate, in bytes/s (100 Mbit/s), packets are sent in groups of this
 * duration. */
#define AQM_GATE_GROUPS_FROM 12500000
#define AQM_GATE_GROUP_NS 100000

/* How long lateness is remembered: the time over which rates are promised. */
#define AQM_LINE_WINDOW_NS 100000000

/* Until this long before its expiry a timer has surely not fired. */
#define AQM_LINE_SURE_NS 5000

struct aqm_gate {
	u64 rate_bytes_s; /* 0: always open */
	u64 opens_ns; /* when the last packet will have been sent */
	u64 rest; /* remainder of the division, in 10^-9 bytes */
};

/* Returns when the next packet may be sent; in the past if it may be now. */
AQM_FN u64 aqm_gate_opens(const struct aqm_gate *gate)
{
	return gate->rate_bytes_s ? gate->opens_ns : 0;
}

/* What a host stores in addition to a link's gate. */
struct aqm_line {
	u64 group_ns; /* packets that begin before
		       * this are in the current group */
	u64 timer_ns; /* when the timer fires; 0: unknown */
	u64 early_ns; /* how early a packet may be sent */
	u64 late_ns; /* largest lateness in this window */
	u64 before_ns; /* largest lateness in the previous window */
	u64 window_ns; /* when this window ends */
	u64 passed; /* whether a packet was sent since the host last asked */
};

/* Whether the link's gate is shut. If it is open, a new group may begin, so the
 * caller must send. */
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
 * Whether the gate is shut because a packet was just sent. The host is asked
 * for the next packet at once, and this saves reading its clock. If the time
 * has passed already, its timer fires at once.
 */
AQM_FN int aqm_line_passed(struct aqm_line *line)
{
	u64 passed = line->passed;

	line->passed = 0;
	return passed != 0;
}

/* Whether the host has to set its timer for `opens_ns`. It need not if it has
 * done so already and the timer has not fired. The timer surely has not fired
 * until AQM_LINE_SURE_NS before, even if its clock differs. */
AQM_FN int aqm_line_timer(struct aqm_line *line, u64 opens_ns, u64 now_ns)
{
	if (line->timer_ns == opens_ns && now_ns + AQM_LINE_SURE_NS < opens_ns)
		return 0;
	line->timer_ns = opens_ns;
	return 1;
}

/* Charges a packet to a gate. wire < 2^32, so wire * 10^9 < 2^62. */
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

/* Charges a packet to a link's gate and updates the lateness. */
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
