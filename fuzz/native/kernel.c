// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The kernel helpers that the programs at clsact need: maps of a few entries, a
 * clock that the caller sets, and a single packet. */
#include <stdlib.h>
#include <string.h>
#include "kernel.h"

/* More than the connections of a fuzzed run, and few enough to be filled. */
#define ENTRIES 24
#define MAPS 24

struct store {
	struct native_map map;
	u32 used;
	u32 oldest;
	u8 *keys;
	u8 *values;
};

static struct store stores[MAPS];
static u64 now_ns;
static u32 chance;
static u8 *frame;
static u32 frame_bytes, network_at;

void native_forget(void);
void native_packet(u8 *bytes, u32 length, u32 network, u64 now, u32 random);

/* Resets all maps. */
void native_forget(void)
{
	u32 i;

	for (i = 0; i < MAPS && stores[i].map.map; i++) {
		struct store *store = &stores[i];
		u32 room = store->map.type == BPF_MAP_TYPE_ARRAY ?
				   store->map.entries :
				   ENTRIES;

		memset(store->values, 0, (size_t)room * store->map.value);
		store->used = 0;
		store->oldest = 0;
	}
}

void native_packet(u8 *bytes, u32 length, u32 network, u64 now, u32 random)
{
	frame = bytes;
	frame_bytes = length;
	network_at = network;
	now_ns = now;
	chance = random;
}

static struct store *native_store(struct native_map map)
{
	u32 i, room;

	for (i = 0; i < MAPS; i++) {
		if (stores[i].map.map == map.map)
			return &stores[i];
		if (!stores[i].map.map)
			break;
	}
	if (i == MAPS)
		abort();
	room = map.type == BPF_MAP_TYPE_ARRAY ? map.entries : ENTRIES;
	stores[i].map = map;
	stores[i].keys = calloc(room, map.key);
	stores[i].values = calloc(room, map.value);
	if (!stores[i].keys || !stores[i].values)
		abort();
	return &stores[i];
}

void *native_lookup(struct native_map map, const void *key)
{
	struct store *store = native_store(map);
	u32 i, index;

	if (map.type == BPF_MAP_TYPE_ARRAY) {
		memcpy(&index, key, 4);
		return index < map.entries ?
			       store->values + (size_t)index * map.value :
			       NULL;
	}
	for (i = 0; i < store->used; i++) {
		if (!memcmp(store->keys + (size_t)i * map.key, key, map.key))
			return store->values + (size_t)i * map.value;
	}
	return NULL;
}

long native_update(struct native_map map, const void *key, const void *value,
		   u64 flags)
{
	struct store *store = native_store(map);
	void *there = native_lookup(map, key);
	u32 at;

	if (there && flags == BPF_NOEXIST)
		return -17;
	if (!there) {
		at = store->used < ENTRIES ? store->used++ :
					     store->oldest++ % ENTRIES;
		memcpy(store->keys + (size_t)at * map.key, key, map.key);
		there = store->values + (size_t)at * map.value;
	}
	memcpy(there, value, map.value);
	return 0;
}

/* Moves the last entry into its place. */
long native_delete(struct native_map map, const void *key)
{
	struct store *store = native_store(map);
	u8 *there = native_lookup(map, key);
	size_t at;

	if (!there)
		return -2;
	at = (size_t)(there - store->values) / map.value;
	store->used--;
	memmove(store->keys + at * map.key,
		store->keys + (size_t)store->used * map.key, map.key);
	memmove(there, store->values + (size_t)store->used * map.value,
		map.value);
	return 0;
}

u64 bpf_ktime_get_ns(void)
{
	return now_ns;
}

u32 bpf_get_prandom_u32(void)
{
	return chance;
}

long bpf_skb_load_bytes(const void *skb, u32 offset, void *to, u32 length)
{
	if (offset > frame_bytes || length > frame_bytes - offset) {
		memset(to, 0, length);
		return -14;
	}
	memcpy(to, frame + offset, length);
	return 0;
}

long bpf_skb_load_bytes_relative(const void *skb, u32 offset, void *to,
				 u32 length, u32 start)
{
	/* Programs only use offsets from the network header. */
	if (start != 1)
		abort();
	if (offset > 0xffff)
		return -14;
	return bpf_skb_load_bytes(skb, network_at + offset, to, length);
}

long bpf_skb_store_bytes(void *skb, u32 offset, const void *from, u32 length,
			 u64 flags)
{
	if (offset > frame_bytes || length > frame_bytes - offset)
		return -14;
	memcpy(frame + offset, from, length);
	return 0;
}

/* RFC 1624 equation 3, on words in memory order. */
long bpf_l4_csum_replace(void *skb, u32 offset, u64 from, u64 to, u64 flags)
{
	u16 sum;
	u32 wide;

	if (offset & 1 || offset > frame_bytes || frame_bytes - offset < 2)
		return -14;
	memcpy(&sum, frame + offset, 2);
	wide = (u32)(u16)~sum + (u16)~from + (u16)to;
	wide = (wide & 0xffff) + (wide >> 16);
	wide = (wide & 0xffff) + (wide >> 16);
	sum = (u16)~wide;
	memcpy(frame + offset, &sum, 2);
	return 0;
}

long bpf_skb_ecn_set_ce(void *skb)
{
	u8 *header = frame + network_at;

	if (frame_bytes < network_at + 20)
		return 0;
	if (header[0] >> 4 == 4 && header[1] & 3) {
		u16 before, after;

		memcpy(&before, header, 2);
		header[1] |= 3;
		memcpy(&after, header, 2);
		bpf_l4_csum_replace(skb, network_at + 10, before, after, 2);
		return 1;
	}
	if (header[0] >> 4 == 6 && header[1] & 0x30) {
		header[1] |= 0x30;
		return 1;
	}
	return 0;
}
