/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The first part of map values of qdisc.bpf.h, common to all disciplines. The
 * types of user space are generated from this file. */
#ifndef QDISC_LAYOUT_H
#define QDISC_LAYOUT_H

#include "aqm.h"
#include "gate.h"
#include "attach_point_layout.h"

struct aqm_settings_head {
	struct aqm_link link;
	u64 gate_bytes_s; /* rate limit of the qdisc; 0: the device's own */
};

struct aqm_hosted_head {
	struct aqm_gate gate;
	struct aqm_attach_point point;
	u32 used;
	u32 changes_seen;
	u32 recording;
	u32 sequence;
	struct aqm_line line;
	u64 key; /* key of flow hashes */
	u64 stamp; /* stamp of the program that marks; 0: none */
	u64 random; /* state of the random generator */
};

#endif
