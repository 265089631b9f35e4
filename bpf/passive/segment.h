/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads a packet's headers from kernel memory: its tuple, and for TCP the
 * number whose return it awaits and the number it returns.
 */
#ifndef PASSIVE_SEGMENT_H
#define PASSIVE_SEGMENT_H

#include "tc.h"

/* RFC 9293 section 3.1, RFC 7323 section 3.2 */
enum { TCP_FIN = 1, TCP_SYN = 2, TCP_RST = 4, TCP_ACK = 16 };
enum { OPTION_END = 0, OPTION_NOP = 1, OPTION_TIMESTAMPS = 8 };
#define OPTIONS_MOST 40
#define OPTIONS_LOOKED_AT 16

struct segment {
	struct tuple tuple;
	u32 ip_bytes; /* IP bytes of the packet, perhaps
		       * several merged segments */
	u32 ecn; /* RFC 3168 section 5 */
	u32 tcp;
	u32 stamps; /* whether the numbers are
		     * timestamps, else sequence numbers */
	u32 asks; /* whether `number` will be answered */
	u32 number;
	u32 behind; /* sequence number after its last byte */
	u32 answers; /* whether it answers a number */
	u32 answered; /* a timestamp, or an acknowledgement number */
};

/* RFC 3168 section 5 */
enum { ECN_CE = 3 };

/* Returns the ECN field of a packet of this IP version; 0 if it cannot be
 * read. */
static __always_inline u32 ecn_of(const u8 *network, u32 version)
{
	u8 head[2];

	if (bpf_probe_read_kernel(head, sizeof(head), network))
		return 0;
	return version == 4 ? head[1] & 3 : head[1] >> 4 & 3;
}

static __always_inline u32 long_of(const u8 *bytes)
{
	return (u32)bytes[0] << 24 | (u32)bytes[1] << 16 | (u32)bytes[2] << 8 |
	       bytes[3];
}

/* Returns the bytes of a packet without the padding of a short frame. `stated`
 * is from its length field, which is 0 if a merged packet is too long for it. */
static __always_inline u32 unpadded(u32 bytes, u32 stated)
{
	return stated && stated < bytes ? stated : bytes;
}

/* Returns the offset of the transport header from the network header; 0 if
 * there is none of interest. Sets `stated` to the length that the packet states;
 * 0: none. Does not parse fragments, which have no numbers, and extension
 * headers, which hardly occur before TCP. */
static __always_inline u32 addresses(const u8 *network, __be16 protocol,
				     struct tuple *tuple, u32 *stated)
{
	u8 header[40];

	if (protocol == __builtin_bswap16(ETH_P_IP)) {
		if (bpf_probe_read_kernel(header, 20, network) ||
		    header[0] >> 4 != 4)
			return 0;
		*stated = tc_short(header + 2);
		tuple->version = 4;
		tuple->protocol = header[9];
		__builtin_memcpy(tuple->address[0], header + 12, 4);
		__builtin_memcpy(tuple->address[1], header + 16, 4);
		if (tc_short(header + 6) & 0x3fff)
			tuple->protocol = 0;
		return (header[0] & 0xf) * 4;
	}
	if (protocol == __builtin_bswap16(ETH_P_IPV6)) {
		if (bpf_probe_read_kernel(header, 40, network) ||
		    header[0] >> 4 != 6)
			return 0;
		*stated = tc_short(header + 4);
		if (*stated)
			*stated += 40;
		tuple->version = 6;
		tuple->protocol = header[6];
		__builtin_memcpy(tuple->address[0], header + 8, 16);
		__builtin_memcpy(tuple->address[1], header + 24, 16);
		return 40;
	}
	return 0;
}

