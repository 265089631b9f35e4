/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ECN marks of a qdisc made of programs, which itself may not write to packets.
 *
 * A program at egress (bpf/egress/marks.bpf.c) sees each packet just before the
 * qdisc does, and may write to it. It tells the qdisc the packet's ECN field,
 * in a word of skb->cb that begins with a stamp: where the stamp is missing, the
 * program is, and the packet counts as not capable of ECN. Where a discipline
 * says mark, the packet passes and its flow has a pending mark, which the program
 * puts on the next packet of that flow that can carry one.
 *
 * So a mark that a discipline gives on arrival is a packet of the flow late, and
 * one that it gives at departure as late as what the flow has queued.
 */
#ifndef BPF_MARKS_H
#define BPF_MARKS_H

#include "kernel.h"
#include "aqm.h"
#include "marks_layout.h"
#include "attach_point_layout.h"
#include "tuple.h"

/* Flows that can have pending marks at a time; the one silent longest is
 * forgotten. */
#define MARKS_FLOWS 4096

/* After so long a mark is pending no more: the queue that it was for is
 * another's. */
#define MARKS_LAST_NS 10000000000ULL

/* Most devices of one kind of qdisc that can have marks. */
#define MARKS_PLACES 64

/* Where in skb->cb the word is: the last of those that programs may use. */
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
	__type(key, struct aqm_attach_point); /* queue 0: of the whole device */
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
