// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The qdisc weir_pie: aqm/pie.c in the kernel. */
#include "pie.c"

#define AQM_NAME pie
#define AQM_TABLE PIE
#include "qdisc.bpf.h"
