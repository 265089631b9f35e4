// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Receive-window control (aqm/include/window.h) at a device's clsact qdisc: one
 * program sees data arrive, the other rewrites the window of what leaves. Both
 * share a map of connections, of which the kernel forgets the one that was
 * silent for longest when it is full.
 *
 * What each may have of the rate of all is said by window_share.h.
 *
 * A connection is known from its handshake on, because only that tells how its
 * windows are scaled (RFC 7323 section 2.2). One whose handshake was not seen is
 * left alone, and so is one whose packets carry a mark that says so, coming or
 * going.
 *
 * Which class a connection has is what skb->priority of its leaving packets
 * says, once the tables have written it (Shah 1999, section 5.4: the class of
 * the outgoing classifier). A class may have a rate of its own, or none.
 *
 * While a session is announced, new connections ask for small segments and old
 * ones may be reset (announced.h). At all times they may ask for segments of
 * their share of a round trip (window_ask.h).
 *
 * Nothing is ever dropped, held back only where a qdisc heeds the time that a
 * packet is to leave at (fq), and written only to where a whole TCP header is.
 */
#include "tcp_segment.h"
#include "window_state.h"
#include "lock.h"
#include "announced.h"
#include "window_ask.h"
#include "window_share.h"

/* Who has sent nothing for so long may be another connection of the same ports. */
#define WINDOW_QUIET 2

/* Whether both sides have said something. */
static __always_inline int
window_both(const struct window_connection *connection, u8 said)
{
	return (connection->handshake & said) == said;
}

/* Whether a first SYN decides nothing by itself, because there is a connection
 * of these ports that may go on: one that comes, where the side here has spoken
 * already, for anybody can send one; one that leaves, while data comes, or before
 * any did: what answered the one before it may still wait on its way to the side
 * here, which sends it again, and it need not be answered twice. */
static __always_inline int
window_doubts(const struct window_connection *connection, u32 arriving,
	      u64 now_ns)
{
	if (arriving)
		return connection->handshake & OWN_SYN;
	return window_both(connection, OWN_SYN | PEER_SYN) &&
	       (!connection->bytes ||
		connection->epoch + WINDOW_QUIET > (now_ns >> 30) + 1);
}

/* Forgets what was known of a connection of these ports. */
static __always_inline struct window_connection *
window_fresh(const struct tuple *tuple, u64 now_ns)
{
	struct window_connection *connection;
	u32 key = 0;

	connection = bpf_map_lookup_elem(&blank, &key);
	if (!connection)
		return NULL;
	bpf_map_update_elem(&connections, tuple, connection, BPF_ANY);
	connection = bpf_map_lookup_elem(&connections, tuple);
	if (connection)
		connection->born_ns = now_ns;
	return connection;
}

/* Notes a SYN of either side. A new connection of ports that another has is one
 * when the other side has agreed to it. */
__noinline u32 window_handshake(struct segment *segment, u32 arriving)
{
	struct window_connection *connection;
	u64 now_ns = bpf_ktime_get_ns();
	u8 other = arriving ? OWN_SYN : PEER_SYN;
	struct tuple tuple;
	u8 seen, again, shift;

	if (!segment)
		return 0;
	seen = arriving ? PEER_SYN : OWN_SYN;
	if (segment->scales)
		seen |= arriving ? PEER_SCALES : OWN_SCALES;
	if (segment->selective)
		seen |= arriving ? PEER_SACK : OWN_SACK;
	/* Linux 6.1 takes a map's key from the stack, not from an argument. */
	tuple = segment->tuple;
	connection = bpf_map_lookup_elem(&connections, &tuple);
	if (!(segment->flags & TCP_ACK)) {
		if (connection && window_doubts(connection, arriving, now_ns)) {
			connection->again = seen | REPEATED;
			connection->again_shift = segment->shift;
			return 0;
		}
		if (connection && !(connection->handshake & PEER_SYN))
			seen |= REPEATED;
		connection = window_fresh(&tuple, now_ns);
	} else if (connection && connection->again & other) {
		again = connection->again;
		shift = connection->again_shift;
		connection = window_fresh(&tuple, now_ns);
		if (connection) {
			connection->handshake = again;
			connection->shift = shift;
		}
	}
	/* What a side has said once stays. */
	if (!connection ||
	    connection->handshake & (arriving ? PEER_SYN : OWN_SYN))
		return 0;
	connection->handshake |= seen;
	connection->flow.selective =
		window_both(connection, OWN_SACK | PEER_SACK);
	if (arriving && connection->handshake & OWN_SYN &&
	    !(connection->handshake & REPEATED))
		window_answered(&tuple, now_ns - connection->born_ns);
	if (!arriving) {
		connection->shift = segment->shift;
		/* What segments will have at most. */
		if (!connection->flow.mss)
			connection->flow.mss = segment->mss;
	}
	return 1;
}

