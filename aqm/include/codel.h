/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The arithmetic of CoDel, for codel and fq_codel: when to drop the head of a
 * queue (Nichols and Jacobson, "Controlling Queue Delay", 2012; RFC 8289).
 *
 * Times are in units of 1024 ns, held in 32 bits and compared as differences.
 * The square root is a 16-bit fraction. The kernel's codel uses the same
 * quantities in the same widths, so both take the same decision about the same
 * packets. The kernel drops in a loop inside one dequeue. Here the host calls
 * once for each head, and `step` stores the position in that loop.
 */
#ifndef AQM_CODEL_H
#define AQM_CODEL_H

#include "aqm.h"
#include "fixed.h"

/* One unit of time is 2^10 ns. */
#define CODEL_SHIFT 10

/* The most drops in one dequeue in the dropping state. A queue that has fallen
 * so far behind the schedule of drops restarts it (the kernel's
 * CODEL_MAX_DROPS_PER_DEQUEUE, include/net/codel.h). */
#define CODEL_MOST_DROPS 256

/* Parameters of codel and fq_codel. */
#define CODEL_COMMON(P) \
	P(target_ns, AQM_NS, 5000000, 1024, 1000000000, \
	  "acceptable standing delay") \
	P(interval_ns, AQM_NS, 100000000, 1024, 1000000000, \
	  "how long the delay may exceed the target: about the longest " \
	  "usual RTT") \
	P(ce_threshold_ns, AQM_NS, 0, 0, 1000000000, \
	  "mark packets that waited longer than this; 0: never") \
	P(mtu_bytes, AQM_BYTES, 0, 0, 65536, \
	  "a queue no longer than this is ignored; 0: the device's MTU")

struct codel_common {
	CODEL_COMMON(AQM_PARAM_FIELD)
};

enum codel_step {
	CODEL_FRESH = 0, /* nothing dropped in this dequeue yet */
	CODEL_ENTERED = 1, /* the drop that begins the dropping state */
	CODEL_DROPPED = 2, /* a drop within it; each further drop adds one */
};

/* State of one queue. Times are in units of 1024 ns. */
#define CODEL_CORE(N) \
	N(count, AQM_PACKETS, "drops since the dropping state began") \
	N(last_count, AQM_PACKETS, "count when the last dropping state ended") \
	N(dropping, AQM_FLAG, "whether in the dropping state") \
	N(root, "ratio/2^16", "1 / sqrt(count)") \
	N(first_above, "1024 ns", \
	  "when the delay will have been above the target for an interval; " \
	  "0: it is below") \
	N(drop_next, "1024 ns", "when the next drop is due") \
	N(delay, "1024 ns", "how long the last packet waited") \
	N(step, AQM_NUMBER, "where the drop loop stopped")

/* The same in at most 32 bits each, because fq_codel has one per flow. */
struct codel_core {
	u32 count;
	u32 last_count;
	u32 root;
	u32 first_above;
	u32 drop_next;
	u32 delay;
	u16 dropping;
	u16 step;
};

AQM_FN u32 codel_time(u64 ns)
{
	return (u32)(ns >> CODEL_SHIFT);
}

/* Whether a is before b, on a clock of 32 bits. */
AQM_FN int codel_before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

/*
 * One step of Newton's method towards x = 1 / sqrt(count), which is
 * x' = x (3 - count x^2) / 2. x is a fraction of 2^32 whose lower 16 bits are not
 * stored. The term 3 - count x^2 is below 4, so it has 34 bits. A quarter of it
 * times x fits in 64 bits. The halving is the last bit of the final shift.
 */
AQM_FN void codel_newton(struct codel_core *v)
{
	u64 x = (u64)v->root << 16;
	u64 square = (x * x) >> 32;
	u64 rest = (3ULL << 32) - (u64)v->count * square;

	v->root = (u16)((((rest >> 2) * x) >> 31) >> 16);
}

/* Returns the time of the next drop: interval / sqrt(count) later, and at least
 * one unit, so that time advances however short the interval. */
AQM_FN u32 codel_control(u32 from, u32 interval, u32 root)
{
	u32 later = (u32)(((u64)interval * (root << 16)) >> 32);

	return from + (later ? later : 1);
}

/* Whether the delay has been above target for an interval. A queue of at most
 * one MTU does not count. `left` bytes stay queued behind the packet. */
AQM_FN int codel_too_long(struct codel_core *v, const struct codel_common *p,
			  u64 target_ns, u64 mtu,
			  const struct aqm_packet *packet, u64 left, u32 now)
{
	v->delay = now - codel_time(packet->arrived_ns);
	if (codel_before(v->delay, codel_time(target_ns)) || left <= mtu) {
		v->first_above = 0;
		return 0;
	}
	if (!v->first_above) {
		v->first_above = now + codel_time(p->interval_ns);
		return 0;
	}
	return codel_before(v->first_above, now);
}

