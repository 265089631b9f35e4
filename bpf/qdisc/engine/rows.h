/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rows of weir_engine, in an arena (BPF_MAP_TYPE_ARENA, Linux 6.9). An
 * arena is memory that programs share with user space, and in which the
 * verifier allows any access. A row there costs less than half of what it costs
 * in an array.
 *
 * Nodes come first, and the loader sets where the other kinds begin. It makes
 * the kernel allocate the pages. Outside of them, a program reads zeros, and
 * its writes are lost.
 */
#ifndef ENGINE_ROWS_H
#define ENGINE_ROWS_H

#include "engine/layout.h"

#define BPF_MAP_TYPE_ARENA 33
#define BPF_F_MMAPABLE (1U << 10)

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
} rows SEC(".maps");

/* Makes a program reference the arena, which it must to use it. */
static __always_inline void engine_rows_are_used(void)
{
	asm volatile("" ::"r"(&rows));
}

/* Returns a row of a kind, whose row 0 is at `at`; NULL for row 0. */
#define ENGINE_ROW(type, at, id) \
	({ \
		u32 row_at = (u32)(at) + (id) * (u32)sizeof(type); \
		type *row = (type *)(type __attribute__(( \
			address_space(1))) *)(u64)row_at; \
		__builtin_assume(row); \
		(id) ? row : NULL; \
	})

#endif
