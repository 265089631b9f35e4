/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A lock for data that packets on several CPUs change. The kernel's own lock
 * for maps forbids function calls, which the arithmetic needs. The number of
 * attempts is enough for a holder to finish, because no other packet can
 * interrupt it on its CPU. If all attempts fail, the caller lets its packet
 * pass.
 */
#ifndef BPF_LOCK_H
#define BPF_LOCK_H

#include "host.h"

#define LOCK_TRIES 256

/* Global, so that the verifier checks the loop once and not for each caller.
 * Weak, so that one program outside the kernel can link several users of it. */
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
