// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* aqm/fuzzy.c for arriving packets, which wait nowhere. */
#include "fuzzy.c"

#define AQM_NAME fuzzy
#include "ingress.bpf.h"
