/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which class a receiver is of, by what leaves of its connection, and so whose rate
 * it shares.
 */
#ifndef INBOUND_WINDOW_CLASS_H
#define INBOUND_WINDOW_CLASS_H

#include "tc.h"
#include "window/state.h"

/* Whose rate a connection shares, by the class of a packet that leaves. Global,
 * so that the verifier looks at the loop by itself. */
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

/* What a packet that leaves says of its sender besides. */
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
	/* Each time, because the configuration of classes may have changed. */
	receiver->slot = window_slot_of(receiver->class);
}

#endif
