/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What maps hold of passive observation (passive.bpf.c). User space has the same
 * types, generated from this file. */
#ifndef PASSIVE_LAYOUT_H
#define PASSIVE_LAYOUT_H

#include "spread.h"

/* The most devices that can be observed. */
#define PASSIVE_DEVICES 64

/* What is wanted of a device. */
enum { DEVICE_HOSTS = 1 };

struct passive_device {
	/* The device whose line it serves: itself, but for an IFB, which delays
	 * what arrived there. */
	u32 line;
	u32 what;
};

/* What a spread is of. */
enum { OF_WAIT = 0, OF_BEYOND = 1, OF_HERE = 2, OF_BYTES = 3 };

struct passive_spread_key {
	u32 ifindex;
	u32 priority;
	u32 of;
};

struct passive_host_key {
	u32 ifindex;
	u32 version;
	u32 address[4];
};

struct passive_host {
	u64 sent_bytes; /* by the host */
	u64 sent_packets;
	u64 received_bytes;
	u64 received_packets;
	u64 beyond_count; /* round trips from here to where it talks to */
	u64 beyond_ns;
	u64 here_count; /* round trips from here to it */
	u64 here_ns;
	u64 dropped; /* of what it was sent, in the device's queue */
	u64 marked; /* with ECN's CE, there */
	u64 timed; /* packets that left the queue */
	u64 waited_ns; /* their waits, added up */
};

struct passive_totals {
	u64 untimed; /* packets that left a queue and were not seen to come */
	u64 left_out; /* times for which there was no more room */
};

#endif
