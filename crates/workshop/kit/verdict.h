/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Checks a discipline's verdict. The driver includes this file after it has
 * defined D and broken().
 */
#ifndef KIT_VERDICT_H
#define KIT_VERDICT_H

/* In the kernel, a mark for a packet that is not ECN-capable would be put on
 * another packet, or on none. */
static void check_verdict(const char *function, u32 ecn,
			  const struct aqm_verdict *verdict)
{
	if (verdict->reason >= AQM_REASON_COUNT)
		broken(function, "gives a reason that there is not");
	if (verdict->action == AQM_MARK &&
	    (!(D->needs & AQM_NEEDS_ECN) || ecn == AQM_NOT_ECT))
		broken(function,
		       "marks a packet whose sender does not understand marks");
}

#endif
