/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Map types of weir_engine (engine.bpf.c). The types of user space are
 * generated from this file. */
#ifndef ENGINE_LAYOUT_H
#define ENGINE_LAYOUT_H

#include "aqm.h"
#include "engine.h"

/* The settings of the qdisc; a change takes effect with the next packet. */
struct engine_settings {
	struct engine_rule rule;
	u32 queues; /* number of rows of queues and of slots */
	u32 slots;
	u32 host_parts; /* header fields that identify
			 * a packet's host; 0: none */
	u32 changes; /* counts changes of the settings */
	u32 first; /* skb->priority of row 0 */
	u32 hosts; /* rows of hosts */
	u32 host_stamp; /* stamp of the program that finds hosts
			 * (hosts_layout.h); 0: none */
	u32 inner; /* rows of children's lists */
	u32 at[4]; /* offsets of rows in the arena: engine.at */
	u32 members; /* queues of the device, each with
		      * an engine; 0: a single engine */
	u16 layout; /* ENGINE_LAYOUT of the loader */
	u16 acks; /* enum acks_filter; not if engines share a line */
};

/* Version of the layout: counts changes of rows that keep their sizes, and
 * changes of the protocol with user space. Since version 2, user space
 * increments `state` of node row 0 (the bell) after it has written settings or
 * requests. Only then does the program read them. Since version 3, it filters
 * acknowledgements. */
#define ENGINE_LAYOUT 3
#define ENGINE_LAYOUT_OF_ACKS 3

/* If several engines share the line of a device, each has a part of the queues
 * and slots. Its root is rule.root plus its number, and its leaf for
 * unclassified packets is rule.other plus its number. There are no hosts then,
 * and no changes by `asks`. The bits of a packet's priority from this one on
 * are the number of its engine. */
#define ENGINE_MEMBER_SHIFT 24

/* Most pending changes. */
#define ENGINE_ASKS 64

/* A requested change of a node: the new configuration, or, if `stored`, a check
 * of a node whose configuration a store has changed already. */
struct engine_ask {
	u32 id;
	u32 stored;
	struct engine_config config;
};

/* A ring of changes. User space increments `asked`, the program `done`. */
struct engine_asks {
	u32 asked;
	u32 done;
	struct engine_ask ask[ENGINE_ASKS];
};

#endif
