// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A traffic conditioner (RFC 2475 section 2.3.3) at a device's clsact qdisc, at
 * its ingress or egress hook. The first conditioner that matches a packet
 * colours it with its meter (aqm/include/conditioner.h). The colour's action
 * follows: pass, set another code point, or drop.
 *
 * Meters count bytes of IP packets, as in RFC 2697 and 2698. Packets that are
 * not dropped pass on to the filters that follow.
 *
 * A packet's protocol and ports are looked up when the first conditioner needs
 * them that matches in all other fields.
 *
 * The configuration of a conditioner has a version number. A meter restarts
 * when the number has changed.
 *
 * One loaded program serves many devices: loading costs far more than looking
 * up a device's first conditioner.
 */
#include "tc.h"
/* No function may be called while the kernel's lock is held. */
#undef AQM_NUMBER_FN
#define AQM_NUMBER_FN AQM_FN
#include "condition_layout.h"

#define BPF_F_RECOMPUTE_CSUM 1

/* Set before the program is loaded: whether decisions are recorded. If not, the
 * map of records has its minimum size. */
const volatile u32 recording;

/* Facts about a packet. */
struct condition_packet {
	u32 address[2][4];
	u8 head[20]; /* start of its IP header */
	u32 version;
	u32 code;
	u32 bytes; /* of the IP packet */
	u32 class;
	u32 looked; /* whether protocol and ports are known */
	u32 protocol;
	u32 ports[2]; /* source, destination; 0: unreadable */
	u32 colour; /* the colour that the meter gave it */
	u32 brings;
	u64 now_ns;
};

/* Index of a device's first conditioner, by device number. The sizes of this
 * map and the next two are set before the program is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CONDITIONERS);
	__type(key, u32);
	__type(value, struct condition_rule);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CONDITIONERS);
	__type(key, u32);
	__type(value, struct condition_state);
} instances SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} records SEC(".maps");

/* Reads a packet's IP header. Returns whether there is one. Functions that are
 * not inline are global, so that the verifier checks each once. */
__noinline u32 condition_look(struct __sk_buff *skb,
			      struct condition_packet *packet)
{
	u8 more[20];

	if (!packet || tc_load(skb, 0, packet->head, sizeof(packet->head)))
		return 0;
	packet->class = skb->priority;
	if (skb->protocol == __builtin_bswap16(ETH_P_IP) &&
	    packet->head[0] >> 4 == 4) {
		packet->version = 4;
		packet->code = packet->head[1] >> 2;
		packet->bytes = tc_end(skb, tc_short(packet->head + 2), 0);
		__builtin_memcpy(packet->address[0], packet->head + 12, 4);
		__builtin_memcpy(packet->address[1], packet->head + 16, 4);
		return packet->bytes >= 20;
	}
	if (skb->protocol != __builtin_bswap16(ETH_P_IPV6) ||
	    packet->head[0] >> 4 != 6 || tc_load(skb, 20, more, sizeof(more)))
		return 0;
	packet->version = 6;
	packet->code = tc_short(packet->head) >> 6 & 0x3f;
	packet->bytes = tc_end(skb, tc_short(packet->head + 4), 40);
	__builtin_memcpy(packet->address[0], packet->head + 8, 12);
	__builtin_memcpy(&packet->address[0][3], more, 4);
	__builtin_memcpy(packet->address[1], more + 4, 16);
	return 1;
}

/* Whether an address is in one of the networks. An empty list matches all. */
static __always_inline int condition_in(const struct condition_net *nets,
					const u32 *address, u32 version)
{
	u32 i;

	if (!nets[0].version)
		return 1;
	for (i = 0; i < CONDITION_NETS; i++) {
		if (!nets[i].version)
			return 0;
		if (nets[i].version == version &&
		    !((address[0] ^ nets[i].address[0]) & nets[i].mask[0]) &&
		    !((address[1] ^ nets[i].address[1]) & nets[i].mask[1]) &&
		    !((address[2] ^ nets[i].address[2]) & nets[i].mask[2]) &&
		    !((address[3] ^ nets[i].address[3]) & nets[i].mask[3]))
			return 1;
	}
	return 0;
}

/* Reads a packet's protocol and ports. Only the first fragment has the
 * transport header and so ports. */
__noinline u32 condition_carries(struct __sk_buff *skb,
				 struct condition_packet *packet)
{
	u32 at, i, later;
	u8 next[4];

