/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a UDP stream above its rate is treated (Shah 1999, section 5.2.2). UDP
 * has no window to close. So the sender first sees losses, then gets a chance,
 * and then receives ICMP's "port unreachable".
 *
 *     OKAY  delivered; above the rate: DROP
 *     DROP  discarded; after the drop time the rate is forgotten: WARN
 *     WARN  delivered; after the warn time above the rate: KILL, else OKAY
 *     KILL  rejected, as by a port that is not open
 *
 * A stream that is silent for the meter's age starts over. The other mode
 * limits each stream to the rate by a token bucket.
 */
#ifndef AQM_UDP_H
#define AQM_UDP_H

#include "gate.h"
#include "meter.h"

enum udp_mode {
	UDP_STATES = 0,
	UDP_BUCKET = 1,
};

enum udp_state {
	UDP_OKAY = 0,
	UDP_DROP = 1,
	UDP_WARN = 2,
	UDP_KILL = 3,
};

enum udp_verdict {
	UDP_DELIVER = 0,
	UDP_DISCARD = 1,
	UDP_REFUSE = 2,
};

/* The configuration, the same for all streams. */
struct udp_rule {
	u64 mode; /* enum udp_mode */
	u64 rate_bytes_s; /* of each stream */
	u64 burst_bytes; /* of the token bucket */
	u64 drop_ns;
	u64 warn_ns;
	struct meter_rule meter;
};

struct udp_flow {
	struct meter meter;
	struct aqm_gate bucket;
	u64 since_ns; /* when the state began */
	u64 discarded; /* datagrams */
	u32 state; /* enum udp_state */
	u32 pad;
};

AQM_FN void udp_enter(struct udp_flow *flow, u32 state, u64 now_ns)
{
	flow->state = state;
	flow->since_ns = now_ns;
}

/* Applies a token bucket: discards what exceeds it. */
AQM_FN u32 udp_bucket(struct udp_flow *flow, const struct udp_rule *rule,
		      u32 bytes, u64 now_ns)
{
	u64 rate = aqm_max(rule->rate_bytes_s, 1);
	u64 burst = aqm_max(rule->burst_bytes, bytes);
	u64 queued = 0;

	flow->bucket.rate_bytes_s = rate;
	if (flow->bucket.opens_ns > now_ns)
		queued = aqm_bytes_in(rate, flow->bucket.opens_ns - now_ns);
	if (queued + bytes > burst)
		return UDP_DISCARD;
	aqm_gate_pass(&flow->bucket, bytes, now_ns, 0);
	return UDP_DELIVER;
}

/* Returns the verdict for a datagram of `bytes` bytes. */
AQM_FN u32 udp_arrived(struct udp_flow *flow, const struct udp_rule *rule,
		       u32 bytes, u64 now_ns)
{
	u64 silent = now_ns - flow->meter.seen_ns;
	u32 verdict = UDP_DELIVER;
	int over;

	if (rule->mode == UDP_BUCKET) {
		verdict = udp_bucket(flow, rule, bytes, now_ns);
		meter_arrived(&flow->meter, &rule->meter, bytes, now_ns);
		goto counted;
	}
	if (flow->meter.seen_ns && silent > rule->meter.age_ns)
		udp_enter(flow, UDP_OKAY, now_ns);
	if (flow->state == UDP_DROP &&
	    now_ns - flow->since_ns >= rule->drop_ns) {
		meter_forget(&flow->meter);
		udp_enter(flow, UDP_WARN, now_ns);
	}
	meter_arrived(&flow->meter, &rule->meter, bytes, now_ns);
	over = flow->meter.rate_bytes_s > rule->rate_bytes_s;
	if (flow->state == UDP_OKAY && over)
		udp_enter(flow, UDP_DROP, now_ns);
	else if (flow->state == UDP_WARN &&
		 now_ns - flow->since_ns >= rule->warn_ns)
		udp_enter(flow, over ? UDP_KILL : UDP_OKAY, now_ns);
	if (flow->state == UDP_DROP)
		verdict = UDP_DISCARD;
	else if (flow->state == UDP_KILL)
		verdict = UDP_REFUSE;
counted:
	if (verdict != UDP_DELIVER)
		flow->discarded++;
	return verdict;
}

#endif
