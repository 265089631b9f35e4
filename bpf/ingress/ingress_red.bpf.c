// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* aqm/red.c for arriving packets, which wait nowhere. */
#include "red.c"

#define AQM_NAME red
#include "ingress.bpf.h"
