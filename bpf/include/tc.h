/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packet parsing for programs at a device's clsact qdisc: reads a packet's flow
 * from its headers.
 *
 * The layout of the context is fixed (include/uapi/linux/bpf.h). Unlike the
 * types in kernel.h, it needs no relocation when a program is loaded.
 */
#ifndef BPF_TC_H
#define BPF_TC_H

#include "kernel.h"
#include "host.h"
#include "tc_layout.h"
#include "tuple.h"

/* include/uapi/linux/bpf.h, if_ether.h */
enum { BPF_HDR_START_NET = 1 };
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd

/* Other header fields. */
struct layout {
	u32 transport; /* offset of the transport header
			* from the network header */
	u32 end; /* end of the packet, from the network header */
	u8 ecn;
	u8 code; /* the DS code point */
	u8 whole; /* whether it is not a fragment */
};

static __always_inline long tc_load(struct __sk_buff *skb, u32 offset, void *to,
				    u32 length)
{
	return bpf_skb_load_bytes_relative(skb, offset, to, length,
					   BPF_HDR_START_NET);
}

static __always_inline u32 tc_short(const u8 *bytes)
{
	return (u32)bytes[0] << 8 | bytes[1];
}

/* Bytes of an Ethernet header. */
#define ETH_HLEN 14

/* Whether the network header is at this offset of the frame. */
static __always_inline int tc_stands(struct __sk_buff *skb, u32 at)
{
	u32 there[5], own[5];

	return !bpf_skb_load_bytes(skb, at, there, sizeof(there)) &&
	       !tc_load(skb, 0, own, sizeof(own)) && there[0] == own[0] &&
	       there[1] == own[1] && there[2] == own[2] && there[3] == own[3] &&
	       there[4] == own[4];
}

/* Returns the offset of the network header in the frame. A frame may be padded,
 * so its length is only used if nothing else helps. */
static __always_inline u32 tc_network(struct __sk_buff *skb,
				      const struct layout *at)
{
	if (tc_stands(skb, ETH_HLEN))
		return ETH_HLEN;
	if (skb->len <= at->end || tc_stands(skb, 0))
		return 0;
	return skb->len - at->end;
}

/* Returns the end of a packet from its length field, which counts from offset
 * `header`, but at most the end of the frame: the kernel has not checked the
 * field yet. A merged packet may be too long for the field, which is 0 then. */
static __always_inline u32 tc_end(struct __sk_buff *skb, u32 length, u32 header)
{
	u32 end = header + length;

	if (length || !skb->gso_size)
		return end < skb->len ? end : skb->len;
	return skb->len - (tc_stands(skb, ETH_HLEN) ? ETH_HLEN : 0);
}

static __always_inline int tc_ipv4(struct __sk_buff *skb, struct tuple *tuple,
				   struct layout *at)
{
	u8 header[20];

	if (tc_load(skb, 0, header, sizeof(header)))
		return 0;
	if (header[0] >> 4 != 4)
		return 0;
	at->transport = (header[0] & 0xf) * 4;
	at->end = tc_end(skb, tc_short(header + 2), 0);
	at->ecn = header[1] & 3;
	at->code = header[1] >> 2;
	/* A fragment has an offset or more fragments behind it. */
	at->whole = !(tc_short(header + 6) & 0x3fff);
	tuple->protocol = header[9];
	__builtin_memcpy(tuple->address[0], header + 12, 4);
	__builtin_memcpy(tuple->address[1], header + 16, 4);
	tuple->version = 4;
	return at->transport >= 20;
}

static __always_inline int tc_ipv6(struct __sk_buff *skb, struct tuple *tuple,
				   struct layout *at)
{
	u8 header[40];
	u8 next[2];
	u8 protocol;
	int fragment;
	u32 i;

	if (tc_load(skb, 0, header, sizeof(header)))
		return 0;
	if (header[0] >> 4 != 6)
		return 0;
	at->transport = 40;
	at->end = tc_end(skb, tc_short(header + 4), 40);
	at->ecn = header[1] >> 4 & 3;
	at->code = tc_short(header) >> 6 & 0x3f;
	at->whole = 1;
	__builtin_memcpy(tuple->address[0], header + 8, 16);
	__builtin_memcpy(tuple->address[1], header + 24, 16);
	protocol = header[6];
	for (i = 0; i < EXTENSIONS; i++) {
		fragment = protocol == IPPROTO_FRAGMENT;
		if (fragment)
			at->whole = 0;
		else if (!tuple_is_extension(protocol))
			break;
		if (tc_load(skb, at->transport, next, sizeof(next)))
			break;
		protocol = next[0];
		at->transport += fragment ? 8 : (next[1] + 1) * 8;
		if (fragment)
			break;
	}
	tuple->protocol = protocol;
	tuple->version = 6;
	return 1;
}

