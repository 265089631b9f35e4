// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The sender of `weirgate aqm bench`. It sends copies of its packet to a device
 * from inside the kernel, so that a measurement includes no system call per
 * packet.
 *
 * The kernel runs it (BPF_PROG_TEST_RUN) with softirqs disabled. While one run
 * sends several copies, a device that stops its queue is not woken, so all
 * copies after the first find packets queued.
 */
#include "tc_layout.h"

/* Most copies per run. */
#define MOST 1024

/* Sends copies. cb[0]: the device; cb[1]: the number of copies. */
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

/* State of the random generator (xorshift, Marsaglia 2003). */
__u64 random = 88172645463325252ULL;

/* The next circuit, if they take turns. */
__u32 turn;

/*
 * Sends each copy to another circuit, by skb->priority, and with another flow,
 * by its hash. cb[2]: the first circuit; cb[3]: their number; cb[4]: 0 for
 * random order, 1 for turns.
 */
SEC("tc")
int bench_circuits(struct __sk_buff *skb)
{
	__u32 device = skb->cb[0], copies = skb->cb[1];
	__u32 first = skb->cb[2], many = skb->cb[3], turns = skb->cb[4];
	__u64 x = random;
	__u32 i, at;

	bpf_for (i, 0, MOST) {
		if (i >= copies)
			break;
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		at = (x >> 32) * many >> 32;
		if (turns) {
			if (turn >= many)
				turn = 0;
			at = turn++;
		}
		skb->priority = first + at;
		bpf_set_hash(skb, (__u32)x);
		bpf_clone_redirect(skb, device, 0);
	}
	random = x;
	return TC_ACT_SHOT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
