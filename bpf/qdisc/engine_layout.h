/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What maps hold of weir_engine (engine.bpf.c). User space has the same types,
 * generated from this file. */
#ifndef ENGINE_LAYOUT_H
#define ENGINE_LAYOUT_H

#include "aqm.h"
#include "engine.h"

/* The settings of the qdisc; a change takes effect with the next packet. */
struct engine_settings {
	struct engine_rule rule;
	u32 queues; /* rows of each kind that there are */
	u32 slots;
	u32 host_parts; /* what of its headers makes a packet's host; 0: nothing */
	u32 changes; /* counts changes of this */
	u32 first; /* what skb->priority is for row 0 */
	u32 hosts; /* rows of hosts */
	u32 host_stamp; /* of the program that tells hosts (hosts.h); 0: none */
	u32 inner; /* rows of lists */
	u32 at[4]; /* where rows are in the arena: engine.at */
	u32 members; /* queues of the device, each with an engine; 0: one alone */
	u32 layout; /* ENGINE_LAYOUT of who loaded it */
};

/* Counts changes of rows that keep their sizes, and of what user space has to do. In 2
 * whoever has written settings or asks adds one to `state` of row 0 of nodes, which is
 * none: only then does the program look at them. */
#define ENGINE_LAYOUT 2

/* Where several engines share the line of a device, each has a part of the queues and
 * slots. Its root and its leaf for other packets are rule.root and rule.other plus its
 * number.
 * There are no hosts then, and no changes by `asks`. A packet's priority has the number
 * of its engine in these bits. */
#define ENGINE_MEMBER_SHIFT 24

/* Changes that may wait for the program. */
#define ENGINE_ASKS 64

/* A new configuration of a node, all at once; or a store has written it already, and
 * the node is only to be looked at. */
struct engine_ask {
	u32 id;
	u32 stored;
	struct engine_config config;
};

/* A ring of them. User space raises `asked`, and the program `done`. */
struct engine_asks {
	u32 asked;
	u32 done;
	struct engine_ask ask[ENGINE_ASKS];
};

#endif
