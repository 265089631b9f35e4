// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* aqm/meredt.c in its ingress program (bpf/ingress/ingress.bpf.h), compiled for
 * a process. */
#include "kernel.h"

#define settings filter_told_by
#define _license filter_license

#include "meredt.c"

#define AQM_NAME meredt
#include "ingress.bpf.h"

void native_filter_set(const struct aqm_link *link,
		       const struct meredt_params *params);

void native_filter_set(const struct aqm_link *link,
		       const struct meredt_params *params)
{
	struct filter_settings wanted = { .head.link = *link,
					  .head.parts = AQM_CONNECTION,
					  .params = *params };
	u32 key = 0, one = 1;

	bpf_map_update_elem(&settings, &key, &wanted, BPF_ANY);
	bpf_map_update_elem(&changes, &key, &one, BPF_ANY);
}
