// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The qdisc weir_droptail: aqm/droptail.c in the kernel. */
#include "droptail.c"

#define AQM_NAME droptail
#define AQM_TABLE DROPTAIL
#include "qdisc.bpf.h"
