/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How times are spread: their number, their sum, and how many lie in each of
 * the steps that a doubling is divided into. All of it only grows, so that what
 * happened between two looks is a difference.
 */
#ifndef PASSIVE_SPREAD_H
#define PASSIVE_SPREAD_H

#include "kernel.h"
#include "host.h"

/* Steps of a doubling (2^3), the lowest power of two that has steps of its own
 * (1 us), and how many doublings there are: to 17 s. */
#define SPREAD_PLACES 3
#define SPREAD_LEAST 10
#define SPREAD_DOUBLINGS 24
#define SPREAD_STEPS (SPREAD_DOUBLINGS << SPREAD_PLACES)

struct spread {
	u64 count;
	u64 sum_ns;
	u32 steps[SPREAD_STEPS];
};

/* The place of a number's highest bit. */
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

/* The step that a time belongs to; the first and the last have all that is
 * shorter or longer. */
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
	/* Linux 6.1 wants to see the bounds of this very value. */
	barrier_var(step);
	if (step < SPREAD_STEPS)
		__sync_fetch_and_add(&spread->steps[step], 1);
}

#endif
