/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How receive-window control learns of connections. Only the handshake tells
 * how windows are scaled (RFC 7323 section 2.2).
 *
 * Anybody can send a SYN from a forged address, so a SYN from outside is not
 * stored. The SYN or SYN-ACK of the end inside is stored in a separate table.
 * The connection is known once a segment from outside acknowledges exactly
 * that, with all, some or none of the data in it (RFC 7413 section 3). This
 * requires having seen it (RFC 9293 section 3.4.1). So half-open handshakes
 * cannot displace connections, and a SYN cannot restart a connection without
 * its owner's consent.
 *
 * A SYN-ACK describes both ends: it has an option only if the SYN had it (RFC
 * 7323 section 2.2; for RFC 2018, Linux's tcp_synack_options()).
 */
#ifndef INBOUND_WINDOW_HANDSHAKE_H
#define INBOUND_WINDOW_HANDSHAKE_H

#include "tcp_segment.h"
#include "window/ask.h"
#include "window/state.h"

/* Returns the RECEIVER_* flags that a SYN states. */
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

/* Stores a handshake until the peer has acknowledged it. */
static __always_inline void window_open(const struct tuple *key,
					struct window_receiver *receiver)
{
	struct window_connection *connection;
	struct window_receiver *before;
	/* Linux 6.1 requires a map's key on the stack, not in an argument. */
	struct tuple tuple = *key;

	connection = bpf_map_lookup_elem(&connections, &tuple);
	if (connection) {
		/* It was acknowledged already. */
		if (connection->receiver.number == receiver->number)
			return;
		connection->reopens = 1;
	}
	before = bpf_map_lookup_elem(&handshakes, &tuple);
	if (before && before->number == receiver->number) {
		receiver->handshake |= RECEIVER_REPEATS;
		/* It is sent again without data, whose answer may come yet. */
		if (receiver->payload < before->payload)
			receiver->payload = before->payload;
	}
	bpf_map_update_elem(&handshakes, &tuple, receiver, BPF_ANY);
}

/* Creates the state of a new connection. Replaces that of an earlier one with
 * the same ports. */
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
	if (receiver->handshake & RECEIVER_ANSWERS)
		window_begun(&connection->flow, receiver->ack, receiver->window,
			     receiver->born_ns);
}

/* Whether a segment from outside completes a receiver's handshake. */
static __always_inline int
window_completes(const struct segment *segment,
		 const struct window_receiver *receiver)
{
	if (!(segment->flags & TCP_ACK) || segment->flags & TCP_RST ||
	    segment->ack - (receiver->number + 1) > receiver->payload)
		return 0;
	/* Only a SYN shows the options of the peer. */
	return segment->flags & TCP_SYN ||
	       receiver->handshake & RECEIVER_ANSWERS;
}

/* Completes a handshake if an arriving segment does. Global, so that the
 * verifier checks it once. */
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
		receiver.handshake &= window_stated(segment) | RECEIVER_ANSWERS;
	}
	if (!(receiver.handshake & RECEIVER_SCALES))
		receiver.shift = 0;
	window_begin(&tuple, &receiver);
	return 1;
}

#endif
