/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Settings and map types of a survey (survey.bpf.c). The types of user space
 * are generated from this file. */
#ifndef SURVEY_LAYOUT_H
#define SURVEY_LAYOUT_H

#include "spread.h"

/* Histogram of sizes in steps of 64 bytes; the last one is for all larger
 * sizes. */
#define SURVEY_SIZE_BITS 6
#define SURVEY_SIZES 25

struct survey_service {
	u16 ethertype; /* as in the packet */
	u8 protocol; /* IP protocol */
	u8 out;
	u16 port; /* the lower of both ports, usually the service's; 0: none */
	u16 zero;
};

struct survey_count {
	u64 packets;
	u64 bytes;
};

struct survey_direction {
	u64 last_ns;
	struct survey_count all;
	u64 wire; /* bytes on the link, with its overhead */
	struct survey_count sizes[SURVEY_SIZES];
	struct spread gaps;
};

struct survey_of {
	u64 namespace; /* SO_NETNS_COOKIE */
	u64 surveyed; /* number of the observed device in it */
	/* The link layer. `overhead` is added to each packet, and `smallest` is
	 * the minimum frame. Each `piece` bytes of a frame, or part of them,
	 * take `piece_wire` bytes on the wire; 0: no pieces. The frame itself
	 * counts too if `kept` is set. */
	s64 overhead;
	u64 smallest;
	u64 kept;
	u64 piece;
	u64 piece_wire;
	/* On a mirror port: the Ethernet address whose packets leave, the first
	 * octet highest; 0: none. */
	u64 router;
};

#endif
