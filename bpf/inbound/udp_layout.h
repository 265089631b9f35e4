/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Map types of the UDP filter (udp.bpf.c). The types of user space are
 * generated from this file. */
#ifndef INBOUND_UDP_LAYOUT_H
#define INBOUND_UDP_LAYOUT_H

#include "aqm.h"
#include "udp.h"

struct udp_settings {
	struct udp_rule rule;
	u32 refuse_mark; /* set in skb->mark of packets to be refused */
	u32 spare_mask; /* packets with this mark pass */
	u32 spare_mark;
	u32 pad;
};

struct udp_stream {
	struct udp_flow flow;
	u32 lock;
	u32 pad;
};

#endif
