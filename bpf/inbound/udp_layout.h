/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What maps hold of the filter of datagrams (udp.bpf.c). User space has the same
 * types, generated from this file. */
#ifndef INBOUND_UDP_LAYOUT_H
#define INBOUND_UDP_LAYOUT_H

#include "aqm.h"
#include "udp.h"

struct udp_settings {
	struct udp_rule rule;
	u32 refuse_mark; /* set in the mark of what is to be refused */
	u32 spare_mask; /* who has this mark is let go */
	u32 spare_mark;
	u32 pad;
};

struct udp_stream {
	struct udp_flow flow;
	u32 lock;
	u32 pad;
};

#endif
