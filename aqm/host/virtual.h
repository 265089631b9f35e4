/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A queue that holds nothing: what would be queued if arriving packets had to
 * pass a link of a given rate (Braithwaite 2006, sections 2.5 and 4.1.5). Each
 * packet adds its bytes on the wire as it arrives, time takes them away at the
 * rate, and a discipline decides on what is left as it would on a real queue.
 * It owns that bookkeeping; which packet is whose, and what marking and
 * dropping are, stay with the host.
 *
 * The discipline is meredt with one band. What it drops early the line carried
 * all the same, so it counts. Senders that do not listen to drops would make the
 * virtual queue grow without end, and then everything would have to go, though
 * that helps nobody: it grows to where the probability would be 1 and no
 * further, so that a flow whose weight is 0 is spared whatever others do.
 *
 * The limit is a policer's: what finds the virtual queue full is dropped and not
 * counted. With thresholds above the limit nothing else is ever dropped, and the
 * virtual queue is the plain token bucket of Brouer 8.3.
 */
#ifndef AQM_VIRTUAL_H
#define AQM_VIRTUAL_H

#include "aqm.h"
#include "fixed.h"
#include "gate.h"

struct virtual_queue {
	struct aqm_gate gate; /* opens when nothing would be queued */
	u64 last_ns; /* of the last arrival */
	u64 full_wire; /* a full packet on the wire */
	struct meredt_instance q;
};

/* What is there at a moment, by the gate. */
AQM_FN void virtual_drain(struct virtual_queue *v, u64 now_ns)
{
	struct aqm_counts *counts = &v->q.counts;
	u64 wire = 0;

	if (v->gate.opens_ns > now_ns) {
		wire = aqm_bytes_in(v->gate.rate_bytes_s,
				    v->gate.opens_ns - now_ns);
	} else if (counts->queued_packets) {
		struct aqm_moment at = { .now_ns = v->gate.opens_ns };

		red_departed(&v->q.vars.ared.red, &at);
	}
	counts->queued_bytes = wire;
	counts->queued_wire_bytes = wire;
	counts->queued_packets =
		v->gate.opens_ns > now_ns ? 1 + wire / v->full_wire : 0;
	counts->queued_most_packets =
		aqm_max(counts->queued_most_packets, counts->queued_packets);
}

/* Parameters or the rate are new; what is queued is so in bytes. */
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
	/* Nothing waits, so nobody can go first. */
	v->q.params.bands = 1;
	v->full_wire = aqm_max(aqm_wire(link, link->mtu_bytes), 1);
	v->gate.rate_bytes_s = rate;
	v->gate.rest = 0;
	if (wire)
		v->gate.opens_ns = now_ns + wire * 1000000000 / rate;
	meredt_setup(&v->q.vars, &v->q.params, &v->q.link);
}

/* The time of an arrival: processors' clocks may differ by a little. */
AQM_FN u64 virtual_now(struct virtual_queue *v, u64 now_ns)
{
	v->last_ns = aqm_max(v->last_ns, now_ns);
	return v->last_ns;
}

/* Adds a packet, as far as the virtual queue may grow. */
AQM_FN void virtual_add(struct virtual_queue *v, u32 wire, u64 now_ns)
{
	u64 most = v->q.vars.ared.red.end_bytes - 1;

	if (v->q.counts.queued_wire_bytes + wire > most &&
	    most < v->q.vars.ared.red.limit_bytes) {
		v->gate.opens_ns =
			now_ns + most * 1000000000 / v->gate.rate_bytes_s;
		v->gate.rest = 0;
		return;
	}
	aqm_gate_pass(&v->gate, wire, now_ns, 0);
}

/* A packet that the line carried and nothing may be done to. */
AQM_FN void virtual_count(struct virtual_queue *v,
			  const struct aqm_packet *packet, u64 now_ns)
{
	struct aqm_counts *counts = &v->q.counts;

	counts->arrived_packets++;
	counts->arrived_bytes += packet->len;
	counts->sent_packets++;
	counts->sent_bytes += packet->len;
	counts->sent_wire_bytes += packet->wire;
	virtual_drain(v, now_ns);
	virtual_add(v, packet->wire, now_ns);
}

/* A packet that the line carried: to pass, to be marked or to be dropped. */
AQM_FN struct aqm_verdict virtual_arrive(struct virtual_queue *v,
					 const struct aqm_packet *packet,
					 u64 now_ns, u32 random)
{
	struct aqm_counts *counts = &v->q.counts;
	struct aqm_verdict verdict;
	struct aqm_moment at;

	counts->arrived_packets++;
	counts->arrived_bytes += packet->len;
	virtual_drain(v, now_ns);
	at = aqm_now(counts, now_ns, random);
	verdict = meredt_arrive(&v->q.vars, &v->q.params, &v->q.stats, packet,
				&at);
	if (verdict.action == AQM_DROP) {
		aqm_count_drop(counts, verdict.reason);
		if (verdict.reason == AQM_LIMIT_REASON)
			return verdict;
	} else {
		if (verdict.action == AQM_MARK)
			aqm_count_mark(counts, verdict.reason);
		counts->sent_packets++;
		counts->sent_bytes += packet->len;
		counts->sent_wire_bytes += packet->wire;
	}
	virtual_add(v, packet->wire, now_ns);
	return verdict;
}

#endif
