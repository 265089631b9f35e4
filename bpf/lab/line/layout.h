/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Settings and records of the laboratory's line (line.bpf.c). The types of user
 * space are generated from this file. */
#ifndef LINE_LAYOUT_H
#define LINE_LAYOUT_H

#include "kernel.h"

/* Recorded bytes of a frame: the headers of Ethernet (14), IPv6 (40) and TCP
 * with all options (60), and a stamp in a datagram. */
#define LINE_HEAD_BYTES 128

enum line_framing { LINE_PLAIN, LINE_ATM, LINE_PTM };

/* One direction. */
struct line_setup {
	__u64 delay_ns; /* delay after the last bit */
	__u32 from; /* the device where its packets arrive */
	__u32 to; /* the device whose root qdisc is its queue */
	__u32 limit; /* limit of the queue, in packets or bytes of IP */
	__u32 in_bytes;
	__u32 drop_front; /* drop the oldest waiting packet */
	__u32 framing;
	__s32 overhead; /* bytes that the line adds to a packet of IP */
	__u32 mpu;
	__u32 steps; /* number of its consecutive rates */
	__u32 loss; /* lost packets per million */
	__u32 reordered; /* reordered packets per million */
	__u32 pad;
	__u64 lots; /* seed of random decisions */
	/* Nanoseconds, below 2^32: */
	__u64 jitter_ns; /* largest random additional delay of a packet */
	__u64 late_ns; /* additional delay of a reordered packet */
	__u64 bursts_ns; /* packets transmitted in each of these intervals
			  * arrive at its end; 0: as transmitted */
};

/* Capacities of each direction. */
struct line_constants {
	__u32 room; /* packets on the line */
	__u32 rates;
	__u32 half_duplex; /* only one direction transmits at a time */
	__u32 pad;
};

struct line_control {
	__u64 lost; /* records that did not fit in the ring */
	__u64 zero_ns; /* when the run began */
	__u32 running; /* while 0, arriving packets are dropped unrecorded */
	__u32 unplaced; /* packets without a slot */
};

/* The rate of transmissions that begin after a given time. While it is 0 none
 * begins; the last rate is not 0. */
struct line_rate {
	__u64 after_ns;
	__u64 bits_per_second;
	__u64 more_ns; /* in addition to the direction's delay; below 2^32 */
};

enum line_event { LINE_ARRIVED, LINE_DROPPED, LINE_SENT, LINE_LOST };

/* The first part of every record. */
struct line_head {
	__u32 event;
	__u32 direction;
	__u32 number; /* number of the packet, from 0 in each direction */
	__u32 pad;
};

/* LINE_ARRIVED. */
struct line_arrival {
	struct line_head head;
	__u64 at_ns;
	__u32 ip_bytes;
	__u32 wire_bytes;
	__u32 ahead_packets; /* packets waiting or in transmission */
	__u32 ahead_bytes; /* their bytes of IP */
	__u8 frame[LINE_HEAD_BYTES];
};

/* LINE_SENT, when the packet is delivered at the other end, or LINE_LOST, when
 * it would have been. LINE_DROPPED is a head only. */
struct line_sent {
	struct line_head head;
	__u64 start_ns; /* first bit */
	__u64 end_ns; /* last bit, rounded up */
	__u64 left_ns;
};

#endif