	if (!packet)
		return 0;
	packet->looked = 1;
	packet->ports[0] = 0;
	packet->ports[1] = 0;
	if (packet->version == 4) {
		at = (packet->head[0] & 0xf) * 4;
		packet->protocol = packet->head[9];
		later = at < 20 || tc_short(packet->head + 6) & 0x1fff;
	} else {
		at = 40;
		packet->protocol = packet->head[6];
		later = 0;
		for (i = 0; i < EXTENSIONS && !later; i++) {
			u32 fragment = packet->protocol == IPPROTO_FRAGMENT;

			if (!fragment &&
			    !tuple_is_extension((u8)packet->protocol))
				break;
			if (tc_load(skb, at, next, sizeof(next)))
				return 0;
			if (fragment)
				later = tc_short(next + 2) & 0xfff8;
			packet->protocol = next[0];
			at += fragment ? 8 : (next[1] + 1) * 8;
		}
	}
	/* UDP-Lite may cover no more than its header, so its ports are not
	 * matched, as in rules. */
	if (later || packet->protocol == IPPROTO_UDPLITE ||
	    (packet->protocol != IPPROTO_DCCP &&
	     !tuple_has_ports((u8)packet->protocol)) ||
	    tc_load(skb, at, next, sizeof(next)))
		return 0;
	packet->ports[0] = tc_short(next);
	packet->ports[1] = tc_short(next + 2);
	return 1;
}

/* Whether a port is in one of the ranges. An empty list matches all. */
static __always_inline int condition_port(const struct condition_ports *ports,
					  u32 port)
{
	u32 i;

	if (!ports[0].from)
		return 1;
	for (i = 0; i < CONDITION_PORTS; i++) {
		if (!ports[i].from)
			return 0;
		if (ports[i].from <= port && port <= ports[i].to)
			return 1;
	}
	return 0;
}

/* Matches a packet against a conditioner. Returns 1 if it matches, 0 if not,
 * and 2 after the last conditioner. Returns 3 if the result depends on protocol
 * or ports that are not known yet. */
__noinline u32 condition_is(const struct condition_packet *packet, u32 index)
{
	struct condition_rule *rule = bpf_map_lookup_elem(&settings, &index);
	u32 i;

	if (!packet || !rule || !rule->used)
		return 2;
	if (!(rule->codes >> (packet->code & 63) & 1))
		return 0;
	if (rule->classes) {
		for (i = 0; i < CONDITION_CLASSES; i++) {
			if (i >= rule->classes)
				return 0;
			if (rule->class[i] == packet->class)
				break;
		}
		if (i == CONDITION_CLASSES)
			return 0;
	}
	if (!condition_in(rule->source, packet->address[0], packet->version) ||
	    !condition_in(rule->destination, packet->address[1],
			  packet->version))
		return 0;
	if (!rule->asks)
		return 1;
	if (!packet->looked)
		return 3;
	if (rule->asks & CONDITION_PROTOCOL &&
	    !(rule->protocols[packet->protocol >> 5 & 7] >>
		      (packet->protocol & 31) &
	      1))
		return 0;
	return !(rule->asks & CONDITION_PORT) ||
	       (condition_port(rule->source_ports, packet->ports[0]) &&
		condition_port(rule->destination_ports, packet->ports[1]));
}

/* Meters a packet, sets its colour, and counts it. */
__noinline u32 condition_measure(struct condition_packet *packet, u32 index)
{
	struct condition_rule *rule = bpf_map_lookup_elem(&settings, &index);
	struct condition_state *state = bpf_map_lookup_elem(&instances, &index);
	u32 colour = METER_GREEN;
	u32 bytes;

	if (!packet || !rule || !state)
		return 0;
	if (rule->yellow >> (packet->code & 63) & 1)
		packet->brings = METER_YELLOW;
	if (rule->red >> (packet->code & 63) & 1)
		packet->brings = METER_RED;
	packet->now_ns = bpf_ktime_get_ns();
	bytes = packet->bytes;
	if (bytes < rule->smallest)
		bytes = rule->smallest;
	bpf_spin_lock(&state->lock);
	if (state->version != rule->version) {
		__builtin_memset(&state->vars, 0, sizeof(state->vars));
		__builtin_memset(state->packets, 0, sizeof(state->packets));
		__builtin_memset(state->bytes, 0, sizeof(state->bytes));
		state->unmarked = 0;
		state->version = rule->version;
	}
	if (rule->metered)
		colour = meter_colour(&state->vars, &rule->meter, bytes,
				      packet->brings, packet->now_ns);
	if (colour > METER_RED)
		colour = METER_RED;
	packet->colour = colour;
	state->packets[colour]++;
	state->bytes[colour] += packet->bytes;
	bpf_spin_unlock(&state->lock);
	return 1;
}

