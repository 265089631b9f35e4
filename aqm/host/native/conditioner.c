// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The meters in the native library: one function, and the sizes of structures
 * that cross to Rust. */
#include "conditioner.h"

u32 meter_native_colour(struct meter_vars *v, const struct meter_params *p,
			u32 bytes, u32 colour, u64 now_ns);
extern const u32 meter_layout[2];

const u32 meter_layout[2] = {
	sizeof(struct meter_params),
	sizeof(struct meter_vars),
};

u32 meter_native_colour(struct meter_vars *v, const struct meter_params *p,
			u32 bytes, u32 colour, u64 now_ns)
{
	return meter_colour(v, p, bytes, colour, now_ns);
}
