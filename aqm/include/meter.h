/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Measures the rate at which bytes arrive (Shah 1999, section 5.1). Bytes are
 * counted in chunks of time. A chunk closes at the first arrival after its end,
 * and its count is scaled to the chunk's length. The rate is the mean of a ring
 * of chunks, and is forgotten after a silence. There is no timer: everything
 * happens at arrivals.
 *
 * Departures from the thesis: It counts packets, and this counts bytes. It
 * counts future chunks as empty, and this averages only existing chunks.
 */
#ifndef AQM_METER_H
#define AQM_METER_H

#include "aqm.h"
#include "fixed.h"

/* Most chunks in the ring. */
#define METER_CHUNKS 64

struct meter_rule {
	u64 chunk_ns;
	u64 chunks; /* number of chunks in the ring */
	u64 age_ns; /* a silence after which the rate is forgotten */
};

struct meter {
	u64 seen_ns; /* time of the last arrival */
	u64 chunk_ns; /* when the open chunk began; 0: none is open */
	u64 sum; /* sum of the ring */
	u64 rate_bytes_s;
	u32 count; /* bytes in the open chunk */
	u32 next; /* next entry of the ring */
	u32 filled;
	u32 pad;
	u32 ring[METER_CHUNKS];
};

/* Closes a chunk: adds its scaled bytes to the ring. */
AQM_FN void meter_close(struct meter *meter, const struct meter_rule *rule,
			u64 now_ns)
{
	u64 elapsed = now_ns - meter->chunk_ns;
	u64 chunks = aqm_clamp(rule->chunks, 1, METER_CHUNKS);
	u64 scaled;
	u32 *place;

	/* In microseconds, so that the product fits: a chunk is at most 10 s
	 * and has less than 2^32 bytes. */
	scaled = rule->chunk_ns / 1000 * meter->count /
		 aqm_max(elapsed / 1000, 1);
	scaled = aqm_min(scaled, 0xffffffff);
	if (meter->next >= chunks)
		meter->next = 0;
	place = &meter->ring[meter->next & (METER_CHUNKS - 1)];
	if (meter->filled >= chunks)
		meter->sum -= aqm_min(*place, meter->sum);
	else
		meter->filled++;
	*place = (u32)scaled;
	meter->sum += scaled;
	meter->next++;
	meter->rate_bytes_s =
		meter->sum * 1000000 /
		aqm_max(meter->filled * (rule->chunk_ns / 1000), 1);
	meter->count = 0;
	meter->chunk_ns = now_ns;
}

AQM_FN void meter_forget(struct meter *meter)
{
	meter->chunk_ns = 0;
	meter->sum = 0;
	meter->rate_bytes_s = 0;
	meter->count = 0;
	meter->next = 0;
	meter->filled = 0;
}

/* Counts arriving bytes. */
AQM_FN void meter_arrived(struct meter *meter, const struct meter_rule *rule,
			  u32 bytes, u64 now_ns)
{
	if (meter->seen_ns && now_ns - meter->seen_ns > rule->age_ns)
		meter_forget(meter);
	meter->seen_ns = now_ns;
	if (!meter->chunk_ns)
		meter->chunk_ns = now_ns;
	meter->count += bytes;
	if (now_ns - meter->chunk_ns >= rule->chunk_ns)
		meter_close(meter, rule, now_ns);
}

#endif
