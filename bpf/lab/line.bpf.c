// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The laboratory's line: emulates a modem, a copper pair and an exchange,
 * between two devices of a separate namespace.
 *
 * A packet that arrives at one device is sent to the other, whose root qdisc is
 * the line in this direction: a queue, a transmitter and a delay. Packets are
 * served first come, first served. A transmission begins exactly when the
 * previous one ends, however late the kernel calls. It takes exactly its bytes
 * at the line's rate; the fraction of a nanosecond is carried over. After its
 * last bit a packet is delayed by a fixed time and by the direction's
 * impairments. On a half-duplex line, only one direction transmits at a time.
 * While both have packets, they alternate after each one. The machine has one
 * CPU then.
 *
 * Every packet is recorded in a ring: its arrival, and what became of it. A
 * record that does not fit is counted and makes the run invalid.
 *
 * It shares nothing with the shapers under test except what the kernel requires
 * of every qdisc. A state machine in user space
 * (crates/guest/src/agent/line/model.rs) verifies it: given the arrivals, it
 * must report the same for each packet.
 */
#include "line/record.h"
#include "line/lots.h"

#define NS_BITS_PER_BYTE 8000000000ULL

/* ATM cells (ITU-T I.361), PTM codewords (IEEE 802.3 clause 61.3.3). */
#define CELL 53
#define CELL_PAYLOAD 48
#define CODEWORD_PAYLOAD 64

/* Returns the bytes of a packet on the line. A started PTM codeword counts its
 * extra byte in full. */
static __always_inline u32 wire_bytes(const struct line_setup *setup,
				      u32 ip_bytes)
{
	s32 framed = (s32)ip_bytes + setup->overhead;

	if (framed < (s32)setup->mpu)
		framed = setup->mpu;
	if (framed < 0)
		framed = 0;
	if (setup->framing == LINE_ATM)
		return ((u32)framed + CELL_PAYLOAD - 1) / CELL_PAYLOAD * CELL;
	if (setup->framing == LINE_PTM)
		return framed +
		       ((u32)framed + CODEWORD_PAYLOAD - 1) / CODEWORD_PAYLOAD;
	return framed;
}

/* Finds the rate for a transmission that begins now. The beginning is deferred
 * while the rate is 0. */
static __always_inline void follow_rate(u32 direction,
					const struct line_setup *setup,
					struct line_state *state)
{
	u64 begins_ns = state->end_ns + !!state->fraction;
	u64 rate = state->rate;
	u32 i, later = 0;

	bpf_for (i, 0, rates_each) {
		u32 key = direction * rates_each + state->step;
		struct line_rate *next;

		if (state->step >= setup->steps)
			break;
		next = bpf_map_lookup_elem(&rates, &key);
		if (!next)
			break;
		if (next->after_ns >= begins_ns) {
			if (rate)
				break;
			begins_ns = next->after_ns + 1;
			later = 1;
		}
		rate = next->bits_per_second;
		state->more_ns = next->more_ns;
		state->step++;
	}
	if (rate == state->rate && !later)
		return;
	/* The fraction is in units of the previous rate. */
	state->rate = rate;
	state->end_ns = begins_ns;
	state->fraction = 0;
}

/* Decides when and whether a packet arrives, after its last bit. */
static __always_inline void travel(const struct line_setup *setup,
				   struct line_state *state,
				   struct line_packet *packet)
{
	u32 number = packet->number;
	u64 due_ns = packet->end_ns;

	if (setup->bursts_ns) {
		u64 since_ns = due_ns - zero_ns();
		u64 into_ns = since_ns % setup->bursts_ns;

		if (into_ns)
			due_ns += setup->bursts_ns - into_ns;
	}
	due_ns += setup->delay_ns + state->more_ns;
	due_ns += lot(setup, number, LOT_JITTER) * setup->jitter_ns >> 32;
	if (due_ns < state->in_order_ns)
		due_ns = state->in_order_ns;
	packet->lost = lot(setup, number, LOT_LOSS) * MILLION >> 32 <
		       setup->loss;
	packet->late = lot(setup, number, LOT_REORDERING) * MILLION >> 32 <
		       setup->reordered;
	if (packet->late)
		due_ns += setup->late_ns;
	else
		state->in_order_ns = due_ns;
	packet->due_ns = due_ns;
}

