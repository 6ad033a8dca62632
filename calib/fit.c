/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/fit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hist.h"

/* ------------------------------------------------------------------------------- residuals --- */

int fit_errors_init(struct fit_errors *f, size_t max)
{
  *f = (struct fit_errors){0};
  f->ppb = malloc((max + 1) * sizeof *f->ppb);
  return f->ppb ? 0 : -1;
}

void fit_errors_add(struct fit_errors *f, int64_t predicted, int64_t measured)
{
  __int128 d = (__int128)predicted - measured;
  if (d < 0)
    d = -d;
  f->ppb[f->n++] = (int64_t)(d * 1000000000 / (measured > 0 ? measured : 1));
}

void fit_errors_close(struct fit_errors *f, const char *curve, struct calibration_residual *r)
{
  memset(r, 0, sizeof *r);
  strncpy(r->curve, curve, sizeof r->curve - 1);
  r->samples = (uint32_t)f->samples;
  r->heldout = (uint32_t)f->n;
  if (f->n) {
    base_sort_int64(f->ppb, f->n);
    r->p50 = base_percentile_sorted(f->ppb, f->n, 0.50) * 1e-9;
    r->p95 = base_percentile_sorted(f->ppb, f->n, 0.95) * 1e-9;
    r->max = (double)f->ppb[f->n - 1] * 1e-9;
  }
  free(f->ppb);
  f->ppb = NULL;
}

int fit_thirds_init(struct fit_thirds *t, size_t max)
{
  *t = (struct fit_thirds){0};
  for (int i = 0; i < 3; i++)
    if (fit_errors_init(&t->f[i], max)) {
      fit_thirds_free(t);
      return -1;
    }
  return 0;
}

void fit_thirds_free(struct fit_thirds *t)
{
  for (int i = 0; i < 3; i++)
    free(t->f[i].ppb);
  *t = (struct fit_thirds){0};
}

void fit_thirds_close(struct fit_thirds *t, const char *name, struct calibration_residual *r)
{
  static const char *const part[] = {"", "small ", "large "};
  for (int i = 0; i < 3; i++) {
    char full[48];
    snprintf(full, sizeof full, "%s%.36s", part[i], name);
    fit_errors_close(&t->f[i], full, &r[i]);
  }
}

/* Is sample i held out? */
static int held_out(size_t i)
{
  return i % 5 == 4;
}

/* On the line through two knots; x between or beyond them. */
static int64_t on_line(int64_t x, int64_t x0, int64_t y0, int64_t x1, int64_t y1)
{
  __int128 v = (__int128)y0 * (x1 - x) + (__int128)y1 * (x - x0);
  return (int64_t)(v / (x1 - x0));
}

int fit_curve_errors(const struct calibration_curve *v, const char *name,
                     struct calibration_residual *r, struct base_error *e)
{
  struct fit_errors f;
  if (fit_errors_init(&f, v->n))
    return base_fail_memory(e);
  f.samples = v->n;
  for (uint32_t i = 1; i + 1 < v->n; i++)
    if (held_out(i))
      fit_errors_add(&f, on_line(v->x[i], v->x[i - 1], v->y[i - 1], v->x[i + 1], v->y[i + 1]),
                     v->y[i]);
  fit_errors_close(&f, name, r);
  return 0;
}

/* ---------------------------------------------------------------------------------- decode --- */

/* Inserts a value in an ascending list without repeats. */
static uint32_t insert(int64_t *list, uint32_t n, int64_t value)
{
  uint32_t i = 0;
  while (i < n && list[i] < value)
    i++;
  if (i < n && list[i] == value)
    return n;
  memmove(list + i + 1, list + i, (n - i) * sizeof *list);
  list[i] = value;
  return n + 1;
}

static uint32_t find(const int64_t *list, uint32_t n, int64_t value)
{
  uint32_t i = 0;
  while (i < n && list[i] != value)
    i++;
  return i;
}

/* A sample of one new token behind a context. */
static int is_decode(const struct attention_row *r)
{
  return r->isl == 1 && r->step >= 1;
}

/* Is there a second context at the row count of sample i? One alone gives no line. */
static int has_line(const struct attention_table *t, size_t i)
{
  for (size_t j = 0; j < t->n; j++)
    if (j != i && is_decode(&t->row[j]) && t->row[j].batch == t->row[i].batch)
      return 1;
  return 0;
}

