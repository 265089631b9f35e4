// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Receive-window control (aqm/include/window.h) at a device's clsact qdisc: one
 * program sees data arrive, the other rewrites the window of what leaves. Both
 * share a map of connections, of which the kernel forgets the one that was
 * silent for longest when it is full.
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
 * ones may be reset (announced.h).
 *
 * Nothing is ever dropped, held back only where a qdisc heeds the time that a
 * packet is to leave at (fq), and written only to where a whole TCP header is.
 */
#include "tc.h"
#include "aqm.h"
#include "window.h"
#include "announced.h"

/* TCP's flags, and the options that are read (RFC 9293, RFC 7323). */
enum {
	TCP_FIN = 1,
	TCP_SYN = 2,
	TCP_RST = 4,
	TCP_ACK = 16,
};
enum {
	OPTION_END = 0,
	OPTION_NOTHING = 1,
	OPTION_MSS = 2,
	OPTION_SCALE = 3,
};
#define TCP_HEADER 20
#define OPTIONS_MOST 40
#define SCALE_MOST 14

#define CONNECTIONS 16384

/* Classes that may have a rate of their own, and slots in all: the first is of
 * those that have none. */
#define WINDOW_CLASSES 15
#define WINDOW_SLOTS 16

struct window_class {
	u32 class; /* as in skb->priority */
	u32 pad;
	u64 rate_bytes_s; /* of payload, its connections together; 0: no limit */
};

struct window_settings {
	struct window_rule rule;
	u64 rate_bytes_s; /* of payload, all of other classes; 0: no limit */
	u32 spare_mask; /* who has this mark is not limited */
	u32 spare_mark;
	u32 ack_class; /* what is in it does not tell a connection's class */
	u32 class_count;
	u32 announced_segment; /* what new connections ask for while a session
				* is announced; 0: as ever */
	u32 announced_resets; /* old ones are reset then */
	struct window_class classes[WINDOW_CLASSES];
};

enum {
	OWN_SYN = 1, /* the side here has said how it scales */
	OWN_SCALES = 2,
	PEER_SYN = 4,
	PEER_SCALES = 8,
};

enum {
	SPARED_IN = 1, /* by the mark of what came */
	SPARED_OUT = 2, /* by the mark of what left */
};

struct window_connection {
	struct window_flow flow;
	u64 epoch; /* the last second in which data came */
	u64 part; /* of its share that it had then, in WINDOW_ONE */
	u64 bytes; /* of data that came */
	u32 window; /* last offered, bytes */
	u32 offered; /* what the receiver itself offered then */
	u8 shift;
	u8 handshake; /* what was seen of it */
	u8 spared;
	u8 slot; /* whose rate it shares */
	u32 class; /* what it was found by */
	u64 born_ns;
	u64 reset_ns; /* when it was last attempted */
};

/* A whole share, and the most that a connection counts for. */
#define WINDOW_ONE 65536
#define WINDOW_MOST (2 * WINDOW_ONE)

/* Who has sent less is a mouse (Braithwaite 2006, section 5.3). */
#define WINDOW_MUCH 20000

/*
 * A connection counts for as much as it used of its share, so that what those
 * leave who send little goes to the others: shares grow until all together
 * have their rate.
 */
struct window_slot {
	u64 epoch; /* which second it is */
	u64 active; /* shares used in the last whole second, in WINDOW_ONE */
	u64 active_now; /* in this one */
};

struct window_totals {
	struct window_slot slots[WINDOW_SLOTS];
	u64 rewritten; /* packets whose window was changed */
	u64 held; /* packets given a later time to leave */
	u64 unknown; /* packets of connections whose handshake was not seen */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct window_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct window_totals);
} totals SEC(".maps");

/* By the tuple of what leaves. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CONNECTIONS);
	__type(key, struct tuple);
	__type(value, struct window_connection);
} connections SEC(".maps");

/* A new connection, too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct window_connection);
} blank SEC(".maps");

/* What a segment says. */
struct segment {
	struct tuple tuple; /* as of what leaves */
	struct layout at;
	u32 first; /* number of the first byte of payload */
	u32 ack;
	u32 payload;
	u32 header; /* of TCP, with its options */
	u16 window;
	u16 mss; /* by its option; 0: none */
	u16 mss_at; /* where that is in the header */
	u8 flags;
	u8 scales; /* it has the option */
	u8 shift;
	u8 length; /* the header's byte before the flags */
};

