// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The qdisc weir_meredt: aqm/meredt.c in the kernel. */
#include "meredt.c"

#define AQM_NAME meredt
#define AQM_TABLE MEREDT
#include "qdisc.bpf.h"
