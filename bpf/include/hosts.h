/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose host a packet is, told to a qdisc by a program at egress of its device
 * (bpf/egress/hosts.bpf.c), in two words of skb->cb. Where the first is not the stamp
 * that the qdisc knows, the program did not see the packet.
 */
#ifndef BPF_HOSTS_H
#define BPF_HOSTS_H

/* Where in skb->cb the words are, among those that programs may use. */
#define HOSTS_STAMP_WORD 2
#define HOSTS_WORD 3

#endif
