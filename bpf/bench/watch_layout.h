/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the programs say that observe the kernel's own disciplines (watch.bpf.c).
 * User space has the same types, generated from this file. */
#ifndef WATCH_LAYOUT_H
#define WATCH_LAYOUT_H

#include "kernel.h"

#define SEEN_ENQUEUE 0
#define SEEN_DEQUEUE 1
#define SEEN_UPDATE 2

/* One event. */
struct seen {
	__u64 packet; /* which: its address while it is queued; of an update
			 the delay that it went by, in 64 ns */
	__u64 time; /* 1024 ns for codel, else ns; 0: none was taken */
	__u64 probability; /* pie's, after an update */
	__u32 kind;
	__u32 len;
	__u32 hash;
	__u32 refused; /* what enqueue returned */
};

#endif
