// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The sender of `weirgate aqm bench`: puts copies of the packet that it is run
 * with onto a device, from inside of the kernel, so that a measurement holds no
 * system call for every packet.
 *
 * The kernel runs it (BPF_PROG_TEST_RUN) with softirqs held off: while one run
 * sends several copies, a device that stops its queue is not woken, and what
 * comes after the first finds packets queued.
 */
#include "kernel.h"

#define TC_ACT_SHOT 2

/* Most copies of one run. */
#define MOST 1024

/* include/uapi/linux/bpf.h; the layout is the kernel's promise. */
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
};

/* cb[0]: the device; cb[1]: how many copies. */
SEC("tc")
int bench_send(struct __sk_buff *skb)
{
	__u32 device = skb->cb[0];
	__u32 copies = skb->cb[1];
	__u32 i;

	bpf_for (i, 0, MOST) {
		if (i >= copies)
			break;
		bpf_clone_redirect(skb, device, 0);
	}
	return TC_ACT_SHOT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
