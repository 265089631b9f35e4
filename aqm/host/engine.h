/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The engine: one scheduler for a tree of nodes, up to eight levels deep, of any
 * shape. This file has its rows. When a node may go on is in engine/wheel.h and
 * engine/cap.h. Which leaf sends next is in engine/list.h and engine/tree.h, what a packet
 * costs in engine/settle.h, and which of a leaf's packets goes in engine/leaf.h and
 * engine/flow.h. Leaves of hosts are in engine/host.h.
 * How several engines share a line is in engine/line.h.
 *
 * A node has a guarantee, a ceiling, a priority and a quantum, all in bytes on
 * the wire. Among the children of a node, those go first that have not had their
 * guarantee, in order of priority; then the others by priority. Equals share by
 * deficit round robin (Shreedhar and Varghese 1996): shares are as the quanta.
 * The ceiling of a node holds over everything below it. A cap is a ceiling that
 * nodes share wherever they are: those of a host in several classes, for example.
 *
 * A packet costs a number of steps that depends on the levels and not on the
 * number of nodes. So nothing is ever searched: a node that may send is in a list
 * of its parent, one above its ceiling is in the wheel, and one without packets
 * is nowhere.
 *
 * All state is rows of flat arrays, which name each other by number; 0 is none.
 * The first words of a node are the user's. The program only reads them, whenever
 * it looks at the node, so that a plain store changes a rate. The other words are
 * the program's. The host provides
 *
 *   engine_node(e, id)    engine_fork(e, id)
 *   engine_queue(e, id)   engine_slot(e, id)
 *   engine_host(e, id)
 *
 * each a row, or NULL for 0 and beyond the last.
 */
#ifndef AQM_ENGINE_H
#define AQM_ENGINE_H

#include "aqm.h"
#include "codel.h"
#include "fixed.h"
#include "gate.h"

#define ENGINE_LEVELS 8
#define ENGINE_PRIORITIES 8

/* Lists of a node's children: those owed a guarantee, then the others, each by
 * priority. The lowest number goes first. */
#define ENGINE_LISTS (2 * ENGINE_PRIORITIES)

/* Queues of a leaf. */
#define ENGINE_FLOWS 8
#define ENGINE_FLOW_BITS ((1U << ENGINE_FLOWS) - 1)

/* In the place of its queues, where a leaf has one packet and has had no other with it:
 * the slot of that. A row for queues is kept for it, but not touched. */
#define ENGINE_LONE (1U << 31)

/* Bytes of a host's turn in a leaf, divided among its flows. The first multiple
 * of 840 = lcm(1 ... 8) above an Ethernet frame, so that nothing is rounded. */
#define ENGINE_TURN_BYTES 1680

/* Hashes by which leaves of hosts are found, and as many of one hash at most. */
#define ENGINE_HOSTS 8192
#define ENGINE_SAME_HASH 16

/* The least quantum of a node. A packet of 64 kB leaves a debt of that many
 * bytes, which a node pays back by a quantum for each turn that it misses. */
#define ENGINE_LEAST_QUANTUM 256

/* A tick of the wheel is 2^15 ns (32.8 us). There are 64^3 of them (8.6 s). */
#define ENGINE_TICK_SHIFT 15
#define ENGINE_TICKS (64 * 64 * 64)

/* Lateness that a ceiling makes up for: two ticks, one for the wheel and one for
 * the host's timer. */
#define ENGINE_LATE_NS (2ULL << ENGINE_TICK_SHIFT)

/* Nodes wait for every so manieth tick alone, a power of two, whose ceiling takes at least
 * so long for a full packet. */
#define ENGINE_SLOW_TICKS 4ULL
#define ENGINE_SLOW_NS (2 * ENGINE_SLOW_TICKS << ENGINE_TICK_SHIFT)

/* How far a guarantee may fall behind, beside its burst and two packets: for as long
 * others that are owed theirs may go first, on slow links two packets of each. */
#define ENGINE_CREDIT_NS 1000000000ULL

