/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What maps hold of circuits.bpf.c. User space has the same types, generated from
 * this file. */
#ifndef CIRCUITS_LAYOUT_H
#define CIRCUITS_LAYOUT_H

#include "aqm.h"

/* Kinds of keys, in the order in which a packet is looked up; those of addresses, which
 * come first, are the versions of IP. */
#define CIRCUITS_IPV4 4
#define CIRCUITS_IPV6 6
#define CIRCUITS_SESSION 7
#define CIRCUITS_VLAN 8
#define CIRCUITS_MAC 9

/* What tells whose a packet is, with zeros behind what its kind says. */
struct circuits_key {
	u32 kind;
	/* An address as in a packet. A session of PPPoE, then the subscriber's MAC as in
	 * a frame, or zeros for any. The VLAN of the outer tag, then that of the inner
	 * one, or 0 for any. A MAC. */
	u32 value[4];
};

/* The key of a trie: how many bits of what follows count. */
struct circuits_prefix {
	u32 bits;
	struct circuits_key key;
};

/* Bits of circuits_rule.kinds: there are keys of a kind; there are some of it that leave
 * a part open: prefixes, sessions with any MAC, tags with any within. */
#define CIRCUITS_WHOLE 1
#define CIRCUITS_PART 65536

/* The leaf in either generation, with the number of its queue in the bits of
 * ENGINE_MEMBER_SHIFT; 0: none. */
struct circuits_leaves {
	u32 leaf[2];
};

/* Whose a row is: a text, and zeros behind it; and of which queue's engine it is, which
 * stays so. */
struct circuits_label {
	u8 text[64];
	u32 queue;
};

/* Rows of one change: a circuit, and the sites above it before and after. */
#define CIRCUITS_PICKED 16

/* What holds for all. */
struct circuits_rule {
	u32 generation; /* of leaves: 0 or 1 */
	u32 next; /* what it is after the next change */
	u32 source; /* 1: the source is a subscriber; 0: the destination */
	u32 inner; /* rows of nodes with children, which are the first */
	u32 nodes; /* rows in all */
	u32 open; /* changes; odd: what is in force may differ from what is kept */
	u32 count; /* rows that a change is about; 0: all */
	u32 queues; /* of the device, each with an engine */
	u32 kinds[2]; /* of keys that are there, in either generation */
	u32 picked[CIRCUITS_PICKED];
	u64 table; /* the user's: a sum of what both tables have; 0: unknown */
	u64 holds_s
		[2]; /* the user's: plans give the same from then on, and until then */
};

#endif
