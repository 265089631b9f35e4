/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Passes a fuzzer's bytes to a driver, which defines fuzzed() before it
 * includes this file.
 */
#ifndef KIT_FUZZED_H
#define KIT_FUZZED_H

#ifdef LIBFUZZER
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	fuzzed(data, size);
	return 0;
}
#else
/* Without libFuzzer, runs on random bytes for the given time. */
static void blind(u32 seconds)
{
	time_t until = time(0) + seconds;
	unsigned char data[4096];
	u64 runs = 0, x = 88172645463325252ULL;
	size_t i;

	do {
		for (i = 0; i < sizeof(data); i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			data[i] = (unsigned char)(x >> 24);
		}
		fuzzed(data, sizeof(data));
		runs++;
	} while (time(0) < until);
	printf("%llu runs\n", runs);
}
#endif

#endif