/* What a node keeps of that while it has nothing to send, or nothing that the
 * ceilings below it let go: its burst and a full packet at the guarantee, as a token
 * bucket would, or this where it is more. It makes up for the wheel, which wakes what
 * is below a node a little late. */
#define ENGINE_IDLE_CREDIT_NS 2000000ULL

/* What a row is, in engine_config.live: 0 for nothing. */
#define ENGINE_NODE 1
#define ENGINE_CAP 2 /* in no tree: a ceiling for the nodes that name it */

/* The configuration of a node. */
struct engine_config {
	u64 ceiling_bytes_s; /* 0: none */
	u64 guarantee_bytes_s; /* 0: none; at most the ceiling */
	u32 live; /* 0: there is no such node; what a leaf has is dropped */
	u32 parent; /* 0: of the root */
	u32 fork; /* the row of its children's lists; 0: a leaf */
	u32 quantum; /* its share among equals: bytes of a turn */
	u16 priority; /* 0, most urgent, to ENGINE_PRIORITIES - 1 */
	u16 hosts; /* of a leaf: each host that sends has a leaf of its own beside it */
	u32 limit_bytes; /* of a leaf: queued at most; 0: what there is room for */
	u32 target_ns; /* of a leaf: CoDel's target; 0: the engine's */
	u32 cap; /* the row of a cap that holds for it too; 0: none */
	u32 burst_bytes; /* what it may be owed besides, after it had nothing to send */
	u32 ceiling_burst_bytes; /* what it may send above its ceiling after a pause */
};

enum engine_state {
	ENGINE_IDLE = 0, /* nothing to send, here or below */
	ENGINE_READY = 1, /* in a list of its parent */
	ENGINE_HELD = 2, /* above its ceiling, in the wheel */
};

/* What a child of the root claims of a line that engines share, in 2^8 bytes a second,
 * and in 2^8 bytes of a turn. */
struct engine_claim {
	u32 guarantee;
	u32 quantum;
};

/* The same of all children of a root that may send. */
struct engine_claims {
	u64 guarantee;
	u64 quanta;
};

/* A node's ceiling. What it would not make up for even after the last packet of `light`
 * bytes, at `opens_ns`, is worked out when that is needed (engine/cap.h). */
struct engine_gate {
	u64 light; /* 0: `opens_ns` is when the last packet will have gone */
	u64 opens_ns;
	u64 rest; /* of the division, as struct aqm_gate has it */
};

struct engine_node {
	struct engine_config config;
	struct engine_gate ceiling;
	struct aqm_gate guarantee;
	u64 sent_wire_bytes;
	u64 sent_packets;
	u32 state; /* enum engine_state */
	u32 parent; /* in whose list it is */
	u32 list; /* in which: the number of an engine_fork's head */
	u32 next; /* in that list, which is a circle; of a cap: who went last */
	u32 prev; /* of a cap: who goes next */
	s32 deficit; /* what it may still send in this turn */
	u32 turned; /* whether it was ever given a turn */
	u32 midway; /* whether its turn has begun and not ended */
	u32 wheel; /* its tick's place in the wheel, plus 1; 0: none */
	u32 wheel_next; /* of the same tick: a circle too */
	u32 wheel_prev;
	u32 queue; /* a leaf's, while it has packets, or ENGINE_LONE; else: hosts below that
		    * have some */
	u32 packets; /* queued, of a leaf; else of hosts below */
	u32 bytes;
	u32 drops;
	u32 marks;
	struct engine_claim claim; /* while it is in a list of the root */
};

/* The lists of a node's children that may send. */
struct engine_fork {
	u32 lists; /* a bit for each that is not empty */
	u32 pad;
	u32 head[ENGINE_LISTS];
};

/* Packets of one flow, or of several that share a queue. */
struct engine_flow {
	u64 key; /* hashes of its host and of itself */
	struct codel_core codel;
	s32 deficit;
	u32 head;
	u32 tail; /* while it has a head */
	u32 bytes;
	u32 pad;
};

