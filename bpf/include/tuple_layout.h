/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who sends what to whom: the key of many maps. User space has the same type,
 * generated from this file. */
#ifndef BPF_TUPLE_LAYOUT_H
#define BPF_TUPLE_LAYOUT_H

#include "aqm.h"

/* Bytes as they are in the packet. */
struct tuple {
	u32 address[2][4]; /* source, destination; IPv4 in the first word */
	u16 ports[2];
	u8 protocol;
	u8 version; /* 4, 6; 0 is no packet of a flow */
	u16 zero;
};

#endif
