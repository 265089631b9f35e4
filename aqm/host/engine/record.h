/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The recording of an engine: every input and every decision, so that another
 * host can replay it.
 *
 * A recording begins with a new engine, whose rows of nodes the reader knows. A
 * rule or a changed row follows its record as a separate item. Rows that user
 * space writes directly are not recorded.
 */
#ifndef AQM_ENGINE_RECORD_H
#define AQM_ENGINE_RECORD_H

#include "engine.h"

enum engine_event {
	ENGINE_RULE_EVENT = 1, /* a struct engine_rule follows */
	ENGINE_CHANGE_EVENT =
		2, /* a struct engine_config of the node follows */
	ENGINE_EVICT_EVENT = 3, /* engine_evict() */
	ENGINE_ARRIVE_EVENT = 4, /* engine_offer() */
	ENGINE_DEPART_EVENT = 5, /* engine_next() */
	ENGINE_HOST_EVENT =
		6, /* engine_leaf_of(): `node` is the leaf given, `slot` the
		    * leaf returned */
};

struct engine_record {
	u64 now_ns;
	u64 opens_ns; /* if no packet may be sent: when to ask again */
	u32 event; /* enum engine_event */
	u32 sequence; /* increases by one with each record */
	u32 node; /* on departure: the chosen leaf */
	u32 slot; /* slot of the packet; 0: none */
	u32 len; /* on arrival and eviction: length of the arriving packet */
	u32 wire;
	u32 flow;
	u32 host;
	u32 action; /* on arrival enum engine_room, on departure the verdict */
	u32 reason;
	u32 ecn; /* on arrival: the packet's ECN field */
	u32 pad;
};

#endif
