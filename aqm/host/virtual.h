/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A virtual queue, which holds no packets. It models the queue that would build
 * if arriving packets had to pass a link of a given rate (Braithwaite 2006,
 * sections 2.5 and 4.1.5). Each packet adds its bytes on the wire as it
 * arrives, and time removes them at the rate. A discipline decides on the
 * result as it would on a real queue. This file does the accounting only. The
 * host assigns packets to flows, marks and drops.
 *
 * This is a template like queue.h, which is included before it. It works for
 * any discipline that does not track waiting packets itself (AQM_NEEDS_QUEUE).
 * The order of service makes no difference, because nothing waits.
 *
 * A packet departs as it arrives. NAME_depart() is called for it at once, as if
 * it had waited for as long as the virtual queue takes. So a discipline that
 * decides at departure decides in time, and time never goes backwards. The
 * queue behind the packet is then the queue that it found. NAME_depart() learns
 * of an empty queue as on every host, by a call without a packet.
 *
 * The line has already carried packets that are dropped here, so they count.
 * Senders that do not react to drops would make the virtual queue grow without
 * bound. Then everything would be dropped, which helps nobody. So the virtual
 * queue grows only to the point where the discipline drops everything
 * (AQM_DISCIPLINE_TO). Packets that the discipline spares pass whatever others
 * send.
 *
 * The limit acts as a policer: a packet that finds the virtual queue full is
 * dropped and not counted. If a discipline drops only at its limit, the virtual
 * queue is the plain token bucket of Brouer 8.3.
 */
#ifndef AQM_QUEUE_H
#error "include queue.h first, with AQM_NAME"
#endif

#include "fixed.h"
#include "gate.h"
#include "mix.h"

struct virtual_queue {
	struct aqm_gate gate; /* opens when the virtual queue is empty */
	u64 last_ns; /* time of the last arrival */
	u64 full_wire; /* a full packet on the wire */
	struct AQM_OF(_instance) q;
};

/* Tells the discipline that a packet leaves, or that the queue is empty. */
AQM_FN struct aqm_verdict virtual_depart(struct virtual_queue *v, u32 queue,
					 const struct aqm_packet *packet,
					 const struct aqm_context *at)
{
	return AQM_OF(_depart)(&v->q.vars, &v->q.params, &v->q.stats, queue,
			       packet, at);
}

/* Computes the length of the virtual queue at a time, from the gate. */
AQM_FN void virtual_drain(struct virtual_queue *v, u64 now_ns)
{
	struct aqm_counts *counts = &v->q.counts;
	u64 wire = 0;

	if (v->gate.opens_ns > now_ns) {
		wire = aqm_bytes_in(v->gate.rate_bytes_s,
				    v->gate.opens_ns - now_ns);
	} else if (counts->queued_packets) {
		struct aqm_context at = { .now_ns = v->gate.opens_ns };

		virtual_depart(v, 0, NULL, &at);
	}
	counts->queued_bytes = wire;
	counts->queued_wire_bytes = wire;
	counts->queued_packets =
		v->gate.opens_ns > now_ns ? 1 + wire / v->full_wire : 0;
	counts->queued_most_packets =
		aqm_max(counts->queued_most_packets, counts->queued_packets);
}

/* Applies new parameters or a new rate. Keeps the queued bytes. */
AQM_FN void virtual_setup(struct virtual_queue *v, const struct aqm_link *link,
			  u64 now_ns)
{
	u64 rate = aqm_max(link->rate_bytes_s, 1);
	u64 wire = 0;

	if (v->full_wire) {
		virtual_drain(v, now_ns);
		wire = v->q.counts.queued_wire_bytes;
	}
	v->q.link = *link;
	/* No packet is stored, so there is always room. */
	v->q.link.room_packets = AQM_OF(_PACKETS);
	v->full_wire = aqm_max(aqm_wire(link, link->mtu_bytes), 1);
	v->gate.rate_bytes_s = rate;
	v->gate.rest = 0;
	if (wire)
		v->gate.opens_ns = now_ns + wire * 1000000000 / rate;
	AQM_OF(_setup)(&v->q.vars, &v->q.params, &v->q.link);
}

/*
 * Puts a measured queue in place of the modelled one. The time that a packet
 * waits in the queue at the far end of the line is known from a probe; until
 * the next one, arrivals and time change it as they change the model
 * (Braithwaite 2006, sections 6.2 and 6.3). While the line is full, as much
 * arrives as the line carries, and the measured queue stays.
 */
