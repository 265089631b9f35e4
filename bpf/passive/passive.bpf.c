// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Passive measurement: the time each packet waits in a device's queue, the
 * round trips of TCP, and what hosts send and receive.
 *
 * The programs are attached to tracepoints (tp_btf) and cannot change packets.
 * A packet is seen when it is queued on a device (`net_dev_queue`), when it
 * leaves the device's queue (`qdisc_dequeue`), when it arrives
 * (`netif_receive_skb`) and when it is dropped (`kfree_skb`). A tracepoint
 * fires for the whole machine. Packets that are not on the devices of one
 * network namespace are ignored at once. Packets that arrive at a VLAN device
 * are seen when vlan_do_receive() has found it.
 *
 * A round trip is the time from a number that one side sends until the other
 * returns it. The number is TCP's timestamp (RFC 7323), or without timestamps
 * the first byte that an acknowledgement is the first to cover. The sender
 * measures in the same way. A device in the middle sees two round trips, one to
 * each side, whose sum is what the sender sees. The first packet with a
 * timestamp counts, because the answer echoes that one. A retransmitted byte
 * does not count (Karn and Partridge 1987).
 */
#include "segment.h"
#include "spread.h"
#include "passive_layout.h"

/* Sizes of maps: queued packets, awaited numbers, connections without
 * timestamps (two entries each), distributions, hosts. */
#define STANDING 65536
#define AWAITED 32768
#define EDGES 16384
#define SPREADS 1024
#define HOSTS 4096

/* Most packets of a list that leaves a queue at once. */
#define TOGETHER 16

struct standing {
	u64 ns;
	u32 ifindex;
	u32 priority;
	u32 merged; /* several segments in one packet */
	u32 ip_bytes;
	/* The inside host that it goes to, if hosts are distinguished: version
	 * of IP (0: none) and address. Also whether it is ECN-capable and not
	 * yet marked. */
	u32 version;
	u32 address[4];
	u32 unmarked;
};

/* A number whose return is awaited. */
struct question {
	struct tuple tuple; /* of the packet that sent it */
	u32 number;
	u32 line;
	u32 out; /* whether it left through the line's device, or arrived */
	u32 stamps;
};

struct asked {
	u64 ns;
	u32 priority;
	u32 twice;
};

/* The direction whose bytes are acknowledged. */
struct edge_key {
	struct tuple tuple;
	u32 line;
};

/* The observed network namespace (SO_NETNS_COOKIE). */
const volatile u64 namespace;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PASSIVE_DEVICES);
	__type(key, u32);
	__type(value, struct passive_device);
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STANDING);
	__type(key, u64);
	__type(value, struct standing);
} standing SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, AWAITED);
	__type(key, struct question);
	__type(value, struct asked);
} awaited SEC(".maps");

/* Highest acknowledgement of each direction. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, EDGES);
	__type(key, struct edge_key);
	__type(value, u32);
} edges SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SPREADS);
	__type(key, struct passive_spread_key);
	__type(value, struct spread);
} spreads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, HOSTS);
	__type(key, struct passive_host_key);
	__type(value, struct passive_host);
} hosts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct passive_totals);
} totals SEC(".maps");

/* A blank distribution, which is too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct spread);
} blank SEC(".maps");

static __always_inline void count(u64 offset)
{
	u32 key = 0;
	u8 *all = bpf_map_lookup_elem(&totals, &key);

	if (all)
		__sync_fetch_and_add((u64 *)(all + offset), 1);
}

static __always_inline struct passive_device *watched(struct net_device *dev,
						      u32 *ifindex)
{
	if (!dev || dev->nd_net.net->net_cookie != namespace)
		return 0;
	*ifindex = dev->ifindex;
	return bpf_map_lookup_elem(&devices, ifindex);
}

/* Adds a value to a distribution. Global, so that the verifier checks it
 * once. */
__noinline int add(u32 ifindex, u32 priority, u32 of, u64 ns)
{
	struct passive_spread_key key = { ifindex, priority, of };
	struct spread *spread = bpf_map_lookup_elem(&spreads, &key);
	u32 zero = 0;

	if (!spread) {
		struct spread *fresh = bpf_map_lookup_elem(&blank, &zero);

		if (fresh)
			bpf_map_update_elem(&spreads, &key, fresh, BPF_NOEXIST);
		spread = bpf_map_lookup_elem(&spreads, &key);
	}
	if (spread)
		spread_add(spread, ns);
	else
		count(offsetof(struct passive_totals, left_out));
	return 0;
}