/* Whose rate a connection shares, by the class of a packet that leaves. Global,
 * so that the verifier looks at the loop by itself. */
__noinline u32 window_slot_of(u32 class)
{
	u32 key = 0;
	struct window_settings *wanted = bpf_map_lookup_elem(&settings, &key);
	u32 i;

	if (!wanted)
		return 0;
	for (i = 0; i < WINDOW_CLASSES; i++) {
		if (i < wanted->class_count &&
		    wanted->classes[i].class == class)
			return i + 1;
	}
	return 0;
}

/* What a packet that leaves says of its connection besides. */
static __always_inline void window_sort(struct __sk_buff *skb,
					const struct window_settings *wanted,
					struct window_connection *connection)
{
	u32 class = skb->priority;
	int spared = wanted->spare_mask &&
		     (skb->mark & wanted->spare_mask) == wanted->spare_mark;

	connection->spared &= ~SPARED_OUT;
	if (spared)
		connection->spared |= SPARED_OUT;
	if (class && class != wanted->ack_class)
		connection->class = class;
	/* Each time, because what is said of classes may have changed. */
	connection->slot = window_slot_of(connection->class);
}

/* Whether nothing is done to a connection: by a mark, or by its class. */
static __always_inline int
window_protected(const struct window_settings *wanted,
		 const struct window_connection *connection)
{
	return connection->spared ||
	       (connection->slot && !window_rate(wanted, connection->slot));
}

/* The largest segment that a new connection asks for; 0: its own. */
static __always_inline u64 window_least(
	const struct window_settings *wanted, const struct window_totals *all,
	const struct window_connection *connection, const struct tuple *tuple,
	u64 now_ns)
{
	u64 least = announced_since(now_ns) ? wanted->announced_segment : 0;
	u64 rate, asked;

	if (!wanted->round_trip_ns)
		return least;
	rate = window_share(wanted, all, connection->slot, 0, WINDOW_ONE);
	if (!rate)
		return least;
	asked = window_asked(wanted, tuple, rate);
	return least ? aqm_min(least, asked) : asked;
}

/* A new connection may ask for small segments. */
static __always_inline void
window_ask_less(struct __sk_buff *skb, const struct window_settings *wanted,
		const struct window_totals *all,
		struct window_connection *connection,
		const struct segment *segment, u64 now_ns)
{
	u32 tcp = tc_network(skb, &segment->at) + segment->at.transport;
	u64 least =
		window_least(wanted, all, connection, &segment->tuple, now_ns);

	if (!least || !segment->mss_at || segment->mss <= least ||
	    window_protected(wanted, connection))
		return;
	if (!tcp_write(skb, tcp, segment->at.transport, segment->mss_at & 63,
		       segment->mss, (u16)least))
		return;
	if (connection->flow.mss > least)
		connection->flow.mss = (u32)least;
}

/* While a session is announced: what comes of an older connection that has
 * received much becomes its reset (RFC 9293 section 3.10.7.4), if it is what
 * the receiver waits for. The sender learns of it from the receiver's answer to
 * what comes then. True if it was written. */
static __always_inline int window_reset(struct __sk_buff *skb,
					const struct window_settings *wanted,
					struct window_connection *connection,
					const struct segment *segment,
					u64 now_ns)
{
	u32 tcp = tc_network(skb, &segment->at) + segment->at.transport;
	u64 since;

	if (!wanted->announced_resets || connection->bytes < RESET_MUCH ||
	    segment->flags & TCP_RST || window_protected(wanted, connection))
		return 0;
	since = announced_since(now_ns);
	if (!since || connection->born_ns >= since ||
	    now_ns - connection->reset_ns < RESET_AGAIN_NS)
		return 0;
	connection->reset_ns = now_ns;
	return tcp_write(skb, tcp, segment->at.transport, 12,
			 (u16)(segment->length << 8 | segment->flags),
			 (u16)(segment->length << 8 | TCP_RST | TCP_ACK));
}

/* Offers another window; returns what stands in the packet then. */
static __always_inline u32 window_field(struct __sk_buff *skb,
					struct window_totals *all,
					const struct segment *segment,
					u32 window, u8 shift)
{
	u32 tcp = tc_network(skb, &segment->at) + segment->at.transport;
	/* Up, so that a segment stays one and nothing is taken back; what the
	 * receiver offers is a multiple itself. */
	u32 field = (window + (1U << shift) - 1) >> shift;

	if (field >= segment->window ||
	    !tcp_write(skb, tcp, segment->at.transport, 14, segment->window,
		       (u16)field))
		return segment->window;
	__sync_fetch_and_add(&all->rewritten, 1);
	return field;
}