/* Transmits the oldest waiting packet, from `end_ns` and its fraction on. */
static __always_inline void begin(u32 direction, const struct line_setup *setup,
				  struct line_state *state)
{
	struct line_packet *packet = slot_of(direction, state->begun);
	u64 parts, whole;

	if (!packet)
		return;
	follow_rate(direction, setup, state);
	if (!state->rate)
		return;
	packet->start_ns = state->end_ns + !!state->fraction;
	parts = (u64)packet->wire_bytes * NS_BITS_PER_BYTE + state->fraction;
	whole = parts / state->rate;
	state->fraction = parts - whole * state->rate;
	state->end_ns += whole;
	packet->end_ns = state->end_ns + !!state->fraction;
	travel(setup, state, packet);
	state->sending = 1;
	state->sending_bytes = packet->ip_bytes;
	state->begun++;
}

/* Returns the oldest waiting packet, or NULL. */
static __always_inline struct line_packet *oldest(u32 direction,
						  struct line_state *state)
{
	return state->begun == state->came ? NULL :
					     slot_of(direction, state->begun);
}

static __always_inline void waits_no_more(struct line_state *state,
					  const struct line_packet *packet)
{
	state->waiting--;
	state->waiting_bytes -= packet->ip_bytes;
}

/* Transmits the oldest waiting packet from now on. Returns 0 if there is
 * none. */
static __noinline int begin_next(u32 direction, u64 now)
{
	struct line_setup *setup = bpf_map_lookup_elem(&setups, &direction);
	struct line_state *state = bpf_map_lookup_elem(&states, &direction);
	struct line_packet *packet;

	if (!setup || !state)
		return 0;
	packet = oldest(direction, state);
	if (!packet)
		return 0;
	waits_no_more(state, packet);
	state->end_ns = now;
	state->fraction = 0;
	begin(direction, setup, state);
	return 1;
}

/* Returns when the transmission of a direction ends; 0: there is none. */
static __always_inline u64 ends_ns(u32 direction)
{
	struct line_state *state = bpf_map_lookup_elem(&states, &direction);

	if (!state || !state->sending)
		return 0;
	return state->end_ns + !!state->fraction;
}

/* Like advance(), for both directions of a half-duplex line. */
static __always_inline void advance_both(u64 now)
{
	struct line_state *state;
	u64 end;
	u32 i, key;

	bpf_for (i, 0, DIRECTIONS * room) {
		key = !ends_ns(0);
		end = ends_ns(key);
		if (!end || end > now)
			return;
		state = bpf_map_lookup_elem(&states, &key);
		if (!state)
			return;
		state->sending = 0;
		if (!begin_next(!key, end))
			begin_next(key, end);
	}
}

/* Ends the transmissions that are over by now, and begins those that
 * followed. */
static __always_inline void advance(u32 direction,
				    const struct line_setup *setup,
				    struct line_state *state, u64 now)
{
	struct line_packet *packet;
	u32 i;

	if (half_duplex) {
		advance_both(now);
		return;
	}
	bpf_for (i, 0, room) {
		if (!state->sending || state->end_ns + !!state->fraction > now)
			return;
		state->sending = 0;
		packet = oldest(direction, state);
		if (!packet)
			return;
		waits_no_more(state, packet);
		begin(direction, setup, state);
	}
}

/* Whether an arriving packet has to wait. */
static __always_inline int is_busy(u32 direction,
				   const struct line_state *state)
{
	return state->sending || (half_duplex && ends_ns(!direction));
}

