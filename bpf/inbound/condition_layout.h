/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Map types of traffic conditioners (condition.bpf.c). The types of user space
 * are generated from this file. */
#ifndef INBOUND_CONDITION_LAYOUT_H
#define INBOUND_CONDITION_LAYOUT_H

#include "aqm.h"
#include "conditioner.h"

/* Limits: conditioners per hook of a device, and sizes of the lists of one
 * conditioner. */
#define CONDITIONERS 32
#define CONDITION_CLASSES 8
#define CONDITION_NETS 8
#define CONDITION_PORTS 8
#define CONDITION_NAME 32

enum condition_action {
	CONDITION_PASS = 0,
	CONDITION_MARK = 1,
	CONDITION_DROP = 2,
};

/* A network; addresses in network byte order. */
struct condition_net {
	u32 address[4];
	u32 mask[4];
	u32 version; /* 4 or 6; 0 ends the list */
	u32 length; /* length of the mask in bits, for display only */
};

/* A range of ports, both included. A range never starts at 0, which ends the
 * list. */
struct condition_ports {
	u16 from;
	u16 to;
};

/* The transport header fields that a conditioner matches. */
enum condition_asks {
	CONDITION_PROTOCOL = 1,
	CONDITION_PORT = 2,
};

/* One conditioner. */
struct condition_rule {
	struct meter_params meter;
	u64 codes; /* bitmap of the code points that match */
	u64 yellow; /* bitmaps of incoming code points of this colour */
	u64 red;
	u32 used; /* 0 ends the list */
	u32 version;
	u32 metered; /* whether there is a meter; else every packet is green */
	u32 action[3]; /* enum condition_action, by colour */
	u32 code[3]; /* the code point to set, by colour */
	u32 classes; /* number of classes; 0: any */
	u32 class[CONDITION_CLASSES]; /* skb->priority */
	struct condition_net source[CONDITION_NETS];
	struct condition_net destination[CONDITION_NETS];
	char name[CONDITION_NAME];
	u32 asks; /* enum condition_asks */
	u32 smallest; /* minimum bytes that a packet counts as */
	u32 protocols[8]; /* bitmap of the protocols that match */
	struct condition_ports source_ports[CONDITION_PORTS];
	struct condition_ports destination_ports[CONDITION_PORTS];
};

struct condition_state {
	struct bpf_spin_lock lock; /* reads as 0 */
	u32 version;
	struct meter_vars vars;
	u64 packets[3]; /* by colour */
	u64 bytes[3]; /* of IP packets */
	u64 unmarked; /* packets whose DS field was not found */
};

/* A recorded decision, for comparison. */
struct condition_record {
	u64 now_ns;
	u32 rule;
	u32 bytes;
	u32 brings;
	u32 colour;
};

#endif
