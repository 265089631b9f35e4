// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* bpf/inbound/udp.bpf.c, compiled for a process. */
#include "kernel.h"

#define settings udp_told_by
#define blank udp_blank
#define _license udp_license

#include "../../bpf/inbound/udp.bpf.c"

void native_udp_set(const struct udp_rule *rule, u32 refuse_mark);

void native_udp_set(const struct udp_rule *rule, u32 refuse_mark)
{
	struct udp_settings wanted = { .rule = *rule,
				       .refuse_mark = refuse_mark };
	u32 key = 0;

	bpf_map_update_elem(&settings, &key, &wanted, BPF_ANY);
}
