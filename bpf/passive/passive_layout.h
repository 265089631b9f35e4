/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Map types of passive measurement (passive.bpf.c). The types of user space are
 * generated from this file. */
#ifndef PASSIVE_LAYOUT_H
#define PASSIVE_LAYOUT_H

#include "spread.h"

/* The most devices that can be observed. */
#define PASSIVE_DEVICES 64

/* Options of a device. */
enum { DEVICE_HOSTS = 1 };

struct passive_device {
	/* The device of its line: itself, or for an IFB the device whose
	 * arriving packets it delays. */
	u32 line;
	u32 what;
};

/* What a distribution measures. */
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
	u64 sent_bytes; /* sent by the host */
	u64 sent_packets;
	u64 received_bytes;
	u64 received_packets;
	u64 beyond_count; /* round trips from here to its peers */
	u64 beyond_ns;
	u64 here_count; /* round trips from here to the host */
	u64 here_ns;
	u64 dropped; /* packets for it dropped in the device's queue */
	u64 marked; /* packets for it marked with CE there */
	u64 timed; /* packets that left the queue */
	u64 waited_ns; /* sum of their waiting times */
};

struct passive_totals {
	u64 untimed; /* packets that left a queue but
		      * were not seen to enter it */
	u64 left_out; /* values dropped because the map was full */
};

#endif