static __always_inline u32 window_word(const u8 *bytes)
{
	return (u32)bytes[0] << 24 | (u32)bytes[1] << 16 | (u32)bytes[2] << 8 |
	       bytes[3];
}

/* Reads the options of a SYN, as far as they are whole. */
static __always_inline void window_options(struct __sk_buff *skb,
					   struct segment *segment)
{
	u32 from = segment->at.transport + TCP_HEADER;
	u32 end = segment->at.transport + segment->header;
	u8 option[4];
	u32 i;

	for (i = 0; i < OPTIONS_MOST; i++) {
		if (from >= end || tc_load(skb, from, option, 1))
			break;
		if (option[0] == OPTION_END)
			break;
		if (option[0] == OPTION_NOTHING) {
			from++;
			continue;
		}
		if (from + 2 > end || tc_load(skb, from, option, 2) ||
		    option[1] < 2 || from + option[1] > end)
			break;
		if (option[0] == OPTION_MSS && option[1] == 4 &&
		    !tc_load(skb, from, option, 4)) {
			segment->mss = (u16)tc_short(option + 2);
			segment->mss_at =
				(u16)(from + 2 - segment->at.transport);
		}
		if (option[0] == OPTION_SCALE && option[1] == 3 &&
		    !tc_load(skb, from, option, 3)) {
			segment->scales = 1;
			segment->shift = option[2] > SCALE_MOST ? SCALE_MOST :
								  option[2];
		}
		from += option[1];
	}
}

/* Whether the packet is a whole segment; `arriving` turns its ends round.
 * Global, so that the verifier looks at it by itself. */
__noinline u32 window_look(struct __sk_buff *skb, struct segment *segment,
			   u32 arriving)
{
	struct layout at = {};
	struct tuple tuple = {};
	u8 header[TCP_HEADER];

	if (!segment || !tc_tuple(skb, &tuple, &at) || !at.whole ||
	    tuple.protocol != IPPROTO_TCP ||
	    tc_load(skb, at.transport, header, sizeof(header)))
		return 0;
	segment->header = (header[12] >> 4) * 4;
	if (segment->header < TCP_HEADER ||
	    at.transport + segment->header > at.end)
		return 0;
	segment->payload = at.end - at.transport - segment->header;
	segment->length = header[12];
	segment->flags = header[13];
	segment->first = window_word(header + 4);
	segment->ack = window_word(header + 8);
	segment->window = (u16)tc_short(header + 14);
	segment->at = at;
	segment->tuple = tuple;
	if (arriving) {
		__builtin_memcpy(segment->tuple.address[0], tuple.address[1],
				 16);
		__builtin_memcpy(segment->tuple.address[1], tuple.address[0],
				 16);
		segment->tuple.ports[0] = tuple.ports[1];
		segment->tuple.ports[1] = tuple.ports[0];
	}
	if (segment->flags & TCP_SYN)
		window_options(skb, segment);
	return 1;
}

/* Notes a SYN of either side. */
__noinline u32 window_handshake(struct segment *segment, u32 arriving)
{
	struct window_connection *connection;
	struct tuple tuple;
	u32 key = 0;
	u8 seen;

	if (!segment)
		return 0;
	/* Linux 6.1 takes a map's key from the stack, not from an argument. */
	tuple = segment->tuple;
	/* The first SYN of a connection: the ports may have been another's. */
	if (!(segment->flags & TCP_ACK)) {
		connection = bpf_map_lookup_elem(&blank, &key);
		if (!connection)
			return 0;
		bpf_map_update_elem(&connections, &tuple, connection, BPF_ANY);
	}
	connection = bpf_map_lookup_elem(&connections, &tuple);
	if (!connection)
		return 0;
	if (!(segment->flags & TCP_ACK))
		connection->born_ns = bpf_ktime_get_ns();
	seen = arriving ? PEER_SYN : OWN_SYN;
	if (segment->scales)
		seen |= arriving ? PEER_SCALES : OWN_SCALES;
	connection->handshake |= seen;
	if (!arriving) {
		connection->shift = segment->shift;
		/* What segments will have at most. */
		if (!connection->flow.mss)
			connection->flow.mss = segment->mss;
	}
	return 1;
}

