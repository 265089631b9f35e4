/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How large segments are asked for in a handshake. A window offers a segment at
 * least, so that a sender has one for each round trip however little he may have
 * (Shah 1999, section 6.5: stop and wait). Where less than a full one is his
 * share of a round trip, he is asked for segments of that size.
 *
 * The round trip was measured by the answer to an earlier SYN to
 * the same end; to others it is the one that the settings state.
 */
#ifndef INBOUND_WINDOW_ASK_H
#define INBOUND_WINDOW_ASK_H

#include "tcp_segment.h"
#include "window/state.h"

/* The kernel's least (TCP_MIN_MSS, net/tcp.h). */
#define WINDOW_LEAST_ASKED 88

/* The answer to a SYN came: what it tells of its end. A longer time than the one
 * that is known may have been a queue's. */
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

/* What is known of an end outside, in microseconds; 0: nothing. */
static __always_inline u32 window_round_trip_us(const struct tuple *tuple)
{
	struct window_peer peer;
	const u64 *known;

	__builtin_memcpy(peer.address, tuple->address[1], 16);
	known = bpf_map_lookup_elem(&round_trips, &peer);
	return known ? (u32)aqm_min(*known / 1000, 10000000) : 0;
}

/* The segment of one that may have so many bytes a second. */
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
