/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What maps hold of ingress.bpf.h; of values that depend on the discipline, what
 * they begin with. User space has the same types, generated from this file. */
#ifndef FILTER_LAYOUT_H
#define FILTER_LAYOUT_H

#include "aqm.h"
#include "tuple_layout.h"

struct filter_settings_head {
	struct aqm_link link; /* its rate is the one to hold to */
	u64 parts; /* enum aqm_part */
};

struct filter_state_head {
	u32 lock;
	u32 changes_seen;
	u64 missed; /* packets that found it locked for too long */
	u64 missed_wire; /* bytes of these that the virtual queue has not got yet */
	u64 other; /* packets of no flow */
	u64 random; /* state of random.h */
	u32 parts; /* as settings have them */
	u32 pad;
};

/* A flow, at the place that aqm/include/flows.h has it. */
struct filter_flow {
	struct tuple tuple;
	u32 hash;
	u32 pad;
	u64 packets;
	u64 bytes; /* as the device counts, beside what leaks */
	u64 marks;
	u64 drops;
	u64 seen_ns; /* 0: no flow */
};

#endif
