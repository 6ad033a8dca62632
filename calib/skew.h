/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Batches of uneven contexts: a share of the way from the time of an even batch of their mean to
 * that of an even batch of their longest, by the number of rows.
 */
#ifndef CALIB_SKEW_H
#define CALIB_SKEW_H

#include <stddef.h>

#include "base/error.h"
#include "calib/operators.h"
#include "models/calibration.h"

/*
 * The share at each measured number of rows: the weighted median of (t_skew - t_mean) / (t_max -
 * t_mean), weights |t_max - t_mean| / t_skew, within 0 to 1; this minimises the sum of absolute
 * relative errors. mixed: rows with a chunk, else those without.
 * r[2]: held-out errors with the share and, for comparison, of the mean alone.
 */
int skew_fit(const struct operators_skew_row *row, size_t n, int mixed, struct calibration_curve *v,
             struct calibration_residual *r, struct base_error *e);

#endif
