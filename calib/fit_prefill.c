/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/fit.h"

/*
 * The model is linear: a constant, one ramp between each two knots (0 before, 1 behind, so that a
 * coefficient is the rise there), and tokens. All coefficients must be 0 or more; one that would
 * not be is taken out and the rest is fitted again.
 */
enum { KNOTS_MAX = 32, COLUMNS_MAX = KNOTS_MAX + 1, ITERATIONS = 200 };
#define FIRST_KNOT 1000 /* pairs: below, a kernel is all launch */
#define US 1e6          /* ps */

struct prefill {
  int64_t knot[KNOTS_MAX];
  size_t nknots;         /* knot[0] = 0 */
  double c[COLUMNS_MAX]; /* us: constant, rises, a thousand tokens */
};

static int64_t pairs_of(const struct attention_row *r)
{
  return r->batch * (r->isl * r->step + r->isl * (r->isl + 1) / 2);
}

static int64_t tokens_of(const struct attention_row *r)
{
  return r->batch * r->isl;
}

/* The prompts of a table. One new token a sequence is a decode row by its shape, and costs what no
 * chunk does (many sequences, no tokens). Returns how many; the array is the caller's. */
static size_t list_prompts(const struct attention_table *t, const struct attention_row **prompt)
{
  size_t n = 0;
  for (size_t i = 0; i < t->n; i++)
    if (t->row[i].isl > 1)
      prompt[n++] = &t->row[i];
  return n;
}

/* Knots: 0, and from the largest sample downward by factors of 4. */
static void choose_knots(const struct attention_row *const *prompt, size_t prompts,
                         struct prefill *f)
{
  int64_t most = FIRST_KNOT, down[KNOTS_MAX];
  size_t n = 0;
  for (size_t i = 0; i < prompts; i++)
    if (pairs_of(prompt[i]) > most)
      most = pairs_of(prompt[i]);
  for (int64_t x = most; x >= FIRST_KNOT && n < KNOTS_MAX - 1; x /= 4)
    down[n++] = x;
  f->nknots = n + 1;
  f->knot[0] = 0;
  for (size_t i = 0; i < n; i++)
    f->knot[i + 1] = down[n - 1 - i];
}

/* Column j of a sample. */
static double column(const struct prefill *f, size_t j, const struct attention_row *r)
{
  if (j == 0)
    return 1;
  if (j == f->nknots)
    return (double)tokens_of(r) / 1000;
  double lo = (double)f->knot[j - 1], hi = (double)f->knot[j], x = (double)pairs_of(r);
  return x <= lo ? 0 : x >= hi ? 1 : (x - lo) / (hi - lo);
}

static double predict(const struct prefill *f, const struct attention_row *r)
{
  double y = 0;
  for (size_t j = 0; j <= f->nknots; j++)
    y += f->c[j] * column(f, j, r);
  return y;
}

/* What the library needs for n samples and p columns. */
struct workspace {
  gsl_matrix *x, *cov;
  gsl_vector *y, *c;
  gsl_multifit_robust_workspace *w;
};

static void workspace_free(struct workspace *s)
{
  gsl_matrix_free(s->x);
  gsl_matrix_free(s->cov);
  gsl_vector_free(s->y);
  gsl_vector_free(s->c);
  gsl_multifit_robust_free(s->w);
}

static int workspace_alloc(struct workspace *s, size_t n, size_t p)
{
  s->x = gsl_matrix_alloc(n, p);
  s->cov = gsl_matrix_alloc(p, p);
  s->y = gsl_vector_alloc(n);
  s->c = gsl_vector_alloc(p);
  s->w = gsl_multifit_robust_alloc(gsl_multifit_robust_bisquare, n, p);
  if (s->x && s->cov && s->y && s->c && s->w)
    return 0;
  workspace_free(s);
  return -1;
}

/* One robust fit of the columns listed, every sample divided by its time. Returns 0, -1: no
 * memory, -2: no fit. */
