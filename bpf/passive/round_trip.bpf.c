// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Measures round trips from a device to outside hosts, by passing TCP segments.
 * The time starts when the device gets a segment to send, after its queue, and
 * ends when the answer arrives there. So it includes no wait on this side. The
 * minimum of each outside host is stored until it is read.
 *
 * Samples are matched by TCP timestamps (RFC 7323), which pure acknowledgements
 * have too. A sender that is paced by acknowledgements echoes their timestamps
 * at once, so a download gives samples. Without timestamps, the end of a
 * segment is matched with the acknowledgement of exactly that, which only
 * uploads provide. The first packet of a number counts. Retransmissions are
 * ignored.
 *
 * The programs are attached to tracepoints (tp_btf) and cannot change packets,
 * as in passive.bpf.c.
 */
#include "segment.h"
#include "round_trip_layout.h"

#define AWAITED 16384
#define ENDS 64

/* An awaited number, with the tuple of the departing packet. */
struct question {
	struct tuple tuple;
	u32 number;
	u32 stamps;
};

struct asked {
	u64 ns;
	u64 twice;
};

/* The observed network namespace (SO_NETNS_COOKIE). */
const volatile u64 namespace;

/* The number of the device; 0: none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} line SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, AWAITED);
	__type(key, struct question);
	__type(value, struct asked);
} awaited SEC(".maps");

/* Outside hosts that answered since the map was last read. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, ENDS);
	__type(key, struct round_trip_end);
	__type(value, struct round_trip_heard);
} ends SEC(".maps");

static __always_inline int watched(struct net_device *dev)
{
	u32 key = 0;
	u32 *ifindex = bpf_map_lookup_elem(&line, &key);

	return dev && ifindex && *ifindex && (u32)dev->ifindex == *ifindex &&
	       dev->nd_net.net->net_cookie == namespace;
}

static __always_inline int read(struct sk_buff *skb, struct segment *segment,
				u32 out)
{
	u8 *network = skb->data;
	u32 before = 0;

	if (out) {
		network = skb->head + skb->network_header;
		before = network - skb->data;
	}
	if (before > 64 || before > skb->len - skb->data_len)
		return 0;
	return segment_read(segment, network, skb->len - skb->data_len - before,
			    skb->len - before, skb->protocol) &&
	       segment->tcp;
}

/* Stores the number of a departing segment. */
static __always_inline void went(struct sk_buff *skb, u64 now)
{
	struct segment segment = {};
	struct question question = {};
	struct asked asked = { now, 0 };
	struct asked *before;

	if (!read(skb, &segment, 1) || (!segment.stamps && !segment.asks))
		return;
	question.tuple = segment.tuple;
	question.stamps = segment.stamps;
	question.number = segment.stamps ? segment.number : segment.behind;
	if (bpf_map_update_elem(&awaited, &question, &asked, BPF_NOEXIST) &&
	    !segment.stamps) {
		before = bpf_map_lookup_elem(&awaited, &question);
		if (before)
			before->twice = 1;
	}
}

/* Takes a sample from an outside host. */
static __always_inline void hear(struct tuple *tuple, u64 ns)
{
	struct round_trip_heard fresh = { ns, 1 };
	struct round_trip_end outside = {};
	struct round_trip_heard *heard;

	__builtin_memcpy(outside.address, tuple->address[0], 16);
	outside.version = tuple->version;
	heard = bpf_map_lookup_elem(&ends, &outside);
	if (!heard) {
		bpf_map_update_elem(&ends, &outside, &fresh, BPF_ANY);
		return;
	}
	if (ns < heard->least_ns)
		heard->least_ns = ns;
	heard->count++;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(round_trip_left, struct sk_buff *skb, struct net_device *dev)
{
	if (watched(dev))
		went(skb, bpf_ktime_get_ns());
	return 0;
}

static __always_inline void came(struct sk_buff *skb)
{
	struct segment segment = {};
	struct question question = {};
	struct asked *asked;
	u64 ns, now, twice;

	if (!watched(skb->dev))
		return;
	now = bpf_ktime_get_ns();
	if (!read(skb, &segment, 0) || !segment.answers)
		return;
	turned(&question.tuple, &segment.tuple);
	question.stamps = segment.stamps;
	question.number = segment.answered;
	asked = bpf_map_lookup_elem(&awaited, &question);
	if (!asked)
		return;
	ns = now - asked->ns;
	twice = asked->twice;
	bpf_map_delete_elem(&awaited, &question);
	if (!twice)
		hear(&segment.tuple, ns);
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(round_trip_arrived, struct sk_buff *skb)
{
	came(skb);
	return 0;
}

SEC("?fexit/vlan_do_receive")
int round_trip_vlan(void *ctx)
{
	struct sk_buff *skb = vlan_received(ctx);

	if (skb)
		came(skb);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
