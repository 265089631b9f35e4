/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The interface between a queueing discipline and its host.
 *
 * A discipline is one C file of plain integer arithmetic. It never sees a
 * packet. Its host owns packets and queues and passes numbers to it. The host
 * is the kernel's BPF qdisc, or the native library that tests and simulations
 * use. A discipline never calls the host either. Time, random bits, facts about
 * a packet and the link are arguments, and the decision about a packet is the
 * result. So the same numbers give the same verdicts everywhere.
 *
 * Read aqm/droptail.c next: the smallest discipline, commented as a template.
 * docs/aqm.md is the reference of this file.
 *
 * A discipline NAME consists of
 *
 *     three structures     struct NAME_params  parameters set by the user
 *                          struct NAME_vars    its state
 *                          struct NAME_stats   its statistics
 *     and five functions   NAME_setup()    parameters or link have changed
 *                          NAME_arrive()   a packet arrives: keep, mark, drop?
 *                          NAME_choose()   a packet may be sent: which queue?
 *                          NAME_depart()   that queue's head: send, mark, drop?
 *                                          Also called without a packet when
 *                                          the queue is empty and the line free
 *                          NAME_evict()    the arrival was kept but a packet
 *                                          must go: from which queue?
 *
 * Each field is listed once, in a table that C expands into a structure. From
 * the tables the native library also takes the names, units, defaults and
 * ranges that users see. AQM_ONE_FIFO() defines the last three functions for a
 * discipline with one queue.
 *
 * Deliberately absent are libc, floating point, global variables and unbounded
 * loops. `cargo xtask invariants` checks what of this can be checked.
 */
#ifndef AQM_H
#define AQM_H

#include "host.h" /* u32, u64, s64, AQM_FN, AQM_LOOP: the host's own */

/* Units, as shown to users. A unit with "/2^n" is fixed point: a value of 2^n
 * means one. A unit with "|" lists the words for 0, 1, 2 and so on. */
#define AQM_BYTES "bytes"
#define AQM_WIRE_BYTES "bytes on the wire"
#define AQM_BYTES_Q16 "bytes/2^16"
#define AQM_PACKETS "packets"
#define AQM_FLOWS "flows"
#define AQM_NS "ns"
#define AQM_RATIO "ratio/2^32"
#define AQM_FLAG "off|on"
#define AQM_NUMBER "number"

/* The ratio 1. */
#define AQM_ONE (1ULL << 32)

/* The largest limit or threshold in bytes. It still leaves room for 16 binary
 * places and exact division (see fixed.h). */
#define AQM_MOST_BYTES ((1ULL << 30) - 1)

/*
 * Tables. A parameter is P(name, unit, default, least, most, help). A field of
 * state or statistics is N(name, unit, help). All are 64 bits wide, so a host
 * finds any field by its index.
 */
#define AQM_PARAM_FIELD(name, unit, dflt, least, most, help) u64 name;
#define AQM_NUMBER_FIELD(name, unit, help) u64 name;

#define AQM_STRUCT_PARAMS(name, TABLE) \
	struct name##_params { \
		TABLE(AQM_PARAM_FIELD) \
	}
#define AQM_STRUCT_VARS(name, TABLE) \
	struct name##_vars { \
		TABLE(AQM_NUMBER_FIELD) \
	}
#define AQM_STRUCT_STATS(name, TABLE) \
	struct name##_stats { \
		TABLE(AQM_NUMBER_FIELD) \
	}

/* What the host tells about a packet. */
struct aqm_packet {
	u64 arrived_ns; /* time of arrival */
	u32 len; /* bytes, as the device counts them */
	u32 wire; /* bytes on the wire, by aqm_wire() */
	u32 flow; /* hash of its flow, or its DS code point */
	u32 ecn; /* enum aqm_ecn; AQM_NOT_ECT if the host cannot mark */
};

enum aqm_ecn {
	AQM_NOT_ECT = 0,
	AQM_ECT_1 = 1,
	AQM_ECT_0 = 2,
	AQM_CE = 3,
};

/* The header fields that can define a flow. */
enum aqm_part {
	AQM_SOURCE = 1,
	AQM_DESTINATION = 2,
	AQM_SOURCE_PORT = 4,
	AQM_DESTINATION_PORT = 8,
	AQM_PROTOCOL = 16,
	AQM_CONNECTION = 31, /* all of them */
};

/* The same as a unit: words joined by `+` name the bits. */
#define AQM_PARTS "source+destination+source-port+destination-port+protocol"

/* The number of queues, from the first, whose heads' arrival times are
 * known. */
#define AQM_HEADS 4

/* The queue is empty and has no head. */
#define AQM_NO_HEAD (~0ULL)

/* The context of a call: the time and the queue without the packet in
 * question. */
