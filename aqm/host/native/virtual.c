// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The native host of the virtual queue, on an instance that the library holds
 * as plain memory. */
#include "meredt.c"

#define AQM_NAME meredt
#define aqm_slot(q, i) native_slot(q, i)

struct aqm_slot;
static struct aqm_slot *native_slot(void *q, u32 index);

#include "queue.h"
#include "virtual.h"
#include "native.h"

static struct aqm_slot *native_slot(void *q, u32 index)
{
	return NULL;
}

extern const u32 aqm_virtual_size, aqm_virtual_instance;
void aqm_virtual_setup(void *memory, const struct aqm_link *link, u64 now_ns);
void aqm_virtual_arrive(void *memory, const struct aqm_packet *packet,
			u32 random, struct aqm_verdict *verdict);
void aqm_virtual_count(void *memory, const struct aqm_packet *packet);

const u32 aqm_virtual_size = sizeof(struct virtual_queue);
const u32 aqm_virtual_instance = __builtin_offsetof(struct virtual_queue, q);

void aqm_virtual_setup(void *memory, const struct aqm_link *link, u64 now_ns)
{
	virtual_setup(memory, link, now_ns);
}

void aqm_virtual_arrive(void *memory, const struct aqm_packet *packet,
			u32 random, struct aqm_verdict *verdict)
{
	*verdict = virtual_arrive(memory, packet,
				  virtual_now(memory, packet->arrived_ns),
				  random);
}

void aqm_virtual_count(void *memory, const struct aqm_packet *packet)
{
	virtual_count(memory, packet, virtual_now(memory, packet->arrived_ns));
}
