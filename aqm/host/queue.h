/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What both hosts do around a discipline: queues of packet numbers, the order
 * in which a discipline's functions are called, and the counters that all
 * share. Only the packet itself is specific to a host. So the kernel and the
 * native library cannot diverge.
 *
 * This is a template. It is included once for each discipline, after the
 * discipline's file and with AQM_NAME defined. The host provides
 *
 *     aqm_slot(q, i)   slot i of this instance, or NULL beyond the last
 *
 * Packets are in slots, numbered from 1; 0 is none. A queue is a list of slots
 * linked by number, so a whole instance is plain data.
 */
#ifndef AQM_QUEUE_H
#define AQM_QUEUE_H

#include "aqm.h"

#define AQM_PASTE2(a, b) a##b
#define AQM_PASTE(a, b) AQM_PASTE2(a, b)
#define AQM_OF(suffix) AQM_PASTE(AQM_NAME, suffix)

/* A packet's slot. */
struct aqm_slot {
	struct aqm_packet packet;
	u32 next; /* the packet behind it, or the next free slot */
	u32 pad;
};

struct aqm_fifo {
	u32 head;
	u32 tail;
};

/* Counters of every discipline. C(name, unit, help) */
#define AQM_COUNTS(C) \
	C(arrived_packets, AQM_PACKETS, "packets that came") \
	C(arrived_bytes, AQM_BYTES, "their bytes") \
	C(sent_packets, AQM_PACKETS, "packets that left") \
	C(sent_bytes, AQM_BYTES, "their bytes") \
	C(sent_wire_bytes, AQM_BYTES, "their bytes on the wire") \
	C(waited_ns, AQM_NS, "time that they waited, added up") \
	C(waited_most_ns, AQM_NS, "longest wait of one that left") \
	C(queued_packets, AQM_PACKETS, "packets queued now") \
	C(queued_bytes, AQM_BYTES, "bytes queued now") \
	C(queued_wire_bytes, AQM_BYTES, "bytes queued now, on the wire") \
	C(queued_most_packets, AQM_PACKETS, "most packets ever queued")

/* The counters, then drops and marks by reason. */
struct aqm_counts {
	AQM_COUNTS(AQM_NUMBER_FIELD)
	u64 drops[AQM_REASON_COUNT];
	u64 marks[AQM_REASON_COUNT];
};

/* The last packet sent: `wire` bytes, begun at `left_ns`. The time at which a
 * discipline learns of an empty queue depends on these alone. So every host
 * reports the same time. */
struct aqm_last {
	u64 left_ns;
	u32 wire;
	u32 empty_pending; /* the discipline has not been
			    * told that the queue is empty */
};

/* The free slots: a list of released ones, and those never used, which follow
 * `fresh`. */
struct aqm_room {
	u32 fresh;
	u32 free;
};

/* Returns when the line is free. */
AQM_FN u64 aqm_line_free(const struct aqm_last *last,
			 const struct aqm_link *link)
{
	if (!link->rate_bytes_s)
		return last->left_ns;
	return last->left_ns +
	       (u64)last->wire * 1000000000 / link->rate_bytes_s;
}

/* The value passed for input that a discipline did not declare. A host for
 * tests overrides it. */
#ifndef AQM_UNASKED
#define AQM_UNASKED(what) 0
#endif

/* Such a host also sees the packet before and after a discipline decides. */
#ifndef AQM_GIVEN
#define AQM_GIVEN(packet)
#define AQM_TAKEN(packet)
#endif

AQM_FN struct aqm_context aqm_now(const struct aqm_counts *counts, u64 now_ns,
				  u32 random)
{
	struct aqm_context at = {
		.now_ns = now_ns,
		.bytes = counts->queued_bytes,
		.wire = counts->queued_wire_bytes,
		.packets = (u32)counts->queued_packets,
		.random = random,
	};

	return at;
}

