/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What of a packet tells whose it is: the subscriber's address, and what stands in a
 * frame before it.
 *
 * Most packets are plain: skb->protocol says that they are of IP, and the network
 * header is where the kernel says. Their address takes one load. Tags of VLANs that
 * the kernel or the driver took off are beside the packet then (skb->vlan_tci), and
 * change nothing.
 *
 * Every other frame is read from its beginning: tags of 802.1Q and 802.1ad, then a
 * session of PPPoE (RFC 2516), then IP. Where the network header points to in such a
 * frame depends on who sent it: behind the tags for a VLAN device, at a tag for a
 * bridge, at the header of PPPoE for pppd. A device without Ethernet's header (tun,
 * ppp) has plain packets alone.
 */
#ifndef CIRCUITS_KEY_H
#define CIRCUITS_KEY_H

#include "tc.h"
#include "circuits_layout.h"

extern void *bpf_cast_to_kern_ctx(void *) __ksym;

/* include/uapi/linux/if_arp.h */
#define ARPHRD_ETHER 1

/* include/uapi/linux/if_ether.h, ppp_defs.h */
#define ETH_P_8021Q 0x8100
#define ETH_P_8021AD 0x88a8
#define ETH_P_PPP_SES 0x8864
#define PPP_IP 0x0021
#define PPP_IPV6 0x0057

/* Tags that are looked through, beside a frame and within it. */
#define CIRCUITS_TAGS 2

/* Bytes of a tag; of PPPoE's header with the number of PPP's protocol. */
#define CIRCUITS_TAG_BYTES 4
#define CIRCUITS_PPPOE_BYTES 8

/* What stands before IP. */
struct circuits_frame {
	u32 mac[2]; /* the subscriber's, as in the frame, and zeros */
	u32 vlan[2]; /* the outer tag's VLAN and the inner one's; 0: none */
	u32 session; /* of PPPoE; 0: none */
	u32 version; /* of IP behind tags or PPPoE; 0: another protocol, or plain */
	u32 at; /* where that begins */
};

/* Sixteen bytes of a packet. A cast to a type of the kernel that is as long costs nothing,
 * and the function that copies bytes a tenth of the look-up. */
static __always_inline const void *circuits_bytes(u64 address)
{
	return bpf_core_cast((void *)address, struct in6_addr);
}

/* The subscriber's address of a plain packet; 0 where it is none. */
static __always_inline int circuits_plain(struct __sk_buff *ctx, u32 source,
					  struct circuits_key *key)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	u64 header = (u64)skb->head + skb->network_header;
	/* What of the packet lies there in one piece. */
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

/* The same of what is within a frame. */
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

/* Takes down a tag. VLAN 0 is none: the tag has a priority alone. */
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

/* Reads a frame from its beginning. Whether the device has frames of Ethernet. */
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
