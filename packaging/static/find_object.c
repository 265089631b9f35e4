// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * What gcc's unwinder asks glibc for and musl lacks: where the tables for unwinding are.
 * The static program has none, because it aborts where it panics.
 */
int _dl_find_object(void *address, void *result)
{
	(void)address;
	(void)result;
	return -1;
}
