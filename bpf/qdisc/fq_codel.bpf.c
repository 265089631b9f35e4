// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The qdisc weir_fq_codel: aqm/fq_codel.c in the kernel. */
#include "fq_codel.c"

#define AQM_NAME fq_codel
#define AQM_TABLE FQ_CODEL
#include "qdisc.bpf.h"
