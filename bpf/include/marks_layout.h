/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Map types of ECN marks (marks.h). The types of user space are generated from
 * this file. */
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

/* The stamp and the counters of an attach point. */
struct marks_count {
	u64 stamp; /* the lowest two bits are 0 */
	u64 made;
	u64 lapsed;
};

/* Sums over all attach points. */
struct marks_total {
	u64 pending; /* an upper bound of pending marks: 0 is exact */
	u64 until_ns; /* when the last one expires */
	u64 key; /* key of flow hashes; set by user space */
};

#endif
