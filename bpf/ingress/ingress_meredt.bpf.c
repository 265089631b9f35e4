// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* aqm/meredt.c for arriving packets, which wait nowhere. */
#include "meredt.c"

#define AQM_NAME meredt
#include "ingress.bpf.h"
