// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* aqm/pie.c for arriving packets, which wait nowhere. */
#include "pie.c"

#define AQM_NAME pie
#include "ingress.bpf.h"