/* IP headers followed by ports (RFC 791, RFC 8200). */
struct plain_ipv4 {
	u8 version; /* and header length in words */
	u8 service;
	u16 length;
	u16 id;
	u16 fragment;
	u8 left;
	u8 protocol;
	u16 sum;
	u32 address[2];
	u16 ports[2];
};

struct plain_ipv6 {
	u16 version; /* and most of the traffic class */
	u16 label;
	u16 length;
	u8 protocol;
	u8 left;
	u32 address[2][4];
	u16 ports[2];
};

static __always_inline int tc_plain_ipv4(const struct plain_ipv4 *packet,
					 struct tuple *tuple, struct layout *at)
{
	/* No options, a valid length, and no fragment. */
	if (packet->version != 0x45 || !packet->length ||
	    packet->fragment & __builtin_bswap16(0x3fff))
		return 0;
	if (packet->protocol != IPPROTO_TCP && packet->protocol != IPPROTO_UDP)
		return 0;
	tuple->address[0][0] = packet->address[0];
	tuple->address[1][0] = packet->address[1];
	tuple->ports[0] = packet->ports[0];
	tuple->ports[1] = packet->ports[1];
	tuple->protocol = packet->protocol;
	tuple->version = 4;
	at->transport = 20;
	at->end = __builtin_bswap16(packet->length);
	at->ecn = packet->service & 3;
	at->code = packet->service >> 2;
	at->whole = 1;
	return 1;
}

static __always_inline int tc_plain_ipv6(const struct plain_ipv6 *packet,
					 struct tuple *tuple, struct layout *at)
{
	u16 version = __builtin_bswap16(packet->version);

	if (version >> 12 != 6 || !packet->length)
		return 0;
	if (packet->protocol != IPPROTO_TCP && packet->protocol != IPPROTO_UDP)
		return 0;
	__builtin_memcpy(tuple->address, packet->address,
			 sizeof(tuple->address));
	tuple->ports[0] = packet->ports[0];
	tuple->ports[1] = packet->ports[1];
	tuple->protocol = packet->protocol;
	tuple->version = 6;
	at->transport = 40;
	at->end = 40 + __builtin_bswap16(packet->length);
	at->code = version >> 6 & 0x3f;
	at->ecn = version >> 4 & 3;
	at->whole = 1;
	return 1;
}

/*
 * Reads the flow of a plain TCP or UDP packet, with all headers in one call.
 * Unusual packets are left to tc_tuple(), which reads one header after the
 * other.
 *
 * Direct packet pointers are avoided. For a program that uses them the kernel
 * unshares the data of every cloned packet, although nothing is written
 * (bpf_unclone_prologue(), net/core/filter.c).
 */
static __always_inline int tc_plain(struct __sk_buff *skb, struct tuple *tuple,
				    struct layout *at)
{
	union {
		struct plain_ipv4 v4;
		struct plain_ipv6 v6;
	} packet;

	if (skb->protocol == __builtin_bswap16(ETH_P_IP))
		return !tc_load(skb, 0, &packet.v4, sizeof(packet.v4)) &&
		       tc_plain_ipv4(&packet.v4, tuple, at);
	if (skb->protocol == __builtin_bswap16(ETH_P_IPV6))
		return !tc_load(skb, 0, &packet.v6, sizeof(packet.v6)) &&
		       tc_plain_ipv6(&packet.v6, tuple, at);
	return 0;
}

/* Reads the flow of a packet: addresses, protocol, and ports if it has them.
 * Fragments, including the first, are identified by addresses and protocol
 * alone. */
static __always_inline int tc_tuple(struct __sk_buff *skb, struct tuple *tuple,
				    struct layout *at)
{
	int ip = 0;

	if (skb->protocol == __builtin_bswap16(ETH_P_IP))
		ip = tc_ipv4(skb, tuple, at);
	else if (skb->protocol == __builtin_bswap16(ETH_P_IPV6))
		ip = tc_ipv6(skb, tuple, at);
	if (!ip)
		return 0;
	if (at->whole && tuple_has_ports(tuple->protocol) &&
	    tc_load(skb, at->transport, tuple->ports, sizeof(tuple->ports)))
		at->whole = 0;
	return 1;
}

#endif