/* Whether the IP header is at this offset. Helpers that write take offsets from
 * the start of the frame; those that read can count from the IP header. */
static __always_inline int condition_at(struct __sk_buff *skb,
					const struct condition_packet *packet,
					u32 offset)
{
	u8 there[20];

	return !bpf_skb_load_bytes(skb, offset, there, sizeof(there)) &&
	       !__builtin_memcmp(there, packet->head, sizeof(there));
}

/* Writes a code point. Tries the header at the end of the frame, then after
 * Ethernet, a VLAN tag, or a PPPoE session. */
__noinline u32 condition_mark(struct __sk_buff *skb,
			      const struct condition_packet *packet, u32 code)
{
	u32 offset;
	u8 bytes[2];
	u16 before, after;

	if (!packet)
		return 0;
	offset = skb->len > packet->bytes ? skb->len - packet->bytes : 0;
	if (!condition_at(skb, packet, offset)) {
		if (condition_at(skb, packet, 14))
			offset = 14;
		else if (condition_at(skb, packet, 18))
			offset = 18;
		else if (condition_at(skb, packet, 22))
			offset = 22;
		else
			return 0;
	}
	bytes[0] = packet->head[0];
	bytes[1] = packet->head[1];
	if (packet->version == 4) {
		bytes[1] = (u8)(code << 2 | (bytes[1] & 3));
		before = __builtin_bswap16((u16)tc_short(packet->head));
		after = __builtin_bswap16((u16)tc_short(bytes));
		if (bpf_l3_csum_replace(skb, offset + 10, before, after, 2))
			return 0;
		return !bpf_skb_store_bytes(skb, offset, bytes, 2, 0);
	}
	bytes[0] = (u8)(0x60 | code >> 2);
	bytes[1] = (u8)((code & 3) << 6 | (bytes[1] & 0x3f));
	return !bpf_skb_store_bytes(skb, offset, bytes, 2,
				    BPF_F_RECOMPUTE_CSUM);
}

static __always_inline void
condition_record(const struct condition_packet *packet, u32 index)
{
	struct condition_record record = {
		.now_ns = packet->now_ns,
		.rule = index,
		.bytes = packet->bytes,
		.brings = packet->brings,
		.colour = packet->colour,
	};

	bpf_ringbuf_output(&records, &record, sizeof(record), 0);
}

/* Applies the action of a packet's colour. */
static __always_inline int condition_act(struct __sk_buff *skb,
					 const struct condition_packet *packet,
					 u32 index)
{
	struct condition_rule *rule = bpf_map_lookup_elem(&settings, &index);
	struct condition_state *state = bpf_map_lookup_elem(&instances, &index);
	u32 colour = packet->colour;
	u32 action, code;

	if (!rule || !state || colour > METER_RED)
		return TC_ACT_UNSPEC;
	action = rule->action[colour];
	code = rule->code[colour] & 63;
	if (action == CONDITION_DROP)
		return TC_ACT_SHOT;
	if (action == CONDITION_MARK && code != packet->code &&
	    !condition_mark(skb, packet, code))
		__sync_fetch_and_add(&state->unmarked, 1);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int condition(struct __sk_buff *skb)
{
	struct condition_packet packet = {};
	u32 device = skb->ifindex;
	u32 *first = bpf_map_lookup_elem(&places, &device);
	u32 at, index, found;

	if (!first || !condition_look(skb, &packet))
		return TC_ACT_UNSPEC;
	index = *first;
	for (at = 0; at < CONDITIONERS; at++, index++) {
		found = condition_is(&packet, index);
		if (found == 3) {
			condition_carries(skb, &packet);
			found = condition_is(&packet, index);
		}
		if (found)
			break;
	}
	if (at == CONDITIONERS || found != 1 ||
	    !condition_measure(&packet, index))
		return TC_ACT_UNSPEC;
	if (recording)
		condition_record(&packet, at);
	return condition_act(skb, &packet, index);
}

char _license[] SEC("license") = "Dual BSD/GPL";
