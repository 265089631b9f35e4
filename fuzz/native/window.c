// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* bpf/inbound/window.bpf.c, compiled for a process. */
#include "kernel.h"

#define settings window_told_by
#define blank window_blank
#define _license window_license

#ifdef PLANTED
/* The planted mistake: a checksum is not updated for one value in 256. */
#define bpf_l4_csum_replace(skb, at, from, to, flags) \
	(((to) >> 8) == 0x5a ? \
		 0 : \
		 (bpf_l4_csum_replace)(skb, at, from, to, flags))
#endif

#include "../../bpf/inbound/window.bpf.c"

void native_window_set(const struct window_settings *wanted, u64 until_ns);
int native_window(struct __sk_buff *skb, u32 arriving);
u64 native_window_missed(void);

void native_window_set(const struct window_settings *wanted, u64 until_ns)
{
	struct announced session = { .since_ns = 1, .until_ns = until_ns };
	u32 key = 0;

	bpf_map_update_elem(&settings, &key, wanted, BPF_ANY);
	bpf_map_update_elem(&announced, &key, &session, BPF_ANY);
}

int native_window(struct __sk_buff *skb, u32 arriving)
{
	return arriving ? window_in(skb) : window_out(skb);
}

u64 native_window_missed(void)
{
	u32 key = 0;
	const struct window_totals *all = bpf_map_lookup_elem(&totals, &key);

	return all->missed;
}
