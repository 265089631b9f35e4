/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a host records of an engine: every input and every decision, so that
 * another host can be given the same inputs.
 *
 * A recording begins where an engine does, with rows of nodes that the reader
 * knows. Rules and changes of rows are followed by what they say, by itself. Rows
 * that user space stores by itself are not seen here.
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
		6, /* engine_leaf_of(): the leaf that is named, as `slot`
				  that of the packet's host */
};

struct engine_record {
	u64 now_ns;
	u64 opens_ns; /* where nothing may go: when to ask again */
	u32 event; /* enum engine_event */
	u32 sequence; /* one more for every record */
	u32 node; /* on departure: the leaf that was chosen */
	u32 slot; /* of the packet; 0: none */
	u32 len; /* on arrival and eviction: the packet that comes */
	u32 wire;
	u32 flow;
	u32 host;
	u32 action; /* on arrival enum engine_room, on departure the verdict */
	u32 reason;
	u32 ecn; /* on arrival: what the host knows of it */
	u32 pad;
};

#endif
