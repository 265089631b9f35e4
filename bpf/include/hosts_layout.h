/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The host of a packet, passed to a qdisc in two words of skb->cb by a program
 * at the device's egress hook (bpf/egress/hosts.bpf.c). If the first word is
 * not the stamp that the qdisc knows, the program did not see the packet. The
 * types of user space are generated from this file.
 */
#ifndef BPF_HOSTS_LAYOUT_H
#define BPF_HOSTS_LAYOUT_H

#include "kernel.h"

/* Indices of the words in skb->cb, among those that programs may use. */
#define HOSTS_STAMP_WORD 2
#define HOSTS_WORD 3

/* Constants of the program, set before it is loaded. A single variable, because
 * the compiler may reorder several. */
struct hosts_of {
	u32 stamp;
	u32 key; /* secret key of the hash */
	u32 arriving; /* packets come from the link */
};

#endif