AQM_FN void aqm_queued(struct aqm_counts *counts,
		       const struct aqm_packet *packet)
{
	counts->queued_packets++;
	counts->queued_bytes += packet->len;
	counts->queued_wire_bytes += packet->wire;
	counts->queued_most_packets =
		counts->queued_packets > counts->queued_most_packets ?
			counts->queued_packets :
			counts->queued_most_packets;
}

AQM_FN void aqm_unqueued(struct aqm_counts *counts,
			 const struct aqm_packet *packet)
{
	counts->queued_packets--;
	counts->queued_bytes -= packet->len;
	counts->queued_wire_bytes -= packet->wire;
}

AQM_FN void aqm_count_drop(struct aqm_counts *counts, u32 reason)
{
	if (reason < AQM_REASON_COUNT)
		counts->drops[reason]++;
}

AQM_FN void aqm_count_mark(struct aqm_counts *counts, u32 reason)
{
	if (reason < AQM_REASON_COUNT)
		counts->marks[reason]++;
}

AQM_FN void aqm_count_sent(struct aqm_counts *counts,
			   const struct aqm_packet *packet, u64 now_ns)
{
	u64 waited = now_ns - packet->arrived_ns;

	counts->sent_packets++;
	counts->sent_bytes += packet->len;
	counts->sent_wire_bytes += packet->wire;
	counts->waited_ns += waited;
	if (waited > counts->waited_most_ns)
		counts->waited_most_ns = waited;
}

#endif

_Static_assert((u32)AQM_OF(_PACKETS) > 1,
	       "a host has a slot for the packet that arrives, and for others");

/* One instance of a discipline, without its slots. The state is last because
 * some is long, and a BPF program needs two more instructions to address data
 * beyond 32 KiB. A host for tests puts guard words between the parts. */
#ifndef AQM_FENCE
#define AQM_FENCE(name)
#endif

struct AQM_OF(_instance) {
	struct aqm_link link;
	AQM_FENCE(before_params)
	struct AQM_OF(_params) params;
	AQM_FENCE(before_stats)
	struct AQM_OF(_stats) stats;
	AQM_FENCE(before_counts)
	struct aqm_counts counts;
	struct aqm_last last;
	struct aqm_room room;
	u64 host; /* private data of the host */
	struct aqm_fifo fifos[AQM_OF(_QUEUES)];
	AQM_FENCE(before_vars)
	struct AQM_OF(_vars) vars;
	AQM_FENCE(after_vars)
};

/* Returns the context for a call of the discipline. */
AQM_FN struct aqm_context AQM_OF(_now)(struct AQM_OF(_instance) *q, u64 now_ns,
				       u32 random)
{
	struct aqm_context at = aqm_now(&q->counts, now_ns, random);
	struct aqm_slot *slot;
	u32 i;

	if (!(AQM_OF(_NEEDS) &AQM_NEEDS_HEADS))
		return at;
	AQM_LOOP (i, AQM_HEADS) {
		at.heads_ns[i] = AQM_NO_HEAD;
		if (i >= AQM_OF(_QUEUES))
			continue;
		slot = aqm_slot(q, q->fifos[i].head);
		if (slot)
			at.heads_ns[i] = slot->packet.arrived_ns;
	}
	return at;
}

/* Tells the discipline once that the queue is empty, as of when the line is
 * free. Nothing happens between that time and this call. So it makes no
 * difference that the host has no timer. */
AQM_WHOLE_FN u32 AQM_OF(_host_empty)(struct AQM_OF(_instance) *q AQM_NONNULL,
				     u64 now_ns)
{
	u64 free_ns = q->link.rate_bytes_s ? aqm_line_free(&q->last, &q->link) :
					     now_ns;
	struct aqm_verdict verdict;
	struct aqm_context at;
	u32 i, queue;

	/* Fix the time: a later change of the rate must not move it. */
	q->last.left_ns = free_ns;
	q->last.wire = 0;
	if (free_ns > now_ns)
		return 0;
	q->last.empty_pending = 0;
	at = AQM_OF(_now)(q, free_ns, AQM_UNASKED(random));
	AQM_LONG_LOOP (i, AQM_OF(_QUEUES) * 4 + 4) {
		queue = AQM_OF(_choose)(&q->vars, &q->params, &at);
		if (queue >= AQM_OF(_QUEUES))
			break;
		verdict = AQM_OF(_depart)(&q->vars, &q->params, &q->stats,
					  queue, NULL, &at);
		if (verdict.action != AQM_AGAIN)
			break;
	}
	return 0;
}

