// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The native host of the ACK filter, for tests. The caller has the packets. */
#include "acks.h"

extern const u32 aqm_acks_layout[4];
u32 aqm_acks_form(u32 words, u32 flags, u32 tos);
void aqm_acks_begin(struct acks_flow *flow, const struct acks_segment *now);
u32 aqm_acks_decide(const struct acks_flow *flow,
		    const struct acks_segment *now, u32 filter);
void aqm_acks_replaced(struct acks_flow *flow, const struct acks_segment *now);
void aqm_acks_queued(struct acks_flow *flow, const struct acks_segment *now,
		     u32 place, u64 now_ns);

/* Sizes and offsets, in the order of acks.rs. */
const u32 aqm_acks_layout[4] = {
	sizeof(struct acks_segment),
	sizeof(struct acks_flow),
	__builtin_offsetof(struct acks_flow, last),
	__builtin_offsetof(struct acks_flow, seen),
};

u32 aqm_acks_form(u32 words, u32 flags, u32 tos)
{
	return acks_form(words, flags, tos);
}

void aqm_acks_begin(struct acks_flow *flow, const struct acks_segment *now)
{
	acks_begin(flow, now);
}

u32 aqm_acks_decide(const struct acks_flow *flow,
		    const struct acks_segment *now, u32 filter)
{
	return acks_decide(flow, now, filter);
}

void aqm_acks_replaced(struct acks_flow *flow, const struct acks_segment *now)
{
	acks_replaced(flow, now);
}

void aqm_acks_queued(struct acks_flow *flow, const struct acks_segment *now,
		     u32 place, u64 now_ns)
{
	acks_queued(flow, now, place, now_ns);
}
