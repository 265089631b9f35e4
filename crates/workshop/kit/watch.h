/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Detects a call of a discipline that never returns. The driver declares
 * broken() before it includes this file. */
#ifndef KIT_WATCH_H
#define KIT_WATCH_H

#include <signal.h>
#include <sys/time.h>

/* CPU time in seconds after which a call counts as endless. */
#define CALL_S 5

/* The current call, and the number of calls. */
static const char *calling = "";
static u64 calls;

static void call(const char *function)
{
	calling = function;
	calls++;
}

/* Runs every CALL_S seconds of CPU time. Two runs in one call mean that it is
 * endless. */
static void look(int signal)
{
	static u64 seen = ~0ULL;

	(void)signal;
	if (*calling && seen == calls)
		broken(calling, "does not come to an end");
	seen = calls;
}

static void watch(void)
{
	struct itimerval every = { .it_interval.tv_sec = CALL_S,
				   .it_value.tv_sec = CALL_S };

	signal(SIGVTALRM, look);
	setitimer(ITIMER_VIRTUAL, &every, 0);
}

#endif
