/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A distribution of times: their number, their sum, and a histogram with
 * several steps per doubling. All values only grow, so the difference between
 * two readings covers the time in between.
 */
#ifndef PASSIVE_SPREAD_H
#define PASSIVE_SPREAD_H

#include "kernel.h"
#include "host.h"

/* Steps per doubling (2^3), the smallest power of two with steps of its own
 * (2^10 ns, 1 us), and the number of doublings, up to 17 s. */
#define SPREAD_PLACES 3
#define SPREAD_LEAST 10
#define SPREAD_DOUBLINGS 24
#define SPREAD_STEPS (SPREAD_DOUBLINGS << SPREAD_PLACES)

struct spread {
	u64 count;
	u64 sum_ns;
	u32 steps[SPREAD_STEPS];
};

/* Returns the index of the highest set bit. */
static __always_inline u32 highest(u64 value)
{
	u32 bit = 0;

	if (value >> 32) {
		bit += 32;
		value >>= 32;
	}
	if (value >> 16) {
		bit += 16;
		value >>= 16;
	}
	if (value >> 8) {
		bit += 8;
		value >>= 8;
	}
	if (value >> 4) {
		bit += 4;
		value >>= 4;
	}
	if (value >> 2) {
		bit += 2;
		value >>= 2;
	}
	return bit + (value >> 1);
}

/* Returns the step of a time. The first and the last step include all shorter
 * and longer times. */
static __always_inline u32 spread_step(u64 ns)
{
	u32 bit = highest(ns);
	u32 step;

	if (bit < SPREAD_LEAST)
		return 0;
	step = (bit - SPREAD_LEAST) << SPREAD_PLACES;
	step += ns >> (bit - SPREAD_PLACES) & ((1 << SPREAD_PLACES) - 1);
	return step < SPREAD_STEPS ? step : SPREAD_STEPS - 1;
}

static __always_inline void spread_add(struct spread *spread, u64 ns)
{
	u64 step = spread_step(ns);

	__sync_fetch_and_add(&spread->count, 1);
	__sync_fetch_and_add(&spread->sum_ns, ns);
	/* Linux 6.1 needs the bounds of this very value. */
	barrier_var(step);
	if (step < SPREAD_STEPS)
		__sync_fetch_and_add(&spread->steps[step], 1);
}

#endif
