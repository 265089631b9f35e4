// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The native host of one discipline. The build defines AQM_NAME, AQM_TABLE (the
 * same in capitals) and AQM_FILE. It gives the library a descriptor, which has
 * tables of names and texts, and functions on an instance. The library holds
 * the instance as plain memory.
 */
#include AQM_FILE

#define aqm_slot(q, i) native_slot(q, i)

struct aqm_slot;
static struct aqm_slot *native_slot(void *q, u32 index);

/* Guard words for sanitizers, which nothing may access. */
#ifdef AQM_FENCED
#define AQM_FENCE(name) u64 name[AQM_FENCED];
/* The test driver sets the values that a discipline does not declare. */
extern struct aqm_unasked {
	u32 random, flow, ecn;
} aqm_unasked;
#define AQM_UNASKED(what) aqm_unasked.what
/* It also sees whether a discipline has written to its copy of the packet. */
extern struct aqm_packet aqm_given;
extern int aqm_written;
#define AQM_GIVEN(packet) (aqm_given = *(packet))
#define AQM_TAKEN(packet) \
	(aqm_written |= \
	 !!__builtin_memcmp(&aqm_given, (packet), sizeof(aqm_given)))
#endif

#include "queue.h"
#include "virtual.h"

#include "native.h"

/* Slots follow the instance. The first is number 1. */
static struct aqm_slot *native_slot(void *memory, u32 index)
{
	struct AQM_OF(_instance) *q = memory;
	struct aqm_slot *slots = (struct aqm_slot *)(q + 1);

	if (!index || index > AQM_OF(_PACKETS))
		return NULL;
	return &slots[index - 1];
}

#define PARAM_ROW(name, unit, dflt, least, most, help) \
	{ #name, unit, help, dflt, least, most },
#define NUMBER_ROW(name, unit, help) { #name, unit, help, 0, 0, 0 },

static const struct aqm_row params[] = { AQM_PASTE(AQM_TABLE,
						   _PARAMS)(PARAM_ROW) };
static const struct aqm_row vars[] = { AQM_PASTE(AQM_TABLE,
						 _VARS)(NUMBER_ROW) };
static const struct aqm_row stats[] = { AQM_PASTE(AQM_TABLE,
						  _STATS)(NUMBER_ROW) };

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

/* Check that tables and structures agree: an index into one finds a number in
 * the other. State may be longer than its table, never shorter. */
_Static_assert(sizeof(struct AQM_OF(_params)) == 8 * ROWS(params),
	       "every parameter is in the table, in order, and 64 bits wide");
_Static_assert(sizeof(struct AQM_OF(_vars)) >= 8 * ROWS(vars),
	       "the table of state describes its beginning");
_Static_assert(sizeof(struct AQM_OF(_stats)) == 8 * ROWS(stats),
	       "every statistic is in the table, in order, and 64 bits wide");
_Static_assert(sizeof(struct AQM_OF(_instance)) % 8 == 0, "slots are aligned");

static void native_setup(void *memory)
{
	struct AQM_OF(_instance) *q = memory;

	AQM_OF(_setup)(&q->vars, &q->params, &q->link);
}

static u32 native_arrive(void *memory, const struct aqm_packet *packet,
			 u32 random, struct aqm_verdict *verdict)
{
	return AQM_OF(_host_arrive)(memory, packet, random, verdict);
}

static u32 native_evict(void *memory, u64 now_ns)
{
	return AQM_OF(_host_evict)(memory, now_ns);
}

static u32 native_depart(void *memory, u64 now_ns, u32 random,
			 struct aqm_verdict *verdict)
{
	return AQM_OF(_host_depart)(memory, now_ns, random, verdict);
}

/* The functions of a virtual queue, which has an instance of its own. */
static void native_virtual_setup(void *memory, const struct aqm_link *link,
				 u64 now_ns)
{
	virtual_setup(memory, link, now_ns);
}

static void native_virtual_arrive(void *memory, const struct aqm_packet *packet,
				  u32 random, struct aqm_verdict *verdict)
{
	u64 now_ns = virtual_now(memory, packet->arrived_ns);

	*verdict = virtual_arrive(memory, packet, now_ns, random);
}

static void native_virtual_count(void *memory, const struct aqm_packet *packet)
{
	virtual_count(memory, packet, virtual_now(memory, packet->arrived_ns));
}

static void native_virtual_measured(void *memory, u64 waits_ns, u64 now_ns)
{
	virtual_measured(memory, waits_ns, virtual_now(memory, now_ns));
}

#define OFFSET(field) __builtin_offsetof(struct AQM_OF(_instance), field)

#ifdef AQM_FENCED
extern const u32 aqm_fences[5];
const u32 aqm_fences[5] = {
	OFFSET(before_params), OFFSET(before_stats), OFFSET(before_counts),
	OFFSET(before_vars),   OFFSET(after_vars),
};
#endif

extern const struct aqm_descriptor AQM_PASTE(aqm_descriptor_, AQM_NAME);
const struct aqm_descriptor AQM_PASTE(aqm_descriptor_, AQM_NAME) = {
	.name = AQM_STRING(AQM_NAME),
	.summary = AQM_OF(_SUMMARY),
	.params = params,
	.vars = vars,
	.stats = stats,
	.params_count = ROWS(params),
	.vars_count = ROWS(vars),
	.stats_count = ROWS(stats),
	.queues = AQM_OF(_QUEUES),
	.packets = AQM_OF(_PACKETS),
	.size = sizeof(struct AQM_OF(_instance)),
	.link_offset = OFFSET(link),
	.params_offset = OFFSET(params),
	.vars_offset = OFFSET(vars),
	.vars_size = sizeof(struct AQM_OF(_vars)),
	.stats_offset = OFFSET(stats),
	.counts_offset = OFFSET(counts),
	.room_offset = OFFSET(room),
	.needs = AQM_OF(_NEEDS),
	.virtual_size = sizeof(struct virtual_queue),
	.virtual_offset = __builtin_offsetof(struct virtual_queue, q),
	.setup = native_setup,
	.arrive = native_arrive,
	.evict = native_evict,
	.depart = native_depart,
	.virtual_setup = native_virtual_setup,
	.virtual_arrive = native_virtual_arrive,
	.virtual_count = native_virtual_count,
	.virtual_measured = native_virtual_measured,
};
