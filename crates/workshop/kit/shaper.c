// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Runs the shaper with classes as an ordinary program, for `weirgate aqm test
 * shaper` and `fuzz shaper`. It reads calls line by line, or bytes of a fuzzer,
 * and makes them.
 *
 * It checks that
 *
 * - no packet is lost or duplicated
 * - the counters of classes are right
 * - no more is sent than the rate allows
 * - all packets leave in the end
 *
 * weirgate generates kinds.h, which defines KINDS(K) for the kit's disciplines
 * that are compiled in.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#undef NULL
#include "aqm.h"
#include "native_shaper.h"
#include "kinds.h"

#define EXTERN(name) extern const struct aqm_descriptor aqm_descriptor_##name;
KINDS(EXTERN)

#define ADDRESS(name) &aqm_descriptor_##name,
static const struct aqm_descriptor *const kinds[] = { KINDS(ADDRESS) };
#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))

extern const struct aqm_row aqm_reasons[], aqm_counts[];
extern const u32 aqm_counts_count;

void __asan_poison_memory_region(const void *from, size_t bytes);
void __asan_unpoison_memory_region(const void *from, size_t bytes);

/* Bytes of the guard after the shaper, which nothing may access. */
#define FENCE 4096

/* Allowance for packets that are late at first and, over more than
 * AQM_LINE_WINDOW_NS, early later. */
#define SLACK_NS (2 * AQM_GATE_SLACK_NS)

struct class
{
	unsigned char *used; /* slots in use */
	u32 queued;
};

static struct native_shaper *s;
static struct native_class queues[SHAPER_CLASSES];
static struct class classes[SHAPER_CLASSES];
static struct shaper_rule rules[SHAPER_CLASSES];
static struct aqm_link link;
static u32 count, other;
static u64 now_ns;
/* Bytes sent on the wire since the rate was last set, and when that was. */
static u64 since_ns, sent_wire, most_wire;
static int quiet;

static void broken(const char *what)
{
	fflush(stdout);
	fprintf(stderr, "broken shaper %s\n", what);
	abort();
}

static u64 *params(u32 class)
{
	return (u64 *)((char *)queues[class].memory +
		       queues[class].kind->params_offset);
}

static u64 queued_packets(u32 class)
{
	const u64 *counts = (u64 *)((char *)queues[class].memory +
				    queues[class].kind->counts_offset);
	static u32 at = ~0U;
	u32 i;

	for (i = 0; at == ~0U && i < aqm_counts_count; i++)
		if (!strcmp(aqm_counts[i].name, "queued_packets"))
			at = i;
	return counts[at];
}

static void forget(void)
{
	u32 i;

	for (i = 0; i < count; i++) {
		free(queues[i].memory);
		free(classes[i].used);
	}
	count = 0;
}

static void restart(void)
{
	char *memory = (char *)s;

	if (memory)
		__asan_unpoison_memory_region(memory + sizeof(*s), FENCE);
	free(memory);
	forget();
	s = calloc(1, sizeof(*s) + FENCE);
	if (!s)
		exit(3);
	__asan_poison_memory_region((char *)s + sizeof(*s), FENCE);
	memset(&link, 0, sizeof(link));
	link.rate_bytes_s = 125000;
	link.mtu_bytes = 1514;
	link.queue_packets = 1000;
	other = 0;
	now_ns = 1000000000;
	since_ns = now_ns;
	sent_wire = most_wire = 0;
}

static void add_class(const struct shaper_rule *rule, u32 kind)
{
	const struct aqm_descriptor *own = kinds[kind % KIND_COUNT];
	u32 i;

	if (count == SHAPER_CLASSES)
		return;
	rules[count] = *rule;
	queues[count].kind = own;
	queues[count].memory = calloc(
		1, own->size + (size_t)own->packets * sizeof(struct aqm_slot));
	classes[count].used = calloc(1, own->packets + 1);
	classes[count].queued = 0;
	if (!queues[count].memory || !classes[count].used)
		exit(3);
	for (i = 0; i < own->params_count; i++)
		params(count)[i] = own->params[i].dflt;
	count++;
}

/* Returns random bits for a departure. */
static u32 word(void)
{
	static u64 state = 1;

	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (u32)(state >> 32);
}

/* Applies the configuration. */
static void settle(void)
{
	struct aqm_link *own;
	u32 i;

	aqm_shaper_setup(s, &link, link.rate_bytes_s, rules, count, other);
	for (i = 0; i < count; i++) {
		own = (struct aqm_link *)((char *)queues[i].memory +
					  queues[i].kind->link_offset);
		*own = link;
		own->room_packets = queues[i].kind->packets - 1;
		queues[i].kind->setup(queues[i].memory);
	}
	since_ns = now_ns;
	sent_wire = 0;
}

static void check(void)
{
	u32 i;

	for (i = 0; i < count; i++) {
		if (queued_packets(i) != classes[i].queued)
			broken("has a class that loses count of what it has");
		if (s->shaper.class[i].packets != classes[i].queued)
			broken("counts other packets than its classes have");
	}
}

static void take(u32 class, u32 slot)
{
	if (slot > queues[class].kind->packets || !classes[class].used[slot])
		broken("gives a packet that is not queued");
	classes[class].used[slot] = 0;
	classes[class].queued--;
}

static void arrive(u32 classid, struct aqm_packet *packet, u32 random)
{
	u32 class = aqm_shaper_classify(s, classid);
	struct aqm_verdict verdict = {};
	u32 slot, i;

	if (class >= count)
		broken("names a class that there is not");
	packet->arrived_ns = now_ns;
	packet->wire = aqm_wire(&link, packet->len);
	slot = aqm_shaper_arrive(s, &queues[class], class, packet, random,
				 &verdict);
	if (slot) {
		if (slot > queues[class].kind->packets ||
		    classes[class].used[slot])
			broken("keeps a packet in a slot that is taken");
		classes[class].used[slot] = 1;
		classes[class].queued++;
		if (packet->wire > most_wire)
			most_wire = packet->wire;
	}
	if (!quiet)
		printf("a %u %s\n", slot ? verdict.action : AQM_DROP,
		       aqm_reasons[verdict.reason].name);
	for (i = 0; slot && verdict.evict && i < AQM_EVICT_CALLS; i++) {
		u32 gone = aqm_shaper_evict(s, &queues[class], class, now_ns);

		if (!gone)
			break;
		take(class, gone);
		if (!quiet)
			printf("e\n");
	}
#ifdef PLANTED
	/* A possible mistake of a shaper: a write beyond its last class. */
	if (slot && class == 3 && (packet->len & 0xff) == 0x5a)
		((u64 *)(s + 1))[8] = 1;
#endif
	check();
}

/* Checks that no more is sent than the rate since it was set, a timer's
 * lateness and one packet. */
static void check_rate(u32 wire)
{
	u64 group = link.rate_bytes_s > AQM_GATE_GROUPS_FROM ?
			    AQM_GATE_GROUP_NS :
			    0;
	u64 time = now_ns - since_ns + SLACK_NS + group;

	sent_wire += wire;
	if (time > 1000000000000ULL) {
		since_ns = now_ns;
		sent_wire = 0;
	} else if (link.rate_bytes_s &&
		   (double)sent_wire >
			   (double)time / 1e9 * (double)link.rate_bytes_s +
				   (double)most_wire + 1) {
		broken("sends more than the line can take");
	}
}

/* Makes one request for a packet. Returns 1 if one was sent. Otherwise sets
 * when to ask again. */
static int depart(u64 *opens_ns)
{
	struct native_departure departure = {};
	const struct aqm_slot *slots;
	u32 rounds = 0, slot, wire, i;

	for (i = 0; i < count; i++)
		rounds +=
			4 * (queues[i].kind->packets + queues[i].kind->queues) +
			4;
	*opens_ns = 0;
	if (!aqm_shaper_open(s, now_ns, opens_ns)) {
		if (!quiet)
			printf("d none\n");
		return 0;
	}
	while (rounds--) {
		slot = aqm_shaper_depart(s, queues, now_ns, word(), &departure);
		if (!slot) {
			if (departure.verdict.action == AQM_AGAIN)
				continue;
			*opens_ns = departure.opens_ns;
			check();
			if (!quiet)
				printf("d none\n");
			return 0;
		}
		slots = (const struct aqm_slot
				 *)((char *)queues[departure.class].memory +
				    queues[departure.class].kind->size);
		wire = slots[slot - 1].packet.wire;
		take(departure.class, slot);
		check();
		if (!quiet)
			printf("d %u %s %u\n", departure.verdict.action,
			       aqm_reasons[departure.verdict.reason].name,
			       rules[departure.class].classid);
		if (departure.verdict.action != AQM_DROP) {
			check_rate(wire);
			return 1;
		}
	}
	broken("never comes to an end");
	return 0;
}

static u32 all_queued(void)
{
	u32 i, all = 0;

	for (i = 0; i < count; i++)
		all += classes[i].queued;
	return all;
}

/* Checks that all queued packets leave if they are requested whenever the
 * shaper says so. */
static void drain(void)
{
	u32 idle = 0;
	u64 opens;

	while (all_queued()) {
		if (depart(&opens)) {
			idle = 0;
			continue;
		}
		if (++idle > 1000)
			broken("keeps packets for ever: they are never sent");
		if (opens != ~0ULL && opens > now_ns)
			now_ns = opens;
		else
			now_ns += 1000000;
	}
}

/* The bytes of a fuzzer. */
struct source {
	const unsigned char *at, *end;
};

static u32 byte(struct source *from)
{
	return from->at < from->end ? *from->at++ : 0;
}

/* Returns 0 or a share of the line's rate. */
static u64 some_rate(u32 choice)
{
	return choice < 100 ? 0 : link.rate_bytes_s * (choice - 99) / 156 + 1;
}

static void some_rule(struct source *from, struct shaper_rule *rule, u32 number)
{
	memset(rule, 0, sizeof(*rule));
	rule->guarantee_bytes_s = some_rate(byte(from));
	rule->ceiling_bytes_s = some_rate(byte(from));
	rule->weight = 1ULL << byte(from) % 21;
	rule->priority = byte(from) % 9;
	rule->credit_ns = (u64)byte(from) << 18;
	rule->classid = number + 1;
}

static void fuzzed(const unsigned char *data, size_t size)
{
	struct source from = { data, data + size };
	struct aqm_packet packet = {};
	struct shaper_rule rule;
	u64 random = 1, opens;
	u32 i, wanted;

	quiet = 1;
	restart();
	link.framing = byte(&from) % 3;
	link.rate_bytes_s = 1000ULL << byte(&from) % 18;
	link.overhead_bytes = (s32)(byte(&from) % 80) - 20;
	link.mpu_bytes = byte(&from) % 100;
	link.mtu_bytes = 64 + byte(&from) * 36;
	wanted = 1 + byte(&from) % SHAPER_CLASSES;
	other = byte(&from) % wanted;
	for (i = 0; i < wanted; i++) {
		some_rule(&from, &rule, i);
		add_class(&rule, byte(&from));
	}
	settle();
	while (from.end - from.at >= 4) {
		u32 call = byte(&from), wait = byte(&from);
		u32 a = byte(&from), b = byte(&from);

		random = random * 6364136223846793005ULL + a + 1;
		now_ns += (u64)wait * wait * wait;
		if (call < 140) {
			packet.len = 40 + a * 6 + (b & 7) * 200;
			packet.len = b & 128 ? a | 0x500 : packet.len;
			packet.flow = (b >> 3 & 15) * 0x9e3779b9U;
			packet.ecn = call & 3;
			arrive(call / 4 % 10, &packet, (u32)(random >> 32));
		} else if (call < 230) {
			if (!depart(&opens) && call & 1 && opens != ~0ULL &&
			    opens > now_ns)
				now_ns = opens;
		} else {
			some_rule(&from, &rules[a % count], a % count);
			settle();
		}
	}
	drain();
}

#include "fuzzed.h"

#ifndef LIBFUZZER
static void show(void)
{
	u32 i, at;

	for (i = 0; i < count; i++)
		for (at = 0; at < aqm_counts_count; at++)
			printf("n %s/%u %llu\n", aqm_counts[at].name,
			       rules[i].classid,
			       ((u64 *)((char *)queues[i].memory +
					queues[i].kind->counts_offset))[at]);
	printf("end\n");
}

int main(int argc, char **argv)
{
	struct aqm_packet packet = {};
	struct shaper_rule rule;
	unsigned long long a, b;
	u32 random, kind, class;
	char line[256];
	u64 opens;

	if (argc > 1) {
		blind((u32)atoi(argv[1]));
		return 0;
	}
	restart();
	while (fgets(line, sizeof(line), stdin)) {
		switch (line[0]) {
		case 'l':
			sscanf(line + 1, "%llu %u %d %u %u", &link.rate_bytes_s,
			       &link.mtu_bytes, &link.overhead_bytes,
			       &link.mpu_bytes, &link.framing);
			break;
		case 'c':
			sscanf(line + 1, "%llu %llu %llu %llu %u %u %u",
			       &rule.guarantee_bytes_s, &rule.ceiling_bytes_s,
			       &rule.weight, &rule.credit_ns, &rule.priority,
			       &rule.classid, &kind);
			add_class(&rule, kind);
			break;
		case 'v':
			if (sscanf(line + 1, "%u %llu %llu", &class, &a, &b) ==
				    3 &&
			    class < count &&
			    a < queues[class].kind->params_count)
				params(class)[a] = b;
			break;
		case 'b':
			other = count - 1;
			settle();
			break;
		case 'q':
			quiet = 1;
			break;
		case 'a':
			sscanf(line + 1, "%llu %u %u %u %u %u", &a, &packet.len,
			       &packet.flow, &packet.ecn, &random, &class);
			now_ns = 1000000000 + a > now_ns ? 1000000000 + a :
							   now_ns;
			arrive(class, &packet, random);
			break;
		case 'd':
			sscanf(line + 1, "%llu", &a);
			now_ns = 1000000000 + a > now_ns ? 1000000000 + a :
							   now_ns;
			depart(&opens);
			break;
		case 's':
			show();
			break;
		case 'z':
			quiet = 1;
			drain();
			break;
		}
	}
	fflush(stdout);
	return 0;
}
#endif
