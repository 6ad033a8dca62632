/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/surface.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hist.h"
#include "calib/fit.h"
#include "calib/rows.h"
#include "models/calibration.h"

/* ------------------------------------------------------------------------------------ index --- */

static int compare(const void *pa, const void *pb)
{
  const struct surface_point *a = pa, *b = pb;
  int c = rows_order(a->x, b->x, SURFACE_RANK);
  return c ? c : (a->ps > b->ps) - (a->ps < b->ps);
}

/* The distinct coordinates on axis a. */
static int list_axis(struct surface *s, uint32_t a)
{
  int64_t *x = malloc((s->n + 1) * sizeof *x);
  if (!x)
    return -1;
  for (size_t i = 0; i < s->n; i++)
    x[i] = s->point[i].x[a];
  base_sort_int64(x, s->n);
  s->axis[a] = x;
  s->naxis[a] = 0;
  for (size_t i = 0; i < s->n; i++)
    if (!i || x[i] != x[s->naxis[a] - 1])
      x[s->naxis[a]++] = x[i];
  return 0;
}

void surface_free(struct surface *s)
{
  for (int a = 0; a < SURFACE_RANK; a++)
    free(s->axis[a]);
  free(s->point);
  free(s->fifth);
  *s = (struct surface){0};
}

/* First knot of axis a that is not below x. */
static size_t position(const struct surface *s, uint32_t a, int64_t x)
{
  size_t lo = 0, hi = s->naxis[a];
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (s->axis[a][mid] < x)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

/* Which line along the last axis a point is of. */
static size_t line_of(const struct surface *s, const int64_t *x)
{
  size_t line = 0;
  for (uint32_t a = 0; a + 1 < s->rank; a++)
    line = line * s->naxis[a] + position(s, a, x[a]);
  return line;
}

int surface_held(const struct surface *s, size_t i)
{
  return s->held == SURFACE_POINTS  ? s->fifth[i]
         : s->held == SURFACE_LINES ? line_of(s, s->point[i].x) % 5 == 4
                                    : 0;
}

/* The time measured at x, or -1. */
static int64_t measured(const struct surface *s, const int64_t *x)
{
  size_t lo = 0, hi = s->n;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (rows_order(s->point[mid].x, x, SURFACE_RANK) < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  if (lo == s->n || rows_order(s->point[lo].x, x, SURFACE_RANK) || surface_held(s, lo))
    return -1;
  return s->point[lo].ps;
}

/* ------------------------------------------------------------------------------- looking up --- */

static int on_axis(const struct surface *s, uint32_t a, int64_t x)
{
  size_t i = position(s, a, x);
  return i < s->naxis[a] && s->axis[a][i] == x;
}

static double ratio_of(const struct surface *s, const int64_t *x, int64_t ps)
{
  return (double)ps / s->law(s->arg, x);
}

/* The nearest measured point from x along axis a, in direction d; 0: there is none. */
static int neighbour(const struct surface *s, const int64_t *x, uint32_t a, int d, int64_t *at,
                     int64_t *ps)
{
  size_t i = position(s, a, x[a]);
  memcpy(at, x, SURFACE_RANK * sizeof *at);
  if (d > 0 && !on_axis(s, a, x[a]) && i < s->naxis[a])
    i--; /* the knot at i is the first above */
  for (;;) {
    if (d < 0 ? i == 0 : i + 1 >= s->naxis[a])
      return 0;
    i += d < 0 ? (size_t)-1 : 1;
    at[a] = s->axis[a][i];
    if ((*ps = measured(s, at)) >= 0)
      return 1;
  }
}

static void mark_fifth(struct surface *s)
{
  int64_t at[SURFACE_RANK], ps;
  size_t inner = 0;
  for (size_t i = 0; i < s->n; i++)
    for (uint32_t a = 0; a < s->rank; a++)
      if (neighbour(s, s->point[i].x, a, -1, at, &ps) &&
          neighbour(s, s->point[i].x, a, 1, at, &ps)) {
        s->fifth[i] = inner++ % 5 == 4;
        break;
      }
}

int surface_index(struct surface *s, struct base_error *e)
{
  size_t n = 0;
  if (s->n)
    qsort(s->point, s->n, sizeof *s->point, compare);
  for (size_t i = 0; i < s->n; i++)
    if (!n || rows_order(s->point[i].x, s->point[n - 1].x, SURFACE_RANK))
      s->point[n++] = s->point[i];
  s->n = n;
  for (uint32_t a = 0; a < SURFACE_RANK; a++)
    if (list_axis(s, a))
      return base_fail_memory(e);
  s->fifth = calloc(s->n + 1, 1);
  if (!s->fifth)
    return base_fail_memory(e);
  mark_fifth(s);
  return 0;
}

/* What an axis says of the ratio at x. sure: 1 if there are measured points on both sides. */
static int along(const struct surface *s, const int64_t *x, uint32_t a, int *sure, double *ratio)
{
  int64_t lo[SURFACE_RANK], hi[SURFACE_RANK], y0 = 0, y1 = 0;
  int below = neighbour(s, x, a, -1, lo, &y0), above = neighbour(s, x, a, 1, hi, &y1);
  *sure = below && above;
  if (!below && !above)
    return 0;
  if (!*sure) {
    *ratio = below ? ratio_of(s, lo, y0) : ratio_of(s, hi, y1);
    return 1;
  }
  double w = (double)(x[a] - lo[a]) / (double)(hi[a] - lo[a]);
  if (s->plain >> a & 1)
    *ratio = ((double)y0 * (1 - w) + (double)y1 * w) / s->law(s->arg, x);
  else
    *ratio = ratio_of(s, lo, y0) * (1 - w) + ratio_of(s, hi, y1) * w;
  return 1;
}

static double median(double *v, int n)
{
  for (int i = 1; i < n; i++)
    for (int j = i; j > 0 && v[j] < v[j - 1]; j--) {
      double t = v[j];
      v[j] = v[j - 1];
      v[j - 1] = t;
    }
  return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

/* The ratio at x from its neighbours on the axes; 0: it has none. */
static int around(const struct surface *s, const int64_t *x, double *ratio)
{
  double sure[SURFACE_RANK], edge[SURFACE_RANK], v;
  int nsure = 0, nedge = 0, both;
  for (uint32_t a = 0; a < s->rank; a++)
    if (along(s, x, a, &both, &v)) {
      if (both)
        sure[nsure++] = v;
      else
        edge[nedge++] = v;
    }
  if (!nsure && !nedge)
    return 0;
  *ratio = nsure ? median(sure, nsure) : median(edge, nedge);
  return 1;
}

/* The same where x is off the grid on several axes: from the knots of the first of these. */
static int ratio_at(const struct surface *s, const int64_t *x, double *ratio)
{
  int64_t ps = measured(s, x), at[SURFACE_RANK];
  uint32_t a = 0;
  double lo, hi;
  if (ps >= 0) {
    *ratio = ratio_of(s, x, ps);
    return 1;
  }
  if (around(s, x, ratio))
    return 1;
  while (a < s->rank && on_axis(s, a, x[a]))
    a++;
  if (a == s->rank || !s->naxis[a])
    return 0;
  size_t i = position(s, a, x[a]), j = i ? i - 1 : 0;
  i = i < s->naxis[a] ? i : s->naxis[a] - 1;
  memcpy(at, x, sizeof at);
  at[a] = s->axis[a][j];
  if (!ratio_at(s, at, &lo))
    return 0;
  at[a] = s->axis[a][i];
  if (!ratio_at(s, at, &hi))
    return 0;
  double w = i == j ? 0 : (double)(x[a] - s->axis[a][j]) / (double)(s->axis[a][i] - s->axis[a][j]);
  *ratio = w > 1 ? hi : lo * (1 - w) + hi * w;
  return 1;
}

int64_t surface_ps(const struct surface *s, const int64_t *x)
{
  double ratio;
  int64_t ps = measured(s, x);
  if (ps >= 0)
    return ps;
  return ratio_at(s, x, &ratio) ? llround(ratio * s->law(s->arg, x)) : -1;
}

/* --------------------------------------------------------------------------------- hold-out --- */

/* Median time of the points that are held out. */
static int64_t median_held(const struct surface *s, int64_t *ps)
{
  size_t m = 0;
  for (size_t i = 0; i < s->n; i++)
    if (surface_held(s, i))
      ps[m++] = s->point[i].ps;
  base_sort_int64(ps, m);
  return m ? ps[m / 2] : 0;
}

static void judge(const struct surface *s, int64_t middle, struct fit_thirds *t)
{
  for (size_t i = 0; i < s->n; i++) {
    const struct surface_point *p = &s->point[i];
    int large = p->ps >= middle;
    int64_t guess;
    t->f[0].samples++;
    t->f[1 + large].samples++;
    if (!surface_held(s, i) || (guess = surface_ps(s, p->x)) < 0)
      continue;
    fit_errors_add(&t->f[0], guess, p->ps);
    fit_errors_add(&t->f[1 + large], guess, p->ps);
  }
}

int surface_judge(struct surface *s, enum surface_holding holding, struct fit_thirds *t,
                  struct base_error *e)
{
  int64_t *ps = malloc((s->n + 1) * sizeof *ps);
  if (!ps)
    return base_fail_memory(e);
  s->held = (int)holding;
  judge(s, median_held(s, ps), t);
  s->held = SURFACE_WHOLE;
  free(ps);
  return 0;
}

int surface_errors(struct surface *s, enum surface_holding holding, const char *name,
                   struct calibration_residual *r, struct base_error *e)
{
  struct fit_thirds t;
  if (fit_thirds_init(&t, s->n))
    return base_fail_memory(e);
  int rc = surface_judge(s, holding, &t, e);
  if (!rc)
    fit_thirds_close(&t, name, r);
  fit_thirds_free(&t);
  return rc;
}
