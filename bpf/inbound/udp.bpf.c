// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A filter for arriving packets (cls_bpf, direct action) that limits the rate
 * of each UDP stream (aqm/include/udp.h). It drops packets to be discarded. It
 * marks packets to be refused and passes them on, because such a program cannot
 * send an answer. An nftables rule matches the mark and rejects the packet with
 * port unreachable, which the sender's kernel reports to the socket.
 *
 * All other packets pass on to the filters that follow.
 */
#include "tc.h"
#include "lock.h"
#include "udp_layout.h"

#define STREAMS 16384

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct udp_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STREAMS);
	__type(key, struct tuple);
	__type(value, struct udp_stream);
} streams SEC(".maps");

/* A blank stream, which is too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct udp_stream);
} blank SEC(".maps");

/* Reads a UDP packet's tuple. Returns its length, or 0. Global, so that the
 * verifier checks it once. */
__noinline u32 udp_look(struct __sk_buff *skb, struct tuple *tuple)
{
	struct layout at = {};
	struct tuple found = {};

	if (!tuple || !tc_tuple(skb, &found, &at) ||
	    found.protocol != IPPROTO_UDP)
		return 0;
	*tuple = found;
	return at.end;
}

SEC("tc")
int udp_states(struct __sk_buff *skb)
{
	u32 key = 0;
	struct udp_settings *wanted = bpf_map_lookup_elem(&settings, &key);
	struct udp_stream *stream, *fresh;
	struct tuple tuple = {};
	u32 bytes, verdict;

	if (!wanted || !wanted->rule.rate_bytes_s)
		return TC_ACT_UNSPEC;
	bytes = udp_look(skb, &tuple);
	if (!bytes)
		return TC_ACT_UNSPEC;
	/* Clear a mark set earlier, which must not count as a refusal. */
	if (skb->mark & wanted->refuse_mark)
		skb->mark &= ~wanted->refuse_mark;
	if (wanted->spare_mask &&
	    (skb->mark & wanted->spare_mask) == wanted->spare_mark)
		return TC_ACT_UNSPEC;
	stream = bpf_map_lookup_elem(&streams, &tuple);
	if (!stream) {
		fresh = bpf_map_lookup_elem(&blank, &key);
		if (!fresh)
			return TC_ACT_UNSPEC;
		bpf_map_update_elem(&streams, &tuple, fresh, BPF_NOEXIST);
		stream = bpf_map_lookup_elem(&streams, &tuple);
		if (!stream)
			return TC_ACT_UNSPEC;
	}
	if (!lock_take(&stream->lock))
		return TC_ACT_UNSPEC;
	verdict = udp_arrived(&stream->flow, &wanted->rule, bytes,
			      bpf_ktime_get_ns());
	lock_release(&stream->lock);
	if (verdict == UDP_DISCARD)
		return TC_ACT_SHOT;
	if (verdict == UDP_REFUSE)
		skb->mark |= wanted->refuse_mark;
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual BSD/GPL";
