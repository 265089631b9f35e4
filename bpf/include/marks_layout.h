/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What maps hold of ECN marks (marks.h). User space has the same types, generated
 * from this file. */
#ifndef BPF_MARKS_LAYOUT_H
#define BPF_MARKS_LAYOUT_H

#include "aqm.h"

/* A flow at a device. */
struct marks_flow {
	u64 netns;
	u32 ifindex;
	u32 hash;
};

struct marks_pending {
	u64 pending;
	u64 until_ns;
};

/* The settings of an attach point, and what was done there. */
struct marks_count {
	u64 stamp; /* the lowest two bits are 0 */
	u64 made;
	u64 lapsed;
};

/* Of all places together. */
struct marks_total {
	u64 pending; /* no fewer than there are: 0 is sure */
	u64 until_ns; /* none is pending longer */
	u64 key; /* of flows' hashes; user space sets it */
};

#endif
