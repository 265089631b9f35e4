/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a driver notices a call of a discipline that does not come to an end. The
 * driver declares broken() before it includes this file. */
#ifndef KIT_WATCH_H
#define KIT_WATCH_H

#include <signal.h>
#include <sys/time.h>

/* Processor time after which a call is taken to be without end, in seconds. */
#define CALL_S 5

/* The call that is being made, and how many were. */
static const char *calling = "";
static u64 calls;

static void call(const char *function)
{
	calling = function;
	calls++;
}

/* Comes every CALL_S seconds of processor time: twice in one call is too much. */
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
