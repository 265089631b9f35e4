// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The qdisc weir_ared: aqm/ared.c in the kernel. */
#include "ared.c"

#define AQM_NAME ared
#define AQM_TABLE ARED
#include "qdisc.bpf.h"
