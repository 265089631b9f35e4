// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A filter for arriving packets (cls_bpf, direct action). It looks for
 * signatures in the first packets with payload of each flow, stores the result,
 * and writes it to some bits of the mark of all later packets of the flow. It
 * passes every packet on, so other filters work as without it.
 *
 * A flow includes both directions, with the addresses as seen here. With
 * address translation, each side of the router has flows of its own.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "signatures.h"

/* include/uapi/linux/bpf.h, pkt_cls.h, if_ether.h, in.h */
enum { BPF_HDR_START_NET = 1 };
enum { TC_ACT_UNSPEC = -1 };
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define ETH_P_PPP_SES 0x8864
/* PPPoE header with the PPP protocol number, RFC 2516 section 4. */
#define SESSION_HEADER 8
#define PPP_IP 0x0021
#define PPP_IPV6 0x0057
enum {
	IPPROTO_HOPOPTS = 0,
	IPPROTO_TCP = 6,
	IPPROTO_UDP = 17,
	IPPROTO_ROUTING = 43,
	IPPROTO_DSTOPTS = 60,
};

/* The first part of the program's context, whose layout is fixed. */
struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
};

/* Set before the program is loaded: the lowest of the BITS bits of the mark. */
const volatile __u32 mark_shift;

struct end {
	__u8 address[16];
	__u16 port;
	__u16 zero;
};

/* Both ends, the smaller first, so that both directions are one flow. */
struct flow {
	struct end ends[2];
	__u32 protocol;
};

struct known {
	__u8 looks;
	__u8 found;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FLOWS);
	__type(key, struct flow);
	__type(value, struct known);
} flows SEC(".maps");

/* The offset of the transport header, and the end of the packet. */
struct bounds {
	__u32 transport;
	__u32 end;
};

static __always_inline long load(struct __sk_buff *skb, __u32 offset, void *to,
				 __u32 length)
{
	return bpf_skb_load_bytes_relative(skb, offset, to, length,
					   BPF_HDR_START_NET);
}

static __always_inline __u32 short_at(const __u8 *bytes)
{
	return (__u32)bytes[0] << 8 | bytes[1];
}

/* Returns the end of a packet, from the length after its header. A merged
 * packet may be too long for the field, which is 0 then. */
static __always_inline __u32 end_of(struct __sk_buff *skb, __u32 at,
				    __u32 length)
{
	return length ? at + length : skb->len;
}

static __always_inline int ipv4(struct __sk_buff *skb, __u32 at,
				struct flow *flow, struct bounds *bounds)
{
	__u8 header[20];

	if (load(skb, at, header, sizeof(header)))
		return 0;
	/* A fragment has an offset or more fragments behind it. */
	if (short_at(header + 6) & 0x3fff)
		return 0;
	bounds->transport = at + (header[0] & 0xf) * 4;
	bounds->end = end_of(skb, at, short_at(header + 2));
	flow->protocol = header[9];
	__builtin_memcpy(flow->ends[0].address, header + 12, 4);
	__builtin_memcpy(flow->ends[1].address, header + 16, 4);
	return 1;
}

static __always_inline int ipv6(struct __sk_buff *skb, __u32 at,
				struct flow *flow, struct bounds *bounds)
{
	__u8 header[40];
	__u8 next[2];
	__u8 protocol;

	if (load(skb, at, header, sizeof(header)))
		return 0;
	at += sizeof(header);
	bounds->end = end_of(skb, at, short_at(header + 4));
	__builtin_memcpy(flow->ends[0].address, header + 8, 16);
	__builtin_memcpy(flow->ends[1].address, header + 24, 16);
	protocol = header[6];
	for (int i = 0; i < EXTENSIONS; i++) {
		if (protocol != IPPROTO_HOPOPTS &&
		    protocol != IPPROTO_ROUTING && protocol != IPPROTO_DSTOPTS)
			break;
		if (load(skb, at, next, sizeof(next)))
			return 0;
		protocol = next[0];
		at += (next[1] + 1) * 8;
	}
	bounds->transport = at;
	flow->protocol = protocol;
	return 1;
}

