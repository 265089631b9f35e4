/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What maps hold of receive-window control (window.bpf.c). User space has the same
 * types, generated from this file. */
#ifndef INBOUND_WINDOW_LAYOUT_H
#define INBOUND_WINDOW_LAYOUT_H

#include "aqm.h"
#include "share.h"
#include "window.h"

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
	u64 round_trip_ns; /* new connections ask for segments of what they may
			    * have in a round trip, which is this to those of
			    * whom none is known; 0: as ever */
	u32 by_hosts; /* a rate is shared by hosts inside, and what one of them
		       * may have by its connections */
	u32 beside_others; /* what no window holds leaves less of a rate */
	u32 holds_l4s; /* windows hold senders of L4S as well */
	u32 pad;
	struct window_class classes[WINDOW_SLOTS]; /* the last is none's */
};

enum {
	RECEIVER_SCALES = 1, /* its windows are scaled, if the peer agrees */
	RECEIVER_SACK = 2, /* it permits selective acknowledgements */
	RECEIVER_ANSWERS = 4, /* its SYN acknowledges the peer's */
	RECEIVER_REPEATS = 8, /* its SYN left before: no answer tells a time */
	RECEIVER_OFFERED = 16, /* ack and window are set */
};

enum {
	SPARED_IN = 1, /* by the mark of what came */
	SPARED_OUT = 2, /* by the mark of what left */
	SPARED_L4S = 4, /* its sender is one of L4S, by what came */
};

/* The end inside, by the SYN or SYN-ACK that it sent. */
struct window_receiver {
	u64 born_ns; /* when that left */
	u32 number; /* its sequence number */
	u32 mss; /* the largest segment that it asks for; 0: none stated */
	u32 ack; /* what a SYN-ACK acknowledges */
	u32 window; /* and the bytes that it offers */
	u32 class; /* what it was found by */
	u8 shift; /* how its windows are scaled */
	u8 handshake; /* RECEIVER_* */
	u8 spared; /* SPARED_* */
	u8 slot; /* whose rate it shares */
	u32 host[4]; /* its address inside, IPv4 in the first word */
};

/* Whose connections share what a host may have. */
struct window_host_key {
	u32 address[4];
	u32 slot;
};

struct window_host {
	struct share_sum connections;
	struct share_member member; /* of its slot */
	u32 lock;
	u32 pad;
};

struct window_connection {
	struct window_flow flow;
	struct window_receiver receiver;
	struct share_member member; /* of its host, or of its slot */
	u64 bytes; /* of data that came */
	u32 window; /* last offered, bytes */
	u32 offered; /* what the receiver itself offered then */
	u64 reset_ns; /* when it was last attempted */
	u32 lock;
	u32 reopens; /* a later handshake of these ports may be on its way */
};

/* Fewer segments than this in a second are few. */
#define WINDOW_FEW 8

/* Who has sent less is a mouse (Braithwaite 2006, section 5.3). */
#define WINDOW_MUCH 20000

/* Who shares a rate (window/shares.h). */
struct window_slot {
	struct share_sum members; /* connections, or hosts */
	s64 owed; /* bytes that those who have sent much go on later by */
	u64 owed_ns; /* what they left of the rate is counted up to then */
};

struct window_totals {
	struct window_slot slots[WINDOW_SLOTS];
	struct share_sum others; /* bytes of what no window holds */
	u64 rewritten; /* packets whose window was changed */
	u64 held; /* packets given a later time to leave */
	u64 unknown; /* packets of connections whose handshake was not seen */
	u64 missed; /* packets that found theirs locked for too long */
};

/* Times of bpf_ktime_get_ns(). */
struct announced {
	u64 since_ns;
	u64 until_ns; /* no session is announced from then on */
};

#endif
