// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* aqm/drt.c for arriving packets, which wait nowhere. */
#include "drt.c"

#define AQM_NAME drt
#include "ingress.bpf.h"