static __always_inline struct passive_host *
host_of(u32 ifindex, struct tuple *tuple, u32 end)
{
	struct passive_host_key key = { ifindex, tuple->version };
	struct passive_host fresh = {};
	struct passive_host *host;

	__builtin_memcpy(key.address, tuple->address[end & 1], 16);
	host = bpf_map_lookup_elem(&hosts, &key);
	if (host)
		return host;
	bpf_map_update_elem(&hosts, &key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&hosts, &key);
}

/* Returns the host that a queued packet goes to, if it is still in the map. */
static __always_inline struct passive_host *awaiting(struct standing *standing)
{
	struct passive_host_key key = { standing->ifindex, standing->version };

	if (!standing->version)
		return 0;
	__builtin_memcpy(key.address, standing->address, 16);
	return bpf_map_lookup_elem(&hosts, &key);
}

/* Sets the number to the first byte that an acknowledgement is the first to
 * cover. The first acknowledgement of a connection covers the SYN alone. Returns
 * whether there is such a byte: one that acknowledges nothing new is no answer. */
static __always_inline int first_covered(struct question *question,
					 u32 acknowledged)
{
	struct edge_key key = { question->tuple, question->line };
	u32 *edge = bpf_map_lookup_elem(&edges, &key);
	u32 before = acknowledged - 1;

	if (edge) {
		before = *edge;
		*edge = acknowledged;
	} else {
		bpf_map_update_elem(&edges, &key, &acknowledged, BPF_ANY);
	}
	question->number = before;
	return (s32)(acknowledged - before) > 0;
}

/* Takes the sample of a segment that answers, and stores the number of one that
 * asks. `out`: it leaves. */
static __always_inline void times(struct segment *segment,
				  struct passive_device *device,
				  struct passive_host *host, u32 out,
				  u32 priority, u64 now)
{
	struct question question = {};
	struct asked *before;
	struct asked asked = { now, priority, 0 };

	question.line = device->line;
	question.stamps = segment->stamps;
	if (segment->answers) {
		turned(&question.tuple, &segment->tuple);
		question.number = segment->answered;
		question.out = !out;
		before = 0;
		if (segment->stamps ||
		    first_covered(&question, segment->answered))
			before = bpf_map_lookup_elem(&awaited, &question);
		if (before) {
			u64 ns = now - before->ns;
			u32 class = before->priority;
			u32 twice = before->twice;

			bpf_map_delete_elem(&awaited, &question);
			if (!twice && out) {
				/* A sample towards the side that sends this
				 * answer. An IFB may have stored the class. */
				add(device->line, class ?: priority, OF_HERE,
				    ns);
			} else if (!twice) {
				add(device->line, class, OF_BEYOND, ns);
			}
			if (!twice && host && out) {
				__sync_fetch_and_add(&host->beyond_count, 1);
				__sync_fetch_and_add(&host->beyond_ns, ns);
			} else if (!twice && host) {
				__sync_fetch_and_add(&host->here_count, 1);
				__sync_fetch_and_add(&host->here_ns, ns);
			}
		}
	}
	if (!segment->asks)
		return;
	question.tuple = segment->tuple;
	question.number = segment->number;
	question.out = out;
	if (!out)
		asked.priority = 0;
	if (bpf_map_update_elem(&awaited, &question, &asked, BPF_NOEXIST) &&
	    !segment->stamps) {
		before = bpf_map_lookup_elem(&awaited, &question);
		if (before)
			before->twice = 1;
	}
}

/* Stores the class of a packet that arrived at the line and now passes its
 * IFB. */
static __always_inline void classed(struct segment *segment,
				    struct passive_device *device, u32 priority)
{
	struct question question = {};
	struct asked *before;

	question.line = device->line;
	question.stamps = segment->stamps;
	question.tuple = segment->tuple;
	question.number = segment->number;
	before = bpf_map_lookup_elem(&awaited, &question);
	if (before)
		before->priority = priority;
}

/* Reads a packet and updates hosts and round trips. For a departing packet,
 * stores its destination in `queued`. */