AQM_FN void virtual_measured(struct virtual_queue *v, u64 waits_ns, u64 now_ns)
{
	u64 most = AQM_OF(_end)(&v->q.vars) - 1;

	v->gate.opens_ns =
		now_ns +
		aqm_min(waits_ns, most * 1000000000 / v->gate.rate_bytes_s);
	v->gate.rest = 0;
}

/* Returns a monotonic time of arrival: clocks of CPUs may differ slightly. */
AQM_FN u64 virtual_now(struct virtual_queue *v, u64 now_ns)
{
	v->last_ns = aqm_max(v->last_ns, now_ns);
	return v->last_ns;
}

/* Adds a packet, unless the virtual queue is at its maximum. */
AQM_FN void virtual_add(struct virtual_queue *v, u32 wire, u64 now_ns)
{
	u64 most = AQM_OF(_end)(&v->q.vars) - 1;

	if (v->q.counts.queued_wire_bytes + wire > most) {
		v->gate.opens_ns =
			now_ns + most * 1000000000 / v->gate.rate_bytes_s;
		v->gate.rest = 0;
		return;
	}
	aqm_gate_pass(&v->gate, wire, now_ns, 0);
}

/* Adds bytes that the line carried for packets that are not examined. */
AQM_FN void virtual_carried(struct virtual_queue *v, u32 wire, u64 now_ns)
{
	virtual_drain(v, now_ns);
	virtual_add(v, wire, now_ns);
}

/* Counts a packet that the line carried and that must not be marked or
 * dropped. */
AQM_FN void virtual_count(struct virtual_queue *v,
			  const struct aqm_packet *packet, u64 now_ns)
{
	struct aqm_counts *counts = &v->q.counts;

	counts->arrived_packets++;
	counts->arrived_bytes += packet->len;
	counts->sent_packets++;
	counts->sent_bytes += packet->len;
	counts->sent_wire_bytes += packet->wire;
	virtual_carried(v, packet->wire, now_ns);
}

/* Decides on a packet that the line carried: pass, mark or drop. */
AQM_FN struct aqm_verdict virtual_arrive(struct virtual_queue *v,
					 const struct aqm_packet *packet,
					 u64 now_ns, u32 random)
{
	struct aqm_counts *counts = &v->q.counts;
	struct aqm_packet given = *packet;
	u32 random_out = AQM_UNASKED(random);
	struct aqm_verdict verdict, last;
	struct aqm_context at;

	counts->arrived_packets++;
	counts->arrived_bytes += packet->len;
	virtual_drain(v, now_ns);
	if (!(AQM_OF(_NEEDS) &(AQM_NEEDS_FLOW | AQM_NEEDS_CODE)))
		given.flow = AQM_UNASKED(flow);
	if (!(AQM_OF(_NEEDS) &AQM_NEEDS_ECN))
		given.ecn = AQM_UNASKED(ecn);
	/* The host draws one word for both calls. */
	if (AQM_OF(_NEEDS) &AQM_NEEDS_RANDOM_OUT)
		random_out = aqm_mix(random, 1);
	if (!(AQM_OF(_NEEDS) &AQM_NEEDS_RANDOM))
		random = AQM_UNASKED(random);
	at = aqm_now(counts, now_ns, random);
	AQM_GIVEN(&given);
	verdict = AQM_OF(_arrive)(&v->q.vars, &v->q.params, &v->q.stats, &given,
				  &at);
	AQM_TAKEN(&given);
	if (verdict.action != AQM_DROP) {
		/* Pretend that it waited for as long as the virtual queue
		 * takes. */
		given.arrived_ns = now_ns;
		if (v->gate.opens_ns > now_ns)
			given.arrived_ns -= v->gate.opens_ns - now_ns;
		at.random = random_out;
		last = virtual_depart(v, verdict.queue, &given, &at);
		if (last.action == AQM_DROP || last.action == AQM_MARK)
			verdict = last;
	}
	if (verdict.action == AQM_DROP) {
		aqm_count_drop(counts, verdict.reason);
		if (verdict.reason == AQM_LIMIT_REASON)
			return verdict;
	} else {
		if (verdict.action == AQM_MARK)
			aqm_count_mark(counts, verdict.reason);
		aqm_count_sent(counts, &given, now_ns);
	}
	virtual_add(v, packet->wire, now_ns);
	return verdict;
}
