/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Map types of weir_shaper (shaper.bpf.c). The types of user space are
 * generated from this file. */
#ifndef SHAPER_LAYOUT_H
#define SHAPER_LAYOUT_H

#include "aqm.h"
#include "attach_point_layout.h"
#include "shaper.h"

/* Most parameters of a discipline. */
#define MOST_PARAMS 32

struct class_settings {
	struct shaper_rule rule;
	u64 kind;
	u64 params[MOST_PARAMS];
};

struct shaper_settings {
	struct aqm_link link;
	u64 gate_bytes_s;
	u32 classes;
	u16 other;
	u16 acks; /* enum acks_filter */
	struct class_settings class[SHAPER_CLASSES];
};

struct shaper_hosted {
	struct shaper shaper;
	struct aqm_link link;
	u64 kinds[SHAPER_CLASSES];
	struct aqm_attach_point point;
	u32 used;
	u32 changes_seen;
	u64 next_ns;
	struct aqm_line line;
	u64 key; /* key of flow hashes */
	/* The inputs that each class's discipline needs (enum aqm_needs), and
	 * from bit SHAPER_FLOWS on the header fields that define its flows. */
	u32 needs[SHAPER_CLASSES];
	u32 sequence[SHAPER_CLASSES]; /* sequence numbers of records */
	u64 stamp; /* stamp of the program that marks; 0: none */
	u64 random; /* state of the random generator */
	u64 program; /* SHAPER_PROGRAM of the program whose qdisc it is */
	u64 program_before; /* the same for the qdisc that an heir replaces */
	u64 backlog; /* bytes queued when it was replaced */
	u32 heir; /* enum shaper_heir */
	u16 handed; /* the queue was left to the heir */
	u16 acks; /* enum acks_filter */
};

/* Whether another qdisc of the shaper replaces this one and takes over its
 * queue. */
enum shaper_heir {
	SHAPER_NO_HEIR,
	SHAPER_HEIR, /* the heir exists; its predecessor may still exist */
	SHAPER_ORPHAN, /* the predecessor is gone */
};

#endif
