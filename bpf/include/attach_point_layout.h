/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Identifies a qdisc: the key of many maps. The type of user space is generated
 * from this file. */
#ifndef BPF_ATTACH_POINT_LAYOUT_H
#define BPF_ATTACH_POINT_LAYOUT_H

#include "aqm.h"

/* The attach point of a qdisc. Device numbers repeat in every network
 * namespace, so the namespace is included. */
struct aqm_attach_point {
	u64 netns; /* The cookie of the network namespace. */
	u32 ifindex; /* The number of the device. */
	u32 queue; /* The transmit queue under mq, from 1; 0 at the root. */
};

#endif
