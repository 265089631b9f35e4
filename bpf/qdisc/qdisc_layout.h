/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What values in the maps of qdisc.bpf.h begin with, whatever the discipline is.
 * User space has the same types, generated from this file. */
#ifndef QDISC_LAYOUT_H
#define QDISC_LAYOUT_H

#include "aqm.h"
#include "gate.h"
#include "attach_point_layout.h"

struct aqm_settings_head {
	struct aqm_link link;
	u64 gate_bytes_s; /* rate to hold the qdisc to; 0: the device's own */
};

struct aqm_hosted_head {
	struct aqm_gate gate;
	struct aqm_attach_point point;
	u32 used;
	u32 changes_seen;
	u32 recording;
	u32 sequence;
	struct aqm_line line;
	u64 key; /* of flows' hashes */
	u64 stamp; /* of the program that marks; 0: none */
	u64 random; /* the state that random words are made of */
};

#endif