/* The queues of a leaf, lent to it while it has packets. */
struct engine_queue {
	u32 fresh; /* flows that have just come: a bit for each */
	u32 old; /* other flows in turn, perhaps empty ones */
	u32 turn; /* where the turns of the old ones stand */
	u32 next; /* the next free row */
	struct engine_flow flow[ENGINE_FLOWS];
};

/* A host that has a leaf of its own. It keeps that while no other needs the row. */
struct engine_host {
	u32 key; /* a hash of whose it is */
	u32 leaf; /* beside which leaf */
	u32 next; /* of the same hash, by the number of the node */
	u32 prev;
	u32 above; /* the node that counts its packets; 0: it has none */
	u32 rests; /* whether its leaf is among those that may be lent again */
	u64 again; /* its turn comes first from so many bytes of its parent on */
};

/* A packet's place. */
struct engine_slot {
	struct aqm_packet packet;
	u32 next; /* the one behind it, or the next free one */
	u32 host; /* a hash of whose it is */
};

/* Rows that are free: those never used, from `fresh` on, and a list. */
struct engine_pool {
	u32 rows; /* the last row */
	u32 fresh;
	u32 free;
	u32 used;
};

/* Nodes by the time for which they wait: a list for each tick, and bitmaps of
 * those that are not empty, of 64 of these, and of 64 of those. */
struct engine_wheel {
	u64 top;
	u64 tick; /* nothing waits for an earlier one */
	u64 due; /* nor for one before this */
	u64 middle[64];
	u64 low[ENGINE_TICKS / 64];
	u32 bucket[ENGINE_TICKS];
};

/* Engines that share a line, at most. */
#define ENGINE_MEMBERS 64

/* A line that several engines share. Each writes its own claims, in a line of the
 * processors' caches. */
struct engine_line {
	u64 taken_ns; /* leases have it until then */
	u64 pad[7];
	struct {
		struct engine_claims claims;
		u64 pad[6];
	} member[ENGINE_MEMBERS];
};

/* The configuration of the whole. */
struct engine_rule {
	struct aqm_link link;
	struct codel_common codel;
	u64 limit_bytes; /* queued at most, in all leaves */
	u32 root;
	u32 other; /* the leaf of packets that name none; 0: they are dropped */
	u32 lent; /* the last row of the user's; hosts have those behind it */
	u32 arriving; /* packets have used the link: those dropped count for ceilings */
};

struct engine {
	struct engine_rule rule;
	u32 full; /* a full packet on the wire */
	u32 hosts_from; /* the rows beyond this one are hosts'; ~0: there are none */
	u64 slow_bytes_s; /* at most so fast is a slow ceiling */
	struct engine_pool slots;
	struct engine_pool queues;
	struct engine_pool hosts;
	u64 bytes; /* queued */
	u64 opens_ns; /* where nothing may go: when to ask again; ~0: never */
	u64 until_ns; /* the end of its lease of a line that it shares */
	u64 debt_ns; /* what it used of the line beyond its leases */
	u64 wants_ns; /* the longest lease to take, unless more is queued */
	u64 line_rate; /* of the line, when the last lease was taken */
	struct engine_claims claims; /* of its root's children that may send */
	u32 members; /* engines that share its line; 0: it has a line of its own */
	u32 shared_root; /* then its root; else 0 */
	u32 member; /* which of them it is, from 0 on */
	u32 leased; /* whether it has had leases since it last had nothing to send */
	u32 look; /* the user's: a node to look at with the next question */
	u32 resting; /* the leaf of a host that had nothing for longest */
	u32 leaf; /* which engine_next() chose; 0: none may send */
	u32 pad;
	u32 at[4]; /* the host's: where it has rows of forks, queues, slots, hosts */
	u64 refused; /* packets that found no leaf or no room */
	struct aqm_verdict verdict; /* of the packet that engine_take() took */
	struct engine_wheel wheel;
	u32 host[ENGINE_HOSTS]; /* the first of each hash */
};

#endif
