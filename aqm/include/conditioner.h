/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Meters of a DiffServ traffic conditioner (RFC 2475 section 2.3.3, RFC 3290
 * section 5). A meter gives each packet one of three colours. What a colour
 * means (another code point, a queue, a drop) is up to the conditioner.
 *
 * The RFCs define token counts that are incremented as many times a second as
 * the rate. Here one step computes the growth between two packets, without
 * rounding: the fraction of a token is stored in units of 10^-9 token. So a
 * meter decides exactly as the definition does, however often it is called.
 *
 * Like disciplines, meters have no clock, no packets and no globals.
 */
#ifndef AQM_CONDITIONER_H
#define AQM_CONDITIONER_H

#include "fixed.h"

#define METER_NS_PER_S 1000000000ULL

/* The fastest rate (100 Gbit/s), the longest time and the most tokens that are
 * distinguished. 2^30 s at that rate still fits in 64 bits. At the slowest
 * rate, 1 byte/s, it brings as many tokens as any two bursts hold. */
#define METER_MOST_BYTES_S 12500000000ULL
#define METER_MOST_S (1ULL << 30)
#define METER_MOST_BURST ((1ULL << 29) - 1)

/* The most bytes of an interval that are counted, so that they fit with 16
 * binary places. */
#define METER_MOST_TOTAL ((1ULL << 47) - 1)

enum meter_kind {
	METER_BUCKET = 0, /* one rate, one burst: green or red */
	METER_SINGLE_RATE = 1, /* srTCM, RFC 2697 */
	METER_TWO_RATE = 2, /* trTCM, RFC 2698 */
	METER_AVERAGE = 3, /* bytes in a time, RFC 3290 section 5.1.1 */
	METER_MOVING = 4, /* exponential average, RFC 3290 section 5.1.2 */
};

/* Ordered from the most to the least permissive, as in both RFCs. */
enum meter_colour {
	METER_GREEN = 0,
	METER_YELLOW = 1,
	METER_RED = 2,
};

struct meter_params {
	u64 rate_bytes_s; /* CIR, or the rate not to be exceeded */
	u64 burst_bytes; /* CBS */
	u64 peak_bytes_s; /* PIR; METER_TWO_RATE */
	u64 excess_bytes; /* EBS (METER_SINGLE_RATE) or PBS (METER_TWO_RATE) */
	u64 interval_ns; /* METER_AVERAGE, METER_MOVING: Delta, not 0 */
	u64 gain; /* METER_MOVING: Gain, at most AQM_ONE */
	u32 kind; /* enum meter_kind */
	u32 aware; /* whether incoming colours count (colour-aware) */
};

/* The growth of tokens with time, including the fraction of the next one. */
struct meter_growth {
	u64 at_ns; /* counted up to this time */
	u64 part; /* 10^-9 tokens, below 10^9 */
};

struct meter_vars {
	struct meter_growth committed;
	struct meter_growth peak;
	u64 tokens; /* Tc, or the bytes of the interval so far */
	u64 excess; /* Te or Tp, or the average in 2^-16 bytes an interval */
	u64 began_ns; /* when the interval began */
	u64 started; /* whether a packet has been seen */
};

/* Returns the tokens that have accrued since the last call. */
AQM_FN u64 meter_grow(struct meter_growth *growth, u64 rate_bytes_s, u64 now_ns)
{
	u64 ns = now_ns > growth->at_ns ? now_ns - growth->at_ns : 0;
	u64 s = ns / METER_NS_PER_S;
	u64 part = (ns % METER_NS_PER_S) * rate_bytes_s + growth->part;

	if (now_ns > growth->at_ns)
		growth->at_ns = now_ns;
	if (s > METER_MOST_S)
		s = METER_MOST_S;
	growth->part = part % METER_NS_PER_S;
	return s * rate_bytes_s + part / METER_NS_PER_S;
}

/* Adds tokens to a bucket. Returns those that do not fit. */
AQM_FN u64 meter_fill(u64 *bucket, u64 size, u64 tokens)
{
	u64 room = size > *bucket ? size - *bucket : 0;

	if (tokens <= room) {
		*bucket += tokens;
		return 0;
	}
	*bucket += room;
	return tokens - room;
}

/* Takes the tokens of a packet from a bucket, if it has enough. */
AQM_FN u32 meter_take(u64 *bucket, u64 bytes)
{
	if (*bucket < bytes)
		return 0;
	*bucket -= bytes;
	return 1;
}

/* RFC 2697 section 3. */
AQM_FN u32 meter_single_rate(struct meter_vars *v, const struct meter_params *p,
			     u32 bytes, u32 colour, u64 now_ns)
{
	u64 grown = meter_grow(&v->committed, p->rate_bytes_s, now_ns);

	grown = meter_fill(&v->tokens, p->burst_bytes, grown);
	meter_fill(&v->excess, p->excess_bytes, grown);
	if (colour == METER_GREEN && meter_take(&v->tokens, bytes))
		return METER_GREEN;
	if (colour != METER_RED && meter_take(&v->excess, bytes))
		return METER_YELLOW;
	return METER_RED;
}