/* Sorts the ends, the smaller first. */
static __always_inline void ordered(struct flow *flow)
{
	struct end first = flow->ends[0];
	int swap = 0;

#pragma unroll
	for (int i = 0; i < 16; i++) {
		__u8 a = flow->ends[0].address[i];
		__u8 b = flow->ends[1].address[i];

		if (a == b)
			continue;
		swap = a > b;
		goto decided;
	}
	swap = flow->ends[0].port > flow->ends[1].port;
decided:
	if (swap) {
		flow->ends[0] = flow->ends[1];
		flow->ends[1] = first;
	}
}

/* Matches the payload of a packet against all patterns. Global, so that the
 * verifier checks it once. */
__noinline __u32 look(struct __sk_buff *skb, __u32 protocol, __u32 from,
		      __u32 length)
{
	struct payload payload = {};
	__u32 last = (length < HEAD ? length : HEAD) - 1;
	__u32 take;

	payload.length = length;
	if (!length)
		return NOTHING;
	/* The verifier needs the bounds of this very value, and Linux 6.1
	 * tracks a minimum only in a sum. */
	barrier_var(last);
	take = (last & (HEAD - 1)) + 1;
	if (load(skb, from, payload.head, take))
		return NOTHING;
	return protocol == IPPROTO_TCP ? of_tcp(&payload) : of_udp(&payload);
}

/* Reads the IP headers, which may be in a PPPoE session. */
static __always_inline int ip(struct __sk_buff *skb, struct flow *flow,
			      struct bounds *bounds)
{
	__u8 session[SESSION_HEADER];

	if (skb->protocol == __builtin_bswap16(ETH_P_IP))
		return ipv4(skb, 0, flow, bounds);
	if (skb->protocol == __builtin_bswap16(ETH_P_IPV6))
		return ipv6(skb, 0, flow, bounds);
	if (skb->protocol != __builtin_bswap16(ETH_P_PPP_SES))
		return 0;
	if (load(skb, 0, session, sizeof(session)))
		return 0;
	if (short_at(session + 6) == PPP_IP)
		return ipv4(skb, SESSION_HEADER, flow, bounds);
	if (short_at(session + 6) == PPP_IPV6)
		return ipv6(skb, SESSION_HEADER, flow, bounds);
	return 0;
}

/* Returns what is known about the packet's flow. */
static __always_inline __u8 found(struct __sk_buff *skb)
{
	struct flow flow = {};
	struct bounds bounds = {};
	struct known fresh = {};
	struct known *known;
	__u8 transport[14];
	__u32 begin;

	if (!ip(skb, &flow, &bounds))
		return NOTHING;
	if (flow.protocol == IPPROTO_TCP) {
		if (load(skb, bounds.transport, transport, 14))
			return NOTHING;
		begin = bounds.transport + (transport[12] >> 4) * 4;
	} else if (flow.protocol == IPPROTO_UDP) {
		if (load(skb, bounds.transport, transport, 4))
			return NOTHING;
		begin = bounds.transport + 8;
	} else {
		return NOTHING;
	}
	flow.ends[0].port = short_at(transport);
	flow.ends[1].port = short_at(transport + 2);
	ordered(&flow);
	/* SYN without ACK: the ports may have belonged to another flow. */
	if (flow.protocol == IPPROTO_TCP && (transport[13] & 0x12) == 0x02) {
		bpf_map_delete_elem(&flows, &flow);
		return NOTHING;
	}
	known = bpf_map_lookup_elem(&flows, &flow);
	if (known && (known->found || known->looks >= LOOKS))
		return known->found;
	if (begin >= bounds.end)
		return NOTHING;
	fresh.found = look(skb, flow.protocol, begin, bounds.end - begin);
	fresh.looks = known ? known->looks + 1 : 1;
	bpf_map_update_elem(&flows, &flow, &fresh, BPF_ANY);
	return fresh.found;
}

SEC("tc")
int payload(struct __sk_buff *skb)
{
	__u32 mask = ((1U << BITS) - 1) << mark_shift;
	__u32 is = found(skb);

	/* Clear bits set earlier, which must not count as a result. */
	skb->mark = (skb->mark & ~mask) | is << mark_shift;
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual BSD/GPL";