struct aqm_context {
	u64 now_ns; /* never goes backwards */
	u64 bytes; /* bytes queued, as the device counts */
	u64 wire; /* bytes queued, on the wire */
	u32 packets; /* packets queued */
	/* Uniform; new for each call of NAME_arrive() (AQM_NEEDS_RANDOM) and
	 * NAME_depart() (AQM_NEEDS_RANDOM_OUT). */
	u32 random;
	/* When the head of each queue arrived, or AQM_NO_HEAD
	 * (AQM_NEEDS_HEADS). */
	u64 heads_ns[AQM_HEADS];
};

/* The former name, for disciplines written for earlier versions. */
#define aqm_moment aqm_context

/* How a frame is encapsulated on the wire. */
enum aqm_framing {
	AQM_PLAIN = 0, /* byte by byte */
	AQM_ATM = 1, /* cells of 53 bytes with 48 of payload */
	AQM_PTM = 2, /* 65 bytes for each started block of 64 */
};

/* The link that the queue feeds, by policy or from the device. */
struct aqm_link {
	u64 rate_bytes_s; /* on the wire; 0: unknown */
	u32 mtu_bytes; /* largest packet, as the device counts */
	s32 overhead_bytes; /* in addition to what the device counts */
	u32 mpu_bytes; /* smallest frame, overhead included */
	u32 framing; /* enum aqm_framing */
	u32 queue_packets; /* queue length the device asks for; 0: none */
	u32 room_packets; /* most packets queued before an arrival */
};

enum aqm_action {
	AQM_PASS = 0, /* keep (on arrival) or send (on departure) */
	AQM_MARK = 1, /* the same, with congestion experienced (CE) set */
	AQM_DROP = 2,
	AQM_EMPTY = 3, /* on departure: all queues are empty */
	AQM_AGAIN = 4, /* on departure: this queue is empty; choose again */
};

/* Why a packet was marked or dropped: R(NAME, word, explanation). */
#define AQM_REASONS(R) \
	R(NONE, "none", "neither marked nor dropped") \
	R(ROOM, "room", "the host cannot hold another packet") \
	R(LIMIT, "limit", "the queue has reached its limit") \
	R(EARLY, "early", \
	  "by probability, the average being between its thresholds") \
	R(FORCED, "forced", "the average is above its upper threshold") \
	R(SOJOURN, "sojourn", \
	  "packets have been waiting for longer than the target") \
	R(THRESHOLD, "threshold", \
	  "the packet itself waited for longer than a threshold") \
	R(OWED, "owed", "in place of an earlier packet that was spared") \
	R(EVICTED, "evicted", "removed from a queue to make room for another")

#define AQM_REASON_NAME(NAME, word, help) AQM_##NAME##_REASON,
enum aqm_reason { AQM_REASONS(AQM_REASON_NAME) AQM_REASON_COUNT };

struct aqm_verdict {
	u32 action; /* enum aqm_action */
	u32 reason; /* enum aqm_reason */
	u32 queue; /* on arrival: the queue to put it in */
	u32 evict; /* on arrival: call NAME_evict() next, until it declines */
};

/* Returned by NAME_evict() if nothing needs to be evicted. */
#define AQM_NO_QUEUE (~0U)

/* The most packets evicted for one arrival. One more call follows, in which the
 * discipline learns what the last eviction took, and declines. */
#define AQM_EVICT_MOST 64
#define AQM_EVICT_CALLS (AQM_EVICT_MOST + 1)

AQM_FN struct aqm_verdict aqm_verdict(u32 action, u32 reason, u32 queue)
{
	struct aqm_verdict verdict = { .action = action,
				       .reason = reason,
				       .queue = queue };

	return verdict;
}

AQM_FN struct aqm_verdict aqm_pass(u32 queue)
{
	return aqm_verdict(AQM_PASS, AQM_NONE_REASON, queue);
}

AQM_FN struct aqm_verdict aqm_drop(u32 reason)
{
	return aqm_verdict(AQM_DROP, reason, 0);
}

AQM_FN struct aqm_verdict aqm_mark(u32 reason, u32 queue)
{
	return aqm_verdict(AQM_MARK, reason, queue);
}

/* Whether a packet's sender supports ECN. A packet that carries CE already may
 * be marked again. */
AQM_FN int aqm_can_mark(const struct aqm_packet *packet)
{
	return packet->ecn != AQM_NOT_ECT;
}

/* Returns the bytes on the wire of a packet that the device counts as `len`.
 * Adds overhead first, then applies the smallest frame, then cells or code
 * words. Never 0. */
AQM_FN u32 aqm_wire(const struct aqm_link *link, u32 len)
{
	s64 stated = (s64)len + link->overhead_bytes;
	u32 least = link->mpu_bytes > 1 ? link->mpu_bytes : 1;
	u32 frame = stated > (s64)least ? (u32)stated : least;

	if (link->framing == AQM_ATM)
		return (frame + 47) / 48 * 53;
	if (link->framing == AQM_PTM)
		return frame + (frame + 63) / 64;
	return frame;
}

/* Defines choose, depart and evict of a discipline with one queue that does not
 * act on departing packets. */
