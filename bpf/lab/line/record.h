/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of line.bpf.c, which describe the packets on the laboratory's line,
 * and the records that it writes to the ring. */
#ifndef LINE_RECORD_H
#define LINE_RECORD_H

#include "tc.h"
#include "layout.h"

#define DIRECTIONS 2

struct line_packet {
	struct sk_buff __kptr *skb; /* NULL: it was dropped at the head */
	u64 start_ns;
	u64 end_ns;
	u64 due_ns; /* time of arrival at the other end */
	u32 number;
	u32 len; /* as the kernel counts it; 0: it has left */
	u32 ip_bytes;
	u32 wire_bytes;
	u32 lost; /* lost in transit */
	u32 late; /* later packets may overtake it */
};

/*
 * Packets of a direction are in a ring of slots, counted from the first packet
 * ever. Those before `left` are gone. Those before `begun` are in transit, and
 * the last of them may be in transmission. Those before `came` wait.
 */
struct line_state {
	u64 rate; /* bit/s */
	u64 end_ns; /* end of the transmission */
	u64 fraction; /* additional fraction of a ns, in units of 1 / rate */
	u64 more_ns; /* in addition to the direction's delay */
	u64 in_order_ns; /* when the last packet in order arrives */
	u64 waiting_bytes; /* bytes of IP */
	u32 waiting; /* packets */
	u32 sending; /* whether the last one begun is in transmission */
	u32 sending_bytes;
	u32 left;
	u32 begun;
	u32 came;
	u32 arrivals;
	u32 step;
};

const volatile struct line_constants constants;

#define room constants.room
#define rates_each constants.rates
#define half_duplex constants.half_duplex

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct line_control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DIRECTIONS);
	__type(key, u32);
	__type(value, struct line_setup);
} setups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DIRECTIONS);
	__type(key, u32);
	__type(value, struct line_rate);
} rates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DIRECTIONS);
	__type(key, u32);
	__type(value, struct line_state);
} states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DIRECTIONS);
	__type(key, u32);
	__type(value, struct line_packet);
} packets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} records SEC(".maps");

static __always_inline struct line_packet *slot_of(u32 direction, u32 count)
{
	u32 key;

	if (!room)
		return NULL;
	key = direction * room + count % room;
	return bpf_map_lookup_elem(&packets, &key);
}

static __always_inline void count_lost(void)
{
	u32 key = 0;
	struct line_control *own = bpf_map_lookup_elem(&control, &key);

	if (own)
		__sync_fetch_and_add(&own->lost, 1);
}

static __always_inline void count_unplaced(void)
{
	u32 key = 0;
	struct line_control *own = bpf_map_lookup_elem(&control, &key);

	if (own)
		__sync_fetch_and_add(&own->unplaced, 1);
}

/* Returns when the run began. */
static __always_inline u64 zero_ns(void)
{
	u32 key = 0;
	struct line_control *own = bpf_map_lookup_elem(&control, &key);

	return own ? own->zero_ns : 0;
}

static __always_inline int is_running(void)
{
	u32 key = 0;
	struct line_control *own = bpf_map_lookup_elem(&control, &key);

	return own && own->running;
}

static __always_inline void record(void *what, u32 bytes)
{
	if (bpf_ringbuf_output(&records, what, bytes, BPF_RB_NO_WAKEUP))
		count_lost();
}

static __always_inline void record_drop(u32 direction, u32 number)
{
	struct line_head head = {
		.event = LINE_DROPPED,
		.direction = direction,
		.number = number,
	};

	record(&head, sizeof(head));
}

static __noinline int record_arrival(struct sk_buff *skb, u32 direction,
				     struct line_state *state, u64 now,
				     u32 wire)
{
	u32 bytes = ((struct qdisc_skb_cb *)skb->cb)->pkt_len;
	struct line_arrival *arrival;

	arrival = bpf_ringbuf_reserve(&records, sizeof(*arrival), 0);
	if (!arrival) {
		count_lost();
		return 0;
	}
	arrival->head.event = LINE_ARRIVED;
	arrival->head.direction = direction;
	arrival->head.number = state->arrivals;
	arrival->head.pad = 0;
	arrival->at_ns = now;
	arrival->ip_bytes = bytes - ETH_HLEN;
	arrival->wire_bytes = wire;
	arrival->ahead_packets = state->waiting + state->sending;
	arrival->ahead_bytes = state->waiting_bytes +
			       (state->sending ? state->sending_bytes : 0);
	/* The frame is linear: its device accepts no others. */
	if (bytes > LINE_HEAD_BYTES)
		bytes = LINE_HEAD_BYTES;
	bpf_probe_read_kernel(arrival->frame, bytes, skb->data);
	bpf_ringbuf_submit(arrival, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
