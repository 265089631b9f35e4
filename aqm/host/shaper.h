/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The shaper with classes: which class sends next, in bytes on the wire.
 *
 * One gate lets packets onto the link one at a time (gate.h). Whenever it is
 * open, the next class is chosen among those that have packets and are below
 * their ceiling:
 *
 *     1. a class that has not had its guaranteed rate: the most urgent (lowest
 *        priority number), and among equals the one that has had least of such
 *        packets for its weight;
 *     2. else the most urgent, and among equals the one that has had least of
 *        the excess for its weight.
 *
 * A packet waits for a less urgent class no longer than for one packet, except
 * for what that class is guaranteed. A guarantee is not charged for excess: a
 * class gets its guarantee and its share of what is left over.
 *
 * A class below its ceiling also waits for packets of others. It may make up
 * for the time it missed, up to a full packet. Otherwise a class with small
 * packets and a ceiling just above its guarantee would not get its guarantee.
 *
 * Both are shared by start-time fair queueing (Goyal, Vin and Cheng 1996), each
 * with virtual times of its own. A packet of w bytes advances the virtual time
 * of its class by w / weight, and the class with the smallest virtual time is
 * next. A class that was idle starts at the virtual time of the others. Each
 * choice looks at every class once, and shares are exact to a packet.
 *
 * So of an equal at most one packet goes first, and what its weight allows
 * while the class itself sends. If the class furthest behind went first, one
 * with a long credit would send most of it before the others.
 */
#ifndef AQM_SHAPER_H
#define AQM_SHAPER_H

#include "aqm.h"
#include "fixed.h"
#include "gate.h"

#define SHAPER_CLASSES 8
#define SHAPER_PRIORITIES 8

/* How many full packets a guarantee may fall behind by default. */
#define SHAPER_GUARANTEE_PACKETS 2

/* The configuration of a class. */
struct shaper_rule {
	u64 guarantee_bytes_s; /* 0: none */
	u64 ceiling_bytes_s; /* 0: the link */
	u64 weight; /* share of the excess among equals, from 1 */
	u64 credit_ns; /* how far the guarantee may fall behind; 0:
			* SHAPER_GUARANTEE_PACKETS */
	u32 priority; /* 0, most urgent, to SHAPER_PRIORITIES - 1 */
	u32 classid; /* packets with this skb->priority belong to it */
};

/* The virtual time of a class among its equals. */
struct shaper_turn {
	u64 start; /* virtual start of the next packet,
		    * in 2^-16 bytes per weight */
	u64 rest; /* remainder of that division, in 2^-16 bytes */
};

struct shaper_class {
	struct shaper_rule rule;
	struct aqm_gate guarantee;
	struct aqm_gate ceiling;
	u64 credit_ns; /* how far the guarantee may fall behind */
	u64 late_ns; /* lateness the ceiling compensates
		      * for: a full packet's time */
	struct shaper_turn owed; /* for guaranteed packets */
	struct shaper_turn excess; /* for the others */
	u64 packets; /* queued */
};

/* The virtual starts of the last packets sent, by priority. */
struct shaper_starts {
	u64 owed[SHAPER_PRIORITIES];
	u64 excess[SHAPER_PRIORITIES];
};

struct shaper {
	struct aqm_gate gate;
	struct shaper_starts starts;
	u32 classes;
	u32 other; /* the class of unclassified packets */
	struct shaper_class class[SHAPER_CLASSES];
};

/* Applies a rule to a class. Keeps queue and counters. */
AQM_FN void shaper_setup(struct shaper_class *class,
			 const struct shaper_rule *rule,
			 const struct aqm_link *link)
{
	u64 mtu = aqm_wire(link, link->mtu_bytes);

	/* Each priority has its own virtual time. */
	if (class->rule.priority != rule->priority) {
		class->owed.start = 0;
		class->excess.start = 0;
	}
	class->rule = *rule;
	if (!class->rule.weight)
		class->rule.weight = 1;
	if (class->rule.priority >= SHAPER_PRIORITIES)
		class->rule.priority = SHAPER_PRIORITIES - 1;
	class->guarantee.rate_bytes_s = rule->guarantee_bytes_s;
	class->ceiling.rate_bytes_s = rule->ceiling_bytes_s;
	class->late_ns = 0;
	if (rule->ceiling_bytes_s)
		class->late_ns = mtu * 1000000000 / rule->ceiling_bytes_s;
	class->credit_ns = rule->credit_ns;
	if (!class->credit_ns && rule->guarantee_bytes_s)
		class->credit_ns = SHAPER_GUARANTEE_PACKETS * mtu * 1000000000 /
				   rule->guarantee_bytes_s;
}

