/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Map types of a middlebox that marks (middlebox.bpf.c). The types of user
 * space are generated from this file. */
#ifndef MIDDLEBOX_LAYOUT_H
#define MIDDLEBOX_LAYOUT_H

#include "kernel.h"

struct middlebox_setup {
	__u32 mark_every; /* mark every n-th ECN-capable
			   * packet of a connection; 0: none */
	__u32 pad;
};

/* A direction of a connection, at a device. */
struct middlebox_flow {
	__u32 ifindex;
	__u32 port; /* source port */
};

/* Its packets, by ECN field on arrival. */
struct middlebox_count {
	__u64 data[4]; /* with payload */
	__u64 bare[4]; /* without payload, except SYNs */
	__u64 syn[4];
	__u64 marked;
};

#endif
