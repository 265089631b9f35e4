// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The qdisc weir_drt: aqm/drt.c in the kernel. */
#include "drt.c"

#define AQM_NAME drt
#define AQM_TABLE DRT
#include "qdisc.bpf.h"
