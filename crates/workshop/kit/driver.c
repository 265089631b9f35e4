// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Runs one discipline as an ordinary program, for `weirgate aqm test` and
 * `fuzz`. It reads calls line by line, or bytes of a fuzzer, and makes them. It
 * checks that no packet is lost, duplicated or held forever.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#undef NULL
#include "aqm.h"
#include "native.h"

#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)

extern const struct aqm_descriptor PASTE(aqm_descriptor_, AQM_NAME);
extern const struct aqm_row aqm_reasons[], aqm_counts[];
extern const u32 aqm_reasons_count, aqm_counts_count;

/* The values passed for inputs that the discipline does not declare; 0 in the
 * kernel. */
extern struct aqm_unasked {
	u32 random, flow, ecn;
} aqm_unasked;
struct aqm_unasked aqm_unasked;
struct aqm_packet aqm_given;
int aqm_written;

#define D (&PASTE(aqm_descriptor_, AQM_NAME))

/* Bytes of the guards between the parts of an instance, which nothing may
 * access. */
#define FENCE (AQM_FENCED * sizeof(u64))
extern const u32 aqm_fences[5];

#ifdef __has_feature
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
void __asan_poison_memory_region(const void *from, size_t bytes);
void __asan_unpoison_memory_region(const void *from, size_t bytes);
#else
#error "this driver is built with AddressSanitizer"
#endif

/* The same as struct aqm_slot, which only the template queue.h defines. */
struct slot {
	struct aqm_packet packet;
	u32 next;
	u32 pad;
};

static unsigned char *memory;
/* Copies of link and parameters, to which no discipline may write. */
static unsigned char *inputs;
static unsigned char *used;
/* A virtual queue that gets the same packets; NULL if the discipline tracks
 * waiting packets. */
static unsigned char *at_ingress;
static u32 queued;
static u64 last_ns;
static u64 free_ns;
/* The random bits of a departure, if a script gives them. */
static const u32 *out_random;
static int quiet;

/* Reports a broken rule and aborts. */
static void broken(const char *function, const char *what)
{
	fflush(stdout);
	fprintf(stderr, "broken %s %s\n", function, what);
	abort();
}

#include "watch.h"
#include "verdict.h"

/* Returns random bits for a departure. */
static u32 word(void)
{
	static u64 state = 1;

	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (u32)(state >> 32);
}

static u64 *numbers(u32 offset)
{
	return (u64 *)(memory + offset);
}

static struct aqm_link *the_link(void)
{
	return (struct aqm_link *)(memory + D->link_offset);
}

static struct slot *the_slot(u32 index)
{
	return (struct slot *)(memory + D->size) + (index - 1);
}

static void fence(void (*how)(const void *, size_t))
{
	u32 i;

	for (i = 0; memory && i < sizeof(aqm_fences) / sizeof(aqm_fences[0]);
	     i++) {
		how(memory + aqm_fences[i], FENCE);
		if (at_ingress)
			how(at_ingress + D->virtual_offset + aqm_fences[i],
			    FENCE);
	}
}

static size_t params_bytes(void)
{
	return D->params_count * sizeof(u64);
}

static void set_up(void)
{
	memcpy(inputs, the_link(), sizeof(struct aqm_link));
	memcpy(inputs + sizeof(struct aqm_link), numbers(D->params_offset),
	       params_bytes());
	call("setup");
	D->setup(memory);
	if (at_ingress) {
		memcpy(at_ingress + D->virtual_offset + D->params_offset,
		       numbers(D->params_offset), params_bytes());
		D->virtual_setup(at_ingress, the_link(), last_ns);
	}
}

static void check_inputs(const char *function)
{
	if (memcmp(inputs, the_link(), sizeof(struct aqm_link)))
		broken(function, "writes to the link, which it may only read");
	if (memcmp(inputs + sizeof(struct aqm_link), numbers(D->params_offset),
		   params_bytes()))
		broken(function,
		       "writes to the parameters, which it may only read");
}

static void restart(void)
{
	u32 i;

	fence(__asan_unpoison_memory_region);
	free(memory);
	free(at_ingress);
	free(used);
	free(inputs);
	memory = calloc(1, D->size + (size_t)D->packets * sizeof(struct slot));
	used = calloc(1, D->packets + 1);
	inputs = calloc(1, sizeof(struct aqm_link) + params_bytes());
	at_ingress = D->needs & AQM_NEEDS_QUEUE ? NULL :
						  calloc(1, D->virtual_size);
	if (!memory || !used || !inputs ||
	    (!at_ingress && !(D->needs & AQM_NEEDS_QUEUE)))
		exit(3);
	fence(__asan_poison_memory_region);
	queued = 0;
	last_ns = 0;
	free_ns = 0;
	for (i = 0; i < D->params_count; i++)
		numbers(D->params_offset)[i] = D->params[i].dflt;
	the_link()->mtu_bytes = 1514;
	the_link()->queue_packets = 1000;
	the_link()->rate_bytes_s = 125000;
	the_link()->room_packets = D->packets - 1;
}

