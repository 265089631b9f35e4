// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The unwinder functions that Rust's standard library needs, for a program
 * without unwind tables. The program aborts on panic, so only backtraces are
 * requested, and they are empty. gcc's unwinder aborts if its caller has no
 * table (uw_init_context_1, libgcc/unwind-dw2.c). So an error that captures a
 * backtrace would end the program.
 */

/* _URC_END_OF_STACK of the Itanium C++ ABI, exception handling, 1.1. */
#define END_OF_STACK 5

int _Unwind_Backtrace(void *each_frame, void *argument)
{
	(void)each_frame;
	(void)argument;
	return END_OF_STACK;
}

/* Never called, because there are no frames. */
unsigned long _Unwind_GetIP(void *frame)
{
	(void)frame;
	return 0;
}

unsigned long _Unwind_GetCFA(void *frame)
{
	(void)frame;
	return 0;
}

void *_Unwind_FindEnclosingFunction(void *address)
{
	return address;
}
