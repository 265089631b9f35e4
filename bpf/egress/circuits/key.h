/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads the keys of a packet: the subscriber's address, and the headers before
 * IP.
 *
 * Most packets are plain: skb->protocol is IP, and the network header is where
 * the kernel says. Their address takes one load. VLAN tags that the kernel or
 * the driver has removed are in skb->vlan_tci and make no difference.
 *
 * Every other frame is parsed from its start: tags of 802.1Q and 802.1ad, then
 * a PPPoE session (RFC 2516), then IP. The network header of such a frame
 * depends on the sender: after the tags for a VLAN device, at a tag for a
 * bridge, at the PPPoE header for pppd. A device without an Ethernet header
 * (tun, ppp) has plain packets only.
 */
#ifndef CIRCUITS_KEY_H
#define CIRCUITS_KEY_H

#include "tc.h"
#include "circuits/layout.h"

extern void *bpf_cast_to_kern_ctx(void *) __ksym;

/* include/uapi/linux/if_arp.h */
#define ARPHRD_ETHER 1

/* include/uapi/linux/if_ether.h, ppp_defs.h */
#define ETH_P_8021Q 0x8100
#define ETH_P_8021AD 0x88a8
#define ETH_P_PPP_SES 0x8864
#define PPP_IP 0x0021
#define PPP_IPV6 0x0057

/* Most tags that are parsed, including one in skb->vlan_tci. */
#define CIRCUITS_TAGS 2

/* Bytes of a tag, and of the PPPoE header with the PPP protocol number. */
#define CIRCUITS_TAG_BYTES 4
#define CIRCUITS_PPPOE_BYTES 8

/* The headers before IP. */
struct circuits_frame {
	u32 mac[2]; /* the subscriber's, in network byte order, zero-padded */
	u32 vlan[2]; /* VLANs of the outer and the inner tag; 0: none */
	u32 session; /* PPPoE session; 0: none */
	u32 version; /* version of IP after tags or PPPoE;
		      * 0: another protocol, or plain */
	u32 at; /* offset of the IP header */
};

/* Reads sixteen bytes of a packet. A cast to a kernel type of that size is
 * free, while the function that copies bytes costs a tenth of the lookup. */
static __always_inline const void *circuits_bytes(u64 address)
{
	return bpf_core_cast((void *)address, struct in6_addr);
}

/* Reads the subscriber's address of a plain packet. Returns 0 for other
 * packets. */
static __always_inline int circuits_plain(struct __sk_buff *ctx, u32 source,
					  struct circuits_key *key)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	u64 header = (u64)skb->head + skb->network_header;
	/* Bytes of the packet in the linear buffer. */
	s64 rest = (u64)skb->data + skb->len - skb->data_len - header;
	const void *bytes;

	if (ctx->protocol == __builtin_bswap16(ETH_P_IP)) {
		key->kind = CIRCUITS_IPV4;
		if (rest < 20)
			return !tc_load(ctx, source ? 12 : 16, key->value, 4);
		bytes = circuits_bytes(header + (source ? 12 : 16));
		key->value[0] = *(const u32 *)bytes;
		return 1;
	}
	if (ctx->protocol == __builtin_bswap16(ETH_P_IPV6)) {
		key->kind = CIRCUITS_IPV6;
		if (rest < 40)
			return !tc_load(ctx, source ? 8 : 24, key->value, 16);
		bytes = circuits_bytes(header + (source ? 8 : 24));
		__builtin_memcpy(key->value, __builtin_assume_aligned(bytes, 8),
				 16);
		return 1;
	}
	return 0;
}

/* Reads the subscriber's address of a packet after tags or PPPoE. */
static __always_inline int circuits_within(struct __sk_buff *ctx, u32 source,
					   const struct circuits_frame *frame,
					   struct circuits_key *key)
{
	key->kind = frame->version;
	if (frame->version == CIRCUITS_IPV4)
		return !bpf_skb_load_bytes(ctx, frame->at + (source ? 12 : 16),
					   key->value, 4);
	if (frame->version == CIRCUITS_IPV6)
		return !bpf_skb_load_bytes(ctx, frame->at + (source ? 8 : 24),
					   key->value, 16);
	return 0;
}

/* Stores a tag. VLAN 0 means that the tag only has a priority. */
static __always_inline void circuits_tag(struct circuits_frame *frame, u32 tci)
{
	u32 vlan = tci & 0xfff;

	if (!vlan)
		return;
	if (!frame->vlan[0])
		frame->vlan[0] = vlan;
	else if (!frame->vlan[1])
		frame->vlan[1] = vlan;
}

/* Parses a frame from its start. Returns 0 if the device has no Ethernet
 * header. */
static __always_inline int circuits_frame(struct __sk_buff *ctx, u32 source,
					  struct circuits_frame *frame)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	u8 header[ETH_HLEN], more[CIRCUITS_PPPOE_BYTES];
	u32 protocol, at = ETH_HLEN, tags = 0, i;

	if (skb->dev->type != ARPHRD_ETHER ||
	    bpf_skb_load_bytes(ctx, 0, header, sizeof(header)))
		return 0;
	__builtin_memcpy(frame->mac, header + (source ? 6 : 0), 6);
	if (ctx->vlan_present) {
		circuits_tag(frame, ctx->vlan_tci);
		tags = 1;
	}
	protocol = tc_short(header + 12);
	for (i = 0; i < CIRCUITS_TAGS; i++) {
		if (tags == CIRCUITS_TAGS ||
		    (protocol != ETH_P_8021Q && protocol != ETH_P_8021AD))
			break;
		tags++;
		if (bpf_skb_load_bytes(ctx, at, more, CIRCUITS_TAG_BYTES))
			return 1;
		circuits_tag(frame, tc_short(more));
		protocol = tc_short(more + 2);
		at += CIRCUITS_TAG_BYTES;
	}
	frame->at = at;
	if (protocol == ETH_P_PPP_SES) {
		if (bpf_skb_load_bytes(ctx, at, more, sizeof(more)))
			return 1;
		/* Version 1, type 1, and the code of a session's frames. */
		if (more[0] != 0x11 || more[1])
			return 1;
		frame->session = tc_short(more + 2);
		frame->at = at + CIRCUITS_PPPOE_BYTES;
		protocol = tc_short(more + 6);
		if (protocol == PPP_IP)
			frame->version = CIRCUITS_IPV4;
		else if (protocol == PPP_IPV6)
			frame->version = CIRCUITS_IPV6;
	} else if (at > ETH_HLEN) {
		if (protocol == ETH_P_IP)
			frame->version = CIRCUITS_IPV4;
		else if (protocol == ETH_P_IPV6)
			frame->version = CIRCUITS_IPV6;
	}
	return 1;
}

#endif
