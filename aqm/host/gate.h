/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The gate: lets one packet after the other onto a link of a given rate, in
 * bytes on the wire, so that the queue forms before it and nowhere behind.
 *
 * A packet of w bytes keeps the gate shut for w / rate. What is left of the
 * division is carried on to the next packet, so the rate is exact in the long
 * run: it is neither rounded up nor down.
 *
 * A host is woken late, by its timer's granularity or because the machine was
 * busy. Lateness up to `slack_ns` is made up for by the packets that follow;
 * beyond that it is lost, as it is on a link. So in any time t the gate passes
 * at most rate (t + slack) and one packet.
 */
#ifndef AQM_GATE_H
#define AQM_GATE_H

#include "aqm.h"

/* Lateness that a link's gate makes up for. */
#define AQM_GATE_SLACK_NS 50000

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

#endif
