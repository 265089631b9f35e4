/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The settings of a survey (survey.bpf.c), and what its maps hold. User space has the
 * same types, generated from this file. */
#ifndef SURVEY_LAYOUT_H
#define SURVEY_LAYOUT_H

#include "spread.h"

/* Steps of 64 bytes, the last for all that is larger. */
#define SURVEY_SIZE_BITS 6
#define SURVEY_SIZES 25

struct survey_service {
	u16 ethertype; /* as in the packet */
	u8 protocol; /* of IP */
	u8 out;
	u16 port; /* the lower of both, as services have them; 0 for none */
	u16 zero;
};

struct survey_count {
	u64 packets;
	u64 bytes;
};

struct survey_direction {
	u64 last_ns;
	struct survey_count all;
	u64 wire; /* bytes on the link, as its layer has them */
	struct survey_count sizes[SURVEY_SIZES];
	struct spread gaps;
};

struct survey_of {
	u64 namespace; /* SO_NETNS_COOKIE */
	u64 surveyed; /* the device's number there */
	/* The link's layer: bytes beside a packet, the smallest frame, and what
	 * each `piece` bytes of a frame are on the wire beside the frame itself,
	 * which counts only where it is `kept`. Without pieces `piece` is 0. */
	s64 overhead;
	u64 smallest;
	u64 kept;
	u64 piece;
	u64 piece_wire;
};

#endif
