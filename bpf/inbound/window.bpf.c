// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Receive-window control (aqm/include/window.h) at a device's clsact qdisc. One
 * program sees arriving data, the other rewrites the window of departing
 * packets. Both share an LRU map of connections.
 *
 * L4S senders keep their queue short by reacting to marks, which windows would
 * prevent. So they are not controlled but count for what they use, unless the
 * configuration says otherwise.
 *
 * window/shares.h computes the share of each connection in the total rate, or
 * in that of its host. window/stream.h handles traffic without window control.
 *
 * A connection is known once its handshake is complete (window/handshake.h). A
 * connection is not controlled if its handshake was not seen, unless connection
 * tracking saw it (window/stream.h). Nor is it if its packets carry the mark
 * for exceptions, in either direction.
 *
 * The class of a connection is the skb->priority of its departing packets, once
 * the rules have set it (Shah 1999, section 5.4: the class of the outgoing
 * classifier). A class may have a rate of its own, or none.
 *
 * While a session is announced, new connections ask for small segments, and old
 * ones may be reset (announced.h). At all times they may ask for segments of
 * their share of a round trip (window/ask.h).
 *
 * No packet is ever dropped. A packet is delayed only where a qdisc honours its
 * departure time (fq), and changed only if it has a whole TCP header.
 */
#include "tcp_segment.h"
#include "window/state.h"
#include "lock.h"
#include "announced.h"
#include "window/ask.h"
#include "window/handshake.h"
#include "window/class.h"
#include "window/shares.h"
#include "window/stream.h"

/* Whether a connection is exempt, by a mark or by its class. */
static __always_inline int
window_protected(const struct window_settings *wanted,
		 const struct window_receiver *receiver)
{
	return receiver->spared ||
	       (receiver->slot && !window_rate(wanted, receiver->slot));
}

/* Returns the MSS for a new connection; 0: unchanged. */
static __always_inline u64 window_least(const struct window_settings *wanted,
					struct window_totals *all,
					const struct window_receiver *receiver,
					const struct tuple *tuple, u64 now_ns)
{
	u64 least = announced_since(now_ns) ? wanted->announced_segment : 0;
	const struct window_host *host;
	u64 rate, asked;

	if (!wanted->round_trip_ns)
		return least;
	host = window_host(wanted, receiver, 0);
	rate = window_share(wanted, all, host, receiver->slot, 0, SHARE_ONE,
			    window_others(wanted, all, now_ns));
	if (!rate)
		return least;
	asked = window_asked(wanted, tuple, rate);
	return least ? aqm_min(least, asked) : asked;
}

/* Lowers the MSS of a new connection if it is configured. */
static __always_inline void
window_ask_less(struct __sk_buff *skb, const struct window_settings *wanted,
		struct window_totals *all, struct window_receiver *receiver,
		const struct segment *segment, u64 now_ns)
{
	u32 tcp = tc_network(skb, &segment->at) + segment->at.transport;
	u64 least =
		window_least(wanted, all, receiver, &segment->tuple, now_ns);

	if (!least || !segment->mss_at || segment->mss <= least ||
	    window_protected(wanted, receiver))
		return;
	if (tcp_write(skb, tcp, segment->at.transport, segment->mss_at & 63,
		      segment->mss, (u16)least))
		receiver->mss = (u16)least;
}

/* While a session is announced, turns an arriving packet of an older connection
 * that has received much into its reset (RFC 9293 section 3.10.7.4), if it is
 * the one that the receiver expects. The sender learns of it from the
 * receiver's answer to later packets. Returns whether it was written. */
static __always_inline int window_reset(struct __sk_buff *skb,
					const struct window_settings *wanted,
					struct window_connection *connection,
					const struct segment *segment,
					u64 now_ns)
{
	u32 tcp = tc_network(skb, &segment->at) + segment->at.transport;
	u64 since;

	if (!wanted->announced_resets || connection->bytes < RESET_MUCH ||
	    segment->flags & TCP_RST ||
	    window_protected(wanted, &connection->receiver))
		return 0;
	since = announced_since(now_ns);
	if (!since || connection->receiver.born_ns >= since ||
	    now_ns - connection->reset_ns < RESET_AGAIN_NS)
		return 0;
	connection->reset_ns = now_ns;
	return tcp_write(skb, tcp, segment->at.transport, 12,
			 (u16)(segment->length << 8 | segment->flags),
			 (u16)(segment->length << 8 | TCP_RST | TCP_ACK));
}

