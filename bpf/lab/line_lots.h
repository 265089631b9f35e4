/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lots of the laboratory's line: what happens to a packet by chance, the same in every
 * run of a seed. */
#ifndef LINE_LOTS_H
#define LINE_LOTS_H

#include "line_layout.h"

/* What is decided about a packet by lot. */
enum lot { LOT_LOSS, LOT_JITTER, LOT_REORDERING };

#define LOTS 3
#define MILLION 1000000

/* A lot about the packet of this number, of 32 bits: a number of SplitMix64 (Steele, Lea
 * and Flood 2014) for each. */
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
