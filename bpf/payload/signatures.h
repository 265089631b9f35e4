/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The signatures: fixed bytes at fixed places of a packet's payload, each with
 * the text that says so. No regular expressions: what cannot be said by a few
 * bytes is not looked for, and what is encrypted has none.
 */
#ifndef PAYLOAD_SIGNATURES_H
#define PAYLOAD_SIGNATURES_H

/* Bytes of a payload that are looked at; no signature ends behind them. */
#define HEAD 64

/* What a flow is; these numbers stand in the packet's mark. */
enum {
	NOTHING = 0,
	BITTORRENT = 1,
	EDONKEY = 2,
	GNUTELLA = 3,
	DIRECT_CONNECT = 4,
};

/* The head of a payload, zero behind its end, and the payload's length. */
struct payload {
	__u8 head[HEAD];
	__u32 length;
};

/* Whether the bytes of a string literal stand at a place. */
#define AT(payload, place, text) at(payload, place, text, sizeof(text) - 1)

static __always_inline int at(const struct payload *payload, __u32 place,
			      const char *text, __u32 length)
{
	if (payload->length < place + length)
		return 0;
#pragma unroll
	for (__u32 i = 0; i < length; i++)
		if (payload->head[place + i] != (__u8)text[i])
			return 0;
	return 1;
}

static __always_inline int bittorrent_tcp(const struct payload *payload)
{
	/* BEP 3, "peer protocol": the handshake. */
	return AT(payload, 0,
		  "\x13"
		  "BitTorrent protocol");
}

static __always_inline int bittorrent_udp(const struct payload *payload)
{
	/* BEP 5, "KRPC protocol": queries and answers begin with the node's
	 * id, as the keys of a bencoded dictionary are sorted.
	 */
	if (AT(payload, 0, "d1:ad2:id20:") || AT(payload, 0, "d1:rd2:id20:"))
		return 1;
	/* BEP 42: an answer that states the asker's address, which is sorted
	 * before.
	 */
	if (AT(payload, 0, "d2:ip6:") && AT(payload, 13, "1:rd2:id20:"))
		return 1;
	if (AT(payload, 0, "d2:ip18:") && AT(payload, 26, "1:rd2:id20:"))
		return 1;
	/* BEP 15: a tracker's connection request, exactly this long. */
	if (payload->length == 16 &&
	    AT(payload, 0, "\x00\x00\x04\x17\x27\x10\x19\x80\x00\x00\x00\x00"))
		return 1;
	/* BEP 29: uTP's data packet of version 1 without extension carries
	 * the handshake behind its header of 20 bytes.
	 */
	return AT(payload, 0, "\x01\x00") && AT(payload, 20,
						"\x13"
						"BitTorrent protocol");
}

/*
 * Kulbak and Bickson, "The eMule protocol specification", 2005, sections 6.1
 * to 6.4: protocol (0xe3 eDonkey, 0xc5 eMule's extension, 0xd4 packed), the
 * length of what follows in little endian, the message's type. The first
 * message fills its segment.
 */
static __always_inline int edonkey_tcp(const struct payload *payload)
{
	const __u8 *head = payload->head;
	__u32 said = head[1] | (__u32)head[2] << 8 | (__u32)head[3] << 16 |
		     (__u32)head[4] << 24;

	if (payload->length < 6 || said != payload->length - 5)
		return 0;
	switch (head[0]) {
	case 0xe3:
		/* Login or hello, its answer, a server's message and the id
		 * that it gives.
		 */
		return head[5] == 0x01 || head[5] == 0x4c || head[5] == 0x38 ||
		       head[5] == 0x40;
	case 0xc5:
		/* Extended hello and its answer. */
		return head[5] == 0x01 || head[5] == 0x02;
	case 0xd4:
		/* A packed list of servers or files offered. */
		return head[5] == 0x15 || head[5] == 0x32;
	default:
		return 0;
	}
}

/* "The Annotated Gnutella Protocol Specification" v0.4 and RFC-Gnutella 0.6,
 * section 2.1 (handshake); HUGE v0.94 (downloads by hash).
 */
static __always_inline int gnutella_tcp(const struct payload *payload)
{
	return AT(payload, 0, "GNUTELLA CONNECT/") ||
	       AT(payload, 0, "GNUTELLA/0.") ||
	       AT(payload, 0, "GET /uri-res/N2R?urn:sha1:");
}

/* NMDC 1.3 ($Lock, $MyNick) and ADC 1.0 section 5 (SUP comes first). */
static __always_inline int direct_connect_tcp(const struct payload *payload)
{
	return AT(payload, 0, "$Lock ") || AT(payload, 0, "$MyNick ") ||
	       AT(payload, 0, "HSUP AD") || AT(payload, 0, "CSUP AD") ||
	       AT(payload, 0, "ISUP AD");
}

static __always_inline __u8 of_tcp(const struct payload *payload)
{
	if (bittorrent_tcp(payload))
		return BITTORRENT;
	if (edonkey_tcp(payload))
		return EDONKEY;
	if (gnutella_tcp(payload))
		return GNUTELLA;
	return direct_connect_tcp(payload) ? DIRECT_CONNECT : NOTHING;
}

static __always_inline __u8 of_udp(const struct payload *payload)
{
	return bittorrent_udp(payload) ? BITTORRENT : NOTHING;
}

#endif
