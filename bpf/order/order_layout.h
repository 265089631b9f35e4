/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Map types of the programs that keep connections in order (order.bpf.c). The
 * types of user space are generated from this file. */
#ifndef ORDER_LAYOUT_H
#define ORDER_LAYOUT_H

#include "aqm.h"

struct order_totals {
	u64 moved; /* connections that moved with nothing outstanding */
	u64 late; /* connections that moved because it took too long */
	u64 closed; /* acknowledgements whose window was closed */
	u64 missed; /* packets whose connection stayed locked */
};

#endif