static __always_inline void seen(struct sk_buff *skb,
				 struct passive_device *device, u32 ifindex,
				 u32 out, u64 now, struct standing *queued)
{
	struct segment segment = {};
	struct passive_host *host = 0;
	u8 *network = skb->data;
	u32 before = 0;
	struct skb_shared_info *shared;
	u16 merged = 0;

	if (out) {
		network = skb->head + skb->network_header;
		before = network - skb->data;
	}
	if (before > 64 || before > skb->len - skb->data_len)
		return;
	if (!segment_read(&segment, network, skb->len - skb->data_len - before,
			  skb->len - before, skb->protocol))
		return;
	if (device->what & DEVICE_HOSTS) {
		host = host_of(ifindex, &segment.tuple, out);
		if (queued) {
			u32 ecn = ecn_of(network, segment.tuple.version);

			queued->version = segment.tuple.version;
			__builtin_memcpy(queued->address,
					 segment.tuple.address[1], 16);
			queued->unmarked = ecn && ecn != ECN_CE;
		}
		shared = (struct skb_shared_info *)(skb->head + skb->end);
		bpf_core_read(&merged, sizeof(merged), &shared->gso_segs);
		if (host && out) {
			__sync_fetch_and_add(&host->received_bytes,
					     segment.ip_bytes);
			__sync_fetch_and_add(&host->received_packets,
					     merged ?: 1);
		} else if (host) {
			__sync_fetch_and_add(&host->sent_bytes,
					     segment.ip_bytes);
			__sync_fetch_and_add(&host->sent_packets, merged ?: 1);
		}
	}
	if (!segment.tcp)
		return;
	if (device->line == ifindex)
		times(&segment, device, host, out, skb->priority, now);
	else if (segment.asks)
		classed(&segment, device, skb->priority);
}

static __always_inline u32 merged_in(struct sk_buff *skb)
{
	struct skb_shared_info *shared =
		(struct skb_shared_info *)(skb->head + skb->end);
	u16 size = 0;

	bpf_core_read(&size, sizeof(size), &shared->gso_size);
	return !!size;
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(passive_queued, struct sk_buff *skb)
{
	struct standing standing_now = {};
	u64 key = (u64)skb, now, before;
	struct passive_device *device;
	u32 ifindex;

	device = watched(skb->dev, &ifindex);
	if (!device)
		return 0;
	now = bpf_ktime_get_ns();
	standing_now.ns = now;
	standing_now.ifindex = ifindex;
	standing_now.priority = skb->priority;
	standing_now.merged = merged_in(skb);
	before = skb->head + skb->network_header - skb->data;
	/* Keep the compiler from computing with half of a pointer. */
	barrier_var(before);
	standing_now.ip_bytes = skb->len - (u32)before;
	seen(skb, device, ifindex, 1, now, &standing_now);
	bpf_map_update_elem(&standing, &key, &standing_now, BPF_ANY);
	return 0;
}

/* Handles a packet that leaves a queue. A segment of a packet that the qdisc
 * split is not the one that was queued. */
static __always_inline void leaves(struct sk_buff *skb, u32 ifindex, u64 now)
{
	u64 key = (u64)skb;
	struct standing *came = bpf_map_lookup_elem(&standing, &key);
	struct passive_host *host;

	if (came && came->ifindex == ifindex &&
	    came->merged == merged_in(skb)) {
		host = awaiting(came);
		if (host) {
			u8 *network = skb->head + skb->network_header;

			__sync_fetch_and_add(&host->timed, 1);
			__sync_fetch_and_add(&host->waited_ns, now - came->ns);
			if (came->unmarked &&
			    ecn_of(network, came->version) == ECN_CE)
				__sync_fetch_and_add(&host->marked, 1);
		}
		add(ifindex, came->priority, OF_WAIT, now - came->ns);
		add(ifindex, came->priority, OF_BYTES, came->ip_bytes);
	} else {
		count(offsetof(struct passive_totals, untimed));
	}
	if (came)
		bpf_map_delete_elem(&standing, &key);
}

SEC("tp_btf/qdisc_dequeue")
int BPF_PROG(passive_left, struct Qdisc *qdisc, struct netdev_queue *queue,
	     int packets, struct sk_buff *skb)
{
	u32 ifindex, i;
	u64 now;

	if (!skb || !watched(queue->dev, &ifindex))
		return 0;
	now = bpf_ktime_get_ns();
	for (i = 0; i < TOGETHER; i++) {
		leaves(skb, ifindex, now);
		skb = skb->next;
		if (!skb)
			break;
	}
	return 0;
}

static __always_inline void arrives(struct sk_buff *skb)
{
	struct passive_device *device;
	u32 ifindex;

	device = watched(skb->dev, &ifindex);
	if (device && device->line == ifindex)
		seen(skb, device, ifindex, 0, bpf_ktime_get_ns(), 0);
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(passive_arrived, struct sk_buff *skb)
{
	arrives(skb);
	return 0;
}

SEC("?fexit/vlan_do_receive")
int passive_vlan(void *ctx)
{
	struct sk_buff *skb = vlan_received(ctx);

	if (skb)
		arrives(skb);
	return 0;
}

/* A dropped packet never leaves, and its memory is reused. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(passive_dropped, struct sk_buff *skb)
{
	u64 key = (u64)skb;
	struct standing *came = bpf_map_lookup_elem(&standing, &key);
	struct passive_host *host;

	if (!came)
		return 0;
	host = awaiting(came);
	if (host)
		__sync_fetch_and_add(&host->dropped, 1);
	bpf_map_delete_elem(&standing, &key);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
