// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * SFB: Stochastic Fair Blue (Feng, Kandlur, Saha and Shin, "Stochastic Fair
 * Blue: A Queue Management Algorithm for Enforcing Fairness", 2001). Each flow
 * belongs to one bin on each of several levels, by independent hashes. A bin
 * counts the queued packets of its flows, and has a BLUE of its own. Its
 * probability rises while it has too many packets, and falls when it has none.
 *
 * A packet is dropped with the smallest probability of its flow's bins. A flow
 * that does not respond raises all of its bins to 1. A responsive flow rarely
 * shares all of its bins with such a flow. So a flow with probability 1 does
 * not respond, and all of these flows together get a small rate.
 *
 * Two sets of bins with different hashes are kept up to date. The active one
 * changes from time to time, and the other one is then reset. So a flow that
 * shares all bins with another does so for one such period only (the paper's
 * moving hash functions, with double buffering).
 *
 * Departures from the paper: There are 8 levels of 16 bins, as in
 * net/sched/sch_sfb.c, where the paper's example has 2 of 23. Defaults are
 * those of that file too. A packet that was queued before a set was reset is
 * not in that set, as its time of arrival shows.
 */
#include "red.h"
#include "mix.h"

#define SFB_LEVELS 8
#define SFB_BINS 16

#define SFB_PARAMS(P) \
	P(limit_packets, AQM_PACKETS, 0, 0, 1 << 20, \
	  "maximum queue length; 0: the length that the device asks for") \
	P(bin_packets, AQM_PACKETS, 20, 1, 1 << 16, \
	  "packets in a bin from which its probability rises") \
	P(most_packets, AQM_PACKETS, 25, 1, 1 << 16, \
	  "most packets in each bin of a flow") \
	P(increment, AQM_RATIO, AQM_ONE / 2000, 1, AQM_ONE, \
	  "increase of a bin's probability in one step") \
	P(decrement, AQM_RATIO, AQM_ONE / 6000, 1, AQM_ONE, \
	  "decrease of a bin's probability in one step") \
	P(rehash_ns, AQM_NS, 600000000000ULL, 1000000000, 86400000000000ULL, \
	  "time after which flows are hashed to other bins") \
	P(penalty_rate, "packets/s", 10, 0, 1 << 20, \
	  "rate of all flows together that do not respond to losses") \
	P(penalty_packets, AQM_PACKETS, 20, 1, 1 << 16, \
	  "burst of these flows") \
	P(ecn, AQM_FLAG, 1, 0, 1, \
	  "mark rather than drop where the sender understands it, up to a " \
	  "probability of 1/2") \
	AQM_FLOWS_PARAM(P)

#define SFB_VARS(N) \
	N(limit_packets, AQM_PACKETS, "limit in force") \
	N(active, AQM_NUMBER, "which of the two sets of bins decides, 0 or 1") \
	N(changed_ns, AQM_NS, \
	  "when the set last changed; 0: no packet has arrived") \
	N(probability, AQM_RATIO, \
	  "drop probability of the last packet's flow") \
	N(penalty_ns, AQM_NS, "until when the penalty rate is used up")

#define SFB_STATS(N) \
	N(penalized, AQM_PACKETS, \
	  "packets dropped because the penalty rate was used up") \
	N(full_bins, AQM_PACKETS, \
	  "packets dropped because all bins were full") \
	N(rehashes, AQM_NUMBER, "times that flows were hashed to other bins")

AQM_STRUCT_PARAMS(sfb, SFB_PARAMS);
AQM_STRUCT_STATS(sfb, SFB_STATS);

struct sfb_bin {
	u64 packets;
	u64 probability;
};

struct sfb_set {
	u64 begun_ns;
	u64 salt;
	struct sfb_bin bins[SFB_LEVELS * SFB_BINS];
};

struct sfb_vars {
	SFB_VARS(AQM_NUMBER_FIELD)
	struct sfb_set sets[2];
};

/* The limit if neither the user nor the device sets one. */
#define SFB_LIMIT 1000

/* The minima over the bins of a flow. */
struct sfb_flow {
	u64 probability;
	u64 packets;
};

AQM_FN void sfb_setup(struct sfb_vars *v, const struct sfb_params *p,
		      const struct aqm_link *link)
{
	u64 limit = p->limit_packets ? p->limit_packets : link->queue_packets;

	limit = limit ? limit : SFB_LIMIT;
	v->limit_packets = aqm_min(limit, link->room_packets);
}

/* Returns the bin of a flow on a level, which uses four bits of the hash. */
AQM_FN struct sfb_bin *sfb_bin(struct sfb_set *set, u32 hash, u32 level)
{
	u32 place = level * SFB_BINS + (hash >> level * 4 & (SFB_BINS - 1));

	return &set->bins[AQM_MASKED(place, SFB_LEVELS * SFB_BINS - 1)];
}

/* Resets a set. */
AQM_FN void sfb_begin(struct sfb_set *set, u32 random, u64 now_ns)
{
	u32 i;

	AQM_LONG_LOOP (i, SFB_LEVELS * SFB_BINS) {
		struct sfb_bin *bin =
			&set->bins[AQM_MASKED(i, SFB_LEVELS * SFB_BINS - 1)];

		bin->packets = 0;
		bin->probability = 0;
	}
	set->begun_ns = now_ns;
	set->salt = aqm_mix(random, 1);
}

/* Updates the probabilities of a flow's bins. Returns the smallest one, and the
 * smallest number of packets. */
