/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Map types of a line's round trips (round_trip.bpf.c). The types of user space
 * are generated from this file. */
#ifndef ROUND_TRIP_LAYOUT_H
#define ROUND_TRIP_LAYOUT_H

#include "aqm.h"

struct round_trip_end {
	u8 address[16];
	u32 version;
	u32 pad;
};

struct round_trip_heard {
	u64 least_ns;
	u64 count;
};

#endif
