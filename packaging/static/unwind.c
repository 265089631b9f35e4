// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * What Rust's standard library asks of an unwinder, for a program without tables for
 * unwinding. It aborts where it panics, so that all it asks for is a backtrace, and no frame
 * is known. gcc's unwinder aborts where its caller has no table (uw_init_context_1,
 * libgcc/unwind-dw2.c), and an error that notes where it came from would end the program.
 */

/* _URC_END_OF_STACK of the Itanium C++ ABI, exception handling, 1.1. */
#define END_OF_STACK 5

int _Unwind_Backtrace(void *each_frame, void *argument)
{
	(void)each_frame;
	(void)argument;
	return END_OF_STACK;
}

/* Of a frame, which there is none of. */
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
