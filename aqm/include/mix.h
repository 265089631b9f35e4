/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Derives more words from one. A discipline gets one random word per arrival,
 * and a hash of the packet's flow. Some disciplines need several independent
 * words of either.
 */
#ifndef AQM_MIX_H
#define AQM_MIX_H

#include "aqm.h"

/*
 * Returns another word, selected by a number. For each number it is a
 * permutation of all words, so a uniform word gives a uniform one. The steps
 * are the finalizer of MurmurHash3 (Appleby 2011, fmix32).
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

/* Maps a uniform word to a number below `count`. */
AQM_FN u32 aqm_below(u32 word, u32 count)
{
	return (u32)((u64)word * count >> 32);
}

#endif
