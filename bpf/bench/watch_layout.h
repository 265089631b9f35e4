/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events of the programs that observe the kernel's disciplines (watch.bpf.c).
 * The types of user space are generated from this file. */
#ifndef WATCH_LAYOUT_H
#define WATCH_LAYOUT_H

#include "kernel.h"

#define SEEN_ENQUEUE 0
#define SEEN_DEQUEUE 1
#define SEEN_UPDATE 2

/* One event. */
struct seen {
	__u64 packet; /* address of the packet while queued; for an update, the
		       * delay used, in 64 ns */
	__u64 time; /* in 1024 ns for codel, else ns; 0: unknown */
	__u64 probability; /* probability of pie after an update */
	__u32 kind;
	__u32 len;
	__u32 hash;
	__u32 refused; /* what enqueue returned */
};

#endif