static __always_inline int fits(const struct line_setup *setup, u32 ip_bytes,
				u32 waiting, u64 waiting_bytes)
{
	if (setup->in_bytes)
		return waiting_bytes + ip_bytes <= setup->limit;
	return waiting < setup->limit;
}

/* Drops the oldest waiting packets until a new one fits, if it can fit at
 * all. */
static __always_inline void drop_front(u32 direction,
				       const struct line_setup *setup,
				       struct line_state *state,
				       struct Qdisc *sch, u32 ip_bytes,
				       struct bpf_sk_buff_ptr *to_free)
{
	struct line_packet *packet;
	struct sk_buff *skb;
	u32 i;

	if (!fits(setup, ip_bytes, 0, 0))
		return;
	bpf_for (i, 0, room) {
		if (fits(setup, ip_bytes, state->waiting, state->waiting_bytes))
			return;
		packet = oldest(direction, state);
		if (!packet)
			return;
		waits_no_more(state, packet);
		record_drop(direction, packet->number);
		sch->q.qlen--;
		sch->qstats.backlog -= packet->len;
		sch->qstats.drops++;
		packet->len = 0;
		state->begun++;
		skb = bpf_kptr_xchg(&packet->skb, NULL);
		if (skb)
			bpf_qdisc_skb_drop(skb, to_free);
	}
}

SEC("struct_ops")
int BPF_PROG(line_enqueue, struct sk_buff *skb, struct Qdisc *sch,
	     struct bpf_sk_buff_ptr *to_free)
{
	u32 direction = sch->limit;
	struct line_setup *setup = bpf_map_lookup_elem(&setups, &direction);
	struct line_state *state = bpf_map_lookup_elem(&states, &direction);
	struct line_packet *packet;
	u32 ip_bytes, number, wire, busy;
	struct sk_buff *old;
	u64 now;

	if (!setup || !state || !is_running())
		goto drop;
	now = bpf_ktime_get_ns();
	advance(direction, setup, state, now);
	ip_bytes = ((struct qdisc_skb_cb *)skb->cb)->pkt_len - ETH_HLEN;
	wire = wire_bytes(setup, ip_bytes);
	record_arrival(skb, direction, state, now, wire);
	number = state->arrivals++;
	busy = is_busy(direction, state);
	if (busy) {
		if (setup->drop_front)
			drop_front(direction, setup, state, sch, ip_bytes,
				   to_free);
		if (!fits(setup, ip_bytes, state->waiting,
			  state->waiting_bytes)) {
			record_drop(direction, number);
			goto drop;
		}
	}
	packet = slot_of(direction, state->came);
	if (!packet || state->came - state->left >= room) {
		count_unplaced();
		goto drop;
	}
	packet->number = number;
	packet->len = ip_bytes + ETH_HLEN;
	packet->ip_bytes = ip_bytes;
	packet->wire_bytes = wire;
	old = bpf_kptr_xchg(&packet->skb, skb);
	if (old)
		bpf_qdisc_skb_drop(old, to_free);
	state->came++;
	sch->q.qlen++;
	sch->qstats.backlog += ip_bytes + ETH_HLEN;
	if (busy) {
		state->waiting++;
		state->waiting_bytes += ip_bytes;
	} else {
		state->end_ns = now;
		state->fraction = 0;
		begin(direction, setup, state);
	}
	return NET_XMIT_SUCCESS;
drop:
	sch->qstats.drops++;
	bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_DROP;
}

SEC("struct_ops")
struct sk_buff *BPF_PROG(line_dequeue, struct Qdisc *sch)
{
	u32 direction = sch->limit;
	struct line_setup *setup = bpf_map_lookup_elem(&setups, &direction);
	struct line_state *state = bpf_map_lookup_elem(&states, &direction);
	struct line_packet *packet;
	struct line_sent sent = {
		.head.direction = direction,
	};
	u64 now, end, next = 0;
	struct sk_buff *skb;
	u32 i, cursor;