AQM_FN struct sfb_flow sfb_look(struct sfb_set *set, const struct sfb_params *p,
				u32 hash)
{
	struct sfb_flow least = { .probability = AQM_ONE, .packets = ~0ULL };
	u32 level;

	AQM_LONG_LOOP (level, SFB_LEVELS) {
		struct sfb_bin *bin = sfb_bin(set, hash, level);
		u64 probability = bin->probability;

		if (!bin->packets)
			probability -= aqm_min(probability, p->decrement);
		else if (bin->packets >= p->bin_packets)
			probability =
				aqm_min(probability + p->increment, AQM_ONE);
		bin->probability = probability;
		least.probability = aqm_min(least.probability, probability);
		least.packets = aqm_min(least.packets, bin->packets);
	}
	return least;
}

AQM_FN void sfb_enter(struct sfb_set *set, u32 hash)
{
	u32 level;

	AQM_LONG_LOOP (level, SFB_LEVELS)
		sfb_bin(set, hash, level)->packets++;
}

AQM_FN void sfb_leave(struct sfb_set *set, const struct aqm_packet *packet)
{
	u32 hash = aqm_mix(packet->flow, (u32)set->salt);
	u32 level;

	if (packet->arrived_ns < set->begun_ns)
		return;
	AQM_LONG_LOOP (level, SFB_LEVELS) {
		struct sfb_bin *bin = sfb_bin(set, hash, level);

		/* Packets that arrived at the very time of the reset may not be
		 * in the set. */
		bin->packets -= aqm_min(bin->packets, 1);
	}
}

/* Whether a packet of an unresponsive flow is within their rate. */
AQM_FN int sfb_tolerated(struct sfb_vars *v, const struct sfb_params *p,
			 u64 now_ns)
{
	u64 gap_ns = 1000000000 / aqm_max(p->penalty_rate, 1);
	u64 from = aqm_max(v->penalty_ns, now_ns);

	if (!p->penalty_rate ||
	    from - now_ns > (p->penalty_packets - 1) * gap_ns)
		return 0;
	v->penalty_ns = from + gap_ns;
	return 1;
}

AQM_FN void sfb_rehash(struct sfb_vars *v, const struct sfb_params *p,
		       struct sfb_stats *s, const struct aqm_context *at)
{
	if (!v->changed_ns) {
		sfb_begin(&v->sets[0], at->random, at->now_ns);
		sfb_begin(&v->sets[1], ~at->random, at->now_ns);
		v->changed_ns = at->now_ns;
	}
	if (at->now_ns - v->changed_ns < p->rehash_ns)
		return;
	sfb_begin(&v->sets[v->active & 1], at->random, at->now_ns);
	v->active = !v->active;
	v->changed_ns = at->now_ns;
	s->rehashes++;
}

AQM_FN struct aqm_verdict
sfb_arrive(struct sfb_vars *v, const struct sfb_params *p, struct sfb_stats *s,
	   const struct aqm_packet *packet, const struct aqm_context *at)
{
	struct aqm_verdict verdict = aqm_pass(0);
	struct sfb_flow first, second, least;
	u32 hashes[2];

	sfb_rehash(v, p, s, at);
	if (at->packets >= v->limit_packets)
		return aqm_drop(AQM_LIMIT_REASON);
	hashes[0] = aqm_mix(packet->flow, (u32)v->sets[0].salt);
	hashes[1] = aqm_mix(packet->flow, (u32)v->sets[1].salt);
	first = sfb_look(&v->sets[0], p, hashes[0]);
	second = sfb_look(&v->sets[1], p, hashes[1]);
	least = v->active ? second : first;
	v->probability = least.probability;
	if (least.packets >= p->most_packets) {
		s->full_bins++;
		return aqm_drop(AQM_LIMIT_REASON);
	}
	if (least.probability >= AQM_ONE) {
		if (!sfb_tolerated(v, p, at->now_ns)) {
			s->penalized++;
			return aqm_drop(AQM_FORCED_REASON);
		}
	} else if (at->random < least.probability) {
		if (!p->ecn || least.probability > AQM_ONE / 2 ||
		    !aqm_can_mark(packet))
			return aqm_drop(AQM_EARLY_REASON);
		verdict = aqm_mark(AQM_EARLY_REASON, 0);
	}
	sfb_enter(&v->sets[0], hashes[0]);
	sfb_enter(&v->sets[1], hashes[1]);
	return verdict;
}

AQM_FN u32 sfb_choose(struct sfb_vars *v, const struct sfb_params *p,
		      const struct aqm_context *at)
{
	return 0;
}

AQM_FN struct aqm_verdict sfb_depart(struct sfb_vars *v,
				     const struct sfb_params *p,
				     struct sfb_stats *s, u32 queue,
				     const struct aqm_packet *packet,
				     const struct aqm_context *at)
{
	if (!packet)
		return aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);
	sfb_leave(&v->sets[0], packet);
	sfb_leave(&v->sets[1], packet);
	return aqm_pass(0);
}

AQM_NO_EVICTION(sfb)

AQM_DISCIPLINE(sfb, SFB, 1, 4096,
	       AQM_NEEDS_RANDOM | AQM_NEEDS_FLOW | AQM_NEEDS_PARTS |
		       AQM_NEEDS_QUEUE | AQM_NEEDS_ECN,
	       "Stochastic Fair Blue: who does not respond is found and held")