/* Returns the class of a packet. */
AQM_FN u32 shaper_classify(const struct shaper *shaper, u32 priority)
{
	u32 i;

	AQM_LOOP (i, SHAPER_CLASSES) {
		if (i >= shaper->classes)
			break;
		if (shaper->class[i].rule.classid == priority)
			return i;
	}
	return shaper->other;
}

/* Counts an arrival in a class. */
AQM_FN void shaper_arrived(struct shaper *shaper, struct shaper_class *class)
{
	u32 priority = class->rule.priority & (SHAPER_PRIORITIES - 1);

	if (!class->packets)
		class->excess.start = aqm_max(class->excess.start,
					      shaper->starts.excess[priority]);
	class->packets++;
}

/* Counts a packet that leaves a class without being sent. */
AQM_FN void shaper_dropped(struct shaper_class *class)
{
	if (class->packets)
		class->packets--;
}

/* Whether a class is owed some of its guarantee. */
AQM_FN int shaper_owed(const struct shaper_class *class, u64 now_ns)
{
	return class->guarantee.rate_bytes_s &&
	       class->guarantee.opens_ns <= now_ns;
}

/*
 * Returns the class to send when the gate is open. SHAPER_CLASSES: none may
 * send, and `opens_ns` is when the first may (~0: none has packets).
 */
AQM_FN u32 shaper_choose(const struct shaper *shaper, u64 now_ns, u64 *opens_ns)
{
	u32 best = SHAPER_CLASSES;
	u64 best_rank = ~0ULL;
	u64 best_start = ~0ULL;
	u32 i;

	*opens_ns = ~0ULL;
	AQM_LOOP (i, SHAPER_CLASSES) {
		const struct shaper_class *class = &shaper->class[i];
		u64 opens, rank, start;

		if (i >= shaper->classes)
			break;
		if (!class->packets)
			continue;
		opens = aqm_gate_opens(&class->ceiling);
		if (opens > now_ns) {
			if (opens < *opens_ns)
				*opens_ns = opens;
			continue;
		}
		rank = class->rule.priority;
		if (shaper_owed(class, now_ns)) {
			start = class->owed.start;
		} else {
			rank += SHAPER_PRIORITIES;
			start = class->excess.start;
		}
		if (rank < best_rank ||
		    (rank == best_rank && start < best_start)) {
			best = i;
			best_rank = rank;
			best_start = start;
		}
	}
	return best;
}

/* Advances the virtual time of a class that sends a packet. `last` is the start
 * of the last packet of an equal. */
AQM_FN void shaper_turn_pass(struct shaper_turn *turn, u64 *last, u64 weight,
			     u32 wire)
{
	u64 work, step;

	/* A class that its ceiling held back, or that was owed nothing, does
	 * not catch up, so virtual time never goes back. */
	turn->start = aqm_max(turn->start, *last);
	*last = turn->start;
	/* Carry the remainder over to the next packet, so that shares are exact
	 * whatever the weights. */
	work = ((u64)wire << 16) + turn->rest;
	step = work / weight;
	turn->rest = work - step * weight;
	turn->start += step;
}

/* Charges a sent packet to its class. */
AQM_FN void shaper_sent(struct shaper *shaper, struct aqm_line *line,
			struct shaper_class *class, u32 wire, u64 now_ns)
{
	u32 priority = class->rule.priority & (SHAPER_PRIORITIES - 1);
	struct shaper_turn *turn = &class->excess;
	u64 *last = &shaper->starts.excess[priority];

	if (class->packets)
		class->packets--;
	aqm_line_pass(line, &shaper->gate, wire, now_ns);
	aqm_gate_pass(&class->ceiling, wire, now_ns, class->late_ns);
	if (shaper_owed(class, now_ns)) {
		aqm_gate_pass(&class->guarantee, wire, now_ns,
			      class->credit_ns);
		turn = &class->owed;
		last = &shaper->starts.owed[priority];
	}
	shaper_turn_pass(turn, last, class->rule.weight, wire);
}

#endif
