/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What TCP Prague keeps of a connection (prague.bpf.c). User space has the same
 * types, generated from this file. */
#ifndef PRAGUE_LAYOUT_H
#define PRAGUE_LAYOUT_H

#include "kernel.h"

/* Fractions, and segments of a window, in units of 2^-20. */
#define PRAGUE_SHIFT 20
#define PRAGUE_ONE (1ULL << PRAGUE_SHIFT)

/* Of a connection: the storage of its socket. */
struct prague_state {
	__u64 window; /* segments */
	__u64 before; /* what it was before the latest reduction */
	__u64 alpha; /* average of the share of marked segments */
	__u64 round_us; /* when the round began in which marks are counted */
	__u64 reduced_us; /* when the window was last reduced by marks */
	__u64 undo; /* the window before the latest loss */
	__u32 round_seq; /* acknowledged, it ends the round */
	__u32 reduced_seq; /* and this the response to marks */
	__u32 round_delivered; /* segments of the round */
	__u32 round_marked;
	__u32 round_rtt_us; /* the least of the round */
	__u32 delivered; /* as the kernel counted when last asked */
	__u32 delivered_ce;
	__u32 given; /* the window that the kernel was given */
	__u32 kernel_state; /* enum tcp_ca_state */
	__u32 identified; /* packets sent as ECT(1) */
	__u32 seen_marked; /* segments */
	__u32 rounds; /* that have ended */
	__u32 reductions; /* by alpha / 2 */
	__u32 halvings; /* by loss, or by marks of a classic queue */
	__u32 suspicion; /* rounds that look like a classic queue's */
	__u32 classic; /* it was found to be one */
	__u32 responds; /* to marks, until the round trip is over */
	__u32 accurate; /* feedback was negotiated (RFC 9768) */
	__u32 pad;
	__u32 round_identified; /* as it was when the round began */
};

#endif