/* What all connections of a slot may have. */
static __always_inline u64 window_rate(const struct window_settings *wanted,
				       u32 slot)
{
	u32 at = slot - 1;

	if (!slot || at >= WINDOW_CLASSES || at >= wanted->class_count)
		return wanted->rate_bytes_s;
	return wanted->classes[at].rate_bytes_s;
}

/* What each of them may have. */
static __always_inline u64 window_share(const struct window_settings *wanted,
					const struct window_totals *all,
					u32 number)
{
	const struct window_slot *slot =
		&all->slots[number & (WINDOW_SLOTS - 1)];

	u64 used = aqm_max(slot->active, slot->active_now);
	u64 rate = window_rate(wanted, number);

	/* A rate has at most 2^37 bytes a second, so that this fits. However many
	 * share it, none of them is without a limit, which is what 0 says. */
	return rate ? aqm_max(rate * WINDOW_ONE / aqm_max(used, WINDOW_ONE),
			      1) :
		      0;
}

/* Counts by the second, as aqm/include/flows.h counts flows. */
static __always_inline void window_active(const struct window_settings *wanted,
					  struct window_totals *all,
					  struct window_connection *connection,
					  u32 bytes, u64 now_ns)
{
	struct window_slot *slot =
		&all->slots[connection->slot & (WINDOW_SLOTS - 1)];
	u64 epoch = (now_ns >> 30) + 1;
	u64 share, part;
	int whole;

	if (slot->epoch != epoch) {
		slot->active = epoch == slot->epoch + 1 ? slot->active_now : 0;
		slot->active_now = 0;
		slot->epoch = epoch;
	}
	share = aqm_bytes_in(window_share(wanted, all, connection->slot),
			     1ULL << 30);
	/* Who turns out to send much, or does so again, is counted at once. */
	whole = connection->bytes >= WINDOW_MUCH &&
		(connection->bytes - bytes < WINDOW_MUCH ||
		 connection->epoch + 1 < epoch);
	if (connection->epoch != epoch) {
		connection->epoch = epoch;
		connection->part = 0;
	}
	part = (u64)bytes * WINDOW_ONE / aqm_max(share, 1);
	part = aqm_min(part,
		       WINDOW_MOST - aqm_min(connection->part, WINDOW_MOST));
	if (whole && connection->part + part < WINDOW_ONE)
		part = WINDOW_ONE - connection->part;
	connection->part += part;
	__sync_fetch_and_add(&slot->active_now, part);
}

/* A connection that has ended needs no part any more, also not of this second's
 * that it had: what was one page would be kept free for up to two. */
static __always_inline void window_ended(struct window_totals *all,
					 struct window_connection *connection)
{
	struct window_slot *slot =
		&all->slots[connection->slot & (WINDOW_SLOTS - 1)];

