// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What all disciplines share in the native library: reasons, counters and the
 * sizes of structures that cross to Rust. Also exports the shared arithmetic
 * for tests.
 */
#include "aqm.h"
#include "fixed.h"
#include "red.h"
#include "native.h"

static struct aqm_slot *native_slot(void *q, u32 index)
{
	return NULL;
}

/* Include the template for its structures only. */
#include "../../droptail.c"
#define AQM_NAME droptail
#define aqm_slot(q, i) native_slot(q, i)
#include "queue.h"

#define REASON_ROW(NAME, word, help) { word, "", help, 0, 0, 0 },
#define COUNT_ROW(name, unit, help) { #name, unit, help, 0, 0, 0 },

extern const struct aqm_row aqm_reasons[], aqm_counts[];
extern const u32 aqm_reasons_count, aqm_counts_count;
extern const u32 aqm_layout[], aqm_layout_count;

const struct aqm_row aqm_reasons[] = { AQM_REASONS(REASON_ROW) };
const struct aqm_row aqm_counts[] = { AQM_COUNTS(COUNT_ROW) };
const u32 aqm_reasons_count = AQM_REASON_COUNT;
const u32 aqm_counts_count = sizeof(aqm_counts) / sizeof(aqm_counts[0]);

#define AT(type, field) __builtin_offsetof(struct type, field)

/* Sizes and offsets, in the order of ffi.rs. */
const u32 aqm_layout[] = {
	sizeof(struct aqm_packet),
	AT(aqm_packet, arrived_ns),
	AT(aqm_packet, len),
	AT(aqm_packet, wire),
	AT(aqm_packet, flow),
	AT(aqm_packet, ecn),
	sizeof(struct aqm_verdict),
	AT(aqm_verdict, action),
	AT(aqm_verdict, reason),
	AT(aqm_verdict, queue),
	AT(aqm_verdict, evict),
	sizeof(struct aqm_link),
	AT(aqm_link, rate_bytes_s),
	AT(aqm_link, mtu_bytes),
	AT(aqm_link, overhead_bytes),
	AT(aqm_link, mpu_bytes),
	AT(aqm_link, framing),
	AT(aqm_link, queue_packets),
	AT(aqm_link, room_packets),
	sizeof(struct aqm_row),
	AT(aqm_row, name),
	AT(aqm_row, help),
	AT(aqm_row, most),
	sizeof(struct aqm_descriptor),
	AT(aqm_descriptor, params_count),
	AT(aqm_descriptor, packets),
	AT(aqm_descriptor, room_offset),
	AT(aqm_descriptor, setup),
	AT(aqm_descriptor, needs),
	AT(aqm_descriptor, virtual_offset),
	AT(aqm_descriptor, virtual_measured),
	sizeof(struct aqm_slot),
	sizeof(struct aqm_last),
	sizeof(struct aqm_counts),
};
const u32 aqm_layout_count = sizeof(aqm_layout) / sizeof(aqm_layout[0]);

/* The shared arithmetic, exported for tests. */
u32 aqm_test_wire(const struct aqm_link *link, u32 len);
u64 aqm_test_scale(u64 a, u64 ratio);
u64 aqm_test_power(u64 base, u32 n);
u64 aqm_test_idle_packets(u64 weight);
u64 aqm_test_automatic_weight(u64 packets_s);

u32 aqm_test_wire(const struct aqm_link *link, u32 len)
{
	return aqm_wire(link, len);
}

u64 aqm_test_scale(u64 a, u64 ratio)
{
	return aqm_scale(a, ratio);
}

u64 aqm_test_power(u64 base, u32 n)
{
	return aqm_power(base, n);
}

u64 aqm_test_idle_packets(u64 weight)
{
	return red_idle_packets(weight);
}

u64 aqm_test_automatic_weight(u64 packets_s)
{
	return red_automatic_weight(packets_s);
}
