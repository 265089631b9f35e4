// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The qdisc weir_mered: aqm/mered.c in the kernel. */
#include "mered.c"

#define AQM_NAME mered
#define AQM_TABLE MERED
#include "qdisc.bpf.h"
