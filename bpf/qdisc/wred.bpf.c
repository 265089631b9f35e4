// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The qdisc weir_wred: aqm/wred.c in the kernel. */
#include "wred.c"

#define AQM_NAME wred
#define AQM_TABLE WRED
#include "qdisc.bpf.h"
