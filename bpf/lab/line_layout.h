/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The laboratory's line (line.bpf.c): how it is set up, and what it records. User
 * space has the same types, generated from this file. */
#ifndef LINE_LAYOUT_H
#define LINE_LAYOUT_H

#include "kernel.h"

/* Bytes of a frame that are recorded: room for the headers of Ethernet (14),
 * IPv6 (40) and TCP with all options (60), and for a stamp in a datagram. */
#define LINE_HEAD_BYTES 128

enum line_framing { LINE_PLAIN, LINE_ATM, LINE_PTM };

/* One direction. */
struct line_setup {
	__u64 delay_ns; /* after the last bit */
	__u32 from; /* the device where its packets arrive */
	__u32 to; /* the device whose root qdisc is its queue */
	__u32 limit; /* of what waits: packets, or bytes of IP */
	__u32 in_bytes;
	__u32 drop_front; /* what is dropped is the oldest that waits */
	__u32 framing;
	__s32 overhead; /* bytes that the line adds to a packet of IP */
	__u32 mpu;
	__u32 steps; /* rates that it has, one after the other */
	__u32 loss; /* of a million packets */
	__u32 reordered; /* of a million */
	__u32 pad;
	__u64 lots; /* what lots are drawn by */
	/* Nanoseconds, of 32 bits: */
	__u64 jitter_ns; /* up to how much longer a packet takes */
	__u64 late_ns; /* how much later one is that is reordered */
	__u64 bursts_ns; /* what is transmitted in each arrives at its end; 0 for
			    as it is transmitted */
};

/* How much there is room for in each direction. */
struct line_constants {
	__u32 room; /* packets on the line */
	__u32 rates;
	__u32 half_duplex; /* one direction transmits at a time */
	__u32 pad;
};

struct line_control {
	__u64 lost; /* records that found no room in the ring, and packets that
		       found no slot */
	__u64 zero_ns; /* when the run began */
	__u32 running; /* while it is 0, what arrives is dropped unrecorded */
	__u32 pad;
};

/* What holds for transmissions that begin after a time. While the rate is 0 none begins;
 * the last rate is not. */
struct line_rate {
	__u64 after_ns;
	__u64 bits_per_second;
	__u64 more_ns; /* beside the direction's delay; of 32 bits */
};

enum line_event { LINE_ARRIVED, LINE_DROPPED, LINE_SENT, LINE_LOST };

/* What every record begins with. */
struct line_head {
	__u32 event;
	__u32 direction;
	__u32 number; /* the packet's, from 0 in each direction */
	__u32 pad;
};

/* LINE_ARRIVED. */
struct line_arrival {
	struct line_head head;
	__u64 at_ns;
	__u32 ip_bytes;
	__u32 wire_bytes;
	__u32 ahead_packets; /* that wait or are in transmission */
	__u32 ahead_bytes; /* theirs, of IP */
	__u8 frame[LINE_HEAD_BYTES];
};

/* LINE_SENT, when the packet is handed over at the other end, or LINE_LOST, when it
 * would have been. LINE_DROPPED is a head alone. */
struct line_sent {
	struct line_head head;
	__u64 start_ns; /* first bit */
	__u64 end_ns; /* last bit, rounded up */
	__u64 left_ns;
};

#endif
