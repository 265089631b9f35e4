/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Map types of receive-window control (window.bpf.c). The types of user space
 * are generated from this file. */
#ifndef INBOUND_WINDOW_LAYOUT_H
#define INBOUND_WINDOW_LAYOUT_H

#include "aqm.h"
#include "share.h"
#include "window.h"

/* Classes that may have a rate of their own, and slots in total. Slot 0 is for
 * all other classes. */
#define WINDOW_CLASSES 15
#define WINDOW_SLOTS 16

struct window_class {
	u32 class; /* as in skb->priority */
	u32 pad;
	u64 rate_bytes_s; /* of payload, for all its connections; 0: no limit */
};

struct window_settings {
	struct window_rule rule;
	u64 rate_bytes_s; /* of payload, for all other classes; 0: no limit */
	u32 spare_mask; /* packets with this mark are not limited */
	u32 spare_mark;
	u32 ack_class; /* packets of this class do not
			* determine a connection's class */
	u32 class_count;
	u32 announced_segment; /* MSS of new connections while a session is
				* announced; 0: unchanged */
	u32 announced_resets; /* reset old connections while
			       * a session is announced */
	u64 round_trip_ns; /* new connections ask for segments of their share of
			    * a round trip. Default round trip for peers without
			    * a measurement. 0: segments are unchanged */
	u32 by_hosts; /* hosts inside share a rate, and a host's connections
		       * share its part */
	u32 beside_others; /* traffic without window control reduces a rate */
	u32 holds_l4s; /* control windows of L4S senders as well */
	u32 pad;
	struct window_class classes[WINDOW_SLOTS]; /* the last one is unused */
};

enum {
	RECEIVER_SCALES = 1, /* it scales windows if the peer does */
	RECEIVER_SACK = 2, /* it permits selective acknowledgements */
	RECEIVER_ANSWERS = 4, /* its SYN acknowledges the peer's */
	RECEIVER_REPEATS = 8, /* its SYN was repeated: no round-trip sample */
};

enum {
	SPARED_IN = 1, /* by the mark of an arriving packet */
	SPARED_OUT = 2, /* by the mark of a departing packet */
	SPARED_L4S = 4, /* its sender is L4S, by arriving data */
};

/* The end inside, as its SYN or SYN-ACK describes it. */
struct window_receiver {
	u64 born_ns; /* when its SYN or SYN-ACK left */
	u32 number; /* its sequence number */
	u16 mss; /* its MSS; 0: not stated */
	u16 payload; /* bytes of data in its SYN (RFC 7413) */
	u32 ack; /* acknowledgement number of a SYN-ACK */
	u32 window; /* window of its SYN or SYN-ACK, in bytes */
	u32 class; /* class of its packets, as in skb->priority */
	u8 shift; /* its window scale */
	u8 handshake; /* RECEIVER_* */
	u8 spared; /* SPARED_* */
	u8 slot; /* the slot whose rate it shares */
	u32 host[4]; /* its address inside, IPv4 in the first word */
};

/* Key of a host whose connections share its part of a slot's rate. */
struct window_host_key {
	u32 address[4];
	u32 slot;
};

struct window_host {
	struct share_sum connections;
	struct share_member member; /* membership in its slot */
	u32 lock;
	u32 pad;
};

struct window_connection {
	struct window_flow flow;
	struct window_receiver receiver;
	struct share_member member; /* membership in its host or slot */
	u64 bytes; /* bytes of data received */
	u32 window; /* last window offered, in bytes */
	u32 offered; /* the receiver's own window then */
	u64 reset_ns; /* when a reset was last attempted */
	u32 lock;
	u32 reopens; /* a later handshake of these ports may be in progress */
};

/* Fewer segments than this per second are few. */
#define WINDOW_FEW 8

/* A sender of fewer bytes is a mouse (Braithwaite 2006, section 5.3). */
#define WINDOW_MUCH 20000

/* The members of a rate (window/shares.h). */
struct window_slot {
	struct share_sum members; /* connections, or hosts */
	s64 owed; /* bytes that large senders have to give up */
	u64 owed_ns; /* unused rate is counted up to this time */
};

struct window_totals {
	struct window_slot slots[WINDOW_SLOTS];
	struct share_sum others; /* bytes of traffic without window control */
	u64 rewritten; /* packets whose window was changed */
	u64 held; /* packets whose departure was delayed */
	u64 unknown; /* packets of connections with no handshake seen */
	u64 missed; /* packets whose connection stayed locked */
};

/* Times of bpf_ktime_get_ns(). */
struct announced {
	u64 since_ns;
	u64 until_ns; /* end of the announcement */
};

#endif
