// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The qdisc weir_codel: aqm/codel.c in the kernel. */
#include "codel.c"

#define AQM_NAME codel
#define AQM_TABLE CODEL
#include "qdisc.bpf.h"