static int fit_columns(struct prefill *f, const struct attention_row *const *sample, size_t n,
                       const size_t *use, size_t p)
{
  struct workspace s;
  if (workspace_alloc(&s, n, p))
    return -1;
  for (size_t i = 0; i < n; i++) {
    double time = (double)sample[i]->ps / US;
    for (size_t j = 0; j < p; j++)
      gsl_matrix_set(s.x, i, j, column(f, use[j], sample[i]) / time);
    gsl_vector_set(s.y, i, 1);
  }
  gsl_multifit_robust_maxiter(ITERATIONS, s.w);
  int rc = gsl_multifit_robust(s.x, s.y, s.c, s.cov, s.w);
  memset(f->c, 0, sizeof f->c);
  for (size_t j = 0; j < p; j++)
    f->c[use[j]] = gsl_vector_get(s.c, j);
  workspace_free(&s);
  return rc == GSL_SUCCESS || rc == GSL_EMAXITER ? 0 : -2;
}

/* Fits with all coefficients 0 or more. */
static int fit_samples(struct prefill *f, const struct attention_row *const *sample, size_t n,
                       struct base_error *e)
{
  size_t use[COLUMNS_MAX], p = 0;
  for (size_t j = 0; j <= f->nknots; j++)
    use[p++] = j;
  while (p && n > p) {
    size_t worst = 0;
    int rc = fit_columns(f, sample, n, use, p);
    if (rc)
      return rc == -1 ? base_fail_memory(e)
                      : base_fail(e, BASE_INPUT,
                                  "the prefill attention could not be fitted: its "
                                  "samples do not determine the curve");
    for (size_t j = 1; j < p; j++)
      if (f->c[use[j]] < f->c[use[worst]])
        worst = j;
    if (f->c[use[worst]] >= 0)
      return 0;
    memmove(use + worst, use + worst + 1, (p - worst - 1) * sizeof *use);
    p--;
  }
  return base_fail(e, BASE_INPUT,
                   "the context table has too few rows of this model's heads (%zu) "
                   "to fit the prefill attention",
                   n);
}

/* Fits four fifths of the prompts and measures the rest; `room` holds as many. */
static int cross_validate(const struct prefill *knots, const struct attention_row *const *prompt,
                          size_t prompts, const struct attention_row **room,
                          struct calibration_residual *r, struct base_error *e)
{
  struct prefill f = *knots;
  struct fit_errors errors;
  size_t n = 0;
  for (size_t i = 0; i < prompts; i++)
    if (i % 5 != 4)
      room[n++] = prompt[i];
  if (fit_samples(&f, room, n, e))
    return -1;
  if (fit_errors_init(&errors, prompts))
    return base_fail_memory(e);
  errors.samples = prompts;
  for (size_t i = 4; i < prompts; i += 5)
    fit_errors_add(&errors, (int64_t)llround(predict(&f, prompt[i]) * US), prompt[i]->ps);
  fit_errors_close(&errors, "prefill", r);
  return 0;
}

/* The fitted curve as integers. */
static int take_curve(const struct prefill *f, struct calibration_curve *v, int64_t *token_fs,
                      struct base_error *e)
{
  v->x = calloc(f->nknots, sizeof *v->x);
  v->y = calloc(f->nknots, sizeof *v->y);
  if (!v->x || !v->y)
    return base_fail_memory(e);
  double us = 0;
  for (size_t i = 0; i < f->nknots; i++) {
    us += f->c[i];
    v->x[i] = f->knot[i];
    v->y[i] = (int64_t)llround(us * US);
  }
  v->n = (uint32_t)f->nknots;
  *token_fs = (int64_t)llround(f->c[f->nknots] * US); /* ps a thousand tokens */
  return 0;
}

int fit_prefill(const struct attention_table *t, struct calibration_curve *curve, int64_t *token_fs,
                struct calibration_residual *r, struct base_error *e)
{
  struct prefill f = {0};
  const struct attention_row **prompt = malloc((2 * t->n + 1) * sizeof *prompt);
  if (!prompt)
    return base_fail_memory(e);
  gsl_error_handler_t *handler = gsl_set_error_handler_off();
  size_t n = list_prompts(t, prompt);
  choose_knots(prompt, n, &f);
  int rc = cross_validate(&f, prompt, n, prompt + n, r, e);
  if (!rc)
    rc = fit_samples(&f, prompt, n, e);
  if (!rc)
    rc = take_curve(&f, curve, token_fs, e);
  gsl_set_error_handler(handler);
  free(prompt);
  return rc;
}
