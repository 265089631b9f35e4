// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A middlebox for tests of TCP. At a device's egress hook, it counts the
 * packets of each connection by ECN field, and marks every n-th ECN-capable
 * one.
 */
#include "tc.h"
#include "middlebox_layout.h"

/* include/uapi/linux/bpf.h */
enum { TCX_NEXT = -1 };
/* RFC 9293, section 3.1: offsets of the header's length and flags. */
enum { TCP_OFFSET = 12, TCP_FLAGS = 13, TCP_SYN = 2 };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct middlebox_setup);
} middlebox_setup SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct middlebox_flow);
	__type(value, struct middlebox_count);
} middlebox_counts SEC(".maps");

SEC("tcx/egress")
int middlebox(struct __sk_buff *ctx)
{
	struct middlebox_count none = {}, *count;
	struct middlebox_setup *setup;
	struct middlebox_flow flow = {};
	struct tuple tuple = {};
	struct layout at = {};
	u64 capable;
	u32 key = 0, ecn;
	u8 tcp[2];

	setup = bpf_map_lookup_elem(&middlebox_setup, &key);
	if (!setup || !tc_tuple(ctx, &tuple, &at) ||
	    tuple.protocol != IPPROTO_TCP)
		return TCX_NEXT;
	if (tc_load(ctx, at.transport + TCP_OFFSET, tcp, sizeof(tcp)))
		return TCX_NEXT;
	flow.ifindex = ctx->ifindex;
	flow.port = __builtin_bswap16(tuple.ports[0]);
	count = bpf_map_lookup_elem(&middlebox_counts, &flow);
	if (!count) {
		bpf_map_update_elem(&middlebox_counts, &flow, &none,
				    BPF_NOEXIST);
		count = bpf_map_lookup_elem(&middlebox_counts, &flow);
		if (!count)
			return TCX_NEXT;
	}
	ecn = at.ecn & 3;
	if (tcp[TCP_FLAGS - TCP_OFFSET] & TCP_SYN) {
		count->syn[ecn]++;
		return TCX_NEXT;
	}
	if (at.end <= at.transport + (tcp[0] >> 4) * 4) {
		count->bare[ecn]++;
		return TCX_NEXT;
	}
	count->data[ecn]++;
	capable = count->data[1] + count->data[2];
	if (ecn && setup->mark_every && capable % setup->mark_every == 0 &&
	    bpf_skb_ecn_set_ce(ctx))
		count->marked++;
	return TCX_NEXT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
