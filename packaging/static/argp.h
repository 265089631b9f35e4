/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Declarations of argp that elfutils' headers need and musl lacks. libelf calls
 * none of these functions. Code that would call them is compiled but dropped by
 * the linker.
 */
#ifndef _ARGP_H
#define _ARGP_H

#include <errno.h>
#include <stdio.h>

typedef int error_t;

struct argp_option {
	const char *name;
	int key;
	const char *arg;
	int flags;
	const char *doc;
	int group;
};

struct argp_state {
	void *input;
	const char *name;
	int flags;
};

struct argp {
	const struct argp_option *options;
	error_t (*parser)(int key, char *arg, struct argp_state *state);
	const char *args_doc;
	const char *doc;
	const void *children;
	void *help_filter;
	const char *argp_domain;
};

#define ARGP_ERR_UNKNOWN E2BIG
#define OPTION_ARG_OPTIONAL 1
#define ARGP_KEY_INIT 0x1000003
#define ARGP_HELP_SEE 4
#define ARGP_HELP_EXIT_ERR 0x100

error_t argp_parse(const struct argp *argp, int argc, char **argv, unsigned int flags,
		   int *index, void *input);
void argp_help(const struct argp *argp, FILE *stream, unsigned int flags, char *name);
void argp_error(const struct argp_state *state, const char *format, ...);
void argp_state_help(const struct argp_state *state, FILE *stream, unsigned int flags);

#endif
