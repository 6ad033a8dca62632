/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How far two samples are apart. Plain functions of numbers; NaN where undefined. */
#ifndef SIM_VALIDATE_STATS_H
#define SIM_VALIDATE_STATS_H

#include "base/hist.h"

/* Largest difference of the empirical distribution functions of two sorted samples; ties count at
 * once. NaN if one is empty. */
double stats_ks(const int64_t *a, size_t na, const int64_t *b, size_t nb);
/* The same of two histograms, by bins. */
double stats_ks_hist(const struct base_hist *a, const struct base_hist *b);

/* Pearson's correlation of x[i] and y[i]; NaN for fewer than two pairs, or where a side does not
 * vary. */
double stats_correlation(const int64_t *x, const int64_t *y, size_t n);
/* Mean of (y[i] - x[i]) / x[i] over the pairs with x[i] > 0; NaN if there are none. */
double stats_bias(const int64_t *x, const int64_t *y, size_t n);
/* Mean of |y[i] - x[i]| / x[i], likewise. */
double stats_error(const int64_t *x, const int64_t *y, size_t n);
/* NaN for n = 0. The sum is exact. */
double stats_mean(const int64_t *x, size_t n);

#endif
