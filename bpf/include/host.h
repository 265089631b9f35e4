/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the kernel host gives to disciplines: types and the shape of loops.
 * The native host's is aqm/host/native/host.h. */
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
/* Global, so verified by itself. */
#define AQM_NUMBER_FN __noinline __attribute__((unused))
#define AQM_WHOLE_FN __noinline __attribute__((unused))
#define AQM_NONNULL __arg_nonnull
#define AQM_MASKED(number, mask) \
	({ \
		u32 aqm_masked = (number); \
		asm volatile("" : "+r"(aqm_masked)); \
		aqm_masked &(mask); \
	})

/* A pointer that the compiler shall not take for the condition by which it came about:
 * the verifier knows pointers, and not that two numbers are equal. */
#define AQM_ITSELF(pointer) asm volatile("" : "+r"(pointer))

/* The verifier follows a short loop step by step, and a long one by the
 * kernel's own counter. */
#define AQM_LOOP(i, times) for ((i) = 0; (i) < (times); (i)++)
#define AQM_LONG_LOOP(i, times) bpf_for (i, 0, times)

/* By an instruction that counts down in place of calls of the kernel (may_goto,
 * Linux 6.9). Its own bound, 8 million steps, is beyond any of these. The verifier
 * would count along from a number that it knows. */
#define AQM_QUICK_LOOP(i, times) \
	for ((i) = host_zero; (i) < (times) && host_may_go_on(); (i)++)

/* A loop up a tree: its bound is that of the instruction, for what is counted besides
 * costs as much as a look at a row. Rows that agree end it sooner. */
#define AQM_CHAIN_LOOP(i, times) for ((i) = 0; host_may_go_on();)

static volatile u32 host_zero;

/* 0, where the verifier would count along from a number that it knows. */
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

/* Names for people come from the native library. */
#define AQM_SUMMARY(name, text)

#endif
