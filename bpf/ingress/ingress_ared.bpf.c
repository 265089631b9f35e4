// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* aqm/ared.c for arriving packets, which wait nowhere. */
#include "ared.c"

#define AQM_NAME ared
#include "ingress.bpf.h"