static void take(u32 slot, const char *function)
{
	if (slot > D->packets)
		broken(function, "gives a slot that there is not");
	if (!used[slot])
		broken(function, "gives a packet that is not queued");
	used[slot] = 0;
	queued--;
}

static void check_count(const char *function)
{
	static u32 at = ~0U; /* the index of queued_packets, found once */
	u32 i;

	for (i = 0; at == ~0U && i < aqm_counts_count; i++)
		if (!strcmp(aqm_counts[i].name, "queued_packets"))
			at = i;
	if (numbers(D->counts_offset)[at] != queued)
		broken(function, "loses count of what is queued");
}

/* Passes the same packet to the virtual queue. */
static void arrive_at_ingress(const struct aqm_packet *packet, u32 random)
{
	struct aqm_verdict verdict = {};

	if (!at_ingress)
		return;
	if (!(random & 63)) /* a measurement of the far end's queue */
		D->virtual_measured(at_ingress, random, packet->arrived_ns);
	call("arrive");
	D->virtual_arrive(at_ingress, packet, random, &verdict);
	if (aqm_written)
		broken("arrive", "writes to the packet, which is const");
	if (memcmp(inputs + sizeof(struct aqm_link),
		   at_ingress + D->virtual_offset + D->params_offset,
		   params_bytes()))
		broken("arrive",
		       "writes to the parameters, which it may only read");
	if (verdict.action > AQM_DROP)
		broken("arrive", "answers with neither pass, mark nor drop");
	check_verdict("arrive", packet->ecn, &verdict);
}

static void arrive(const struct aqm_packet *packet, u32 random)
{
	struct aqm_verdict verdict = {};
	u32 slot, i;

	call("arrive");
	slot = D->arrive(memory, packet, random, &verdict);
	check_inputs("arrive");
	if (aqm_written)
		broken("arrive", "writes to the packet, which is const");
	if (verdict.action != AQM_PASS && verdict.action != AQM_MARK &&
	    verdict.action != AQM_DROP)
		broken("arrive", "answers with neither pass, mark nor drop");
	if (slot) {
		if (slot > D->packets || used[slot])
			broken("arrive", "is given a slot that is taken");
		used[slot] = 1;
		queued++;
	} else if (verdict.action != AQM_DROP) {
		broken("arrive", "names a queue that there is not");
	}
	check_verdict("arrive", packet->ecn, &verdict);
	if (!quiet)
		printf("a %u %s\n", slot ? verdict.action : AQM_DROP,
		       aqm_reasons[verdict.reason].name);
#ifdef PLANTED
	/* A possible mistake of a discipline: a write beyond its state. */
	if (slot && queued > 8 && (packet->len & 0xff) == 0x5a)
		numbers(D->vars_offset)[D->vars_size / sizeof(u64)] = 1;
#endif
	for (i = 0; slot && verdict.evict && i < 65; i++) {
		u32 gone;

		call("evict");
		gone = D->evict(memory, packet->arrived_ns);
		check_inputs("evict");
		if (!gone)
			break;
		take(gone, "evict");
		if (!quiet)
			printf("e\n");
	}
	check_count("arrive");
	arrive_at_ingress(packet, random);
}

/* Makes one request for a packet. Returns the bytes sent on the wire, or 0. */
static u32 depart(u64 now_ns)
{
	u32 rounds = 4 * (D->packets + D->queues) + 4;
	struct aqm_verdict verdict = {};
	u32 slot, wire, ecn;

	while (rounds--) {
		call("depart");
		slot = D->depart(memory, now_ns,
				 out_random ? *out_random : word(), &verdict);
		check_inputs("depart");
		if (verdict.action > AQM_AGAIN)
			broken("depart", "gives an action that there is not");
		if (!slot) {
			if (verdict.action == AQM_AGAIN)
				continue;
			if (!quiet)
				printf("d none\n");
			return 0;
		}
		wire = slot <= D->packets ? the_slot(slot)->packet.wire : 0;
		ecn = slot <= D->packets ? the_slot(slot)->packet.ecn : 0;
		take(slot, "depart");
		check_verdict("depart", ecn, &verdict);
		check_count("depart");
		if (!quiet)
			printf("d %u %s\n", verdict.action,
			       aqm_reasons[verdict.reason].name);
		if (verdict.action != AQM_DROP)
			return wire ? wire : 1;
	}
	broken("choose", "never comes to an end");
	return 0;
}

/* Sends packets at the link's rate until now. */
static void drain_until(u64 now_ns)
{
	while (free_ns <= now_ns && queued) {
		u32 wire = depart(free_ns);

		if (!wire)
			break;
		free_ns += wire * 1000000000ULL /
			   (the_link()->rate_bytes_s ?
				    the_link()->rate_bytes_s :
				    1);
	}
	if (free_ns < now_ns) {
		/* Nothing is queued, and the line is free. */
		depart(free_ns);
		free_ns = now_ns;
	}
}

/* Checks that all queued packets leave if they are requested for long
 * enough. */
