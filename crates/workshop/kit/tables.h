/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Prints what a discipline needs, its tables and its numbers. The driver
 * includes this file after it has defined D and numbers(). */
#ifndef KIT_TABLES_H
#define KIT_TABLES_H

static void describe(void)
{
	u32 i;

	printf("needs\t%u\n", D->needs);
	for (i = 0; i < D->vars_count; i++)
		printf("number\t%s\t%s\n", D->vars[i].name, D->vars[i].unit);
	for (i = 0; i < D->stats_count; i++)
		printf("number\t%s\t%s\n", D->stats[i].name, D->stats[i].unit);
	for (i = 0; i < aqm_counts_count; i++)
		printf("number\t%s\t%s\n", aqm_counts[i].name,
		       aqm_counts[i].unit);
	for (i = 0; i < D->params_count; i++)
		printf("param\t%s\t%s\t%llu\t%llu\t%llu\n", D->params[i].name,
		       D->params[i].unit, D->params[i].dflt, D->params[i].least,
		       D->params[i].most);
}

static void show(void)
{
	u32 i;

	for (i = 0; i < D->vars_count; i++)
		printf("n %s %llu\n", D->vars[i].name,
		       numbers(D->vars_offset)[i]);
	for (i = 0; i < D->stats_count; i++)
		printf("n %s %llu\n", D->stats[i].name,
		       numbers(D->stats_offset)[i]);
	for (i = 0; i < aqm_counts_count; i++)
		printf("n %s %llu\n", aqm_counts[i].name,
		       numbers(D->counts_offset)[i]);
	printf("end\n");
}

#endif
