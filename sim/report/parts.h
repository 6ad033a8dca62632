/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The parts of the table beside the metrics: each prints a paragraph or a small table. */
#ifndef SIM_REPORT_PARTS_H
#define SIM_REPORT_PARTS_H

#include <stdio.h>

#include "sim/experiment.h"

/* The published figure of an arm and metric, in the metric's unit; NaN: none. */
double parts_reference(const struct scenario *s, uint32_t arm, int metric);
/* What all references are called; "the reference" if they differ or have no name. */
const char *parts_source(const struct scenario *s);
/* "set", "fitted", "inferred", "assumed". */
const char *parts_origin(int origin);

/* What was run: scenario, machine, costs and their held-out errors, seeds. validates: in lull
 * validate, where costs are those of the simulation beside it. */
void parts_opening(const struct experiment *x, int validates, FILE *out);
/* How the headline ratio may be read: consistent with a reference, or predicted. */
void parts_headline(const struct experiment *x, FILE *out);
/* Gates: requirement, measured, outcome, reason. */
void parts_gates(const struct experiment *x, FILE *out);
/* Seeds one by one, and the interval of the ratio over them. */
void parts_seeds(const struct experiment *x, FILE *out);
/* What background jobs did, where there are any. */
void parts_jobs(const struct experiment *x, FILE *out);
/* The ledger's accounts. */
void parts_accounts(const struct experiment *x, FILE *out);

/* Kinds of lookups outside the measured range with their steps, "rows 12, context below 3", cut at
 * size; empty if there are none. */
void parts_misses(const struct cost_misses *m, char *buf, size_t size);

#endif