/* Allocates a slot for a packet and returns it, or NULL, and its number. */
AQM_FN struct aqm_slot *AQM_OF(_take_slot)(struct AQM_OF(_instance) *q,
					   u32 *index)
{
	struct aqm_slot *slot;

	if (q->room.free) {
		*index = q->room.free;
		slot = aqm_slot(q, *index);
		if (slot)
			q->room.free = slot->next;
		return slot;
	}
	if (q->room.fresh > q->link.room_packets)
		return NULL;
	*index = ++q->room.fresh;
	return aqm_slot(q, *index);
}

/*
 * Removes the head of a queue. Its slot is free at once, but its contents stay
 * valid until the next arrival. The host takes the packet out before that.
 */
AQM_FN void AQM_OF(_unlink)(struct AQM_OF(_instance) *q, u32 queue,
			    struct aqm_slot *slot)
{
	struct aqm_fifo *fifo;
	u32 index;

	if (queue >= AQM_OF(_QUEUES))
		return;
	fifo = &q->fifos[queue];
	index = fifo->head;
	fifo->head = slot->next;
	if (!fifo->head)
		fifo->tail = 0;
	slot->next = q->room.free;
	q->room.free = index;
	aqm_unqueued(&q->counts, &slot->packet);
}

/*
 * Enqueues a packet. Returns the slot in which the host stores it; 0: the host
 * drops it. If `verdict->evict` is set, the host then calls _evict() until that
 * returns 0, at most AQM_EVICT_CALLS times.
 */
AQM_FN u32 AQM_OF(_host_arrive)(struct AQM_OF(_instance) *q,
				const struct aqm_packet *came, u32 random,
				struct aqm_verdict *verdict)
{
	struct aqm_packet given = *came;
	const struct aqm_packet *packet = &given;
	struct aqm_slot *slot, *last;
	struct aqm_context at;
	struct aqm_fifo *fifo;
	u32 index, queue;

	if (!(AQM_OF(_NEEDS) &(AQM_NEEDS_FLOW | AQM_NEEDS_CODE)))
		given.flow = AQM_UNASKED(flow);
	if (!(AQM_OF(_NEEDS) &AQM_NEEDS_ECN))
		given.ecn = AQM_UNASKED(ecn);
	if (!(AQM_OF(_NEEDS) &AQM_NEEDS_RANDOM))
		random = AQM_UNASKED(random);
	/* If the rate is unknown, emptiness shows only at the next request. */
	if (q->last.empty_pending && !q->counts.queued_packets &&
	    q->link.rate_bytes_s)
		AQM_OF(_host_empty)(q, packet->arrived_ns);
	at = AQM_OF(_now)(q, packet->arrived_ns, random);
	q->counts.arrived_packets++;
	q->counts.arrived_bytes += packet->len;
	/* There is one more slot. So a discipline whose limit is the room finds
	 * the queue full, and may evict another packet for this one. */
	if (q->counts.queued_packets > q->link.room_packets) {
		*verdict = aqm_drop(AQM_ROOM_REASON);
		aqm_count_drop(&q->counts, AQM_ROOM_REASON);
		return 0;
	}
	AQM_GIVEN(packet);
	*verdict =
		AQM_OF(_arrive)(&q->vars, &q->params, &q->stats, packet, &at);
	AQM_TAKEN(packet);
	queue = verdict->queue;
	if (verdict->action == AQM_DROP || queue >= AQM_OF(_QUEUES)) {
		aqm_count_drop(&q->counts, verdict->reason);
		return 0;
	}
	slot = AQM_OF(_take_slot)(q, &index);
	if (!slot)
		return 0;
	if (verdict->action == AQM_MARK)
		aqm_count_mark(&q->counts, verdict->reason);
	slot->packet = *packet;
	slot->next = 0;
	fifo = &q->fifos[queue];
	last = aqm_slot(q, fifo->tail);
	if (last)
		last->next = index;
	else
		fifo->head = index;
	fifo->tail = index;
	if (!q->last.empty_pending) {
		q->last.empty_pending = 1;
		q->last.left_ns = packet->arrived_ns;
		q->last.wire = 0;
	}
	aqm_queued(&q->counts, packet);
	return index;
}

