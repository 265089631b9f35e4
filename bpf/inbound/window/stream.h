/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Traffic without window control: QUIC and other datagrams, and TCP connections
 * whose handshake was not seen.
 *
 * If packets leave that answer a flow, its sender learns of losses and slows
 * down, so the queue can limit it to a share. It becomes a member of those that
 * share the rate (window_unheld()).
 *
 * A TCP connection becomes controlled if connection tracking saw its handshake
 * and so knows its window scale.
 *
 * A flow without answers would only lose what has crossed the line already. Its
 * bytes reduce the rate (window_others()).
 */
#ifndef INBOUND_WINDOW_STREAM_H
#define INBOUND_WINDOW_STREAM_H

#include "tc.h"
#include "tcp_segment.h"
#include "window/class.h"
#include "window/handshake.h"
#include "window/shares.h"
#ifdef WINDOW_TRANSLATED
#include "window/translated.h"
#endif

/* Packets per second from which a flow counts as answered. QUIC acknowledges
 * every second packet, or several times per round trip (RFC 9000 section 13.2),
 * and TCP does too. Reports of RTCP are sent less than once a second (RFC 3550
 * section 6.2). */
#define STREAM_ANSWERS 4

/* Whether a flow was answered in the last whole second or in this one. */
static __always_inline int
window_stream_answered(const struct window_stream *stream, u64 epoch)
{
	if (stream->epoch + 1 == epoch)
		return stream->answers >= STREAM_ANSWERS;
	return stream->epoch == epoch && (stream->answers >= STREAM_ANSWERS ||
					  stream->before >= STREAM_ANSWERS);
}

/* Handles an arriving packet without window control. Global, so that the
 * verifier checks it once. */
__noinline u32 window_stream_came(struct __sk_buff *skb)
{
	u32 key = 0;
	struct window_settings *wanted = bpf_map_lookup_elem(&settings, &key);
	struct window_totals *all = bpf_map_lookup_elem(&totals, &key);
	u64 now = bpf_ktime_get_ns();
	struct window_stream *stream;
	struct layout at = {};
	struct tuple tuple = {};
	const void *fresh;

	if (!wanted || !all || !wanted->beside_others)
		return 0;
	if (!tc_tuple(skb, &tuple, &at)) {
		window_other(wanted, all, skb->len, now);
		return 0;
	}
	tuple_reverse(&tuple);
	stream = bpf_map_lookup_elem(&unheld, &tuple);
	if (!stream) {
		/* The blank connection is at least as long, and all zero. */
		fresh = bpf_map_lookup_elem(&blank, &key);
		if (fresh)
			bpf_map_update_elem(&unheld, &tuple, fresh,
					    BPF_NOEXIST);
		window_other(wanted, all, skb->len, now);
		return 0;
	}
	if (!lock_take(&stream->lock))
		return 0;
	stream->bytes += skb->len;
	if (window_stream_answered(stream, share_epoch(now)))
		window_unheld(wanted, all, &stream->receiver, &stream->member,
			      stream->bytes, skb->len, now);
	else
		window_other(wanted, all, skb->len, now);
	lock_release(&stream->lock);
	return 1;
}

/* Adopts a connection without a handshake. What its receiver has offered is not
 * taken back, so its edge advances once that much has arrived. */
static __always_inline void
window_stream_learnt(const struct tuple *tuple,
		     const struct window_receiver *receiver,
		     const struct segment *segment, u64 now_ns)
{
	struct window_connection *connection;

	window_begin(tuple, receiver);
	connection = bpf_map_lookup_elem(&connections, tuple);
	if (!connection)
		return;
	/* Assume that it has sent more than a page. */
	connection->bytes = WINDOW_MUCH;
	window_begun(&connection->flow, segment->ack,
		     (u32)segment->window << (receiver->shift & 15), now_ns);
}

/* Handles a departing packet of an unknown connection. `segment` describes a
 * TCP packet and has no tuple otherwise. Global, so that the verifier checks it
 * once. */
__noinline u32 window_stream_left(struct __sk_buff *skb,
				  const struct segment *segment)
{
	u32 key = 0;
	struct window_settings *wanted = bpf_map_lookup_elem(&settings, &key);
	u64 now = bpf_ktime_get_ns();
	u64 epoch = share_epoch(now);
	struct window_stream *stream;
	struct layout at = {};
	struct tuple tuple = {};
	int known = 0;

	if (!segment || !wanted || !wanted->beside_others ||
	    !tc_tuple(skb, &tuple, &at))
		return 0;
	stream = bpf_map_lookup_elem(&unheld, &tuple);
	if (!stream || !lock_take(&stream->lock))
		return 0;
	if (!stream->receiver.born_ns) {
		stream->receiver.born_ns = now;
		__builtin_memcpy(stream->receiver.host, tuple.address[0],
				 sizeof(stream->receiver.host));
#ifdef WINDOW_TRANSLATED
		known = window_inside(skb, &tuple, &stream->receiver,
				      segment->header != 0);
#endif
	}
	window_sort(skb, wanted, &stream->receiver);
	if (known)
		window_stream_learnt(&tuple, &stream->receiver, segment, now);
	if (stream->epoch != epoch) {
		stream->before = stream->epoch + 1 == epoch ? stream->answers :
							      0;
		stream->answers = 0;
		stream->epoch = epoch;
	}
	stream->answers++;
	lock_release(&stream->lock);
	return 1;
}

#endif
