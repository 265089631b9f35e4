/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A lock for what packets of several processors change. The kernel's own lock
 * for maps forbids calls of functions, which the arithmetic needs. This one is
 * tried so often that a holder, who cannot be interrupted by another packet on
 * his processor, is done; whoever fails all the same lets his packet go.
 */
#ifndef BPF_LOCK_H
#define BPF_LOCK_H

#include "host.h"

#define LOCK_TRIES 256

/* Global, so that the verifier goes through the loop once and not for each caller; weak,
 * so that one program outside the kernel can have several that use it. */
__noinline __attribute__((weak)) int lock_take(u32 *lock)
{
	u32 i;

	if (!lock)
		return 0;
	for (i = 0; i < LOCK_TRIES; i++) {
		if (!__sync_val_compare_and_swap(lock, 0, 1))
			return 1;
	}
	return 0;
}

static __always_inline void lock_release(u32 *lock)
{
	__sync_val_compare_and_swap(lock, 1, 0);
}

#endif
