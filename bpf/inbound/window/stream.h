/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What no window holds: QUIC and other datagrams, and connections of TCP whose
 * handshake was not seen.
 *
 * Where packets leave that answer a flow, its sender learns what was lost and
 * slows down, so the queue can hold it to a share. It is one of those who share the
 * rate (window_unheld()).
 *
 * A connection of TCP does not stay one of them where connection tracking saw its
 * handshake, and so knows how its windows are scaled.
 *
 * A flow that nobody answers would only lose what has crossed the line already. Its
 * bytes are taken off the rate (window_others()).
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

/* Answers in a second that make one. QUIC acknowledges each second packet, or some
 * in each round trip (RFC 9000 section 13.2), a connection of TCP as well; reports of
 * RTCP come more seldom than once a second (RFC 3550 section 6.2). */
#define STREAM_ANSWERS 4

/* Whether as many left in the last whole second, or in this one so far. */
static __always_inline int
window_stream_answered(const struct window_stream *stream, u64 epoch)
{
	if (stream->epoch + 1 == epoch)
		return stream->answers >= STREAM_ANSWERS;
	return stream->epoch == epoch && (stream->answers >= STREAM_ANSWERS ||
					  stream->before >= STREAM_ANSWERS);
}

/* A packet came that no window holds. Global, so that the verifier looks at it by
 * itself. */
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
		/* Nothing is as long as that, and more. */
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

/* A connection of TCP becomes known whose handshake was not seen. What its receiver
 * has offered is not taken back, so its edge goes on when as much has come. */
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
	/* It has sent more than a page, as far as anybody knows. */
	connection->bytes = WINDOW_MUCH;
	window_begun(&connection->flow, segment->ack,
		     (u32)segment->window << (receiver->shift & 15), now_ns);
}

/* A packet leaves whose connection is not known; `segment` says what it is where it
 * is one of TCP, and has no tuple elsewhere. Global as above. */
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
