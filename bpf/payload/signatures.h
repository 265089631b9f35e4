/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Matches patterns: fixed bytes at fixed offsets of a packet's payload. The
 * build generates patterns.h from the table in crates/signatures.
 */
#ifndef PAYLOAD_SIGNATURES_H
#define PAYLOAD_SIGNATURES_H

#include "patterns.h"

/* A flow without a known pattern; other numbers are in the table. */
#define NOTHING 0

/* The start of a payload, zero-padded, and the payload's length. */
struct payload {
	__u8 head[HEAD];
	__u32 length;
};

/* Whether the bytes of a string literal are at an offset. */
#define AT(payload, offset, text) at(payload, offset, text, sizeof(text) - 1)

static __always_inline int at(const struct payload *payload, __u32 offset,
			      const char *text, __u32 length)
{
	if (payload->length < offset + length)
		return 0;
#pragma unroll
	for (__u32 i = 0; i < length; i++)
		if (payload->head[offset + i] != (__u8)text[i])
			return 0;
	return 1;
}

/* Whether a byte has a value under a mask. */
#define SET(payload, offset, mask, value) \
	((payload)->length > (offset) && \
	 ((payload)->head[offset] & (mask)) == (value))

/* Whether bytes 1 to 4, in little endian, are the length of the rest of the
 * payload. */
static __always_inline int stated(const struct payload *payload)
{
	const __u8 *head = payload->head;
	__u32 length = head[1] | (__u32)head[2] << 8 | (__u32)head[3] << 16 |
		       (__u32)head[4] << 24;

	return payload->length >= 5 && length == payload->length - 5;
}

static __always_inline __u8 of_tcp(const struct payload *payload)
{
	TCP_PATTERNS(payload)
	return NOTHING;
}

static __always_inline __u8 of_udp(const struct payload *payload)
{
	UDP_PATTERNS(payload)
	return NOTHING;
}

#endif
