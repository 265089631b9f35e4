// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A survey of what passes one device: packets and bytes by protocol and port,
 * by size, and the times between them, either way. Programs at tracepoints,
 * which can change nothing.
 */
#include "segment.h"
#include "survey_layout.h"

/* Protocols and ports that are distinguished; of more, those seen last. Protocols
 * alone are few, and never forgotten. */
#define SERVICES 4096
#define PROTOCOLS 512

/* Set before the program is loaded. */
const volatile struct survey_of of;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SERVICES);
	__type(key, struct survey_service);
	__type(value, struct survey_count);
} services SEC(".maps");

/* Without a port. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROTOCOLS);
	__type(key, struct survey_service);
	__type(value, struct survey_count);
} protocols SEC(".maps");

/* What arrives, and what leaves. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct survey_direction);
} directions SEC(".maps");

static __always_inline void more(struct survey_count *count, u64 packets,
				 u64 bytes)
{
	__sync_fetch_and_add(&count->packets, packets);
	__sync_fetch_and_add(&count->bytes, bytes);
}

/* Counts a packet in a map of these. */
static __always_inline void count_in(void *map, struct survey_service *service,
				     u64 packets, u64 bytes)
{
	struct survey_count *count = bpf_map_lookup_elem(map, service);
	struct survey_count fresh = {};

	if (!count) {
		bpf_map_update_elem(map, service, &fresh, BPF_NOEXIST);
		count = bpf_map_lookup_elem(map, service);
	}
	if (count)
		more(count, packets, bytes);
}

/* Bytes on the wire of a packet. */
static __always_inline u64 on_wire(u64 bytes)
{
	s64 stated = (s64)bytes + of.overhead;
	u64 least = of.smallest > 1 ? of.smallest : 1;
	u64 frame = stated > (s64)least ? (u64)stated : least;
	u64 wire = of.kept ? frame : 0;

	if (of.piece)
		wire += (frame + of.piece - 1) / of.piece * of.piece_wire;
	return wire;
}

/* Bytes of the headers that each segment of a merged packet has. */
static __always_inline u32 repeated(const u8 *network, u32 at, u8 protocol)
{
	u8 offset;

	if (protocol == IPPROTO_UDP)
		return at + 8;
	if (protocol == IPPROTO_TCP &&
	    !bpf_probe_read_kernel(&offset, 1, network + at + 12))
		return at + (offset >> 4) * 4;
	return 0;
}

/* A packet without its link's header. One that holds several segments counts as
 * these, each as large as the others. */
static __always_inline void survey(struct sk_buff *skb, const u8 *network,
				   u32 bytes, u32 out)
{
	struct survey_service service = { skb->protocol, 0, out };
	struct survey_direction *direction;
	struct skb_shared_info *shared;
	struct tuple tuple = {};
	u64 now = bpf_ktime_get_ns();
	u64 last;
	u16 segments = 0;
	u16 ports[2] = {};
	u64 step;
	u32 at;

	shared = (struct skb_shared_info *)(skb->head + skb->end);
	bpf_core_read(&segments, sizeof(segments), &shared->gso_segs);
	if (!segments)
		segments = 1;
	at = addresses(network, skb->protocol, &tuple);
	service.protocol = tuple.protocol;
	if (segments > 1 && at)
		bytes += (segments - 1) * repeated(network, at, tuple.protocol);
	count_in(&protocols, &service, segments, bytes);
	if (at && tuple_has_ports(tuple.protocol) &&
	    !bpf_probe_read_kernel(ports, sizeof(ports), network + at)) {
		u16 one = __builtin_bswap16(ports[0]);
		u16 other = __builtin_bswap16(ports[1]);

		service.port = one < other ? one : other;
	}
	count_in(&services, &service, segments, bytes);
	direction = bpf_map_lookup_elem(&directions, &out);
	if (!direction)
		return;
	more(&direction->all, segments, bytes);
	__sync_fetch_and_add(&direction->wire,
			     segments * on_wire(bytes / segments));
	step = bytes / segments >> SURVEY_SIZE_BITS;
	if (step >= SURVEY_SIZES)
		step = SURVEY_SIZES - 1;
	barrier_var(step);
	if (step < SURVEY_SIZES)
		more(&direction->sizes[step], segments, bytes);
	last = direction->last_ns;
	direction->last_ns = now;
	if (last && now >= last)
		spread_add(&direction->gaps, now - last);
}

static __always_inline int here(struct net_device *dev)
{
	return dev && dev->ifindex == (int)of.surveyed &&
	       dev->nd_net.net->net_cookie == of.namespace;
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(survey_leaves, struct sk_buff *skb)
{
	u8 *network;
	u32 before;

	if (!here(skb->dev))
		return 0;
	network = skb->head + skb->network_header;
	before = network - skb->data;
	if (before <= 64 && before <= skb->len)
		survey(skb, network, skb->len - before, 1);
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(survey_arrives, struct sk_buff *skb)
{
	if (here(skb->dev))
		survey(skb, skb->data, skb->len, 0);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
