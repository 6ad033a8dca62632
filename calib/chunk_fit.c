/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/chunk_fit.h"

#include <stdlib.h>
#include <string.h>

#include "calib/fit.h"
#include "calib/surface.h"

/* The law of fit_prefill; x: sequences, cached tokens of each, new tokens of each. */
struct chunk_law {
  struct calibration_curve curve;
  int64_t token_fs;
};

static double curve_at(const struct calibration_curve *v, double x)
{
  uint32_t i = 1;
  while (i + 1 < v->n && (double)v->x[i] < x)
    i++;
  double x0 = (double)v->x[i - 1], x1 = (double)v->x[i], y0 = (double)v->y[i - 1],
         y1 = (double)v->y[i];
  return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

static double law_ps(const void *arg, const int64_t *x)
{
  const struct chunk_law *law = arg;
  double batch = (double)x[0], step = (double)x[1], isl = (double)x[2];
  double ps = curve_at(&law->curve, batch * (isl * step + isl * (isl + 1) / 2)) +
              batch * isl * (double)law->token_fs / 1000;
  return ps > 1 ? ps : 1; /* a curve may begin at 0 */
}

static void law_free(struct chunk_law *law)
{
  free(law->curve.x);
  free(law->curve.y);
}

/* The prompts of a table as points; one new token a sequence is a decode row by its shape. */
static int take_points(const struct attention_table *t, struct surface *s, struct base_error *e)
{
  s->point = calloc(t->n + 1, sizeof *s->point);
  if (!s->point)
    return base_fail_memory(e);
  for (size_t i = 0; i < t->n; i++) {
    const struct attention_row *r = &t->row[i];
    if (r->isl > 1)
      s->point[s->n++] = (struct surface_point){{r->batch, r->step, r->isl}, r->ps};
  }
  return surface_index(s, e);
}

/* The law, of the points that are not left out. */
static int fit_law(const struct surface *s, struct chunk_law *law, struct base_error *e)
{
  struct attention_table t = {0};
  struct calibration_residual unused;
  t.row = calloc(s->n + 1, sizeof *t.row);
  if (!t.row)
    return base_fail_memory(e);
  for (size_t i = 0; i < s->n; i++) {
    const struct surface_point *p = &s->point[i];
    if (!surface_held(s, i))
      t.row[t.n++] = (struct attention_row){
          .batch = p->x[0], .step = p->x[1], .isl = p->x[2], .ps = p->ps};
  }
  int rc = fit_prefill(&t, &law->curve, &law->token_fs, &unused, e);
  attention_free(&t);
  return rc;
}

static int judge(struct surface *s, struct fit_thirds *t, struct base_error *e)
{
  struct chunk_law law = {0};
  s->arg = &law;
  s->held = SURFACE_POINTS;
  int rc = fit_law(s, &law, e);
  if (!rc)
    rc = surface_judge(s, SURFACE_POINTS, t, e);
  s->held = SURFACE_WHOLE;
  law_free(&law);
  return rc;
}

int chunk_judge(const struct attention_table *t, struct fit_thirds *errors, struct base_error *e)
{
  struct surface s = {.rank = 3, .law = law_ps};
  int rc = take_points(t, &s, e);
  if (!rc)
    rc = judge(&s, errors, e);
  surface_free(&s);
  return rc;
}

/* Chunks: prompts that were measured alone. Histories: measured ones, and powers of two. */
static int make_axes(const struct surface *s, struct lattice *l, struct base_error *e)
{
  enum { FIRST = 256, LAST = 1 << 17, ROOM = 32 };
  l->rank = 2;
  l->x[0] = calloc(s->naxis[2] + 1, sizeof *l->x[0]);
  l->x[1] = calloc(s->naxis[1] + ROOM, sizeof *l->x[1]);
  if (!l->x[0] || !l->x[1])
    return base_fail_memory(e);
  for (size_t i = 0; i < s->n; i++)
    if (s->point[i].x[0] == 1 && (!l->n[0] || s->point[i].x[2] > l->x[0][l->n[0] - 1]))
      l->x[0][l->n[0]++] = s->point[i].x[2];
  if (!l->n[0])
    return base_fail(e, BASE_INPUT,
                     "the context table has no prompt of one sequence (batch_size 1)");
  for (size_t i = 0; i < s->naxis[1]; i++)
    l->x[1][l->n[1]++] = s->axis[1][i];
  for (int64_t h = FIRST; h <= LAST; h *= 2)
    if (h > l->x[1][l->n[1] - 1])
      l->x[1][l->n[1]++] = h;
  return 0;
}

static int fill(const struct surface *s, struct lattice *l, struct base_error *e)
{
  if (make_axes(s, l, e))
    return -1;
  l->y = calloc(lattice_cells(l), sizeof *l->y);
  if (!l->y)
    return base_fail_memory(e);
  for (uint32_t i = 0; i < l->n[0]; i++)
    for (uint32_t j = 0; j < l->n[1]; j++) {
      const int64_t x[SURFACE_RANK] = {1, l->x[1][j], l->x[0][i]};
      int64_t ps = surface_ps(s, x);
      l->y[i * l->n[1] + j] = ps > 0 ? ps : 1;
    }
  return 0;
}

int chunk_fit(const struct attention_table *t, struct lattice *l, struct calibration_residual *r,
              struct base_error *e)
{
  struct surface s = {.rank = 3, .law = law_ps};
  struct chunk_law law = {0};
  struct fit_thirds errors;
  if (fit_thirds_init(&errors, t->n))
    return base_fail_memory(e);
  int rc = chunk_judge(t, &errors, e);
  if (!rc)
    fit_thirds_close(&errors, "prefill attention", r);
  fit_thirds_free(&errors);
  s.arg = &law;
  if (!rc)
    rc = take_points(t, &s, e);
  if (!rc)
    rc = fit_law(&s, &law, e);
  if (!rc)
    rc = fill(&s, l, e);
  law_free(&law);
  surface_free(&s);
  return rc;
}
