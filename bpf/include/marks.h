/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ECN marks for BPF qdiscs, which cannot write to packets.
 *
 * A program at the egress hook (bpf/egress/marks.bpf.c) sees each packet just
 * before the qdisc does, and may write to it. It passes the packet's ECN field
 * to the qdisc in a word of skb->cb that begins with a stamp. Without the stamp
 * there is no such program, and the packet counts as not ECN-capable. When a
 * discipline marks a packet, the packet passes and its flow gets a pending
 * mark. The program puts that on the next packet of the flow that is
 * ECN-capable.
 *
 * So a mark on arrival is late by one packet of the flow, and a mark at
 * departure by what the flow has queued.
 */
#ifndef BPF_MARKS_H
#define BPF_MARKS_H

#include "kernel.h"
#include "aqm.h"
#include "marks_layout.h"
#include "attach_point_layout.h"
#include "tuple.h"

/* Most flows with pending marks; the one silent longest is evicted. */
#define MARKS_FLOWS 4096

/* A pending mark expires after this time: the queue that it was for is gone. */
#define MARKS_LAST_NS 10000000000ULL

/* Most devices that can have marks, for each kind of qdisc. */
#define MARKS_PLACES 64

/* Index of the word in skb->cb: the last one that programs may use. */
#define MARKS_WORD 4

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MARKS_FLOWS);
	__type(key, struct marks_flow);
	__type(value, struct marks_pending);
} marks_pending SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MARKS_PLACES);
	__type(key, struct aqm_attach_point); /* queue 0: the whole device */
	__type(value, struct marks_count);
} marks_places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct marks_total);
} marks_totals SEC(".maps");

static __always_inline struct marks_total *marks_total(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&marks_totals, &key);
}

#endif
