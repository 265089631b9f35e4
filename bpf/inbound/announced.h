/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sessions that programs announce (Shah 1999, section 7: a session of high
 * priority is known before it begins). While one is announced, connections of
 * low priority that begin ask for small segments, and old ones that receive
 * much may be reset.
 *
 * Who announces has to say so again and again: an announcement that is not
 * renewed ends by itself.
 */
#ifndef INBOUND_ANNOUNCED_H
#define INBOUND_ANNOUNCED_H

#include "tc.h"
#include "window_layout.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct announced);
} announced SEC(".maps");

/* Between two attempts to reset a connection: what comes in between is not
 * touched, so that the receiver, who has no such connection any more, answers
 * it and the sender learns of it. */
#define RESET_AGAIN_NS 100000000ULL

/* Who has received less is not reset. */
#define RESET_MUCH 100000

/* Since when a session is announced; 0 where none is. */
static __always_inline u64 announced_since(u64 now_ns)
{
	u32 key = 0;
	const struct announced *one = bpf_map_lookup_elem(&announced, &key);

	return one && now_ns < one->until_ns ? one->since_ns : 0;
}

#endif
