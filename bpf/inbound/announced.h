/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Announced sessions (Shah 1999, section 7: a session of high priority is known
 * before it begins). While a session is announced, new connections of low
 * priority ask for small segments, and old ones that receive much may be reset.
 *
 * An announcement ends by itself unless it is renewed.
 */
#ifndef INBOUND_ANNOUNCED_H
#define INBOUND_ANNOUNCED_H

#include "tc.h"
#include "window/layout.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct announced);
} announced SEC(".maps");

/* Time between two attempts to reset a connection. Packets that arrive in
 * between pass, so that the receiver, which has no such connection any more,
 * answers them and the sender learns of the reset. */
#define RESET_AGAIN_NS 100000000ULL

/* Connections that have received fewer bytes are not reset. */
#define RESET_MUCH 100000

/* Returns since when a session is announced; 0: none is. */
static __always_inline u64 announced_since(u64 now_ns)
{
	u32 key = 0;
	const struct announced *one = bpf_map_lookup_elem(&announced, &key);

	return one && now_ns < one->until_ns ? one->since_ns : 0;
}

#endif
