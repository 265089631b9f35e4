/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The host of a packet, reported to a qdisc by a program at egress of its device
 * (bpf/egress/hosts.bpf.c), in two words of skb->cb. Where the first is not the stamp
 * that the qdisc knows, the program did not see the packet. User space has the same
 * types, generated from this file.
 */
#ifndef BPF_HOSTS_LAYOUT_H
#define BPF_HOSTS_LAYOUT_H

#include "kernel.h"

/* Where in skb->cb the words are, among those that programs may use. */
#define HOSTS_STAMP_WORD 2
#define HOSTS_WORD 3

/* The constants of the program, set before it is loaded. One value: the compiler orders several
 * as it likes. */
struct hosts_of {
	u32 stamp;
	u32 key; /* of the hash: nobody outside knows it */
	u32 arriving; /* packets have come from the link */
};

#endif