	if (!setup || !state || !sch->q.qlen)
		return NULL;
	now = bpf_ktime_get_ns();
	advance(direction, setup, state, now);
	cursor = state->left;
	bpf_for (i, 0, room) {
		if (cursor == state->begun)
			break;
		packet = slot_of(direction, cursor);
		if (!packet)
			return NULL;
		if (packet->len && packet->due_ns > now) {
			if (!next || packet->due_ns < next)
				next = packet->due_ns;
			if (!packet->late)
				break;
			cursor++;
			continue;
		}
		if (cursor == state->left)
			state->left++;
		cursor++;
		skb = bpf_kptr_xchg(&packet->skb, NULL);
		if (!skb)
			continue;
		sch->q.qlen--;
		sch->qstats.backlog -= packet->len;
		packet->len = 0;
		sent.head.event = packet->lost ? LINE_LOST : LINE_SENT;
		sent.head.number = packet->number;
		sent.start_ns = packet->start_ns;
		sent.end_ns = packet->end_ns;
		sent.left_ns = now;
		record(&sent, sizeof(sent));
		if (packet->lost) {
			bpf_kfree_skb(skb);
			continue;
		}
		bpf_qdisc_bstats_update(sch, skb);
		return skb;
	}
	/* Nothing in order is in transit: the packet that begins when a
	 * transmission ends may arrive first. */
	if (state->waiting && cursor == state->begun) {
		end = ends_ns(direction);
		if (!end && half_duplex)
			end = ends_ns(!direction);
		if (end && (!next || end < next))
			next = end;
	}
	if (next)
		bpf_qdisc_watchdog_schedule(sch, next, 0);
	return NULL;
}

/* The device determines the direction. */
SEC("struct_ops")
int BPF_PROG(line_init, struct Qdisc *sch, struct nlattr *arg,
	     struct netlink_ext_ack *extack)
{
	u32 direction;

	bpf_for (direction, 0, DIRECTIONS) {
		u32 key = direction;
		struct line_setup *setup = bpf_map_lookup_elem(&setups, &key);

		if (setup && setup->to == sch->dev_queue->dev->ifindex) {
			sch->limit = key;
			return 0;
		}
	}
	return -ENODEV;
}

SEC("struct_ops")
void BPF_PROG(line_reset, struct Qdisc *sch)
{
	u32 direction = sch->limit;
	struct line_state *state = bpf_map_lookup_elem(&states, &direction);
	struct line_packet *packet;
	struct sk_buff *skb;
	u32 i;

	if (!state)
		return;
	bpf_for (i, 0, room) {
		packet = slot_of(direction, i);
		if (!packet)
			break;
		skb = bpf_kptr_xchg(&packet->skb, NULL);
		if (skb)
			bpf_kfree_skb(skb);
	}
	state->left = state->begun = state->came;
	state->waiting = 0;
	state->waiting_bytes = 0;
	state->sending = 0;
}

SEC("struct_ops")
void BPF_PROG(line_destroy, struct Qdisc *sch)
{
}

/* Sends each packet that arrives at either device across the line. */
SEC("tc")
int line_cross(struct __sk_buff *skb)
{
	u32 direction;

	if (!is_running())
		return TC_ACT_SHOT;
	bpf_for (direction, 0, DIRECTIONS) {
		u32 key = direction;
		struct line_setup *setup = bpf_map_lookup_elem(&setups, &key);

		if (setup && setup->from == skb->ifindex) {
			/* Clear the hash set by the sender's socket: a packet
			 * from a wire has none. */
			bpf_set_hash_invalid(skb);
			return bpf_redirect(setup->to, 0);
		}
	}
	return TC_ACT_SHOT;
}

char _license[] SEC("license") = "Dual BSD/GPL";

SEC(".struct_ops.link")
struct Qdisc_ops qdisc = {
	.id = "weir_lab_line",
	.enqueue = (void *)line_enqueue,
	.dequeue = (void *)line_dequeue,
	.init = (void *)line_init,
	.reset = (void *)line_reset,
	.destroy = (void *)line_destroy,
};
