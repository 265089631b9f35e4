/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the native host provides to disciplines: types, and macros for loops and
 * functions. bpf/include/host.h has the kernel's version. */
#ifndef AQM_HOST_H
#define AQM_HOST_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define NULL ((void *)0)

/* Attributes of a discipline's functions. */
#define AQM_FN static inline __attribute__((unused))

/* A function with loops that takes and returns numbers. The verifier checks it
 * once for any arguments, and not once for each call. */
#define AQM_NUMBER_FN static inline __attribute__((unused))

/* A larger function that the verifier checks once, for any arguments. It knows
 * of a pointer argument only that it is not NULL. */
#define AQM_WHOLE_FN static inline __attribute__((unused))
#define AQM_NONNULL

/* A number masked by `mask`, which is a power of two minus one. In the kernel
 * the verifier sees the mask even if the compiler could drop it. */
#define AQM_MASKED(number, mask) ((number) & (mask))

/* A pointer to be tested for NULL by itself, for the verifier. */
#define AQM_ITSELF(pointer) ((void)(pointer))

/* A loop of at most `times` steps, which may end early with `break`. */
#define AQM_LOOP(i, times) for ((i) = 0; (i) < (times); (i)++)

/* A loop with many steps or many branches. The verifier checks one step for
 * all. */
#define AQM_LONG_LOOP(i, times) AQM_LOOP (i, times)

/* The same at a lower cost, for qdisc programs, whose kernels all support
 * it. */
#define AQM_QUICK_LOOP(i, times) AQM_LOOP (i, times)

/* The same for steps up a tree, which end at its root. The kernel bounds
 * them. */
#define AQM_CHAIN_LOOP(i, times) AQM_LOOP (i, times)

/* Zero, as the start value of counters in these loops. */
#define AQM_ZERO 0

/* Defines the summary text of a discipline. */
#define AQM_SUMMARY(name, text) static const char name##_SUMMARY[] = text;

_Static_assert(sizeof(u64) == 8 && sizeof(u32) == 4, "widths of integers");

#endif