/* Returns the slot of a packet to evict, or 0. The host frees the packet. */
AQM_FN u32 AQM_OF(_host_evict)(struct AQM_OF(_instance) *q, u64 now_ns)
{
	struct aqm_context at = AQM_OF(_now)(q, now_ns, 0);
	u32 queue = AQM_OF(_evict)(&q->vars, &q->params, &q->stats, &at);
	struct aqm_slot *slot;
	u32 index;

	if (queue >= AQM_OF(_QUEUES))
		return 0;
	index = q->fifos[queue].head;
	slot = aqm_slot(q, index);
	if (!slot)
		return 0;
	AQM_OF(_unlink)(q, queue, slot);
	/* If the queue is empty now, it is empty from now on and not from
	 * earlier. */
	if (!q->counts.queued_packets &&
	    aqm_line_free(&q->last, &q->link) < now_ns) {
		q->last.left_ns = now_ns;
		q->last.wire = 0;
	}
	aqm_count_drop(&q->counts, AQM_EVICTED_REASON);
	return index;
}

/*
 * Dequeues a packet and returns its slot. The verdict's action tells the host
 * what to do:
 *
 * - PASS, MARK: send the packet
 * - DROP: free the packet and ask again
 * - AGAIN: ask again
 * - EMPTY: nothing to send
 */
AQM_FN u32 AQM_OF(_host_depart)(struct AQM_OF(_instance) *q, u64 now_ns,
				u32 random, struct aqm_verdict *verdict)
{
	struct aqm_context at;
	struct aqm_slot *slot;
	u32 index, queue;

	if (!q->counts.queued_packets) {
		if (q->last.empty_pending)
			AQM_OF(_host_empty)(q, now_ns);
		*verdict = aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
		return 0;
	}
	if (!(AQM_OF(_NEEDS) &AQM_NEEDS_RANDOM_OUT))
		random = AQM_UNASKED(random);
	at = AQM_OF(_now)(q, now_ns, random);
	queue = AQM_OF(_choose)(&q->vars, &q->params, &at);
	if (queue >= AQM_OF(_QUEUES)) {
		*verdict = aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
		return 0;
	}
	index = q->fifos[queue].head;
	slot = aqm_slot(q, index);
	if (!slot) {
		*verdict = AQM_OF(_depart)(&q->vars, &q->params, &q->stats,
					   queue, NULL, &at);
		return 0;
	}
	AQM_OF(_unlink)(q, queue, slot);
	at = AQM_OF(_now)(q, now_ns, random);
	*verdict = AQM_OF(_depart)(&q->vars, &q->params, &q->stats, queue,
				   &slot->packet, &at);
	q->last.left_ns = now_ns;
	q->last.wire = 0;
	if (verdict->action == AQM_DROP) {
		aqm_count_drop(&q->counts, verdict->reason);
		return index;
	}
	q->last.wire = slot->packet.wire;
	if (verdict->action == AQM_MARK)
		aqm_count_mark(&q->counts, verdict->reason);
	aqm_count_sent(&q->counts, &slot->packet, now_ns);
	return index;
}
