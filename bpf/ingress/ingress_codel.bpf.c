// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* aqm/codel.c for arriving packets, which wait nowhere. */
#include "codel.c"

#define AQM_NAME codel
#include "ingress.bpf.h"
