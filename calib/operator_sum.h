/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sums over operators that were measured one by one, each at token counts of its own. */
#ifndef CALIB_OPERATOR_SUM_H
#define CALIB_OPERATOR_SUM_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "calib/operators.h"

struct calibration_curve;

/* An operator's rows in a table that is sorted by (op, x). */
struct operator_span {
  const struct operator_row *row;
  size_t n;
};
struct operator_span operator_rows(const struct operator_row *row, size_t n, int op);

/*
 * Fills *v (zeroed) with the sum of operators 0 to nops - 1, each times[op] times, at every x at
 * which any of the rows is: linear between an operator's rows, the nearest outside.
 */
int operator_sum(struct calibration_curve *v, const struct operator_row *row, size_t n,
                 const int64_t *times, size_t nops, struct base_error *e);

/*
 * Makes steps of a curve over tokens: between two token counts at most 16 apart, time is that of the
 * larger. Matrix kernels work on whole tiles of 16 rows or more, and the engine pads batches that it
 * replays from a graph, so what lies between costs as the next multiple does. Where fewer sizes were
 * measured a tile's end may lie anywhere between, and the line stays.
 */
int operator_plateaus(struct calibration_curve *v, struct base_error *e);

#endif
