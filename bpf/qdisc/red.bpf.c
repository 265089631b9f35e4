// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The qdisc weir_red: aqm/red.c in the kernel. */
#include "red.c"

#define AQM_NAME red
#define AQM_TABLE RED
#include "qdisc.bpf.h"
