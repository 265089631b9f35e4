// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Circuits of a provider. One program finds the leaf of a packet, at the egress
 * hook of a device whose root qdisc is weir_engine (engine.bpf.c). The other
 * program activates a new list of circuits.
 *
 * A packet is looked up by the subscriber's address, by the longest prefix that
 * contains it, by the PPPoE session, by VLANs and by the MAC address. The first
 * key with a leaf counts. Each key has a leaf in each of two generations, and
 * one word says which generation is active.
 *
 * To change the list, user space writes the configuration of nodes to `staged`
 * and the leaves of the other generation to the tables, at any pace. The second
 * program then copies the rows that differ and switches the word. It runs to
 * completion whatever happens to the process that started it. So either the old
 * list is active or the new one. To change a single circuit, it handles the
 * rows in `picked` and switches nothing.
 */
#include "tc.h"
#include "engine/rows.h"
#include "circuits/layout.h"
#include "circuits/key.h"

#define BPF_MAP_TYPE_LPM_TRIE 11
#define BPF_F_NO_PREALLOC 1U

/* include/uapi/linux/bpf.h */
enum { TCX_NEXT = -1 };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct engine_config);
} staged SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct circuits_label);
} labels SEC(".maps");

/* Leaves by address and by all other keys except prefixes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct circuits_key);
	__type(value, struct circuits_leaves);
} addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct circuits_prefix);
	__type(value, struct circuits_leaves);
} prefixes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct circuits_rule);
} rules SEC(".maps");

static __always_inline struct circuits_rule *rule_of_all(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&rules, &key);
}

/* Returns the leaf of a key in a generation; 0: none. */
static __always_inline u32 leaf_of(const struct circuits_key *key,
				   u32 generation)
{
	struct circuits_leaves *found = bpf_map_lookup_elem(&addresses, key);

	return found ? found->leaf[generation & 1] : 0;
}

/* Returns the leaf of an address, or of the longest prefix. */
static __always_inline u32 leaf_of_address(struct circuits_prefix *prefix,
					   u32 kinds, u32 generation)
{
	struct circuits_leaves *found;
	u32 leaf = 0;

	if (kinds & CIRCUITS_WHOLE << prefix->key.kind)
		leaf = leaf_of(&prefix->key, generation);
	if (leaf || !(kinds & CIRCUITS_PART << prefix->key.kind))
		return leaf;
	prefix->bits = 8 * sizeof(prefix->key);
	found = bpf_map_lookup_elem(&prefixes, prefix);
	return found ? found->leaf[generation & 1] : 0;
}

/* Kinds of keys from headers before IP. */
#define FRAME_KINDS \
	((CIRCUITS_WHOLE | CIRCUITS_PART) << CIRCUITS_SESSION | \
	 (CIRCUITS_WHOLE | CIRCUITS_PART) << CIRCUITS_VLAN | \
	 CIRCUITS_WHOLE << CIRCUITS_MAC)

/* Returns the leaf by the address behind tags or PPPoE, or by the headers
 * before IP. */
static __noinline u32 leaf_of_frame(struct __sk_buff *ctx, u32 source,
				    u32 kinds, u32 generation)
{
	struct circuits_frame frame = {};
	struct circuits_prefix prefix = {};
	struct circuits_key key = {};
	u32 leaf = 0;

	if (!circuits_frame(ctx, source, &frame))
		return 0;
	if (circuits_within(ctx, source, &frame, &prefix.key))
		leaf = leaf_of_address(&prefix, kinds, generation);
	if (leaf || !(kinds & FRAME_KINDS))
		return leaf;
	if (frame.session) {
		key.kind = CIRCUITS_SESSION;
		key.value[0] = frame.session;
		key.value[1] = frame.mac[0];
		key.value[2] = frame.mac[1];
		if (kinds & CIRCUITS_WHOLE << CIRCUITS_SESSION)
			leaf = leaf_of(&key, generation);
		key.value[1] = 0;
		key.value[2] = 0;
		if (!leaf && kinds & CIRCUITS_PART << CIRCUITS_SESSION)
			leaf = leaf_of(&key, generation);
	}
	if (!leaf && frame.vlan[0]) {
		key.kind = CIRCUITS_VLAN;
		key.value[0] = frame.vlan[0];
		key.value[1] = frame.vlan[1];
		if (frame.vlan[1] && kinds & CIRCUITS_WHOLE << CIRCUITS_VLAN)
			leaf = leaf_of(&key, generation);
		key.value[1] = 0;
		if (!leaf && kinds & CIRCUITS_PART << CIRCUITS_VLAN)
			leaf = leaf_of(&key, generation);
	}
	if (!leaf && kinds & CIRCUITS_WHOLE << CIRCUITS_MAC) {
		key.kind = CIRCUITS_MAC;
		key.value[0] = frame.mac[0];
		key.value[1] = frame.mac[1];
		leaf = leaf_of(&key, generation);
	}
	return leaf;
}

