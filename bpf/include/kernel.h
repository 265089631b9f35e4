/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel types and functions that the programs use.
 *
 * Each structure lists only the members that are accessed, in any order. When a
 * program is loaded, the loader looks up each member in the type information of
 * the running kernel and inserts its offset (CO-RE). So one build works on
 * every kernel that has these members, and no kernel headers are copied.
 */
#ifndef BPF_KERNEL_H
#define BPF_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/* include/uapi/linux/bpf.h */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_RB_NO_WAKEUP = 1 };
struct bpf_spin_lock {
	__u32 val;
};

/* include/uapi/asm-generic/errno-base.h */
#define ENODEV 19
#define ENOSPC 28

/* include/linux/netdevice.h */
enum { NET_XMIT_SUCCESS = 0, NET_XMIT_DROP = 1, NET_XMIT_CN = 2 };

/* include/uapi/linux/pkt_sched.h */
#define TC_H_ROOT 0xffffffffU
#define TC_H_MIN(handle) ((handle) & 0xffffU)

#pragma clang attribute push(__attribute__((preserve_access_index)), \
			     apply_to = record)

struct net {
	__u64 net_cookie;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	int ifindex;
	unsigned int mtu;
	unsigned short hard_header_len;
	unsigned short type;
	unsigned int tx_queue_len;
	possible_net_t nd_net;
};

struct netdev_queue {
	struct net_device *dev;
};

struct gnet_stats_queue {
	__u32 backlog;
	__u32 drops;
	__u32 overlimits;
};

struct qdisc_skb_head {
	__u32 qlen;
};

struct Qdisc {
	__u32 limit;
	__u32 parent;
	struct netdev_queue *dev_queue;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
};

struct sk_buff {
	struct sk_buff *next;
	struct net_device *dev;
	unsigned int len;
	unsigned int data_len;
	unsigned int end; /* an offset, as on every 64-bit machine */
	__u32 priority;
	__u32 hash;
	__u8 l4_hash : 1;
	__u8 sw_hash : 1;
	__be16 protocol;
	__u16 network_header;
	__u16 mac_header;
	unsigned char *head;
	unsigned char *data;
	char cb[48];
};

/* Sixteen bytes. */
struct in6_addr {
	__u8 in6_u[16];
};

struct skb_shared_info {
	unsigned short gso_size;
	unsigned short gso_segs;
};

struct qdisc_skb_cb {
	unsigned int pkt_len;
	__u16 pkt_segs;
	unsigned char data[20]; /* __sk_buff.cb */
};

struct bpf_sk_buff_ptr {
	struct sk_buff *skb;
};

#pragma clang attribute pop

struct bpf_iter_num {
	__u64 opaque[1];
} __attribute__((aligned(8)));

/* include/uapi/linux/bpf.h */
struct bpf_dynptr {
	__u64 opaque[2];
} __attribute__((aligned(8)));

struct nlattr;
struct netlink_ext_ack;

/* The kernel checks the types of these members. */
struct Qdisc_ops {
	char id[16];
	int (*enqueue)(struct sk_buff *skb, struct Qdisc *sch,
		       struct sk_buff **to_free);
	struct sk_buff *(*dequeue)(struct Qdisc *sch);
	int (*init)(struct Qdisc *sch, struct nlattr *arg,
		    struct netlink_ext_ack *extack);
	void (*reset)(struct Qdisc *sch);
	void (*destroy)(struct Qdisc *sch);
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* net/sched/bpf_qdisc.c */
extern __u32 bpf_skb_get_hash(struct sk_buff *skb) __ksym;
extern void bpf_kfree_skb(struct sk_buff *skb) __ksym;
extern void bpf_qdisc_skb_drop(struct sk_buff *skb,
			       struct bpf_sk_buff_ptr *to_free) __ksym;
extern void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, __u64 expire,
					__u64 delta_ns) __ksym;
/* net/core/filter.c, kernel/bpf/helpers.c */
extern int bpf_dynptr_from_skb(struct sk_buff *skb, __u64 flags,
			       struct bpf_dynptr *data) __ksym;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *data, __u64 offset,
			      void *buffer, __u64 size) __ksym;
extern void bpf_qdisc_bstats_update(struct Qdisc *sch,
				    const struct sk_buff *skb) __ksym;

#endif
