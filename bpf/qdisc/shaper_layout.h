/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What maps hold of weir_shaper (shaper.bpf.c). User space has the same types,
 * generated from this file. */
#ifndef SHAPER_LAYOUT_H
#define SHAPER_LAYOUT_H

#include "aqm.h"
#include "attach_point_layout.h"
#include "shaper.h"

/* Room for the parameters of any discipline. */
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
	u32 other;
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
	u64 key; /* of flows' hashes */
	/* What each discipline has to be given, and from SHAPER_FLOWS on which
	 * parts of a packet make its flow. */
	u32 needs[SHAPER_CLASSES];
	u32 sequence[SHAPER_CLASSES]; /* of records */
	u64 stamp; /* of the program that marks; 0: none */
	u64 random; /* the state that random words are made of */
	u64 program; /* whose qdisc it is: SHAPER_PROGRAM */
	u64 program_before; /* the same of the qdisc that an heir replaces */
	u64 backlog; /* bytes queued when that was replaced */
	u32 heir; /* enum shaper_heir */
	u32 handed; /* the queue was left to the heir */
};

/* Another qdisc of the shaper takes the place of one, and its queue. */
enum shaper_heir {
	SHAPER_NO_HEIR,
	SHAPER_HEIR, /* it is there; the one before may still be */
	SHAPER_ORPHAN, /* the one before is gone */
};

#endif
