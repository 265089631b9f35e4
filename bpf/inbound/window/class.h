/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds a receiver's class from the packets that it sends, and with it the slot
 * whose rate it shares.
 */
#ifndef INBOUND_WINDOW_CLASS_H
#define INBOUND_WINDOW_CLASS_H

#include "tc.h"
#include "window/state.h"

/* Returns the slot of a class. Global, so that the verifier checks the loop
 * once. */
__noinline u32 window_slot_of(u32 class)
{
	u32 key = 0;
	struct window_settings *wanted = bpf_map_lookup_elem(&settings, &key);
	u32 i;

	if (!wanted)
		return 0;
	for (i = 0; i < WINDOW_CLASSES; i++) {
		if (i < wanted->class_count &&
		    wanted->classes[i].class == class)
			return i + 1;
	}
	return 0;
}

/* Updates mark, class and slot of a receiver from a packet that it sends. */
static __always_inline void window_sort(struct __sk_buff *skb,
					const struct window_settings *wanted,
					struct window_receiver *receiver)
{
	u32 class = skb->priority;
	int spared = wanted->spare_mask &&
		     (skb->mark & wanted->spare_mask) == wanted->spare_mark;

	receiver->spared &= ~SPARED_OUT;
	if (spared)
		receiver->spared |= SPARED_OUT;
	if (class && class != wanted->ack_class)
		receiver->class = class;
	/* Look it up each time: the configuration of classes may have
	 * changed. */
	receiver->slot = window_slot_of(receiver->class);
}

#endif
