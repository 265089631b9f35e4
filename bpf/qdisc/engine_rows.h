/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rows of weir_engine, in an arena (BPF_MAP_TYPE_ARENA, Linux 6.9): memory of
 * programs and of user space, in which the verifier lets a program go wherever it
 * likes. A row there costs less than half of what it costs in an array.
 *
 * Nodes come first, and the loader says where the other kinds begin. It has the
 * kernel put pages there. Outside a program reads zeros and writes nothing.
 */
#ifndef ENGINE_ROWS_H
#define ENGINE_ROWS_H

#include "engine_layout.h"

#define BPF_MAP_TYPE_ARENA 33
#define BPF_F_MMAPABLE (1U << 10)

struct {
	__uint(type, BPF_MAP_TYPE_ARENA);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
} rows SEC(".maps");

/* A program has the arena that it names. */
static __always_inline void engine_rows_are_used(void)
{
	asm volatile("" ::"r"(&rows));
}

/* A row of a kind, whose row 0 is at `at`; NULL for that. */
#define ENGINE_ROW(type, at, id) \
	({ \
		u32 row_at = (u32)(at) + (id) * (u32)sizeof(type); \
		type *row = (type *)(type __attribute__(( \
			address_space(1))) *)(u64)row_at; \
		__builtin_assume(row); \
		(id) ? row : NULL; \
	})

#endif