SEC("tcx/egress")
int circuits_egress(struct __sk_buff *ctx)
{
	struct circuits_rule *rule = rule_of_all();
	/* Aligned, so that an IPv6 address is copied by two loads. */
	struct circuits_prefix prefix __attribute__((aligned(8))) = {};
	u32 generation, kinds, leaf = 0;
	int plain;

	/* Do not trust the priority that the sender has set. */
	ctx->priority = 0;
	if (!rule)
		return TCX_NEXT;
	generation = rule->generation & 1;
	kinds = rule->kinds[generation];
	plain = circuits_plain(ctx, rule->source, &prefix.key);
	if (plain)
		leaf = leaf_of_address(&prefix, kinds, generation);
	if (!leaf && (!plain || kinds & FRAME_KINDS))
		leaf = leaf_of_frame(ctx, rule->source, kinds, generation);
	ctx->priority = leaf;
	/* The kernel uses this queue unless XPS, the socket or the driver
	 * selects one. */
	if (rule->queues > 1)
		ctx->queue_mapping = (leaf >> ENGINE_MEMBER_SHIFT) + 1;
	return TCX_NEXT;
}

static __always_inline int is_same(const struct engine_config *a,
				   const struct engine_config *b)
{
	return a->ceiling_bytes_s == b->ceiling_bytes_s &&
	       a->guarantee_bytes_s == b->guarantee_bytes_s &&
	       a->live == b->live && a->parent == b->parent &&
	       a->fork == b->fork && a->quantum == b->quantum &&
	       a->priority == b->priority && a->limit_bytes == b->limit_bytes &&
	       a->target_ns == b->target_ns &&
	       a->ceiling_burst_bytes == b->ceiling_burst_bytes;
}

/* Resets the state of an unused row that has no packets left. */
static __always_inline void begin(struct engine_node *n)
{
	if (n->config.live || n->state != ENGINE_IDLE || n->packets)
		return;
	n->ceiling.opens_ns = 0;
	n->ceiling.light = 0;
	n->guarantee.opens_ns = 0;
	n->sent_wire_bytes = 0;
	n->sent_packets = 0;
	n->deficit = 0;
	n->turned = 0;
	n->midway = 0;
	n->drops = 0;
	n->marks = 0;
}

/* Copies the staged configuration of a node if its `live` has this value; with
 * `fresh`, only if the row is not live yet. Returns whether the row exists. */
static __always_inline int say_of(u32 id, u32 live, u32 fresh)
{
	struct engine_config *config = bpf_map_lookup_elem(&staged, &id);
	struct engine_node *n = ENGINE_ROW(struct engine_node, 0, id);

	if (!n || !config)
		return 0;
	if (config->live != live || (fresh && n->config.live) ||
	    is_same(&n->config, config))
		return 1;
	if (live)
		begin(n);
	n->config = *config;
	return 1;
}

/* Returns the root of a node's tree. No other program writes configurations. */
static __always_inline u32 root_of(u32 id)
{
	struct engine_node *n;
	u32 i;

	bpf_for (i, 0, ENGINE_LEVELS + 1) {
		n = ENGINE_ROW(struct engine_node, 0, id);
		if (!n || !n->config.parent)
			break;
		id = n->config.parent;
	}
	return id;
}

/* Moves each site whose parent changes directly below the root of its tree. So
 * no site is ever below itself, in whatever order they then move to their new
 * places. Packets that arrive in between still find a path. */
static __noinline int lift(void)
{
	struct engine_config *config;
	struct engine_node *n;
	u32 i;

	bpf_for (i, 1, CIRCUITS_MOST_ROWS) {
		config = bpf_map_lookup_elem(&staged, &i);
		n = ENGINE_ROW(struct engine_node, 0, i);
		if (!n || !config)
			break;
		if (!config->live)
			continue;
		/* Leaves come last, and there is always one. */
		if (!config->fork)
			break;
		if (n->config.live && n->config.parent &&
		    n->config.parent != config->parent)
			n->config.parent = root_of(i);
	}
	return 0;
}

/* Copies the staged configuration of all nodes with this `live`; with `fresh`,
 * only of those whose rows are not live yet. */
static __noinline int say(u32 live, u32 fresh)
{
	u32 i;

	bpf_for (i, 1, CIRCUITS_MOST_ROWS) {
		if (!say_of(i, live, fresh))
			break;
	}
	return 0;
}

/* Copies the staged configuration of picked nodes with this `live`. */
static __noinline int say_picked(u32 live)
{
	struct circuits_rule *rule = rule_of_all();
	u32 i;

	if (!rule)
		return 0;
	bpf_for (i, 0, CIRCUITS_PICKED) {
		if (i >= rule->count)
			break;
		say_of(rule->picked[i % CIRCUITS_PICKED], live, 0);
	}
	return 0;
}

SEC("syscall")
int circuits_commit(void *ctx)
{
	struct circuits_rule *rule = rule_of_all();

	if (!rule)
		return 1;
	engine_rows_are_used();
	if (rule->count) {
		say_picked(1);
		say_picked(0);
		return 0;
	}
	lift();
	/* New sites come before the nodes that move below them: a packet finds
	 * no path through a site that has no parent and no lists yet. */
	say(1, 1);
	say(1, 0);
	rule->generation = rule->next & 1;
	say(0, 0);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
