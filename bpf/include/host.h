/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the kernel host provides to disciplines: types, and macros for loops and
 * functions. The native host's version is aqm/host/native/host.h. */
#ifndef AQM_HOST_H
#define AQM_HOST_H

#include "kernel.h"

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#define NULL ((void *)0)

#define AQM_FN static __always_inline __attribute__((unused))
/* Global functions, which the verifier checks once. */
#define AQM_NUMBER_FN __noinline __attribute__((unused))
#define AQM_WHOLE_FN __noinline __attribute__((unused))
#define AQM_NONNULL __arg_nonnull
#define AQM_MASKED(number, mask) \
	({ \
		u32 aqm_masked = (number); \
		asm volatile("" : "+r"(aqm_masked)); \
		aqm_masked &(mask); \
	})

/* Hides a pointer from the compiler, which must not replace it by the
 * condition it came from: the verifier tracks pointers but not the equality
 * of numbers. */
#define AQM_ITSELF(pointer) asm volatile("" : "+r"(pointer))

/* The verifier follows a short loop step by step, and a long one by the
 * kernel's iterator. */
#define AQM_LOOP(i, times) for ((i) = 0; (i) < (times); (i)++)
#define AQM_LONG_LOOP(i, times) bpf_for (i, 0, times)

/* Uses an instruction that counts down, which is cheaper than calls of the
 * kernel (may_goto, Linux 6.9). Its own bound, 8 million steps, exceeds that of
 * every loop here. The start value must be unknown to the verifier, which would
 * otherwise unroll the loop. */
#define AQM_QUICK_LOOP(i, times) \
	for ((i) = host_zero; (i) < (times) && host_may_go_on(); (i)++)

/* A loop up a tree. It is bounded by the instruction alone, because another
 * counter would cost as much as reading a row. Consistent rows end it
 * sooner. */
#define AQM_CHAIN_LOOP(i, times) for ((i) = 0; host_may_go_on();)

static volatile u32 host_zero;

/* Zero, but unknown to the verifier, which would otherwise unroll the loop. */
#define AQM_ZERO host_zero

#define host_may_go_on() \
	({ \
		__label__ host_ends, host_goes; \
		int host_on = 1; \
		asm volatile goto("may_goto %l[host_ends]" :: ::host_ends); \
		goto host_goes; \
	host_ends: \
		host_on = 0; \
	host_goes:; \
		host_on; \
	})

/* Texts for users come from the native library. */
#define AQM_SUMMARY(name, text)

#endif
