// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* aqm/droptail.c for arriving packets, which wait nowhere. */
#include "droptail.c"

#define AQM_NAME droptail
#include "ingress.bpf.h"
