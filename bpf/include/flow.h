/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Computes a hash of a packet's flow.
 *
 * A hash that a network card or a socket has stored in the packet costs nothing
 * to read. Without one, the kernel would dissect the packet, which costs more
 * than most disciplines do. So this file hashes TCP and UDP in plain IPv4 and
 * IPv6 itself: addresses, ports and protocol, with Jenkins' lookup3. Each
 * instance has a secret key, so that nobody outside can choose packets that
 * collide with another flow. Everything else (fragments, options, extension
 * headers, tunnels, VLAN tags in the packet) is left to the kernel.
 *
 * If fewer header fields define a flow (D7 of the thesis's meredt), such a hash
 * is of no use. tuple.h computes one from the chosen fields.
 */
#ifndef BPF_FLOW_H
#define BPF_FLOW_H

#include "kernel.h"
#include "tuple.h"

/* Bytes of an IP header and the ports behind it. */
#define FLOW_V4_BYTES 24
#define FLOW_V6_BYTES 44

/* Ethertypes in network byte order. */
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
 * Reads sixteen bytes of a header. A cast to a kernel type of that size, whose
 * bytes may be read at any width, is free, while the functions that return
 * packet data cost more than the hash does. Invalid memory reads as 0.
 */
static __always_inline const __u32 *flow_words(__u64 address)
{
	return (const __u32 *)bpf_core_cast((void *)address, struct in6_addr);
}

/* Hashes the flow of an IPv4 packet at `address`. Returns 0 if it is not a
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

/* Like flow_v4(), for IPv6. Mixes corresponding words of both addresses in
 * turn. */
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

/* Reads addresses and protocol of an IPv4 packet, and the offset of its ports,
 * which stays unset for a fragment. */
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

/* Like flow_tuple_v4(), for IPv6. A fragment has the protocol of what is in
 * it. */
static __always_inline int flow_tuple_v6(const struct bpf_dynptr *data,
					 __u32 at, struct tuple *tuple,
					 __u32 *ports)
{
	__u8 space[40], more[2];
	const __u8 *header = bpf_dynptr_slice(data, at, space, sizeof(space));
	const __u8 *next;
	int fragment;
	__u32 i;

	if (!header || header[0] >> 4 != 6)
		return 0;
	tuple->version = 6;
	tuple->protocol = header[6];
	__builtin_memcpy(tuple->address[0], header + 8, 16);
	__builtin_memcpy(tuple->address[1], header + 24, 16);
	at += 40;
	for (i = 0; i < EXTENSIONS; i++) {
		fragment = tuple->protocol == IPPROTO_FRAGMENT;
		if (!fragment && !tuple_is_extension(tuple->protocol))
			break;
		next = bpf_dynptr_slice(data, at, more, sizeof(more));
		if (!next)
			break;
		tuple->protocol = next[0];
		if (fragment)
			return 1;
		at += (next[1] + 1) * 8;
	}
	*ports = at;
	return 1;
}

/* Hashes the header fields (enum aqm_part) that define a packet's flow. Leaves
 * packets other than IP to the kernel. */
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

/* Returns a packet's DS code point (RFC 2474); 0 if it is not IP. */
static __noinline __attribute__((unused)) __u32 flow_code(struct sk_buff *skb)
{
	struct bpf_dynptr data;
	const __u8 *header;
	__u8 space[2];
	__u64 at;

	if (bpf_dynptr_from_skb(skb, 0, &data))
		return 0;
	at = (__u64)skb->head + skb->network_header - (__u64)skb->data;
	/* Keep the compiler from truncating the pointers to 32 bits. */
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

/* Hashes a packet's source or destination address, which identifies its host.
 * For other fields it is flow_hash_of(). */
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

/* Hashes a packet's flow, defined by the header fields `parts`. */
static __always_inline __u32 flow_hash(struct sk_buff *skb, __u32 key,
				       __u32 parts)
{
	__u64 address;
	__s64 rest;
	__u32 hash;

	if (parts != AQM_CONNECTION)
		return flow_hash_of(skb, key, parts);
	hash = skb->hash;
	/* An unset hash is 0, which is cheaper to test than two bits. */
	if (hash && (BPF_CORE_READ_BITFIELD(skb, l4_hash) ||
		     BPF_CORE_READ_BITFIELD(skb, sw_hash)))
		return hash;
	address = (__u64)skb->head + skb->network_header;
	/* Bytes of the packet in the linear buffer. */
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
