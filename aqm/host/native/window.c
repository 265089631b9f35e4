// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The native host of receive-window control and of UDP's states: one connection
 * or stream, as plain memory. */
#include "aqm.h"
#include "udp.h"
#include "share.h"
#include "window.h"

extern const u32 aqm_window_size, aqm_window_rate;
extern u64 aqm_share_rate(const struct share_sum *sum, u64 rate, int large,
			  u64 more, u64 others)
{
	return share_rate(sum, rate, large, more, others);
}

void aqm_share_count(struct share_sum *sum, struct share_member *member,
		     u64 part, int large, int whole, u64 now_ns)
{
	share_second(sum, share_epoch(now_ns));
	share_anew(member, sum->epoch);
	share_count(sum, member, part, large, whole);
}

void aqm_share_ended(struct share_sum *sum, struct share_member *member)
{
	share_ended(sum, member);
}

const u32 aqm_udp_size, aqm_udp_state;
u32 aqm_udp_arrived(void *flow, const struct udp_rule *rule, u32 bytes,
		    u64 now_ns);
void aqm_window_arrived(void *flow, const struct window_rule *rule, u32 bytes,
			u32 mss, u64 now_ns);
void aqm_window_numbered(void *flow, u32 first, u32 bytes);
u32 aqm_window_initial(const struct window_rule *rule, u32 offered);
void aqm_window_begun(void *flow, u32 ack, u32 window, u64 now_ns);
u32 aqm_window_offer(void *flow, const struct window_rule *rule, u64 rate,
		     u32 ack, u32 offered, u64 now_ns);
u64 aqm_window_advertised(void *flow, const struct window_rule *rule, u64 rate,
			  u32 ack, u32 window, u64 now_ns);
u64 aqm_window_pay(void *flow, u32 ack, u64 owed);
void aqm_window_path(void *flow, u32 round_trip_us);
void aqm_window_asks(void *flow, u32 stamp, u64 leaves_ns);
void aqm_window_hears(void *flow, u32 echo, u64 now_ns);
u32 aqm_window_loosens(void *flow, u32 bytes, u64 share, u64 all);
void aqm_window_had(void *flow, u32 part);
u64 aqm_share_rate(const struct share_sum *sum, u64 rate, int large, u64 more,
		   u64 others);
void aqm_share_count(struct share_sum *sum, struct share_member *member,
		     u64 part, int large, int whole, u64 now_ns);
void aqm_share_ended(struct share_sum *sum, struct share_member *member);

const u32 aqm_window_size = sizeof(struct window_flow);
const u32 aqm_window_rate =
	__builtin_offsetof(struct window_flow, meter.rate_bytes_s);

void aqm_window_arrived(void *flow, const struct window_rule *rule, u32 bytes,
			u32 mss, u64 now_ns)
{
	window_arrived(flow, rule, bytes, mss, now_ns);
}

void aqm_window_numbered(void *flow, u32 first, u32 bytes)
{
	window_numbered(flow, first, bytes);
}

u32 aqm_window_initial(const struct window_rule *rule, u32 offered)
{
	return window_initial(rule, offered);
}

void aqm_window_begun(void *flow, u32 ack, u32 window, u64 now_ns)
{
	window_begun(flow, ack, window, now_ns);
}

u32 aqm_window_offer(void *flow, const struct window_rule *rule, u64 rate,
		     u32 ack, u32 offered, u64 now_ns)
{
	return window_offer(flow, rule, rate, ack, offered, now_ns);
}

u64 aqm_window_advertised(void *flow, const struct window_rule *rule, u64 rate,
			  u32 ack, u32 window, u64 now_ns)
{
	return window_advertised(flow, rule, rate, ack, window, now_ns);
}

u64 aqm_window_pay(void *flow, u32 ack, u64 owed)
{
	return window_pay(flow, ack, owed);
}

void aqm_window_path(void *flow, u32 round_trip_us)
{
	struct window_flow *one = flow;

	one->round_trip_us = round_trip_us;
}

void aqm_window_asks(void *flow, u32 stamp, u64 leaves_ns)
{
	window_asks(flow, stamp, leaves_ns);
}

void aqm_window_hears(void *flow, u32 echo, u64 now_ns)
{
	window_hears(flow, echo, now_ns);
}

u32 aqm_window_loosens(void *flow, u32 bytes, u64 share, u64 all)
{
	struct window_flow *one = flow;

	window_loosens(one, bytes, share, all);
	return one->loose;
}

void aqm_window_had(void *flow, u32 part)
{
	struct window_flow *one = flow;

	one->had = part;
}

const u32 aqm_udp_size = sizeof(struct udp_flow);
const u32 aqm_udp_state = __builtin_offsetof(struct udp_flow, state);

u32 aqm_udp_arrived(void *flow, const struct udp_rule *rule, u32 bytes,
		    u64 now_ns)
{
	return udp_arrived(flow, rule, bytes, now_ns);
}
