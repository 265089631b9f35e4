/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The context of programs at a hook, and their return values. User space runs
 * programs on packets of its own with the types generated from this file. */
#ifndef BPF_TC_LAYOUT_H
#define BPF_TC_LAYOUT_H

#include "kernel.h"

/* include/uapi/linux/pkt_cls.h */
enum { TC_ACT_UNSPEC = -1, TC_ACT_SHOT = 2 };

/* The first part of the kernel's structure (include/uapi/linux/bpf.h), which
 * every version has. */
struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	__u64 flow_keys;
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	__u64 sk;
	__u32 gso_size;
	__u32 pad;
};

#endif
