// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Surveys the traffic of one device in each direction: packets and bytes by
 * protocol and port and by size, and the times between packets. The programs
 * are attached to tracepoints and cannot change packets.
 */
#include "segment.h"
#include "survey_layout.h"

/* Most pairs of protocol and port (LRU). Protocols alone are few and never
 * evicted. */
#define SERVICES 4096
#define PROTOCOLS 512

#define ETH_ALEN 6 /* linux/if_ether.h */

/* Set before the program is loaded. */
const volatile struct survey_of of;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SERVICES);
	__type(key, struct survey_service);
	__type(value, struct survey_count);
} services SEC(".maps");

/* Counters by protocol alone. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROTOCOLS);
	__type(key, struct survey_service);
	__type(value, struct survey_count);
} protocols SEC(".maps");

/* Counters of arriving and of departing packets. */
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

/* Counts packets of a service in a map. */
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

/* Returns the bytes on the wire of a packet. */
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

/* Returns the bytes of headers that each segment of a merged packet repeats. */
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

/* Counts a packet, without its link-layer header. A merged packet counts as its
 * segments, all of equal size. */
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
	u32 at, stated = 0;

	shared = (struct skb_shared_info *)(skb->head + skb->end);
	bpf_core_read(&segments, sizeof(segments), &shared->gso_segs);
	if (!segments)
		segments = 1;
	at = addresses(network, skb->protocol, &tuple, &stated);
	bytes = unpadded(bytes, stated);
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

/* Returns whether a packet of a mirror port was sent by the router. */
static __always_inline u32 leaves(struct sk_buff *skb)
{
	u64 address = 0;
	u8 source[ETH_ALEN];
	u32 at;

	if (!of.router ||
	    bpf_probe_read_kernel(source, sizeof(source),
				  skb->head + skb->mac_header + ETH_ALEN))
		return 0;
	for (at = 0; at < ETH_ALEN; at++)
		address = address << 8 | source[at];
	return address == of.router;
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
		survey(skb, skb->data, skb->len, leaves(skb));
	return 0;
}

SEC("?fexit/vlan_do_receive")
int survey_vlan(void *ctx)
{
	struct sk_buff *skb = vlan_received(ctx);

	if (skb && here(skb->dev))
		survey(skb, skb->data, skb->len, leaves(skb));
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