/* Drops the packet, or marks it if `mark` is set. */
AQM_FN struct aqm_verdict codel_act(struct codel_core *v, u32 step, int mark)
{
	if (mark) {
		v->step = CODEL_FRESH;
		return aqm_mark(AQM_SOJOURN_REASON, 0);
	}
	v->step = (u16)step;
	return aqm_drop(AQM_SOJOURN_REASON);
}

AQM_FN struct aqm_verdict codel_send(struct codel_core *v,
				     const struct codel_common *p,
				     const struct aqm_packet *packet)
{
	v->step = CODEL_FRESH;
	if (p->ce_threshold_ns && aqm_can_mark(packet) &&
	    codel_before(codel_time(p->ce_threshold_ns), v->delay))
		return aqm_mark(AQM_THRESHOLD_REASON, 0);
	return aqm_pass(0);
}

/* Drops what the control law has made due in the dropping state. `step` is the
 * previous one. */
AQM_FN struct aqm_verdict codel_due(struct codel_core *v,
				    const struct codel_common *p,
				    const struct aqm_packet *packet, int mark,
				    u32 step, u32 now)
{
	step = step < CODEL_DROPPED ? CODEL_DROPPED : step + 1;
	if (codel_before(now, v->drop_next))
		return codel_send(v, p, packet);
	if (step >= CODEL_DROPPED + CODEL_MOST_DROPS) {
		v->drop_next =
			codel_control(now, codel_time(p->interval_ns), v->root);
		return codel_send(v, p, packet);
	}
	v->count++;
	codel_newton(v);
	if (mark)
		v->drop_next = codel_control(
			v->drop_next, codel_time(p->interval_ns), v->root);
	return codel_act(v, step, mark);
}

/* Enters the dropping state. If the last one ended recently, continues at the
 * drop rate that it had reached. */
AQM_FN void codel_enter(struct codel_core *v, const struct codel_common *p,
			u32 now)
{
	u32 interval = codel_time(p->interval_ns);
	u32 delta = v->count - v->last_count;

	v->dropping = 1;
	if (delta > 1 && codel_before(now - v->drop_next, 16 * interval)) {
		v->count = delta;
		codel_newton(v);
	} else {
		v->count = 1;
		v->root = 0xffff;
	}
	v->last_count = v->count;
	v->drop_next = codel_control(now, interval, v->root);
}

/* Handles an empty queue. That ends the dropping state, unless the last packet
 * has just begun it. It also ends the standing delay (RFC 8289 section 5.5; the
 * kernel since 7.x). Otherwise a flow of fq_codel that returns after a pause
 * would lose packets for delays before the pause. */
AQM_FN struct aqm_verdict codel_empty(struct codel_core *v)
{
	if (v->step != CODEL_ENTERED)
		v->dropping = 0;
	v->first_above = 0;
	v->step = CODEL_FRESH;
	return aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
}

/* Returns the verdict for the head of a queue, with `left` bytes behind it.
 * After a drop the host asks about the next head. Uses `target_ns` and not the
 * target of `p`. */
AQM_FN struct aqm_verdict codel_head_by(struct codel_core *v,
					const struct codel_common *p,
					u64 target_ns, u64 mtu, int ecn,
					const struct aqm_packet *packet,
					u64 left, u64 now_ns)
{
	u32 now = codel_time(now_ns);
	u32 step = v->step;
	int mark, drop;

	mark = ecn && aqm_can_mark(packet);
	drop = codel_too_long(v, p, target_ns, mtu, packet, left, now);
	if (step == CODEL_ENTERED)
		return codel_send(v, p, packet);
	if (!v->dropping) {
		if (!drop)
			return codel_send(v, p, packet);
		codel_enter(v, p, now);
		return codel_act(v, CODEL_ENTERED, mark);
	}
	if (!drop) {
		v->dropping = 0;
		return codel_send(v, p, packet);
	}
	if (step >= CODEL_DROPPED)
		v->drop_next = codel_control(
			v->drop_next, codel_time(p->interval_ns), v->root);
	return codel_due(v, p, packet, mark, step, now);
}

/* Returns the verdict for a packet with nothing behind it. No delay counts as
 * too long then, and the state ends with the packet. */
AQM_FN struct aqm_verdict codel_last(const struct codel_common *p,
				     const struct aqm_packet *packet,
				     u64 now_ns)
{
	struct codel_core ends = {
		.delay = codel_time(now_ns) - codel_time(packet->arrived_ns),
	};

	return codel_send(&ends, p, packet);
}

/* Returns the verdict for the head of a queue, by the target of `p`. NULL: the
 * queue is empty. */
AQM_FN struct aqm_verdict codel_head(struct codel_core *v,
				     const struct codel_common *p, u64 mtu,
				     int ecn, const struct aqm_packet *packet,
				     u64 left, u64 now_ns)
{
	return packet ? codel_head_by(v, p, p->target_ns, mtu, ecn, packet,
				      left, now_ns) :
			codel_empty(v);
}

#endif
