/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tuples of addresses, ports and protocol, the reduction to the fields that
 * define a flow, and their hash. Shared by qdiscs and by programs at a clsact
 * qdisc. flow.h and tc.h read the headers, because both access packets in
 * different ways.
 */
#ifndef BPF_TUPLE_H
#define BPF_TUPLE_H

#include "tuple_layout.h"

/* include/uapi/linux/in.h */
enum {
	IPPROTO_HOPOPTS = 0,
	IPPROTO_ICMP = 1,
	IPPROTO_TCP = 6,
	IPPROTO_UDP = 17,
	IPPROTO_DCCP = 33,
	IPPROTO_ROUTING = 43,
	IPPROTO_FRAGMENT = 44,
	IPPROTO_ICMPV6 = 58,
	IPPROTO_DSTOPTS = 60,
	IPPROTO_SCTP = 132,
	IPPROTO_UDPLITE = 136,
};

/* Most IPv6 extension headers that are skipped. */
#define EXTENSIONS 6

static __always_inline int tuple_has_ports(u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP ||
	       protocol == IPPROTO_UDPLITE || protocol == IPPROTO_SCTP;
}

/* Whether a protocol number is an IPv6 extension header to skip. */
static __always_inline int tuple_is_extension(u8 protocol)
{
	return protocol == IPPROTO_HOPOPTS || protocol == IPPROTO_ROUTING ||
	       protocol == IPPROTO_DSTOPTS;
}

/* Clears the fields that do not define a flow; `parts` are enum aqm_part. */
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

/* Reverses the direction of a tuple. */
static __always_inline void tuple_reverse(struct tuple *tuple)
{
	u32 source[4];
	u16 port = tuple->ports[0];

	__builtin_memcpy(source, tuple->address[0], sizeof(source));
	__builtin_memcpy(tuple->address[0], tuple->address[1], sizeof(source));
	__builtin_memcpy(tuple->address[1], source, sizeof(source));
	tuple->ports[0] = tuple->ports[1];
	tuple->ports[1] = port;
}

/* 2^32 over the golden ratio. It separates the protocol from the ports, by a
 * difference that varies with the key. */
#define TUPLE_GOLDEN 0x9e3779b9U

static __always_inline u32 tuple_rotate(u32 word, int bits)
{
	return word << bits | word >> (32 - bits);
}

/* The final mix of Jenkins' lookup3: every bit of a, b and c affects c. */
static __always_inline u32 tuple_final(u32 a, u32 b, u32 c)
{
	c ^= b;
	c -= tuple_rotate(b, 14);
	a ^= c;
	a -= tuple_rotate(c, 11);
	b ^= a;
	b -= tuple_rotate(a, 25);
	c ^= b;
	c -= tuple_rotate(b, 16);
	a ^= c;
	a -= tuple_rotate(c, 4);
	b ^= a;
	b -= tuple_rotate(a, 14);
	c ^= b;
	c -= tuple_rotate(b, 24);
	return c;
}

/* Hashes a tuple with a secret key. The key enters every step, so no packets
 * collide under all keys. */
static __always_inline u32 tuple_hash(const struct tuple *tuple, u32 key)
{
	u32 last = (u32)tuple->version << 8 | tuple->protocol;
	u32 ports = (u32)tuple->ports[0] << 16 | tuple->ports[1];
	u32 hash = tuple_final(tuple->address[0][0] + key,
			       tuple->address[1][0] + key,
			       ports + (key ^ last * TUPLE_GOLDEN));
	u32 i;

	if (tuple->version != 6)
		return hash;
#pragma unroll
	for (i = 1; i < 4; i++)
		hash = tuple_final(tuple->address[0][i] + hash,
				   tuple->address[1][i] + key, hash ^ key);
	return hash;
}

#endif