/* Collects the axes and puts the samples in their cells; others are -1. */
static int fill_cells(const struct attention_table *t, struct calibration_grid *g,
                      struct base_error *e)
{
  g->rows = calloc(t->n + 1, sizeof *g->rows);
  g->ctx = calloc(t->n + 1, sizeof *g->ctx);
  g->ctx_measured = calloc(t->n + 1, sizeof *g->ctx_measured);
  if (!g->rows || !g->ctx || !g->ctx_measured)
    return base_fail_memory(e);
  for (size_t i = 0; i < t->n; i++)
    if (is_decode(&t->row[i]) && has_line(t, i)) {
      g->nrows = insert(g->rows, g->nrows, t->row[i].batch);
      g->nctx = insert(g->ctx, g->nctx, t->row[i].step);
    }
  if (!g->nrows)
    return base_fail(e, BASE_INPUT, "the generation table has no two contexts at any batch size");
  size_t cells = (size_t)g->nrows * g->nctx;
  g->y = malloc(cells * sizeof *g->y);
  if (!g->y)
    return base_fail_memory(e);
  for (size_t i = 0; i < cells; i++)
    g->y[i] = -1;
  for (size_t i = 0; i < t->n; i++)
    if (is_decode(&t->row[i]) && has_line(t, i))
      g->y[(size_t)find(g->rows, g->nrows, t->row[i].batch) * g->nctx +
           find(g->ctx, g->nctx, t->row[i].step)] = t->row[i].ps;
  return 0;
}

/* Measured neighbour of cell j of a row, in direction d; -1 if there is none. */
static int neighbour(const int64_t *y, uint32_t n, int j, int d)
{
  for (j += d; j >= 0 && j < (int)n; j += d)
    if (y[j] >= 0)
      return j;
  return -1;
}

/* Held-out cells against the line between their neighbours in context. */
static int decode_errors(const struct calibration_grid *g, struct calibration_residual *r,
                         struct base_error *e)
{
  struct fit_errors f;
  if (fit_errors_init(&f, (size_t)g->nrows * g->nctx))
    return base_fail_memory(e);
  for (uint32_t i = 0; i < g->nrows; i++) {
    const int64_t *y = g->y + (size_t)i * g->nctx;
    for (int j = 0; j < (int)g->nctx; j++) {
      int a = neighbour(y, g->nctx, j, -1), b = neighbour(y, g->nctx, j, 1);
      if (y[j] < 0 || !held_out(f.samples++) || a < 0 || b < 0)
        continue;
      fit_errors_add(&f, on_line(g->ctx[j], g->ctx[a], y[a], g->ctx[b], y[b]), y[j]);
    }
  }
  fit_errors_close(&f, "decode over context", r);
  return 0;
}

/*
 * Makes a row not fall, with the least change of its measured cells in squares: a cell that lies
 * below those before it is pooled with them, to their mean, as far back as that mean is below.
 */
static void pool(int64_t *y, uint32_t n)
{
  for (int i = neighbour(y, n, -1, 1); i >= 0; i = neighbour(y, n, i, 1)) {
    __int128 sum = y[i];
    int64_t count = 1, mean = y[i];
    int start = i;
    for (int p = neighbour(y, n, i, -1); p >= 0 && y[p] > mean; p = neighbour(y, n, p, -1)) {
      sum += y[p];
      mean = (int64_t)(sum / ++count);
      start = p;
    }
    for (int j = start; j <= i; j++)
      if (y[j] >= 0)
        y[j] = mean;
  }
}

/* Fills the cells of a row that were not measured; tells the longest context that was. */
static int64_t fill_row(const struct calibration_grid *g, int64_t *y)
{
  int last = neighbour(y, g->nctx, (int)g->nctx, -1);
  int before = neighbour(y, g->nctx, last, -1);
  for (int j = 0; j < (int)g->nctx; j++) {
    int a = neighbour(y, g->nctx, j, -1), b = neighbour(y, g->nctx, j, 1);
    if (y[j] >= 0)
      continue;
    if (j > last)
      y[j] = on_line(g->ctx[j], g->ctx[before], y[before], g->ctx[last], y[last]);
    else if (a < 0)
      y[j] = y[b];
    else
      y[j] = on_line(g->ctx[j], g->ctx[a], y[a], g->ctx[b], y[b]);
  }
  return g->ctx[last];
}

int fit_decode(const struct attention_table *t, struct calibration_grid *g,
               struct calibration_residual *r, struct base_error *e)
{
  if (fill_cells(t, g, e) || decode_errors(g, r, e))
    return -1;
  for (uint32_t i = 0; i < g->nrows; i++) {
    int64_t *y = g->y + (size_t)i * g->nctx;
    pool(y, g->nctx);
    g->ctx_measured[i] = fill_row(g, y);
  }
  return 0;
}
