/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Random decisions of the laboratory's line, the same in every run with the
 * same seed. */
#ifndef LINE_LOTS_H
#define LINE_LOTS_H

#include "layout.h"

/* The random decisions about a packet. */
enum lot { LOT_LOSS, LOT_JITTER, LOT_REORDERING };

#define LOTS 3
#define MILLION 1000000

/* Returns a random number of 32 bits for a decision about the packet with this
 * number, by SplitMix64 (Steele, Lea and Flood 2014). */
static __always_inline u64 lot(const struct line_setup *setup, u32 number,
			       enum lot what)
{
	u64 mixed = setup->lots +
		    ((u64)number * LOTS + what + 1) * 0x9e3779b97f4a7c15ULL;

	mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ULL;
	mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebULL;
	return (mixed ^ mixed >> 31) >> 32;
}

#endif
