/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Chooses the MSS to announce in a handshake. A window is at least one segment,
 * so a sender sends one per round trip however small its share is (Shah 1999,
 * section 6.5: stop and wait). If its share of a round trip is less than a full
 * segment, it is asked for segments of that size.
 *
 * The round trip is that of an earlier SYN to the same peer. For other peers it
 * is the one in the settings.
 */
#ifndef INBOUND_WINDOW_ASK_H
#define INBOUND_WINDOW_ASK_H

#include "tcp_segment.h"
#include "window/state.h"

/* The kernel's minimum (TCP_MIN_MSS, net/tcp.h). */
#define WINDOW_LEAST_ASKED 88

/* Takes a round-trip sample from the answer to a SYN. A sample longer than the
 * known value may include a queue, so it has a smaller weight. */
static __always_inline void window_answered(const struct tuple *tuple,
					    u64 took_ns)
{
	struct window_peer peer;
	u64 *known;

	__builtin_memcpy(peer.address, tuple->address[1], 16);
	known = bpf_map_lookup_elem(&round_trips, &peer);
	if (known && *known < took_ns)
		took_ns = *known + (took_ns - *known) / 4;
	bpf_map_update_elem(&round_trips, &peer, &took_ns, BPF_ANY);
}

/* Returns the round trip to a peer in microseconds; 0: unknown. */
static __always_inline u32 window_round_trip_us(const struct tuple *tuple)
{
	struct window_peer peer;
	const u64 *known;

	__builtin_memcpy(peer.address, tuple->address[1], 16);
	known = bpf_map_lookup_elem(&round_trips, &peer);
	return known ? (u32)aqm_min(*known / 1000, 10000000) : 0;
}

/* Returns the MSS for a share of `rate` bytes/s. */
static __always_inline u64 window_asked(const struct window_settings *wanted,
					const struct tuple *tuple, u64 rate)
{
	u64 round_trip_ns = wanted->round_trip_ns;
	struct window_peer peer;
	const u64 *known;

	__builtin_memcpy(peer.address, tuple->address[1], 16);
	known = bpf_map_lookup_elem(&round_trips, &peer);
	if (known)
		round_trip_ns = *known;
	return aqm_max(aqm_bytes_in(rate, round_trip_ns), WINDOW_LEAST_ASKED);
}

#endif
