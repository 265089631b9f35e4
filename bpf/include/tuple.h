/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who sends what to whom, which parts of that make a flow, and a hash of them:
 * the same for qdiscs and for programs at a clsact qdisc. Which headers say it
 * is read by flow.h and tc.h, because they get at a packet in different ways.
 */
#ifndef BPF_TUPLE_H
#define BPF_TUPLE_H

#include "aqm.h"

/* include/uapi/linux/in.h */
enum {
	IPPROTO_HOPOPTS = 0,
	IPPROTO_TCP = 6,
	IPPROTO_UDP = 17,
	IPPROTO_ROUTING = 43,
	IPPROTO_FRAGMENT = 44,
	IPPROTO_DSTOPTS = 60,
	IPPROTO_SCTP = 132,
	IPPROTO_UDPLITE = 136,
};

/* Extension headers of IPv6 that are gone through. */
#define EXTENSIONS 6

/* Bytes as they are in the packet. */
struct tuple {
	u32 address[2][4]; /* source, destination; IPv4 in the first word */
	u16 ports[2];
	u8 protocol;
	u8 version; /* 4, 6; 0 is no packet of a flow */
	u16 zero;
};

static __always_inline int tuple_has_ports(u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP ||
	       protocol == IPPROTO_UDPLITE || protocol == IPPROTO_SCTP;
}

/* Whether something lies between an IPv6 header and what it carries. */
static __always_inline int tuple_is_extension(u8 protocol)
{
	return protocol == IPPROTO_HOPOPTS || protocol == IPPROTO_ROUTING ||
	       protocol == IPPROTO_DSTOPTS;
}

/* Takes away what does not belong to a flow; `parts` are enum aqm_part. */
static __always_inline void tuple_reduce(struct tuple *tuple, u64 parts)
{
	if (!(parts & AQM_SOURCE))
		__builtin_memset(tuple->address[0], 0, 16);
	if (!(parts & AQM_DESTINATION))
		__builtin_memset(tuple->address[1], 0, 16);
	if (!(parts & AQM_SOURCE_PORT))
		tuple->ports[0] = 0;
	if (!(parts & AQM_DESTINATION_PORT))
		tuple->ports[1] = 0;
	if (!(parts & AQM_PROTOCOL))
		tuple->protocol = 0;
}

static __always_inline u32 tuple_mix(u32 hash, u32 word)
{
	word *= 0xcc9e2d51;
	word = word << 15 | word >> 17;
	hash ^= word * 0x1b873593;
	hash = hash << 13 | hash >> 19;
	return hash * 5 + 0xe6546b64;
}

/* MurmurHash3 of the tuple's words, by a seed that nobody outside knows. */
static __always_inline u32 tuple_hash(const struct tuple *tuple, u32 seed)
{
	u32 hash = seed;
	u32 i;

	hash = tuple_mix(hash, tuple->address[0][0]);
	hash = tuple_mix(hash, tuple->address[1][0]);
	if (tuple->version == 6) {
#pragma unroll
		for (i = 1; i < 4; i++) {
			hash = tuple_mix(hash, tuple->address[0][i]);
			hash = tuple_mix(hash, tuple->address[1][i]);
		}
	}
	hash = tuple_mix(hash, (u32)tuple->ports[0] << 16 | tuple->ports[1]);
	hash = tuple_mix(hash, (u32)tuple->version << 8 | tuple->protocol);
	hash ^= hash >> 16;
	hash *= 0x85ebca6b;
	hash ^= hash >> 13;
	hash *= 0xc2b2ae35;
	return hash ^ hash >> 16;
}

#endif