/* Reads both timestamps of the TCP options. Returns 0 if there are none. */
static __always_inline int timestamps(const u8 *options, u32 length, u32 *value,
				      u32 *echo)
{
	/* Longer than options can be, so that a masked index is always inside.
	 * Bytes read beyond the packet's data are the kernel's own and are
	 * never examined. */
	u8 bytes[64] = {};
	u32 at = 0, i;

	if (!length || bpf_probe_read_kernel(bytes, OPTIONS_MOST, options))
		return 0;
	for (i = 0; i < OPTIONS_LOOKED_AT; i++) {
		u8 kind, size;

		/* Make `at` unknown to the verifier, so that it checks one
		 * iteration for all. */
		at = (at + AQM_ZERO) & 63;
		if (at + 10 > length)
			return 0;
		kind = bytes[at & 63];
		if (kind == OPTION_END)
			return 0;
		if (kind == OPTION_NOP) {
			at++;
			continue;
		}
		size = bytes[(at + 1) & 63];
		if (size < 2)
			return 0;
		if (kind == OPTION_TIMESTAMPS && size == 10) {
			at &= 31;
			*value = long_of(bytes + at + 2);
			*echo = long_of(bytes + at + 6);
			return 1;
		}
		at += size;
	}
	return 0;
}

/* Reads a packet with its network header at `network`, of which `piece` bytes
 * are contiguous. */
static __always_inline int segment_read(struct segment *segment,
					const u8 *network, u32 piece,
					u32 ip_bytes, __be16 protocol)
{
	u8 header[20];
	u32 at, own, options, flags, payload, acknowledged, stated = 0;

	at = addresses(network, protocol, &segment->tuple, &stated);
	ip_bytes = unpadded(ip_bytes, stated);
	segment->ip_bytes = ip_bytes;
	if (!at)
		return 0;
	if (segment->tuple.protocol != IPPROTO_TCP || at + 20 > piece ||
	    bpf_probe_read_kernel(header, sizeof(header), network + at))
		return 1;
	own = (header[12] >> 4) * 4;
	if (own < 20 || at + own > piece)
		return 1;
	segment->tcp = 1;
	__builtin_memcpy(segment->tuple.ports, header, 4);
	flags = header[13];
	if (flags & TCP_RST)
		return 1;
	payload = ip_bytes > at + own ? ip_bytes - at - own : 0;
	options = own - 20;
	acknowledged = long_of(header + 8);
	segment->behind =
		long_of(header + 4) + payload + !!(flags & (TCP_SYN | TCP_FIN));
	segment->answers = !!(flags & TCP_ACK);
	segment->asks = payload || flags & (TCP_SYN | TCP_FIN);
	if (timestamps(network + at + 20, options, &segment->number,
		       &segment->answered)) {
		segment->stamps = 1;
		return 1;
	}
	segment->number = long_of(header + 4);
	segment->answered = acknowledged;
	return 1;
}

/* Returns the packet that vlan_do_receive() has given to a VLAN device; 0: none.
 * The tracepoint of arriving packets comes before that, so it shows such a
 * packet with the device below only (net/core/dev.c,
 * __netif_receive_skb_core()). The argument is a pointer to a pointer, which the
 * verifier does not let a program read directly. */
static __always_inline struct sk_buff *vlan_received(void *ctx)
{
	u64 found = 0, argument = 0, skb = 0;

	/* The kernel returns a bool: its other bits are undefined. */
	if (bpf_get_func_ret(ctx, &found) || !(u8)found ||
	    bpf_get_func_arg(ctx, 0, &argument) ||
	    bpf_probe_read_kernel(&skb, sizeof(skb), (void *)argument))
		return 0;
	return bpf_core_cast((void *)skb, struct sk_buff);
}

/* Returns the tuple of the reverse direction. */
static __always_inline void turned(struct tuple *to, struct tuple *from)
{
	*to = *from;
	__builtin_memcpy(to->address[0], from->address[1], 16);
	__builtin_memcpy(to->address[1], from->address[0], 16);
	to->ports[0] = from->ports[1];
	to->ports[1] = from->ports[0];
}

#endif