/* RFC 2698 section 3. */
AQM_FN u32 meter_two_rate(struct meter_vars *v, const struct meter_params *p,
			  u32 bytes, u32 colour, u64 now_ns)
{
	meter_fill(&v->tokens, p->burst_bytes,
		   meter_grow(&v->committed, p->rate_bytes_s, now_ns));
	meter_fill(&v->excess, p->excess_bytes,
		   meter_grow(&v->peak, p->peak_bytes_s, now_ns));
	if (colour == METER_RED || !meter_take(&v->excess, bytes))
		return METER_RED;
	if (colour == METER_YELLOW || !meter_take(&v->tokens, bytes))
		return METER_YELLOW;
	return METER_GREEN;
}

/* A token bucket with a conformance of two colours: RFC 3290 section 5.1.3,
 * "strict", that is, a packet larger than the bucket never conforms. */
AQM_FN u32 meter_bucket(struct meter_vars *v, const struct meter_params *p,
			u32 bytes, u32 colour, u64 now_ns)
{
	meter_fill(&v->tokens, p->burst_bytes,
		   meter_grow(&v->committed, p->rate_bytes_s, now_ns));
	if (colour != METER_RED && meter_take(&v->tokens, bytes))
		return colour;
	return METER_RED;
}

/* Returns the bytes that the rate allows in one interval. */
AQM_FN u64 meter_allowance(const struct meter_params *p)
{
	struct meter_growth growth = { .at_ns = 0, .part = 0 };

	return meter_grow(&growth, p->rate_bytes_s, p->interval_ns);
}

/* Ends the intervals that are over. Returns their number. */
AQM_FN u64 meter_intervals(struct meter_vars *v, const struct meter_params *p,
			   u64 now_ns)
{
	u64 ns = now_ns > v->began_ns ? now_ns - v->began_ns : 0;
	u64 over = p->interval_ns ? ns / p->interval_ns : 0;

	v->began_ns += over * p->interval_ns;
	return over;
}

/* Meters bytes in consecutive intervals, RFC 3290 section 5.1.1. A packet that
 * would exceed the rate's bytes of an interval does not conform and is not
 * counted. */
AQM_FN u32 meter_average(struct meter_vars *v, const struct meter_params *p,
			 u32 bytes, u32 colour, u64 now_ns)
{
	if (meter_intervals(v, p, now_ns))
		v->tokens = 0;
	if (colour == METER_RED || v->tokens + bytes > meter_allowance(p))
		return METER_RED;
	v->tokens += bytes;
	return colour;
}

/*
 * RFC 3290 section 5.1.2: at the end of each interval, average += gain * (bytes
 * of the interval - average). A packet conforms while the average does not
 * exceed the rate's bytes of an interval. All bytes count, because the average
 * is of the offered load. Each interval without a packet multiplies the average
 * by (1 - gain).
 */
AQM_FN u32 meter_moving(struct meter_vars *v, const struct meter_params *p,
			u32 bytes, u32 colour, u64 now_ns)
{
	u64 over = meter_intervals(v, p, now_ns);

	if (over) {
		v->excess -= aqm_scale(v->excess, p->gain);
		v->excess += aqm_scale(v->tokens << 16, p->gain);
		v->excess = aqm_scale(v->excess,
				      aqm_power(AQM_ONE - p->gain,
						(u32)aqm_min(over - 1, ~0U)));
		v->tokens = 0;
	}
	v->tokens = aqm_min(v->tokens + bytes, METER_MOST_TOTAL);
	if (colour == METER_RED || v->excess >> 16 > meter_allowance(p))
		return METER_RED;
	return colour;
}

/* Initializes a meter at the first packet: full buckets (RFC 2697 and 2698
 * section 3: at time 0). */
AQM_FN void meter_start(struct meter_vars *v, const struct meter_params *p,
			u64 now_ns)
{
	v->committed.at_ns = now_ns;
	v->committed.part = 0;
	v->peak.at_ns = now_ns;
	v->peak.part = 0;
	v->began_ns = now_ns;
	v->tokens = p->kind >= METER_AVERAGE ? 0 : p->burst_bytes;
	v->excess = p->kind >= METER_AVERAGE ? 0 : p->excess_bytes;
	v->started = 1;
}

/*
 * Returns the colour of a packet of `bytes` bytes that arrives with `colour`. A
 * colour-blind meter treats every packet as green. Time that goes backwards
 * counts as no time.
 */
AQM_FN u32 meter_colour(struct meter_vars *v, const struct meter_params *p,
			u32 bytes, u32 colour, u64 now_ns)
{
	if (!v->started)
		meter_start(v, p, now_ns);
	if (!p->aware)
		colour = METER_GREEN;
	switch (p->kind) {
	case METER_SINGLE_RATE:
		return meter_single_rate(v, p, bytes, colour, now_ns);
	case METER_TWO_RATE:
		return meter_two_rate(v, p, bytes, colour, now_ns);
	case METER_AVERAGE:
		return meter_average(v, p, bytes, colour, now_ns);
	case METER_MOVING:
		return meter_moving(v, p, bytes, colour, now_ns);
	default:
		return meter_bucket(v, p, bytes, colour, now_ns);
	}
}

#endif