#define AQM_ONE_FIFO(name) \
	AQM_FN u32 name##_choose(struct name##_vars *v, \
				 const struct name##_params *p, \
				 const struct aqm_context *at) \
	{ \
		return 0; \
	} \
	AQM_FN struct aqm_verdict name##_depart( \
		struct name##_vars *v, const struct name##_params *p, \
		struct name##_stats *s, u32 queue, \
		const struct aqm_packet *packet, const struct aqm_context *at) \
	{ \
		if (!packet) \
			return aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0); \
		return aqm_pass(0); \
	} \
	AQM_NO_EVICTION(name)

#define AQM_NO_EVICTION(name) \
	AQM_FN u32 name##_evict(struct name##_vars *v, \
				const struct name##_params *p, \
				struct name##_stats *s, \
				const struct aqm_context *at) \
	{ \
		return AQM_NO_QUEUE; \
	}

/* The optional inputs that a discipline uses. The others are 0 on every host,
 * because computing them takes time. */
enum aqm_needs {
	AQM_NEEDS_NOTHING = 0,
	AQM_NEEDS_RANDOM = 1, /* aqm_context.random on arrival */
	AQM_NEEDS_FLOW = 2, /* aqm_packet.flow */
	AQM_NEEDS_EVICTION = 4, /* aqm_verdict.evict */
	AQM_NEEDS_PARTS = 8, /* flows by its last parameter, AQM_FLOWS_PARAM */
	AQM_NEEDS_CODE = 16, /* the DS code point as aqm_packet.flow */
	AQM_NEEDS_QUEUE = 32, /* a real queue: it tracks waiting packets */
	AQM_NEEDS_HEADS = 64, /* aqm_context.heads_ns, with AQM_NEEDS_QUEUE */
	AQM_NEEDS_RANDOM_OUT = 128, /* aqm_context.random on departure */
	AQM_NEEDS_ECN = 256, /* aqm_packet.ecn: it marks, or depends on ECN */
	AQM_NEEDS_HOLD = 512, /* a call at the time of AQM_DISCIPLINE_HELD */
};

/* The last parameter of a discipline with AQM_NEEDS_PARTS. Only the host reads
 * it, because only the host sees headers. */
#define AQM_FLOWS_PARAM(P) \
	P(flows, AQM_PARTS, AQM_CONNECTION, 1, AQM_CONNECTION, \
	  "what of a packet's headers makes its flow")

/* Completes a discipline: its tables, number of queues, packets that a host
 * should be able to hold, inputs that it needs, and summary. */
#define AQM_DISCIPLINE(name, TABLE, queue_count, packet_count, needs, text) \
	AQM_DISCIPLINE_TO(name, TABLE, queue_count, packet_count, needs, \
			  AQM_MOST_BYTES, text)

/* The same for a discipline that drops everything beyond a queue of `end`
 * bytes, an expression of its state `v`. A virtual queue grows no further. */
#define AQM_DISCIPLINE_TO(name, TABLE, queue_count, packet_count, needs, end, \
			  text) \
	AQM_DISCIPLINE_WHOLE(name, TABLE, queue_count, packet_count, needs, \
			     end, 0, text)

/* The same for a discipline that holds packets (AQM_NEEDS_HOLD). If
 * NAME_choose() returns AQM_NO_QUEUE while packets wait, it is called again at
 * `until`, in ns, an expression of its state `v`. If that time is past, it is
 * called again after a millisecond. */
#define AQM_DISCIPLINE_HELD(name, TABLE, queue_count, packet_count, needs, \
			    until, text) \
	AQM_DISCIPLINE_WHOLE(name, TABLE, queue_count, packet_count, needs, \
			     AQM_MOST_BYTES, until, text)

#define AQM_DISCIPLINE_WHOLE(name, TABLE, queue_count, packet_count, needs, \
			     end, until, text) \
	enum { \
		name##_QUEUES = (queue_count), \
		name##_PACKETS = (packet_count), \
		name##_NEEDS = (needs), \
	}; \
	AQM_FN void name##_defaults(struct name##_params *params) \
	{ \
		u64 *next = (u64 *)params; \
		TABLE##_PARAMS(AQM_PARAM_DEFAULT) \
	} \
	AQM_FN u64 name##_end(const struct name##_vars *v) \
	{ \
		return (end); \
	} \
	AQM_FN u64 name##_until(const struct name##_vars *v) \
	{ \
		return (until); \
	} \
	AQM_FN u32 name##_flows(const struct name##_params *params) \
	{ \
		const u64 *rows = (const u64 *)params; \
		u32 last = sizeof(*params) / sizeof(*rows) - 1; \
		return name##_NEEDS & AQM_NEEDS_PARTS ? (u32)rows[last] : \
							AQM_CONNECTION; \
	} \
	AQM_SUMMARY(name, text)

#define AQM_PARAM_DEFAULT(name, unit, dflt, least, most, help) *next++ = (dflt);

#endif
