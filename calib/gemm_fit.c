/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/gemm_fit.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_multimin.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/calibration.h"

enum { WIDE = 1024, ITERATIONS = 400 };

double gemm_law_ps(const void *law, const int64_t *x)
{
  const struct gemm_law *g = law;
  double k = (double)x[0], n = (double)x[1], m = (double)x[2];
  double compute = 2 * m * n * k / g->flops;
  double move = (g->element * (k * n + k * m) + 2 * m * n) / g->bytes;
  return (compute > move ? compute : move) + g->fixed;
}

static int is_wide(const int64_t *x)
{
  return x[0] >= WIDE && x[1] >= WIDE;
}

/* ---------------------------------------------------------------------------------- the law --- */

/* The rows that the law is fitted to. */
struct sample {
  const struct surface *s;
  int wide; /* 1: only wide ones */
  int element;
};

static void take_law(const gsl_vector *v, int element, struct gemm_law *g)
{
  g->flops = exp(gsl_vector_get(v, 0));
  g->bytes = exp(gsl_vector_get(v, 1));
  g->fixed = exp(gsl_vector_get(v, 2));
  g->element = element;
}

/* Mean of absolute relative errors: one far off counts as much as it is off, not its square. */
static double objective(const gsl_vector *v, void *arg)
{
  const struct sample *q = arg;
  struct gemm_law g;
  double sum = 0;
  size_t n = 0;
  take_law(v, q->element, &g);
  for (size_t i = 0; i < q->s->n; i++) {
    const struct surface_point *p = &q->s->point[i];
    if ((q->wide && !is_wide(p->x)) || surface_held(q->s, i))
      continue;
    sum += fabs(gemm_law_ps(&g, p->x) / (double)p->ps - 1);
    n++;
  }
  return n ? sum / (double)n : 0;
}

/* Rates that no row exceeds, and the quickest row: where the search begins. */
static void begin(const struct sample *q, gsl_vector *v)
{
  double flops = 1e-9, bytes = 1e-9, least = 1e15;
  for (size_t i = 0; i < q->s->n; i++) {
    const struct surface_point *p = &q->s->point[i];
    double k = (double)p->x[0], n = (double)p->x[1], m = (double)p->x[2], t = (double)p->ps;
    flops = fmax(flops, 2 * m * n * k / t);
    bytes = fmax(bytes, (q->element * (k * n + k * m) + 2 * m * n) / t);
    least = fmin(least, t);
  }
  gsl_vector_set(v, 0, log(flops));
  gsl_vector_set(v, 1, log(bytes));
  gsl_vector_set(v, 2, log(least));
}

/* Downhill simplex over the logarithms of F, B and c. */
static int fit_law(const struct sample *q, struct gemm_law *g, struct base_error *e)
{
  gsl_vector *v = gsl_vector_alloc(3), *step = gsl_vector_alloc(3);
  gsl_multimin_fminimizer *z = gsl_multimin_fminimizer_alloc(gsl_multimin_fminimizer_nmsimplex2, 3);
  gsl_multimin_function f = {objective, 3, (void *)(size_t)q};
  int rc = v && step && z ? 0 : base_fail_memory(e);
  if (!rc) {
    begin(q, v);
    gsl_vector_set_all(step, 0.2);
    gsl_multimin_fminimizer_set(z, &f, v, step);
    for (int i = 0; i < ITERATIONS && !gsl_multimin_fminimizer_iterate(z); i++)
      if (gsl_multimin_test_size(gsl_multimin_fminimizer_size(z), 1e-5) == GSL_SUCCESS)
        break;
    take_law(z->x, q->element, g);
  }
  gsl_multimin_fminimizer_free(z);
  gsl_vector_free(v);
  gsl_vector_free(step);
  return rc;
}

static int fit(struct gemm_fit *f, int element, enum surface_holding held, struct base_error *e)
{
  struct sample q = {&f->s, 0, element};
  for (size_t i = 0; i < f->s.n; i++)
    q.wide |= is_wide(f->s.point[i].x);
  f->s.held = (int)held;
  gsl_error_handler_t *handler = gsl_set_error_handler_off();
  int rc = fit_law(&q, &f->law, e);
  gsl_set_error_handler(handler);
  f->s.held = SURFACE_WHOLE;
  return rc;
}

/* ------------------------------------------------------------------------------------- make --- */

static int take_points(struct gemm_fit *f, const struct gemm_table *t, int dtype,
                       struct base_error *e)
{
  f->s = (struct surface){.rank = 3, .plain = 1u << 2, .law = gemm_law_ps, .arg = &f->law};
  f->s.point = calloc(t->n + 1, sizeof *f->s.point);
  if (!f->s.point)
    return base_fail_memory(e);
  for (size_t i = 0; i < t->n; i++) {
    const struct gemm_row *r = &t->row[i];
    if (r->dtype == dtype)
      f->s.point[f->s.n++] = (struct surface_point){{r->k, r->n, r->m}, r->ps};
  }
  return surface_index(&f->s, e);
}

/* The wide rows alone, or all if there are none. */
static int take_wide(const struct gemm_fit *f, struct gemm_fit *w, struct base_error *e)
{
  int any = 0;
  *w = (struct gemm_fit){.s = {.rank = 3, .plain = f->s.plain, .law = gemm_law_ps, .arg = &w->law}};
  w->s.point = calloc(f->s.n + 1, sizeof *w->s.point);
  if (!w->s.point)
    return base_fail_memory(e);
  for (size_t i = 0; i < f->s.n; i++)
    any |= is_wide(f->s.point[i].x);
  for (size_t i = 0; i < f->s.n; i++)
    if (!any || is_wide(f->s.point[i].x))
      w->s.point[w->s.n++] = f->s.point[i];
  return surface_index(&w->s, e);
}

static int errors(const struct gemm_fit *f, int element, const char *name,
                  struct calibration_residual *r, struct base_error *e)
{
  struct gemm_fit w;
  struct calibration_residual by_line[3];
  char lines[48];
  snprintf(lines, sizeof lines, "%.30s, new shapes", name);
  int rc = take_wide(f, &w, e) || fit(&w, element, SURFACE_POINTS, e) ||
           surface_errors(&w.s, SURFACE_POINTS, name, r, e) || fit(&w, element, SURFACE_LINES, e) ||
           surface_errors(&w.s, SURFACE_LINES, lines, by_line, e);
  if (!rc)
    r[3] = by_line[0];
  surface_free(&w.s);
  return rc ? -1 : 0;
}

int gemm_fit_make(struct gemm_fit *f, const struct gemm_table *t, int dtype, int element,
                  const char *name, struct calibration_residual *r, struct base_error *e)
{
  *f = (struct gemm_fit){0};
  if (take_points(f, t, dtype, e))
    return -1;
  if (!f->s.n)
    return base_fail(e, BASE_INPUT, "%s: the GEMM table has no row of this type", name);
  if (r && errors(f, element, name, r, e))
    return -1;
  return fit(f, element, SURFACE_WHOLE, e);
}

int64_t gemm_fit_ps(const struct gemm_fit *f, int64_t m, int64_t n, int64_t k)
{
  const int64_t x[SURFACE_RANK] = {k, n, m};
  return surface_ps(&f->s, x);
}

void gemm_fit_free(struct gemm_fit *f)
{
  surface_free(&f->s);
}
