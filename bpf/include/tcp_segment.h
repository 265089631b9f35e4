/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads TCP segments and writes to them, for programs at a clsact qdisc. */
#ifndef BPF_TCP_SEGMENT_H
#define BPF_TCP_SEGMENT_H

#include "tc.h"

/* TCP flags and the options that are read (RFC 9293, RFC 7323, RFC 2018). */
enum {
	TCP_FIN = 1,
	TCP_SYN = 2,
	TCP_RST = 4,
	TCP_ACK = 16,
};
enum {
	OPTION_END = 0,
	OPTION_NOTHING = 1,
	OPTION_MSS = 2,
	OPTION_SCALE = 3,
	OPTION_SACK = 4, /* selective acknowledgements permitted */
	OPTION_STAMPS = 8,
};
#define TCP_HEADER 20
#define OPTIONS_MOST 40
#define SCALE_MOST 14

/* Length of the options of a segment with timestamps only, as senders lay them
 * out (RFC 7323, appendix A). */
#define STAMPS_SIZE 12

/* The fields of a segment. */
struct segment {
	struct tuple tuple; /* in the direction of departing packets */
	struct layout at;
	u32 first; /* sequence number */
	u32 ack;
	u32 payload;
	u32 header; /* bytes of the TCP header with options */
	u16 window;
	u16 mss; /* MSS option; 0: none */
	u16 mss_at; /* offset of its value in the header */
	u8 flags;
	u8 scales; /* has the window scale option */
	u8 shift;
	u8 length; /* the byte of the header before the flags */
	u8 selective; /* permits selective acknowledgements */
	u8 stamped; /* has timestamps and is not a SYN */
	u32 stamp; /* the sender's timestamp (TSval) */
	u32 echo; /* the echoed timestamp (TSecr) */
};

static __always_inline u32 tcp_word(const u8 *bytes)
{
	return (u32)bytes[0] << 24 | (u32)bytes[1] << 16 | (u32)bytes[2] << 8 |
	       bytes[3];
}

/* Reads the complete options of a SYN. */
static __always_inline void tcp_options(struct __sk_buff *skb,
					struct segment *segment)
{
	u32 from = segment->at.transport + TCP_HEADER;
	u32 end = segment->at.transport + segment->header;
	u8 option[4];
	u32 i;

	for (i = 0; i < OPTIONS_MOST; i++) {
		if (from >= end || tc_load(skb, from, option, 1))
			break;
		if (option[0] == OPTION_END)
			break;
		if (option[0] == OPTION_NOTHING) {
			from++;
			continue;
		}
		if (from + 2 > end || tc_load(skb, from, option, 2) ||
		    option[1] < 2 || from + option[1] > end)
			break;
		if (option[0] == OPTION_MSS && option[1] == 4 &&
		    !tc_load(skb, from, option, 4)) {
			segment->mss = (u16)tc_short(option + 2);
			segment->mss_at =
				(u16)(from + 2 - segment->at.transport);
		}
		if (option[0] == OPTION_SACK)
			segment->selective = 1;
		if (option[0] == OPTION_SCALE && option[1] == 3 &&
		    !tc_load(skb, from, option, 3)) {
			segment->scales = 1;
			segment->shift = option[2] > SCALE_MOST ? SCALE_MOST :
								  option[2];
		}
		from += option[1];
	}
}

/* Reads the timestamps of a segment other than a SYN, if they are its first
 * option. */
static __always_inline void tcp_stamps(struct __sk_buff *skb,
				       struct segment *segment)
{
	u8 option[STAMPS_SIZE];

	if (segment->header < TCP_HEADER + STAMPS_SIZE ||
	    tc_load(skb, segment->at.transport + TCP_HEADER, option,
		    sizeof(option)) ||
	    option[0] != OPTION_NOTHING || option[1] != OPTION_NOTHING ||
	    option[2] != OPTION_STAMPS || option[3] != 10)
		return;
	segment->stamped = 1;
	segment->stamp = tcp_word(option + 4);
	segment->echo = tcp_word(option + 8);
}

/* Reads a segment. Returns whether the packet has a whole TCP header.
 * `arriving` swaps source and destination. Global, so that the verifier checks
 * it once. */
__noinline u32 tcp_look(struct __sk_buff *skb, struct segment *segment,
			u32 arriving)
{
	struct layout at = {};
	struct tuple tuple = {};
	u8 header[TCP_HEADER];

	if (!segment || !tc_tuple(skb, &tuple, &at) || !at.whole ||
	    tuple.protocol != IPPROTO_TCP ||
	    tc_load(skb, at.transport, header, sizeof(header)))
		return 0;
	segment->header = (header[12] >> 4) * 4;
	if (segment->header < TCP_HEADER ||
	    at.transport + segment->header > at.end)
		return 0;
	segment->payload = at.end - at.transport - segment->header;
	segment->length = header[12];
	segment->flags = header[13];
	segment->first = tcp_word(header + 4);
	segment->ack = tcp_word(header + 8);
	segment->window = (u16)tc_short(header + 14);
	segment->at = at;
	segment->tuple = tuple;
	if (arriving)
		tuple_reverse(&segment->tuple);
	if (segment->flags & TCP_SYN)
		tcp_options(skb, segment);
	else
		tcp_stamps(skb, segment);
	return 1;
}

/* Writes two bytes of a TCP header, which begins at `tcp` in the frame and at
 * `transport` after the network header. Updates a complete checksum. Leaves a
 * partial one to the card or to segmentation. */
static __always_inline int tcp_write(struct __sk_buff *skb, u32 tcp,
				     u32 transport, u32 offset, u16 before,
				     u16 after)
{
	u8 there[8], read[8];
	u16 from = __builtin_bswap16(before);
	u16 to = __builtin_bswap16(after);
	u16 sum_from = from, sum_to = to;

	/* A frame may be longer than the packet. */
	if (bpf_skb_load_bytes(skb, tcp, there, sizeof(there)) ||
	    tc_load(skb, transport, read, sizeof(read)) ||
	    __builtin_memcmp(there, read, sizeof(read)))
		return 0;
	/* The checksum is of 16-bit words. At an odd offset the bytes are
	 * halves of two. */
	if (offset & 1) {
		sum_from = before;
		sum_to = after;
	}
	if (bpf_l4_csum_replace(skb, tcp + 16, sum_from, sum_to, 2))
		return 0;
	return !bpf_skb_store_bytes(skb, tcp + offset, &to, 2, 0);
}

#endif
