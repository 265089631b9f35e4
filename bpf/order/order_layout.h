/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What maps hold of the programs that keep connections in order (order.bpf.c).
 * User space has the same types, generated from this file. */
#ifndef ORDER_LAYOUT_H
#define ORDER_LAYOUT_H

#include "aqm.h"

struct order_totals {
	u64 moved; /* connections that went on with nothing left behind */
	u64 late; /* those that moved because it took too long */
	u64 closed; /* acknowledgements whose window was closed */
	u64 missed; /* packets that found theirs locked for too long */
};

#endif
