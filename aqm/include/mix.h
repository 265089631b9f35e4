/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Derives more words from one. A discipline gets one random word with an arrival, and a
 * hash of the packet's flow; some need several independent words of either.
 */
#ifndef AQM_MIX_H
#define AQM_MIX_H

#include "aqm.h"

/*
 * Another word, by a number of the caller's choice. For one number it is a permutation
 * of all words, so a uniform word gives a uniform one. The steps are those that end
 * MurmurHash3 (Appleby 2011, fmix32).
 */
AQM_FN u32 aqm_mix(u32 word, u32 number)
{
	word ^= number * 0x9e3779b9U;
	word ^= word >> 16;
	word *= 0x85ebca6bU;
	word ^= word >> 13;
	word *= 0xc2b2ae35U;
	return word ^ word >> 16;
}

/* A number below `count`, by a uniform word. */
AQM_FN u32 aqm_below(u32 word, u32 count)
{
	return (u32)((u64)word * count >> 32);
}

#endif
