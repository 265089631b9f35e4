/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Map types of ingress.bpf.h; for values that depend on the discipline, their
 * first part. The types of user space are generated from this file. */
#ifndef FILTER_LAYOUT_H
#define FILTER_LAYOUT_H

#include "aqm.h"
#include "tuple_layout.h"

struct filter_settings_head {
	struct aqm_link link; /* its rate is the limit */
	u64 parts; /* enum aqm_part */
};

/* A measurement of the queue at the far end of the line. */
struct filter_measured {
	u64 number; /* counts measurements; 0: none */
	u64 waits_ns; /* how long a packet waits there */
	u32 peer[4]; /* who answers the probes, as in the tuple */
};

struct filter_state_head {
	u32 lock;
	u32 changes_seen;
	u64 missed; /* packets that could not take the lock */
	u64 missed_wire; /* bytes of these that the virtual queue still lacks */
	u64 other; /* packets without a flow */
	u64 random; /* state of random.h */
	u64 measured; /* number of the last measurement that was applied */
	u32 peer[4]; /* as in the measurement */
	u32 parts; /* as in the settings */
	u32 pad;
};

/* A flow, at the same index as in aqm/include/flows.h. */
struct filter_flow {
	struct tuple tuple;
	u32 hash;
	u32 pad;
	u64 packets;
	u64 bytes; /* as the device counts, without leakage */
	u64 marks;
	u64 drops;
	u64 seen_ns; /* 0: no flow */
};

#endif
