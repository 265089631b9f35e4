/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The recording of a discipline: every input and every decision, so that
 * another host can replay it.
 *
 * A recording begins with a state. This is a record AQM_STATE_EVENT, in which
 * `slot` is the number of slots ever used and `len` the size of the instance in
 * bytes. The instance and each of those slots follow. Further states follow
 * wherever parameters or the link may have changed: NAME_setup() has just been
 * called. docs/aqm.md describes the file format.
 */
#ifndef AQM_RECORD_H
#define AQM_RECORD_H

#include "aqm.h"

enum aqm_event {
	AQM_STATE_EVENT = 1, /* instance and slots follow */
	AQM_ARRIVE_EVENT = 2, /* NAME_host_arrive() */
	AQM_EVICT_EVENT = 3, /* NAME_host_evict() */
	AQM_DEPART_EVENT = 4, /* NAME_host_depart() */
	AQM_RESET_EVENT = 5, /* the queue was emptied from outside */
};

struct aqm_record {
	u64 now_ns;
	u32 event; /* enum aqm_event */
	u32 sequence; /* increases by one with each
		       * record: a gap shows a loss */
	u32 slot; /* what the host's function returned */
	u32 len; /* on arrival: length of the packet */
	u32 wire;
	u32 flow;
	u32 ecn;
	u32 random; /* on arrival and departure: the random bits */
	u32 action; /* the verdict */
	u32 reason;
	u32 queue;
	u32 evict;
};

#endif