/* Before anything came; a SYN's window is not scaled. */
static __always_inline void
window_start(struct __sk_buff *skb, const struct window_settings *wanted,
	     struct window_totals *all, struct window_connection *connection,
	     const struct segment *segment, u8 shift, u64 now_ns)
{
	u32 window =
		window_initial(&wanted->rule, (u32)segment->window << shift);

	if (connection->bytes || window_protected(wanted, connection))
		return;
	/* Shah's algorithms begin with what the receiver offers. */
	if (!wanted->rule.fixed_bytes && !wanted->rule.initial_bytes &&
	    !wanted->rule.limit_bytes)
		return;
	window = window_field(skb, all, segment, window, shift) << shift;
	if (segment->flags & TCP_ACK)
		window_begun(&connection->flow, segment->ack, window, now_ns);
}

/* A packet of a known connection came. */
static __always_inline void
window_came(struct __sk_buff *skb, const struct window_settings *wanted,
	    struct window_totals *all, struct window_connection *connection,
	    const struct segment *segment, u64 now_ns)
{
	u32 mss = skb->gso_size ? skb->gso_size : segment->payload;

	connection->spared &= ~SPARED_IN;
	if (wanted->spare_mask &&
	    (skb->mark & wanted->spare_mask) == wanted->spare_mark)
		connection->spared |= SPARED_IN;
	if (window_reset(skb, wanted, connection, segment, now_ns))
		return;
	if (segment->flags & (TCP_FIN | TCP_RST))
		window_ended(all, connection);
	if (!segment->payload || connection->spared)
		return;
	connection->bytes += segment->payload;
	window_numbered(&connection->flow, segment->first, segment->payload);
	if (!(segment->flags & TCP_FIN))
		window_active(wanted, all, connection, segment->payload,
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

	if (!wanted || !all || !tcp_look(skb, &segment, 1))
		return TC_ACT_UNSPEC;
	if (segment.flags & TCP_SYN) {
		window_handshake(&segment, 1);
		return TC_ACT_UNSPEC;
	}
	connection = bpf_map_lookup_elem(&connections, &segment.tuple);
	if (!connection) {
		__sync_fetch_and_add(&all->unknown, 1);
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

/* A packet of a connection leaves whose handshake was seen. */
static __always_inline void
window_leaves(struct __sk_buff *skb, const struct window_settings *wanted,
	      struct window_totals *all, struct window_connection *connection,
	      const struct segment *segment, u64 now_ns)
{
	u32 offered, window, field;
	u64 rate, held;
	u8 shift = 0;

	window_sort(skb, wanted, connection);
	if (window_both(connection, OWN_SCALES | PEER_SCALES))
		shift = connection->shift & 15;
	/* Where nothing came yet, there is no rate to hold to. */
	if (connection->spared || !connection->bytes) {
		window_start(skb, wanted, all, connection, segment, shift,
			     now_ns);
		return;
	}
	rate = window_share(wanted, all, connection->slot,
			    window_large(connection), 0);
	if (window_protected(wanted, connection) ||
	    (!rate && !wanted->rule.fixed_bytes && !wanted->rule.limit_bytes))
		return;
	offered = (u32)segment->window << shift;
	window_pays(all, connection, segment->ack);
	window = window_offer(&connection->flow, &wanted->rule, rate,
			      segment->ack, offered, now_ns);
	field = window_field(skb, all, segment, window, shift);
	held = window_told(&connection->flow, &wanted->rule, rate, segment->ack,
			   field << shift, now_ns);
	connection->window = field << shift;
	connection->offered = offered;
	/* Only acknowledgements without data of their own wait. */
	if (held && !segment->payload) {
		skb->tstamp = now_ns + held;
		__sync_fetch_and_add(&all->held, 1);
	}
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

	if (!wanted || !all || !tcp_look(skb, &segment, 0))
		return TC_ACT_UNSPEC;
	if (segment.flags & TCP_SYN) {
		window_handshake(&segment, 0);
		connection = bpf_map_lookup_elem(&connections, &segment.tuple);
		if (connection) {
			window_sort(skb, wanted, connection);
			window_ask_less(skb, wanted, all, connection, &segment,
					now);
			window_start(skb, wanted, all, connection, &segment, 0,
				     now);
		}
		return TC_ACT_UNSPEC;
	}
	if (!(segment.flags & TCP_ACK) || segment.flags & TCP_RST)
		return TC_ACT_UNSPEC;
	connection = bpf_map_lookup_elem(&connections, &segment.tuple);
	if (!connection || !window_both(connection, OWN_SYN | PEER_SYN)) {
		__sync_fetch_and_add(&all->unknown, 1);
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
