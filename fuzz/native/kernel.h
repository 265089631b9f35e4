/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel interface of the programs at clsact, for a process. It replaces
 * bpf/include/kernel.h and host.h and defines their include guards. The packet
 * is the one last passed to native_packet().
 */
#ifndef BPF_KERNEL_H
#define BPF_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;

/* The native host's version, in place of bpf/include/host.h. */
#include "../../aqm/host/native/host.h"

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };

#define SEC(name)
#define __noinline __attribute__((noinline))
#define __always_inline inline __attribute__((always_inline))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

struct native_map {
	const void *map; /* address of the map's definition */
	u32 type;
	u32 entries;
	u32 key;
	u32 value;
};

#define NATIVE_MAP(m) \
	((struct native_map){ (m), sizeof(*(m)->type) / 4, \
			      sizeof(*(m)->max_entries) / 4, \
			      sizeof(*(m)->key), sizeof(*(m)->value) })
#define bpf_map_lookup_elem(m, k) native_lookup(NATIVE_MAP(m), (k))
#define bpf_map_update_elem(m, k, v, f) \
	native_update(NATIVE_MAP(m), (k), (v), (f))
#define bpf_map_delete_elem(m, k) native_delete(NATIVE_MAP(m), (k))
#define bpf_ringbuf_output(m, data, size, flags) ((long)(flags))

void *native_lookup(struct native_map map, const void *key);
long native_update(struct native_map map, const void *key, const void *value,
		   u64 flags);
long native_delete(struct native_map map, const void *key);
u64 bpf_ktime_get_ns(void);
u32 bpf_get_prandom_u32(void);
long bpf_skb_load_bytes(const void *skb, u32 offset, void *to, u32 length);
long bpf_skb_load_bytes_relative(const void *skb, u32 offset, void *to,
				 u32 length, u32 start);
long bpf_skb_store_bytes(void *skb, u32 offset, const void *from, u32 length,
			 u64 flags);
long bpf_l4_csum_replace(void *skb, u32 offset, u64 from, u64 to, u64 flags);
long bpf_skb_ecn_set_ce(void *skb);

#endif
