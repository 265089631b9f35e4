// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The qdisc weir_fuzzy: aqm/fuzzy.c in the kernel. */
#include "fuzzy.c"

#define AQM_NAME fuzzy
#define AQM_TABLE FUZZY
#include "qdisc.bpf.h"