	if (connection->epoch != slot->epoch ||
	    slot->active_now < connection->part)
		return;
	__sync_fetch_and_add(&slot->active_now, -connection->part);
	connection->part = 0;
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

/* Where the network's header begins, if the packet ends where it says. */
static __always_inline u32 window_network(struct __sk_buff *skb,
					  const struct segment *segment)
{
	return skb->len > segment->at.end ? skb->len - segment->at.end : 0;
}

/* Whether nothing is done to a connection: by a mark, or by its class. */
static __always_inline int
window_protected(const struct window_settings *wanted,
		 const struct window_connection *connection)
{
	return connection->spared ||
	       (connection->slot && !window_rate(wanted, connection->slot));
}

/* While a session is announced: a new connection asks for small segments. */
static __always_inline void
window_ask_less(struct __sk_buff *skb, const struct window_settings *wanted,
		struct window_connection *connection,
		const struct segment *segment, u64 now_ns)
{
	u32 tcp = window_network(skb, segment) + segment->at.transport;
	u32 least = wanted->announced_segment;

	if (!least || !segment->mss_at || segment->mss <= least ||
	    window_protected(wanted, connection) || !announced_since(now_ns))
		return;
	if (!tcp_write(skb, tcp, segment->at.transport, segment->mss_at & 63,
		       segment->mss, (u16)least))
		return;
	if (connection->flow.mss > least)
		connection->flow.mss = least;
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
	u32 tcp = window_network(skb, segment) + segment->at.transport;
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
	u32 tcp = window_network(skb, segment) + segment->at.transport;
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

SEC("tc")
int window_in(struct __sk_buff *skb)
{
	u32 key = 0;
	struct window_settings *wanted = bpf_map_lookup_elem(&settings, &key);
	struct window_totals *all = bpf_map_lookup_elem(&totals, &key);
	struct window_connection *connection;
	struct segment segment = {};
	u64 now = bpf_ktime_get_ns();
	u32 mss;

	if (!wanted || !all || !window_look(skb, &segment, 1))
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
	connection->spared &= ~SPARED_IN;
	if (wanted->spare_mask &&
	    (skb->mark & wanted->spare_mask) == wanted->spare_mark)
		connection->spared |= SPARED_IN;
	if (window_reset(skb, wanted, connection, &segment, now))
		return TC_ACT_UNSPEC;
	if (segment.flags & (TCP_FIN | TCP_RST))
		window_ended(all, connection);
	if (!segment.payload || connection->spared)
		return TC_ACT_UNSPEC;
	mss = skb->gso_size ? skb->gso_size : segment.payload;
	connection->bytes += segment.payload;
	window_numbered(&connection->flow, segment.first, segment.payload);
	if (!(segment.flags & TCP_FIN))
		window_active(wanted, all, connection, segment.payload, now);
	window_arrived(&connection->flow, &wanted->rule, segment.payload, mss,
		       now);
	return TC_ACT_UNSPEC;
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
	u32 offered, window, field;
	u64 rate, held;
	u8 shift;

	if (!wanted || !all || !window_look(skb, &segment, 0))
		return TC_ACT_UNSPEC;
	if (segment.flags & TCP_SYN) {
		window_handshake(&segment, 0);
		connection = bpf_map_lookup_elem(&connections, &segment.tuple);
		if (connection) {
			window_sort(skb, wanted, connection);
			window_ask_less(skb, wanted, connection, &segment, now);
			window_start(skb, wanted, all, connection, &segment, 0,
				     now);
		}
		return TC_ACT_UNSPEC;
	}
	if (!(segment.flags & TCP_ACK) || segment.flags & TCP_RST)
		return TC_ACT_UNSPEC;
	connection = bpf_map_lookup_elem(&connections, &segment.tuple);
	if (connection)
		window_sort(skb, wanted, connection);
	if (!connection || (connection->handshake & (OWN_SYN | PEER_SYN)) !=
				   (OWN_SYN | PEER_SYN)) {
		__sync_fetch_and_add(&all->unknown, 1);
		return TC_ACT_UNSPEC;
	}
	shift = 0;
	if ((connection->handshake & (OWN_SCALES | PEER_SCALES)) ==
	    (OWN_SCALES | PEER_SCALES))
		shift = connection->shift & 15;
	/* Where nothing came yet, there is no rate to hold to. */
	if (connection->spared || !connection->bytes) {
		window_start(skb, wanted, all, connection, &segment, shift,
			     now);
		return TC_ACT_UNSPEC;
	}
	rate = window_share(wanted, all, connection->slot);
	if (window_protected(wanted, connection) ||
	    (!rate && !wanted->rule.fixed_bytes && !wanted->rule.limit_bytes))
		return TC_ACT_UNSPEC;
	offered = (u32)segment.window << shift;
	window = window_offer(&connection->flow, &wanted->rule, rate,
			      segment.ack, offered, now);
	field = window_field(skb, all, &segment, window, shift);
	held = window_told(&connection->flow, &wanted->rule, rate, segment.ack,
			   field << shift, now);
	connection->window = field << shift;
	connection->offered = offered;
	/* Only acknowledgements without data of their own wait. */
	if (held && !segment.payload) {
		skb->tstamp = now + held;
		__sync_fetch_and_add(&all->held, 1);
	}
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual BSD/GPL";
