// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Receive-window control that finds hosts behind address translation. It needs
 * the kernel's type information, which window.bpf.c alone does not. */
#define WINDOW_TRANSLATED
#include "window.bpf.c"
