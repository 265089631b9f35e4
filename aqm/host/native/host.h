/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the native host gives to disciplines: types and the shape of loops. */
#ifndef AQM_HOST_H
#define AQM_HOST_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define NULL ((void *)0)

/* Every function of a discipline. */
#define AQM_FN static inline __attribute__((unused))

/* A function of numbers to a number, with loops: the kernel's verifier looks at
 * it once, for any arguments, in place of once for each call. */
#define AQM_NUMBER_FN static inline __attribute__((unused))

/* A larger function that the kernel's verifier looks at once, for any arguments;
 * of a pointer it knows only that it is not NULL. */
#define AQM_WHOLE_FN static inline __attribute__((unused))
#define AQM_NONNULL

/* A number whose bits beyond `mask`, which is one less than a power of two, are
 * cut off: for the kernel's verifier too, where the compiler knows better. */
#define AQM_MASKED(number, mask) ((number) & (mask))

/* A pointer that is tested by itself, for the kernel's verifier. */
#define AQM_ITSELF(pointer) ((void)(pointer))

/* A loop of at most `times` steps, which may end early with `break`. */
#define AQM_LOOP(i, times) for ((i) = 0; (i) < (times); (i)++)

/* The same for many steps or steps with many branches: the kernel's verifier
 * then looks at one step for all. */
#define AQM_LONG_LOOP(i, times) AQM_LOOP (i, times)

/* The same, which costs less: for programs of qdiscs, whose kernels all have it. */
#define AQM_QUICK_LOOP(i, times) AQM_LOOP (i, times)

/* The same of steps up a tree, which end where it does: the kernel bounds them. */
#define AQM_CHAIN_LOOP(i, times) AQM_LOOP (i, times)

/* 0, to count from in such loops. */
#define AQM_ZERO 0

/* Text for people. */
#define AQM_SUMMARY(name, text) static const char name##_SUMMARY[] = text;

_Static_assert(sizeof(u64) == 8 && sizeof(u32) == 4, "widths of integers");

#endif
