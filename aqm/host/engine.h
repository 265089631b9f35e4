/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The engine: a scheduler for a tree of nodes, of any shape and up to eight
 * levels deep. This file defines its tables. The other files are:
 *
 * - engine/wheel.h, engine/cap.h: when a node may send
 * - engine/list.h, engine/tree.h: which leaf sends next
 * - engine/settle.h: what a packet costs
 * - engine/leaf.h, engine/flow.h: which packet of a leaf is sent
 * - engine/host.h: leaves of single hosts
 * - engine/line.h: several engines that share a line
 *
 * A node has a guarantee, a ceiling, a priority and a quantum, all in bytes on
 * the wire. Children that have not had their guarantee go first, in order of
 * priority. The others follow by priority. Equals share by deficit round robin
 * (Shreedhar and Varghese 1996), in proportion to their quanta. The ceiling of
 * a node limits everything below it. A cap is a ceiling that nodes anywhere in
 * the tree share, for example those of one host in several classes.
 *
 * The cost of a packet depends on the number of levels, not on the number of
 * nodes, because nothing is ever searched. A node that may send is in a list of
 * its parent. A node above its ceiling is in the wheel. A node without packets
 * is in neither.
 *
 * All state is in flat arrays, whose rows refer to each other by number; 0
 * means none. The first words of a node, its configuration, are written by user
 * space. The program only reads them, whenever it looks at the node, so a plain
 * store changes a rate. The other words are written by the program. The host
 * provides
 *
 *     engine_node(e, id)    engine_fork(e, id)
 *     engine_queue(e, id)   engine_slot(e, id)
 *     engine_host(e, id)
 *
 * Each returns a row, or NULL for 0 and for numbers past the last row.
 */
#ifndef AQM_ENGINE_H
#define AQM_ENGINE_H

#include "aqm.h"
#include "codel.h"
#include "fixed.h"
#include "gate.h"

#define ENGINE_LEVELS 8
#define ENGINE_PRIORITIES 8

/* Lists of a node's children: first those owed a guarantee, then the others,
 * each by priority. The lowest number goes first. */
#define ENGINE_LISTS (2 * ENGINE_PRIORITIES)

/* Queues of a leaf. */
#define ENGINE_FLOWS 8
#define ENGINE_FLOW_BITS ((1U << ENGINE_FLOWS) - 1)

/* Flag in engine_node.queue: the leaf has a single packet, in the slot given by
 * the other bits. A row of queues is reserved for the leaf but not touched. */
#define ENGINE_LONE (1U << 31)

/* Bytes of a host's turn in a leaf, divided among its flows. The smallest
 * multiple of 840 = lcm(1 ... 8) above an Ethernet frame, so no division is
 * rounded. */
#define ENGINE_TURN_BYTES 1680

/* Size of the hash table of hosts, and the longest chain in it. */
#define ENGINE_HOSTS 8192
#define ENGINE_SAME_HASH 16

/* The smallest quantum of a node. A packet of 64 kB leaves a deficit of as many
 * bytes, which the node pays back by one quantum for each turn it skips. */
#define ENGINE_LEAST_QUANTUM 256

/* A tick of the wheel is 2^15 ns (32.8 us). It has 64^3 ticks (8.6 s). */
#define ENGINE_TICK_SHIFT 15
#define ENGINE_TICKS (64 * 64 * 64)

/* Lateness that a ceiling compensates for: two ticks, one for the wheel and one
 * for the host's timer. */
#define ENGINE_LATE_NS (2ULL << ENGINE_TICK_SHIFT)

/* Slow nodes wake only every 4th tick (a power of two). A node is slow if a
 * full packet takes at least ENGINE_SLOW_NS at its ceiling. */
#define ENGINE_SLOW_TICKS 4ULL
#define ENGINE_SLOW_NS (2 * ENGINE_SLOW_TICKS << ENGINE_TICK_SHIFT)

/* How far a guarantee may fall behind, in addition to its burst and two full
 * packets. Limits how long overdue siblings may delay others. On slow links
 * that is the time of two packets of each sibling. */
#define ENGINE_CREDIT_NS 1000000000ULL