/* Writes a smaller window. Returns the window field of the packet. */
static __always_inline u32 window_field(struct __sk_buff *skb,
					struct window_totals *all,
					const struct segment *segment,
					u32 window, u8 shift)
{
	u32 tcp = tc_network(skb, &segment->at) + segment->at.transport;
	/* Round up, so that a segment fits and an offer is taken back by less
	 * than a unit (RFC 7323 section 2.4). The receiver's own window is a
	 * multiple already. */
	u32 field = (window + (1U << shift) - 1) >> shift;

	if (field >= segment->window ||
	    !tcp_write(skb, tcp, segment->at.transport, 14, segment->window,
		       (u16)field))
		return segment->window;
	__sync_fetch_and_add(&all->rewritten, 1);
	return field;
}

/* Limits the window before data has arrived. Returns the one in the packet, in
 * bytes. */
static __always_inline u32 window_start(struct __sk_buff *skb,
					const struct window_settings *wanted,
					struct window_totals *all,
					const struct window_receiver *receiver,
					const struct segment *segment, u8 shift)
{
	const struct window_rule *rule = &wanted->rule;
	u32 offered = (u32)segment->window << shift;

	if (window_protected(wanted, receiver))
		return offered;
	/* Shah's algorithms start with the receiver's own window. */
	if (!rule->fixed_bytes && !rule->initial_bytes && !rule->limit_bytes)
		return offered;
	return window_field(skb, all, segment, window_initial(rule, offered),
			    shift)
	       << shift;
}

/* Whether a connection's sender is L4S, by arriving data: ECT(1) says so, and
 * CE may have been either (RFC 9331 section 4.1). */
static __always_inline int window_l4s(const struct window_settings *wanted,
				      struct window_receiver *receiver, u32 ecn)
{
	if (wanted->holds_l4s || ecn == AQM_NOT_ECT || ecn == AQM_ECT_0)
		receiver->spared &= ~SPARED_L4S;
	else if (ecn == AQM_ECT_1)
		receiver->spared |= SPARED_L4S;
	return receiver->spared & SPARED_L4S;
}

/* Handles an arriving packet of a known connection. */
static __always_inline void
window_came(struct __sk_buff *skb, const struct window_settings *wanted,
	    struct window_totals *all, struct window_connection *connection,
	    const struct segment *segment, u64 now_ns)
{
	u32 mss = skb->gso_size ? skb->gso_size : segment->payload;
	struct window_host *host;

	connection->receiver.spared &= ~SPARED_IN;
	if (wanted->spare_mask &&
	    (skb->mark & wanted->spare_mask) == wanted->spare_mark)
		connection->receiver.spared |= SPARED_IN;
	if (window_reset(skb, wanted, connection, segment, now_ns))
		return;
	host = window_host(wanted, &connection->receiver, 1);
	if (segment->flags & (TCP_FIN | TCP_RST))
		window_ended(all, host, connection);
	if (!segment->payload ||
	    connection->receiver.spared & (SPARED_IN | SPARED_OUT))
		return;
	connection->bytes += segment->payload;
	window_numbered(&connection->flow, segment->first, segment->payload);
	if (segment->stamped)
		window_hears(&connection->flow, segment->echo, now_ns);
	if (window_l4s(wanted, &connection->receiver, segment->at.ecn)) {
		if (!(segment->flags & TCP_FIN))
			window_unheld(wanted, all, &connection->receiver,
				      &connection->member, connection->bytes,
				      segment->payload, now_ns);
		return;
	}
	if (!(segment->flags & TCP_FIN))
		window_active(wanted, all, host, connection, segment->payload,
			      now_ns);
	window_owe(wanted, all, connection, segment->payload, now_ns);
	window_arrived(&connection->flow, &wanted->rule, segment->payload, mss,
		       now_ns);
}

SEC("tc")
int window_in(struct __sk_buff *skb)
{
	u32 key = 0;
	struct window_settings *wanted = bpf_map_lookup_elem(&settings, &key);
	struct window_totals *all = bpf_map_lookup_elem(&totals, &key);
	struct window_connection *connection;
	struct segment segment = {};
	u64 now = bpf_ktime_get_ns();

	if (!wanted || !all)
		return TC_ACT_UNSPEC;
	if (!tcp_look(skb, &segment, 1)) {
		window_stream_came(skb);
		return TC_ACT_UNSPEC;
	}
	connection = bpf_map_lookup_elem(&connections, &segment.tuple);
	if (!connection || connection->reopens || segment.flags & TCP_SYN) {
		window_establish(&segment);
		connection = bpf_map_lookup_elem(&connections, &segment.tuple);
	}
	if (segment.flags & TCP_SYN)
		return TC_ACT_UNSPEC;
	if (!connection) {
		__sync_fetch_and_add(&all->unknown, 1);
		window_stream_came(skb);
		return TC_ACT_UNSPEC;
	}
	if (!lock_take(&connection->lock)) {
		__sync_fetch_and_add(&all->missed, 1);
		return TC_ACT_UNSPEC;
	}
	window_came(skb, wanted, all, connection, &segment, now);
	lock_release(&connection->lock);
	return TC_ACT_UNSPEC;
}

