/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state that TCP Prague stores for a connection (prague.bpf.c). The types
 * of user space are generated from this file. */
#ifndef PRAGUE_LAYOUT_H
#define PRAGUE_LAYOUT_H

#include "kernel.h"

/* Fractions, and windows in segments, in units of 2^-20. */
#define PRAGUE_SHIFT 20
#define PRAGUE_ONE (1ULL << PRAGUE_SHIFT)

/* The state of a connection, in its socket storage. */
struct prague_state {
	__u64 window; /* congestion window, in segments */
	__u64 before; /* the window before the latest reduction */
	__u64 alpha; /* average of the share of marked segments */
	__u64 round_us; /* start of the round in which marks are counted */
	__u64 reduced_us; /* when the window was last reduced by marks */
	__u64 undo; /* the window before the latest loss */
	__u32 round_seq; /* its acknowledgement ends the round */
	__u32 reduced_seq; /* its acknowledgement ends the response to marks */
	__u32 round_delivered; /* segments delivered in the round */
	__u32 round_marked;
	__u32 round_rtt_us; /* smallest round trip of the round */
	__u32 delivered; /* the kernel's counter at the last call */
	__u32 delivered_ce;
	__u32 given; /* the window last set in the kernel */
	__u32 kernel_state; /* enum tcp_ca_state */
	__u32 identified; /* packets sent as ECT(1) */
	__u32 seen_marked; /* total of marked segments */
	__u32 rounds; /* completed rounds */
	__u32 reductions; /* reductions by alpha / 2 */
	__u32 halvings; /* reductions by loss, or by marks of a classic queue */
	__u32 suspicion; /* rounds that look like a classic queue's */
	__u32 classic; /* a classic queue was detected */
	__u32 responds; /* it is responding to marks,
			 * until the round trip ends */
	__u32 accurate; /* accurate ECN feedback was negotiated (RFC 9768) */
	__u32 pad;
	__u32 round_identified; /* `identified` at the start of the round */
};

#endif