/* Credit that a node keeps while it has nothing to send, or while the ceilings
 * below it hold everything back. It is the time of its burst and a full packet
 * at the guarantee, like the depth of a token bucket, but at least this. The
 * minimum compensates for the wheel, which wakes nodes a little late. */
#define ENGINE_IDLE_CREDIT_NS 2000000ULL

/* Values of engine_config.live; 0: the row is unused. */
#define ENGINE_NODE 1
#define ENGINE_CAP 2 /* not in the tree; a ceiling shared by name */

/* The configuration of a node. */
struct engine_config {
	u64 ceiling_bytes_s; /* 0: none */
	u64 guarantee_bytes_s; /* 0: none; at most the ceiling */
	u32 live; /* ENGINE_NODE, ENGINE_CAP or 0;
		   * packets of a leaf with 0 are dropped */
	u32 parent; /* 0: this is the root */
	u32 fork; /* row of its children's lists; 0: a leaf */
	u32 quantum; /* bytes of a turn: its share among equals */
	u16 priority; /* 0, most urgent, to ENGINE_PRIORITIES - 1 */
	u16 hosts; /* of a leaf: give each sending host its own leaf */
	u32 limit_bytes; /* of a leaf: most bytes queued; 0: no own limit */
	u32 target_ns; /* of a leaf: CoDel's target; 0: the engine's */
	u32 cap; /* row of its cap; 0: none */
	u32 burst_bytes; /* burst of the guarantee after a pause */
	u32 ceiling_burst_bytes; /* burst above the ceiling after a pause */
};

enum engine_state {
	ENGINE_IDLE = 0, /* nothing to send, here or below */
	ENGINE_READY = 1, /* in a list of its parent */
	ENGINE_HELD = 2, /* above its ceiling, in the wheel */
};

/* A child's claim on a shared line: its guarantee in units of 2^8 bytes/s, and
 * its quantum in units of 2^8 bytes. */
struct engine_claim {
	u32 guarantee;
	u32 quantum;
};

/* The sums of the claims of a root's children that may send. */
struct engine_claims {
	u64 guarantee;
	u64 quanta;
};

/* The state of a node's ceiling. If `light` is set, the node was idle and the
 * last packet, of `light` bytes, was sent at `opens_ns`. The gate is then
 * computed only when it is needed (engine/cap.h). */
struct engine_gate {
	u64 light; /* 0: `opens_ns` is when the last
		    * packet will have been sent */
	u64 opens_ns;
	u64 rest; /* remainder, as in struct aqm_gate */
};

struct engine_node {
	struct engine_config config;
	struct engine_gate ceiling;
	struct aqm_gate guarantee;
	u64 sent_wire_bytes;
	u64 sent_packets;
	u32 state; /* enum engine_state */
	u32 parent; /* the node whose list it is in */
	u32 list; /* index into engine_fork.head */
	u32 next; /* next in that circular list; of
		   * a cap: the node that sent last */
	u32 prev; /* of a cap: the node that sends next */
	s32 deficit; /* bytes that it may still send in this turn */
	u32 turned; /* whether it ever had a turn */
	u32 midway; /* whether it is in the middle of a turn */
	u32 wheel; /* index of its bucket in the wheel plus 1; 0: none */
	u32 wheel_next; /* circular list of the same tick */
	u32 wheel_prev;
	u32 queue; /* of a leaf with packets: its row of queues, or ENGINE_LONE
		    * and a slot; of an inner node: number of hosts below that
		    * have packets */
	u32 packets; /* queued in a leaf, or by the hosts below a node */
	u32 bytes;
	u32 drops;
	u32 marks;
	struct engine_claim claim; /* while it is in a list of a shared root */
};

/* The lists of those children of a node that may send. */
struct engine_fork {
	u32 lists; /* bitmap of the lists that are not empty */
	u32 pad;
	u32 head[ENGINE_LISTS];
};

/* The queue of one flow, or of several flows that share it. */
struct engine_flow {
	u64 key; /* hashes of the host and the flow */
	struct codel_core codel;
	s32 deficit;
	u32 head;
	u32 tail; /* valid while there is a head */
	u32 bytes;
	u32 pad;
};