static void drain(void)
{
	u64 now = last_ns > free_ns ? last_ns : free_ns;
	u32 idle = 0;

	while (queued) {
		if (depart(now))
			idle = 0;
		else if (++idle > 1000)
			broken("choose",
			       "keeps packets for ever: they are never sent");
		/* Double the steps while nothing is sent, up to 1000 s: packets
		 * may be held until a time. */
		now += 1000000ULL << (idle < 20 ? idle : 20);
	}
}

#include "tables.h"

/* Reads a link from five bytes, or keeps that of restart(). */
static const unsigned char *some_link(const unsigned char *data, size_t size)
{
	if (size < 5)
		return data + size;
	the_link()->framing = data[0] % 3;
	/* 0: unknown. */
	the_link()->rate_bytes_s = data[1] % 35 ? 1ULL << data[1] % 35 : 0;
	the_link()->mtu_bytes = 64 + data[2] * data[2];
	the_link()->overhead_bytes = (s32)(data[3] % 100) - 20;
	the_link()->mpu_bytes = data[4];
	return data + 5;
}

/* Makes calls from bytes: first the link and parameters, then packets,
 * departures and changes. */
static void fuzzed(const unsigned char *data, size_t size)
{
	struct aqm_packet packet = {};
	const unsigned char *end = data + size;
	u64 random = 1;
	u32 i;

	quiet = 1;
	restart();
	data = some_link(data, size);
	for (i = 0; i < D->params_count && data < end; i++) {
		const struct aqm_row *row = &D->params[i];
		u32 choice = *data++;

		if (choice < 200)
			continue;
		numbers(D->params_offset)[i] =
			choice < 205 ? row->least :
			choice < 210 ? row->most :
				       row->least + (row->most - row->least) /
							    46 * (choice - 210);
	}
	set_up();
	check_inputs("setup");
	while (end - data >= 4) {
		u64 wait = data[1];

		last_ns += wait * wait * wait * 100;
		random = random * 6364136223846793005ULL + data[2] + 1;
		if (data[0] < 150) {
			packet.arrived_ns = last_ns;
			packet.len = 40 + data[2] * 6 + (data[3] & 7) * 1500;
			packet.len = data[3] & 128 ? data[2] | 0x500 :
						     packet.len;
			packet.wire = aqm_wire(the_link(), packet.len);
			packet.flow = (data[3] >> 3 & 15) * 0x9e3779b9U;
			packet.ecn = data[0] & 3;
			arrive(&packet, (u32)(random >> 32));
		} else if (data[0] < 250) {
			depart(last_ns);
		} else {
			if (data[0] & 1)
				some_link(data, (size_t)(end - data));
			set_up();
			check_inputs("setup");
		}
		data += 4;
	}
	drain();
}

#include "fuzzed.h"

#ifdef LIBFUZZER
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	watch();
	return 0;
}
#else
int main(int argc, char **argv)
{
	char line[256], name[64];
	struct aqm_packet packet = {};
	unsigned long long a, b;
	u32 random;

	watch();
	if (argc > 1) {
		blind((u32)atoi(argv[1]));
		return 0;
	}
	restart();
	while (fgets(line, sizeof(line), stdin)) {
		switch (line[0]) {
		case '?':
			describe();
			break;
		case 'l':
			sscanf(line + 1, "%llu %u %d %u %u",
			       &the_link()->rate_bytes_s,
			       &the_link()->mtu_bytes,
			       &the_link()->overhead_bytes,
			       &the_link()->mpu_bytes, &the_link()->framing);
			break;
		case 'v':
			if (sscanf(line + 1, "%llu %llu", &a, &b) == 2 &&
			    a < D->params_count)
				numbers(D->params_offset)[a] = b;
			break;
		case 'b':
			set_up();
			check_inputs("setup");
			break;
		case 'q':
			quiet = 1;
			break;
		case 'a':
		case 'p':
			sscanf(line + 1, "%llu %u %u %u %u", &packet.arrived_ns,
			       &packet.len, &packet.flow, &packet.ecn, &random);
			if (packet.arrived_ns < last_ns)
				packet.arrived_ns = last_ns;
			last_ns = packet.arrived_ns;
			packet.wire = aqm_wire(the_link(), packet.len);
			if (line[0] == 'p')
				drain_until(last_ns);
			arrive(&packet, random);
			break;
		case 'u':
			sscanf(line + 1, "%u %u %u", &aqm_unasked.random,
			       &aqm_unasked.flow, &aqm_unasked.ecn);
			break;
		case 'd':
			out_random = sscanf(line + 1, "%llu %u", &a, &random) ==
						     2 ?
					     &random :
					     NULL;
			last_ns = a > last_ns ? a : last_ns;
			depart(last_ns);
			out_random = NULL;
			break;
		case 's':
			show();
			break;
		case 'z':
			sscanf(line + 1, "%63s", name);
			quiet = 1;
			drain();
			break;
		}
	}
	fflush(stdout);
	return 0;
}
#endif
