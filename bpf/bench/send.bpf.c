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

/* What random numbers are made of (xorshift, Marsaglia 2003). */
__u64 random = 88172645463325252ULL;

/* The next circuit where they take turns. */
__u32 turn;

/*
 * The same with each copy of another circuit, by skb->priority, and of a flow of
 * its own, by its hash. cb[2]: the first circuit; cb[3]: how many there are; cb[4]: 0
 * for any of them, 1 for one after the other.
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
