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
#include "tc_layout.h"

/* Most copies of one run. */
#define MOST 1024

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
