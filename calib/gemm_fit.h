/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * GEMM times by shape: measured where the table has it, else near the law
 *
 *   max(flops / F, bytes / B) + c,   flops = 2 m n k, bytes = those of both inputs and the output
 *
 * of which F, B and c are fitted to the table.
 */
#ifndef CALIB_GEMM_FIT_H
#define CALIB_GEMM_FIT_H

#include "calib/surface.h"
#include "calib/tables.h"

/* F and B in operations and bytes a ps, c in ps. */
struct gemm_law {
  double flops, bytes, fixed;
  int element; /* bytes of an element of both inputs; the output is bf16 */
};
/* x: k, n, m. */
double gemm_law_ps(const void *law, const int64_t *x);

struct gemm_fit {
  struct gemm_law law;
  struct surface s;
};

/*
 * Fits the rows of a type (enum table_dtype) by the sum of absolute relative errors, of rows with n
 * and k of 1,024 and more if there are any: those rule a model's time, and small ones are all
 * launch. `element`: bytes of an element of the inputs. r[4] (may be NULL): errors of every fifth
 * row of these from the others, named NAME and its halves by time, and of every fifth shape. f need
 * not be initialised; gemm_fit_free it also after a failure.
 */
int gemm_fit_make(struct gemm_fit *f, const struct gemm_table *t, int dtype, int element,
                  const char *name, struct calibration_residual *r, struct base_error *e);
/* Time of (m x k) times (k x n), ps; -1 if the table has nothing near. */
int64_t gemm_fit_ps(const struct gemm_fit *f, int64_t m, int64_t n, int64_t k);
void gemm_fit_free(struct gemm_fit *f);

#endif