/* The queues of a leaf, allocated while it has packets. */
struct engine_queue {
	u32 fresh; /* bitmap of new flows */
	u32 old; /* bitmap of old flows, some perhaps empty */
	u32 turn; /* index of the old flow whose turn it is */
	u32 next; /* the next free row */
	struct engine_flow flow[ENGINE_FLOWS];
};

/* A host that has a leaf of its own. It keeps the row until another host needs
 * it. */
struct engine_host {
	u32 key; /* hash of the host */
	u32 leaf; /* the configured leaf that it belongs to */
	u32 next; /* next in the hash chain: a node number */
	u32 prev;
	u32 above; /* the node that counts its packets; 0: no packets */
	u32 rests; /* whether its leaf is in the list of idle leaves */
	u64 again; /* it goes first once its parent has sent this many bytes */
};

/* A packet's slot. */
struct engine_slot {
	struct aqm_packet packet;
	u32 next; /* the packet behind it, or the next free slot */
	u32 host; /* hash of the host */
};

/* The free rows of a table: a list of released rows, and those never used,
 * which follow `fresh`. */
struct engine_pool {
	u32 rows; /* number of the last row */
	u32 fresh;
	u32 free;
	u32 used;
};

/* Nodes that wait, by time: a list for each tick and three levels of bitmaps of
 * the lists that are not empty. */
struct engine_wheel {
	u64 top;
	u64 tick; /* the current tick; no node waits for an earlier one */
	u64 due; /* no node waits for a tick before this one */
	u64 middle[64];
	u64 low[ENGINE_TICKS / 64];
	u32 bucket[ENGINE_TICKS];
};

/* The most engines that can share a line. */
#define ENGINE_MEMBERS 64

/* A line that several engines share. Each engine writes its own claims, in a
 * separate cache line. */
struct engine_line {
	u64 taken_ns; /* when the last lease ends */
	u64 pad[7];
	struct {
		struct engine_claims claims;
		u64 pad[6];
	} member[ENGINE_MEMBERS];
};

/* The configuration of an engine. */
struct engine_rule {
	struct aqm_link link;
	struct codel_common codel;
	u64 limit_bytes; /* most bytes queued in all leaves */
	u32 root;
	u32 other; /* the leaf of unclassified packets; 0: drop them */
	u32 lent; /* last row that user space uses;
		   * hosts get the rows after it */
	u32 arriving; /* packets come from the link, so
		       * dropped ones count for ceilings */
};

struct engine {
	struct engine_rule rule;
	u32 full; /* bytes of a full packet on the wire */
	u32 hosts_from; /* rows after this one are of hosts; ~0: none */
	u64 slow_bytes_s; /* ceilings up to this rate are slow */
	struct engine_pool slots;
	struct engine_pool queues;
	struct engine_pool hosts;
	u64 bytes; /* queued */
	u64 opens_ns; /* if no packet may be sent:
		       * when to ask again; ~0: never */
	u64 until_ns; /* end of its lease of a shared line */
	u64 debt_ns; /* time it used beyond its leases */
	u64 wants_ns; /* longest lease to take unless more is queued */
	u64 line_rate; /* rate of the line when it took the last lease */
	struct engine_claims claims; /* sums of its root's
				      * children that may send */
	u32 members; /* engines on its line; 0: the line is not shared */
	u32 shared_root; /* its root if it shares a line, else 0 */
	u32 member; /* its number among those engines, from 0 */
	u32 leased; /* whether it took a lease since it was last empty */
	u32 look; /* set by user space: a node to check at the next call */
	u32 resting; /* the host's leaf that has been idle longest */
	u32 leaf; /* the leaf that engine_next() chose; 0: none may send */
	u32 pad;
	u32 at[4]; /* for the host: where its forks,
		    * queues, slots and hosts begin */
	u64 refused; /* packets refused for lack of a leaf or of room */
	struct aqm_verdict verdict; /* verdict of engine_take() */
	struct engine_wheel wheel;
	u32 host[ENGINE_HOSTS]; /* heads of the hash chains */
};

#endif
