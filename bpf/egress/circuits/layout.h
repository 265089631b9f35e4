/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Map types of circuits.bpf.c. The types of user space are generated from this
 * file. */
#ifndef CIRCUITS_LAYOUT_H
#define CIRCUITS_LAYOUT_H

#include "aqm.h"

/* Kinds of keys, in the order of lookup. Those of addresses come first and are
 * the versions of IP. */
#define CIRCUITS_IPV4 4
#define CIRCUITS_IPV6 6
#define CIRCUITS_SESSION 7
#define CIRCUITS_VLAN 8
#define CIRCUITS_MAC 9

/* Identifies the subscriber of a packet. Unused words are zero. */
struct circuits_key {
	u32 kind;
	/*
	 * Depending on the kind:
	 * - an address in network byte order
	 * - a PPPoE session, then the subscriber's MAC address, or zeros for
	 *   any
	 * - the VLAN of the outer tag, then of the inner one, or 0 for any
	 * - a MAC address
	 */
	u32 value[4];
};

/* The key of a trie: a prefix length in bits, and a key. */
struct circuits_prefix {
	u32 bits;
	struct circuits_key key;
};

/* Bits of circuits_rule.kinds, for each kind. WHOLE: there are complete keys.
 * PART: there are keys with a wildcard: prefixes, sessions with any MAC
 * address, outer tags with any inner one. */
#define CIRCUITS_WHOLE 1
#define CIRCUITS_PART 65536

/* The leaf in each generation, with the number of its queue in the bits from
 * ENGINE_MEMBER_SHIFT on; 0: none. */
struct circuits_leaves {
	u32 leaf[2];
};

/* The name of a row, zero-padded, and the queue whose engine it belongs to. The
 * queue never changes. */
struct circuits_label {
	u8 text[64];
	u32 queue;
};

/* An upper bound of the number of rows: the limit of bpf_for. */
#define CIRCUITS_MOST_ROWS 8388608

/* Most rows of one change: a circuit, and the sites above it before and
 * after. */
#define CIRCUITS_PICKED 16

/* Settings and state of the list. */
struct circuits_rule {
	u32 generation; /* active generation of leaves: 0 or 1 */
	u32 next; /* generation after the next change */
	u32 source; /* 1: the source is a subscriber; 0: the destination */
	u32 inner; /* rows of nodes with children, which come first */
	u32 nodes; /* total number of rows */
	u32 open; /* counts changes; odd: the stored
		   * list may not be active yet */
	u32 count; /* rows of a change; 0: all */
	u32 queues; /* queues of the device, each with an engine */
	u32 kinds[2]; /* kinds of keys that exist, by generation */
	u32 picked[CIRCUITS_PICKED];
	u64 table; /* for user space: checksum of both tables; 0: unknown */
	u64 holds_s[2]; /* user space: plans do not change in this period */
};

#endif
