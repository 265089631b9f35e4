/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which connections receive-window control knows. A handshake tells how windows
 * are scaled (RFC 7323 section 2.2), and nothing after it does.
 *
 * Anybody can send a SYN from a forged address, so one from outside leaves no
 * trace. What the end inside sends, a SYN or a SYN-ACK, is stored in a table of
 * its own. The connection is known when a segment from outside acknowledges
 * exactly that, which nobody can who has not seen it (RFC 9293 section 3.4.1).
 * So no handshake that is left half open makes the kernel forget a connection,
 * and no connection is begun anew by a SYN that its owner did not agree to.
 *
 * A SYN-ACK tells of both ends: it has an option only where the SYN had it
 * (RFC 7323 section 2.2; for RFC 2018, Linux's tcp_synack_options()).
 */
#ifndef INBOUND_WINDOW_HANDSHAKE_H
#define INBOUND_WINDOW_HANDSHAKE_H

#include "tcp_segment.h"
#include "window/ask.h"
#include "window/state.h"

/* What a SYN states, as RECEIVER_*. */
static __always_inline u8 window_stated(const struct segment *segment)
{
	u8 stated = 0;

	if (segment->scales)
		stated |= RECEIVER_SCALES;
	if (segment->selective)
		stated |= RECEIVER_SACK;
	if (segment->flags & TCP_ACK)
		stated |= RECEIVER_ANSWERS;
	return stated;
}

/* Stores a handshake until its other end has acknowledged it. */
static __always_inline void window_open(const struct tuple *key,
					struct window_receiver *receiver)
{
	struct window_connection *connection;
	struct window_receiver *before;
	/* Linux 6.1 takes a map's key from the stack, not from an argument. */
	struct tuple tuple = *key;

	connection = bpf_map_lookup_elem(&connections, &tuple);
	if (connection) {
		/* It was answered already, and needs no other answer. */
		if (connection->receiver.number == receiver->number)
			return;
		connection->reopens = 1;
	}
	before = bpf_map_lookup_elem(&handshakes, &tuple);
	if (before && before->number == receiver->number)
		receiver->handshake |= RECEIVER_REPEATS;
	bpf_map_update_elem(&handshakes, &tuple, receiver, BPF_ANY);
}

/* A connection of these ports begins; what was known of one before is gone. */
static __always_inline void window_begin(const struct tuple *tuple,
					 const struct window_receiver *receiver)
{
	struct window_connection *connection;
	u32 key = 0;

	connection = bpf_map_lookup_elem(&blank, &key);
	if (!connection)
		return;
	bpf_map_update_elem(&connections, tuple, connection, BPF_ANY);
	connection = bpf_map_lookup_elem(&connections, tuple);
	if (!connection)
		return;
	connection->receiver = *receiver;
	connection->flow.mss = receiver->mss;
	connection->flow.selective = !!(receiver->handshake & RECEIVER_SACK);
	connection->flow.round_trip_us = window_round_trip_us(tuple);
	if (receiver->handshake & RECEIVER_OFFERED)
		window_begun(&connection->flow, receiver->ack, receiver->window,
			     receiver->born_ns);
}

/* Whether a segment from outside completes the handshake of this receiver. */
static __always_inline int
window_completes(const struct segment *segment,
		 const struct window_receiver *receiver)
{
	if (!(segment->flags & TCP_ACK) || segment->flags & TCP_RST ||
	    segment->ack != receiver->number + 1)
		return 0;
	/* Only a SYN tells what the other end agrees to. */
	return segment->flags & TCP_SYN ||
	       receiver->handshake & RECEIVER_ANSWERS;
}

/* What came may complete a handshake. Global, so that the verifier looks at it by
 * itself. */
__noinline u32 window_establish(struct segment *segment)
{
	struct window_connection *connection;
	struct window_receiver *half, receiver;
	struct tuple tuple;

	if (!segment)
		return 0;
	tuple = segment->tuple;
	connection = bpf_map_lookup_elem(&connections, &tuple);
	half = bpf_map_lookup_elem(&handshakes, &tuple);
	if (!half) {
		if (connection)
			connection->reopens = 0;
		return 0;
	}
	if (!window_completes(segment, half))
		return 0;
	receiver = *half;
	bpf_map_delete_elem(&handshakes, &tuple);
	if (!(receiver.handshake & RECEIVER_REPEATS) &&
	    !(segment->flags & TCP_SYN) ==
		    !!(receiver.handshake & RECEIVER_ANSWERS))
		window_answered(&tuple, bpf_ktime_get_ns() - receiver.born_ns);
	if (segment->flags & TCP_SYN) {
		receiver.handshake &= window_stated(segment) |
				      RECEIVER_ANSWERS | RECEIVER_OFFERED;
	}
	if (!(receiver.handshake & RECEIVER_SCALES))
		receiver.shift = 0;
	window_begin(&tuple, &receiver);
	return 1;
}

#endif
