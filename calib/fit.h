/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From measured samples to the curves of a calibration, and how well these meet what was held out.
 *
 * Every fifth sample is held out, in the order in which they are given; the curves that are kept
 * use all samples.
 */
#ifndef CALIB_FIT_H
#define CALIB_FIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "calib/tables.h"
#include "models/calibration.h"

/* Relative errors of held-out samples. */
struct fit_errors {
  int64_t *ppb; /* owned: parts of 10^9 */
  size_t n, samples;
};
int fit_errors_init(struct fit_errors *f, size_t max);
void fit_errors_add(struct fit_errors *f, int64_t predicted, int64_t measured);
/* Sorts, summarises and frees. */
void fit_errors_close(struct fit_errors *f, const char *curve, struct calibration_residual *r);

/* Errors of all, of the small and of the large (by time) of what was held out. */
struct fit_thirds {
  struct fit_errors f[3];
};
/* Room for `max` errors; -1 when out of memory, with nothing left to free. */
int fit_thirds_init(struct fit_thirds *t, size_t max);
/* Summarises into r[3], named NAME, "small NAME", "large NAME", and frees. */
void fit_thirds_close(struct fit_thirds *t, const char *name, struct calibration_residual *r);
void fit_thirds_free(struct fit_thirds *t);

/* Held-out knots of a curve, each predicted from its two neighbours. */
int fit_curve_errors(const struct calibration_curve *v, const char *name,
                     struct calibration_residual *r, struct base_error *e);

/*
 * Decode attention over (rows, context) from samples of one new token: values made not to fall
 * with the context (pooled where they do: noise of flat parts), then extended beyond the longest
 * context measured at a row count on the line through its last two. Residuals: held-out cells,
 * predicted over the context.
 */
int fit_decode(const struct attention_table *t, struct calibration_grid *g,
               struct calibration_residual *r, struct base_error *e);

/*
 * Prefill attention: time = curve(attended pairs) + tokens * token_fs, the curve piecewise linear
 * and not falling; robust least squares of relative errors.
 */
int fit_prefill(const struct attention_table *t, struct calibration_curve *curve, int64_t *token_fs,
                struct calibration_residual *r, struct base_error *e);

#endif
