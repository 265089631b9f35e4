/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which flow a packet is of, as a hash.
 *
 * What a network card or a socket has noted of a packet's flow costs nothing to
 * read. Else the kernel would dissect the packet, which costs more than most
 * disciplines do. So this file hashes TCP and UDP in plain IPv4 and IPv6 itself:
 * addresses, ports and protocol, with Jenkins' lookup3. The key is the instance's
 * own, so that nobody outside can choose packets of one flow that collide with
 * another's. Everything else (fragments, options, extension headers, tunnels,
 * tags in the packet) is left to the kernel.
 *
 * Where fewer parts of the headers make a flow (D7 of the thesis's meredt), no
 * such hash is of use: tuple.h's is made of them.
 */
#ifndef BPF_FLOW_H
#define BPF_FLOW_H

#include "kernel.h"
#include "tuple.h"

/* Bytes of a header and of the ports behind it. */
#define FLOW_V4_BYTES 24
#define FLOW_V6_BYTES 44

/* Types of packets, in the order of the wire. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FLOW_ETH_V4 0x0008
#define FLOW_ETH_V6 0xdd86
#else
#define FLOW_ETH_V4 0x0800
#define FLOW_ETH_V6 0x86dd
#endif

#define FLOW_TCP 6
#define FLOW_UDP 17

/*
 * Sixteen bytes of a header. A cast to a type of the kernel that is as long,
 * whose bytes may be read by any number at a time, costs nothing, where the
 * functions that hand out packets' bytes cost more than the hash does. What is
 * no memory reads as 0.
 */
static __always_inline const __u32 *flow_words(__u64 address)
{
	return (const __u32 *)bpf_core_cast((void *)address, struct in6_addr);
}

/* The hash of the flow of an IPv4 packet at `address` into `hash`, if it is a
 * plain one. */
static __always_inline int flow_v4(__u64 address, __u32 key, __u32 *hash)
{
	const __u32 *first = flow_words(address);
	const __u32 *second = flow_words(address + 16);
	const __u8 *bytes = (const __u8 *)first;

	/* 20 bytes of header, and no fragment. */
	if (bytes[0] != 0x45 || (bytes[6] & 0x3f) || bytes[7])
		return 0;
	if (bytes[9] != FLOW_TCP && bytes[9] != FLOW_UDP)
		return 0;
	*hash = tuple_final(first[3] + key, second[0] + key,
			    second[1] + (key ^ bytes[9] * TUPLE_GOLDEN));
	return 1;
}

/* The same of IPv6: the first three words of either address are mixed with the
 * other's in turn. */
static __always_inline int flow_v6(__u64 address, __u32 key, __u32 *hash)
{
	const __u32 *first = flow_words(address);
	const __u32 *second = flow_words(address + 16);
	const __u32 *third = flow_words(address + 32);
	const __u8 *bytes = (const __u8 *)first;
	__u32 mixed;

	if (bytes[0] >> 4 != 6)
		return 0;
	if (bytes[6] != FLOW_TCP && bytes[6] != FLOW_UDP)
		return 0;
	mixed = tuple_final(first[2] + key, first[3] + key, second[0] + key);
	mixed = tuple_final(second[1] + mixed, second[2] + key,
			    second[3] + key);
	mixed = tuple_final(third[0] + mixed, third[1] + key, third[2] + key);
	*hash = tuple_final(mixed, key, bytes[6]);
	return 1;
}

/* Addresses and protocol of an IPv4 packet, and where its ports are; 0 where
 * there are none, or it is a fragment. */
static __always_inline int flow_tuple_v4(const struct bpf_dynptr *data,
					 __u32 at, struct tuple *tuple,
					 __u32 *ports)
{
	__u8 space[20];
	const __u8 *header = bpf_dynptr_slice(data, at, space, sizeof(space));

	if (!header || header[0] >> 4 != 4)
		return 0;
	tuple->version = 4;
	tuple->protocol = header[9];
	__builtin_memcpy(tuple->address[0], header + 12, 4);
	__builtin_memcpy(tuple->address[1], header + 16, 4);
	if (!(header[6] & 0x3f) && !header[7])
		*ports = at + (header[0] & 0xf) * 4;
	return 1;
}

/* The same of IPv6. */
static __always_inline int flow_tuple_v6(const struct bpf_dynptr *data,
					 __u32 at, struct tuple *tuple,
					 __u32 *ports)
{
	__u8 space[40], more[2];
	const __u8 *header = bpf_dynptr_slice(data, at, space, sizeof(space));
	const __u8 *next;
	__u32 i;

	if (!header || header[0] >> 4 != 6)
		return 0;
	tuple->version = 6;
	tuple->protocol = header[6];
	__builtin_memcpy(tuple->address[0], header + 8, 16);
	__builtin_memcpy(tuple->address[1], header + 24, 16);
	at += 40;
	for (i = 0; i < EXTENSIONS; i++) {
		if (!tuple_is_extension(tuple->protocol))
			break;
		next = bpf_dynptr_slice(data, at, more, sizeof(more));
		if (!next)
			break;
		tuple->protocol = next[0];
		at += (next[1] + 1) * 8;
	}
	*ports = at;
	return 1;
}

/* The hash of those parts of a packet's headers (enum aqm_part) that make its
 * flow. What is no IP packet is left to the kernel. */
static __noinline __u32 flow_hash_of(struct sk_buff *skb, __u32 key,
				     __u32 parts)
{
	struct tuple tuple = {};
	struct bpf_dynptr data;
	__u32 ports = 0;
	__u8 space[4];
	const __u8 *found;
	__u32 at;
	int ip = 0;

	if (bpf_dynptr_from_skb(skb, 0, &data))
		return bpf_skb_get_hash(skb);
	at = (__u32)((__u64)skb->head + skb->network_header - (__u64)skb->data);
	if (skb->protocol == FLOW_ETH_V4)
		ip = flow_tuple_v4(&data, at, &tuple, &ports);
	else if (skb->protocol == FLOW_ETH_V6)
		ip = flow_tuple_v6(&data, at, &tuple, &ports);
	if (!ip)
		return bpf_skb_get_hash(skb);
	if (ports && tuple_has_ports(tuple.protocol)) {
		found = bpf_dynptr_slice(&data, ports, space, sizeof(space));
		if (found)
			__builtin_memcpy(tuple.ports, found, 4);
	}
	tuple_reduce(&tuple, parts);
	return tuple_hash(&tuple, key);
}

/* A packet's DS code point (RFC 2474); 0 where it is none of IP. */
static __noinline __attribute__((unused)) __u32 flow_code(struct sk_buff *skb)
{
	struct bpf_dynptr data;
	const __u8 *header;
	__u8 space[2];
	__u64 at;

	if (bpf_dynptr_from_skb(skb, 0, &data))
		return 0;
	at = (__u64)skb->head + skb->network_header - (__u64)skb->data;
	/* Pointers must not be taken for half of what they are. */
	asm volatile("" : "+r"(at));
	header = bpf_dynptr_slice(&data, (__u32)at, space, sizeof(space));
	if (!header)
		return 0;
	if (skb->protocol == FLOW_ETH_V4 && header[0] >> 4 == 4)
		return header[1] >> 2;
	if (skb->protocol == FLOW_ETH_V6 && header[0] >> 4 == 6)
		return (header[0] & 0xf) << 2 | header[1] >> 6;
	return 0;
}

/* The hash of one of a packet's addresses, source or destination, which make its
 * host; of other parts as flow_hash_of(). */
static __always_inline __attribute__((unused)) __u32
flow_host(struct sk_buff *skb, __u32 key, __u32 parts)
{
	__u64 address = (__u64)skb->head + skb->network_header;
	__s64 rest = (__u64)skb->data + skb->len - skb->data_len - address;
	int second = parts == AQM_DESTINATION;
	const __u32 *at;

	if (parts != AQM_SOURCE && parts != AQM_DESTINATION)
		return flow_hash_of(skb, key, parts);
	if (skb->protocol == FLOW_ETH_V4 && rest >= FLOW_V4_BYTES) {
		at = flow_words(address + (second ? 16 : 12));
		return tuple_final(at[0] + key, key, key);
	}
	if (skb->protocol == FLOW_ETH_V6 && rest >= FLOW_V6_BYTES) {
		at = flow_words(address + (second ? 24 : 8));
		return tuple_final(tuple_final(at[0] + key, at[1] + key,
					       at[2] + key),
				   at[3] + key, key);
	}
	return flow_hash_of(skb, key, parts);
}

/* The hash of a packet's flow, which `parts` of its headers make. */
static __always_inline __u32 flow_hash(struct sk_buff *skb, __u32 key,
				       __u32 parts)
{
	__u64 address;
	__s64 rest;
	__u32 hash;

	if (parts != AQM_CONNECTION)
		return flow_hash_of(skb, key, parts);
	hash = skb->hash;
	/* What has not been noted is 0, which is sooner read than two bits. */
	if (hash && (BPF_CORE_READ_BITFIELD(skb, l4_hash) ||
		     BPF_CORE_READ_BITFIELD(skb, sw_hash)))
		return hash;
	address = (__u64)skb->head + skb->network_header;
	/* What of the packet lies there in one piece. */
	rest = (__u64)skb->data + skb->len - skb->data_len - address;
	if (skb->protocol == FLOW_ETH_V4 && rest >= FLOW_V4_BYTES &&
	    flow_v4(address, key, &hash))
		return hash;
	if (skb->protocol == FLOW_ETH_V6 && rest >= FLOW_V6_BYTES &&
	    flow_v6(address, key, &hash))
		return hash;
	return bpf_skb_get_hash(skb);
}

#endif
