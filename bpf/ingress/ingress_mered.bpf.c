// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* aqm/mered.c for arriving packets, which wait nowhere. */
#include "mered.c"

#define AQM_NAME mered
#include "ingress.bpf.h"
