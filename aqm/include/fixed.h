/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fixed-point arithmetic in 64 bits, for hosts like BPF that have no wider
 * multiplication and no floating point.
 *
 * A ratio has 32 binary places. AQM_ONE is 1, which does not fit in 32 bits, so
 * ratios are u64. An average has 16 binary places.
 */
#ifndef AQM_FIXED_H
#define AQM_FIXED_H

#include "aqm.h"

/*
 * Returns a * ratio, rounded down. It is exact for ratio <= AQM_ONE and any a.
 * Let a = h * 2^32 + l; then a * r / 2^32 = h * r + l * r / 2^32. The first
 * term is an integer, and l * r < 2^32 * 2^32 does not overflow.
 */
AQM_FN u64 aqm_scale(u64 a, u64 ratio)
{
	return (a >> 32) * ratio + (((a & 0xffffffffULL) * ratio) >> 32);
}

/* Returns part / whole as a ratio, rounded down, for part <= whole < 2^32. */
AQM_FN u64 aqm_ratio(u64 part, u64 whole)
{
	if (part >= whole)
		return AQM_ONE;
	return (part << 32) / whole;
}

/*
 * Returns base^n, by squaring: with n = sum of b_i 2^i, base^n is the product
 * of base^(2^i) for the i with b_i = 1. It takes at most 32 steps. Each product
 * is rounded down by less than 2^-32, and a squaring doubles the relative
 * error. So the result is low by less than 2 n 2^-32.
 */
AQM_NUMBER_FN u64 aqm_power(u64 base, u32 n)
{
	u64 result = AQM_ONE;
	u32 i;

	AQM_LOOP (i, 32) {
		if (!n)
			break;
		if (n & 1)
			result = aqm_scale(result, base);
		base = aqm_scale(base, base);
		n >>= 1;
	}
	return result;
}

/* Returns rate * time without overflow, for rate < 2^40 bytes/s. Handles whole
 * seconds separately. */
AQM_FN u64 aqm_bytes_in(u64 rate_bytes_s, u64 ns)
{
	u64 s = ns / 1000000000;

	return s * rate_bytes_s +
	       (ns - s * 1000000000) / 1000 * rate_bytes_s / 1000000;
}

/*
 * Returns the square root of a ratio below 1, rounded down. For r / 2^32 it is
 * the root of r 2^32, over 2^32. It is built bit by bit from the highest, as
 * the largest number whose square does not exceed r 2^32.
 */
AQM_NUMBER_FN u64 aqm_root(u64 ratio)
{
	u64 square = ratio << 32;
	u64 root = 0;
	u32 i;

	AQM_LOOP (i, 32) {
		u64 digit = 1ULL << (31 - i);

		if ((root + digit) * (root + digit) <= square)
			root += digit;
	}
	return root;
}

AQM_FN u64 aqm_min(u64 a, u64 b)
{
	return a < b ? a : b;
}

AQM_FN u64 aqm_max(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* Clamps value to [least, most]; `most` wins if they contradict. */
AQM_FN u64 aqm_clamp(u64 value, u64 least, u64 most)
{
	return aqm_min(aqm_max(value, least), most);
}

#endif
