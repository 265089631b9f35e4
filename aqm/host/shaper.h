/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The shaper with classes: which class sends next, in bytes on the wire.
 *
 * One gate lets packets onto the link one at a time (gate.h). Whenever it is
 * open, the next class is chosen among those that have packets and are below
 * their ceiling:
 *
 *     1. a class that has not had its guaranteed rate: the most urgent (lowest
 *        priority number), and among equals the one furthest behind;
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
 * Excess is shared by start-time fair queueing (Goyal, Vin and Cheng 1996). A
 * packet of w bytes advances the virtual time of its class by w / weight, and
 * the class with the smallest virtual time is next. A class that was idle
 * starts at the virtual time of the others. Each choice looks at every class
 * once, and shares are exact to a packet.
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

struct shaper_class {
	struct shaper_rule rule;
	struct aqm_gate guarantee;
	struct aqm_gate ceiling;
	u64 credit_ns; /* how far the guarantee may fall behind */
	u64 late_ns; /* lateness the ceiling compensates
		      * for: a full packet's time */
	u64 start; /* virtual start of the next packet,
		    * in 2^-16 bytes per weight */
	u64 rest; /* remainder of that division, in 2^-16 bytes */
	u64 packets; /* queued */
};

struct shaper {
	struct aqm_gate gate;
	u64 starts[SHAPER_PRIORITIES]; /* virtual start of the
					* last packet sent */
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
	if (class->rule.priority != rule->priority)
		class->start = 0;
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
	u64 start =
		shaper->starts[class->rule.priority & (SHAPER_PRIORITIES - 1)];

	if (!class->packets && class->start < start)
		class->start = start;
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
	u64 best_behind = ~0ULL;
	u32 i;

	*opens_ns = ~0ULL;
	AQM_LOOP (i, SHAPER_CLASSES) {
		const struct shaper_class *class = &shaper->class[i];
		u64 opens, rank, behind;

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
			behind = class->guarantee.opens_ns;
		} else {
			rank += SHAPER_PRIORITIES;
			behind = class->start;
		}
		if (rank < best_rank ||
		    (rank == best_rank && behind < best_behind)) {
			best = i;
			best_rank = rank;
			best_behind = behind;
		}
	}
	return best;
}

/* Charges a sent packet to its class. */
AQM_FN void shaper_sent(struct shaper *shaper, struct aqm_line *line,
			struct shaper_class *class, u32 wire, u64 now_ns)
{
	u64 work, step, *start;

	if (class->packets)
		class->packets--;
	aqm_line_pass(line, &shaper->gate, wire, now_ns);
	aqm_gate_pass(&class->ceiling, wire, now_ns, class->late_ns);
	if (shaper_owed(class, now_ns)) {
		aqm_gate_pass(&class->guarantee, wire, now_ns,
			      class->credit_ns);
		return;
	}
	/* A class that its ceiling held back does not catch up, so virtual time
	 * never goes back. */
	start = &shaper->starts[class->rule.priority & (SHAPER_PRIORITIES - 1)];
	class->start = aqm_max(class->start, *start);
	*start = class->start;
	/* Carry the remainder over to the next packet, so that shares are exact
	 * whatever the weights. */
	work = ((u64)wire << 16) + class->rest;
	step = work / class->rule.weight;
	class->rest = work - step * class->rule.weight;
	class->start += step;
}

#endif
