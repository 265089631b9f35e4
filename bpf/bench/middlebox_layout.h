/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A middlebox that marks (middlebox.bpf.c). User space has the same types, generated
 * from this file. */
#ifndef MIDDLEBOX_LAYOUT_H
#define MIDDLEBOX_LAYOUT_H

#include "kernel.h"

struct middlebox_setup {
	__u32 mark_every; /* packet that may be marked, of each connection; 0: none */
	__u32 pad;
};

/* A direction of a connection, where it passes. */
struct middlebox_flow {
	__u32 ifindex;
	__u32 port; /* the source's */
};

/* Its packets, by their ECN fields as they came. */
struct middlebox_count {
	__u64 data[4]; /* with payload */
	__u64 bare[4]; /* without, but for those with SYN */
	__u64 syn[4];
	__u64 marked;
};

#endif
