/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Addresses, ports and protocol of a packet: the key of many maps. The type of
 * user space is generated from this file. */
#ifndef BPF_TUPLE_LAYOUT_H
#define BPF_TUPLE_LAYOUT_H

#include "aqm.h"

/* Fields in network byte order. */
struct tuple {
	u32 address[2][4]; /* source, destination; IPv4 in the first word */
	u16 ports[2];
	u8 protocol;
	u8 version; /* 4 or 6; 0: not a packet of a flow */
	u16 zero;
};

#endif
