/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What maps hold of circuits.bpf.c. User space has the same types, generated from
 * this file. */
#ifndef CIRCUITS_LAYOUT_H
#define CIRCUITS_LAYOUT_H

#include "aqm.h"

/* An address; of IPv4 the first word alone. */
struct circuits_host {
	u32 version; /* of IP */
	u32 address[4]; /* as in a packet */
};

/* The key of a trie: how many bits of what follows count. */
struct circuits_prefix {
	u32 bits;
	struct circuits_host host;
};

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
	u32 open; /* what is in force may differ from what is kept */
	u32 count; /* rows that a change is about; 0: all */
	u32 queues; /* of the device, each with an engine */
	u32 picked[CIRCUITS_PICKED];
};

#endif
