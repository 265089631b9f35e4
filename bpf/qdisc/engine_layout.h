/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What maps hold of weir_engine (engine.bpf.c). User space has the same types,
 * generated from this file. */
#ifndef ENGINE_LAYOUT_H
#define ENGINE_LAYOUT_H

#include "aqm.h"
#include "engine.h"

/* Where in the arena the rows of each kind begin. It has as much room as an arena may
 * have, of which only what there are rows for takes memory. */
#define ENGINE_NODES_AT 0U
#define ENGINE_FORKS_AT 0x40000000U
#define ENGINE_HOSTS_AT 0x60000000U
#define ENGINE_SLOTS_AT 0x80000000U
#define ENGINE_QUEUES_AT 0xc0000000U

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
};

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
