/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Random words for packets. The kernel's own generator (bpf_get_prandom_u32)
 * takes some forty instructions a call. This one takes ten: SplitMix64 (Steele,
 * Lea and Flood 2014), a counter whose values are mixed. Each qdisc seeds its
 * own from the kernel's.
 */
#ifndef BPF_RANDOM_H
#define BPF_RANDOM_H

#include "kernel.h"

static __always_inline __u64 random_seed(void)
{
	return (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
}

static __always_inline __u32 random_word(__u64 *state)
{
	__u64 z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z >> 32;
}

#endif