/* Handles a departing packet of a known connection. */
static __always_inline void
window_leaves(struct __sk_buff *skb, const struct window_settings *wanted,
	      struct window_totals *all, struct window_connection *connection,
	      const struct segment *segment, u64 now_ns)
{
	struct window_receiver *receiver = &connection->receiver;
	u8 shift = receiver->shift & 15;
	u32 offered = (u32)segment->window << shift;
	u32 window, written;
	u64 rate, held;

	window_sort(skb, wanted, receiver);
	/* Before data arrives there is no rate to keep. */
	if (!connection->bytes) {
		window = window_start(skb, wanted, all, receiver, segment,
				      shift);
		window_begun(&connection->flow, segment->ack, window, now_ns);
		return;
	}
	rate = window_share(wanted, all, window_host(wanted, receiver, 0),
			    receiver->slot, window_large(connection), 0,
			    window_others(wanted, all, now_ns));
	/* It may be controlled later: an L4S sender may turn out to be classic,
	 * the class, the mark or the settings may change. Note its offer, which
	 * must not be taken back then. */
	if (window_protected(wanted, receiver) ||
	    (!rate && !wanted->rule.fixed_bytes && !wanted->rule.limit_bytes)) {
		window_begun(&connection->flow, segment->ack, offered, now_ns);
		return;
	}
	connection->offered = offered;
	window_pays(all, connection, segment->ack);
	window = window_offer(&connection->flow, &wanted->rule, rate,
			      segment->ack, offered, now_ns);
	written = window_field(skb, all, segment, window, shift) << shift;
	/* Unless the packet could not be written to, the difference is what was
	 * rounded up. */
	if (written - window >= 1U << shift)
		window = written;
	connection->window = written;
	held = window_advertised(&connection->flow, &wanted->rule, rate,
				 segment->ack, window, now_ns);
	/* Delay only acknowledgements without data. */
	if (segment->payload)
		held = 0;
	if (segment->stamped)
		window_asks(&connection->flow, segment->stamp, now_ns + held);
	if (held) {
		skb->tstamp = now_ns + held;
		__sync_fetch_and_add(&all->held, 1);
	}
}

/* Handles a departing SYN or SYN-ACK. */
static __noinline void window_opens(struct __sk_buff *skb,
				    const struct window_settings *wanted,
				    struct window_totals *all,
				    const struct segment *segment, u64 now_ns)
{
	struct window_receiver receiver = {
		.born_ns = now_ns,
		.number = segment->first,
		.mss = segment->mss,
		.ack = segment->ack,
		.payload = (u16)aqm_min(segment->payload, 0xffffU),
		.shift = segment->shift,
		.handshake = window_stated(segment),
	};

	__builtin_memcpy(receiver.host, segment->tuple.address[0],
			 sizeof(receiver.host));
#ifdef WINDOW_TRANSLATED
	window_inside(skb, &segment->tuple, &receiver, 0);
#endif
	window_sort(skb, wanted, &receiver);
	window_ask_less(skb, wanted, all, &receiver, segment, now_ns);
	/* A SYN's window is not scaled (RFC 7323 section 2.2). */
	receiver.window = window_start(skb, wanted, all, &receiver, segment, 0);
	window_open(&segment->tuple, &receiver);
}

SEC("tc")
int window_out(struct __sk_buff *skb)
{
	u32 key = 0;
	struct window_settings *wanted = bpf_map_lookup_elem(&settings, &key);
	struct window_totals *all = bpf_map_lookup_elem(&totals, &key);
	struct window_connection *connection;
	struct segment segment = {};
	u64 now = bpf_ktime_get_ns();

	if (!wanted || !all)
		return TC_ACT_UNSPEC;
	if (!tcp_look(skb, &segment, 0)) {
		window_stream_left(skb, &segment);
		return TC_ACT_UNSPEC;
	}
	if (segment.flags & TCP_SYN) {
		window_opens(skb, wanted, all, &segment, now);
		return TC_ACT_UNSPEC;
	}
	if (!(segment.flags & TCP_ACK) || segment.flags & TCP_RST)
		return TC_ACT_UNSPEC;
	connection = bpf_map_lookup_elem(&connections, &segment.tuple);
	if (!connection) {
		__sync_fetch_and_add(&all->unknown, 1);
		window_stream_left(skb, &segment);
		return TC_ACT_UNSPEC;
	}
	if (!lock_take(&connection->lock)) {
		__sync_fetch_and_add(&all->missed, 1);
		return TC_ACT_UNSPEC;
	}
	window_leaves(skb, wanted, all, connection, &segment, now);
	lock_release(&connection->lock);
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual BSD/GPL";
