/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/grid_fit.h"

#include <stdlib.h>
#include <string.h>

#include "base/hist.h"
#include "calib/fit.h"
#include "models/calibration.h"

enum { HOLE = -1, AXIS_MAX = 4096, CELLS_MAX = 1 << 18 };

/* ------------------------------------------------------------------------------------- axes --- */

/* The distinct coordinates of the points on axis a. */
static int make_axis(struct lattice *l, uint32_t a, const struct grid_point *point, size_t n)
{
  int64_t *x = malloc((n + 1) * sizeof *x);
  if (!x)
    return -1;
  for (size_t i = 0; i < n; i++)
    x[i] = point[i].x[a];
  base_sort_int64(x, n);
  l->x[a] = x;
  for (size_t i = 0; i < n; i++)
    if (!i || x[i] != x[l->n[a] - 1])
      x[l->n[a]++] = x[i];
  return 0;
}

static uint32_t find(const int64_t *x, uint32_t n, int64_t value)
{
  uint32_t lo = 0, hi = n;
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (x[mid] <= value)
      lo = mid;
    else
      hi = mid;
  }
  return lo;
}

/* Axes, and the points in their cells; all others are holes. */
static int place_points(struct lattice *l, const struct grid_point *point, size_t n,
                        struct base_error *e)
{
  size_t cells = 1;
  for (uint32_t a = 0; a < l->rank; a++) {
    if (make_axis(l, a, point, n))
      return base_fail_memory(e);
    if (l->n[a] > AXIS_MAX || cells * l->n[a] > CELLS_MAX)
      return base_fail(e, BASE_INPUT, "the table's grid is too large: more than %d cells",
                       CELLS_MAX);
    cells *= l->n[a];
  }
  l->y = malloc(cells * sizeof *l->y);
  if (!l->y)
    return base_fail_memory(e);
  for (size_t i = 0; i < cells; i++)
    l->y[i] = HOLE;
  for (size_t i = 0; i < n; i++) {
    size_t cell = 0;
    for (uint32_t a = 0; a < l->rank; a++)
      cell = cell * l->n[a] + find(l->x[a], l->n[a], point[i].x[a]);
    l->y[cell] = point[i].ps;
  }
  return 0;
}

/* ------------------------------------------------------------------------------------ holes --- */

/* One line of cells along an axis: its knots and every stride-th value. */
struct line {
  const int64_t *x;
  uint32_t n;
  int64_t *y;
  size_t stride;
};

static int64_t *cell(const struct line *v, uint32_t i)
{
  return &v->y[i * v->stride];
}

static int64_t on_line(const struct line *v, uint32_t a, uint32_t b, uint32_t i)
{
  __int128 rise = *cell(v, b) - *cell(v, a);
  return *cell(v, a) + (int64_t)(rise * (v->x[i] - v->x[a]) / (v->x[b] - v->x[a]));
}

/* Fills the holes between two cells that are known. */
static void fill_between(const struct line *v)
{
  uint32_t last = 0;
  int have = 0;
  for (uint32_t i = 0; i < v->n; i++) {
    if (*cell(v, i) == HOLE)
      continue;
    for (uint32_t j = have ? last + 1 : i; j < i; j++)
      *cell(v, j) = on_line(v, last, i, j);
    last = i;
    have = 1;
  }
}

/* Fills the holes at both ends of a line: flat before its first known cell; beyond its last on the
 * line through the last two, which does not fall. */
static void fill_ends(const struct line *v)
{
  uint32_t first = 0, last = v->n - 1;
  fill_between(v); /* cells that other axes gave may have holes between */
  while (first < v->n && *cell(v, first) == HOLE)
    first++;
  if (first == v->n)
    return;
  while (*cell(v, last) == HOLE)
    last--;
  for (uint32_t i = 0; i < first; i++)
    *cell(v, i) = *cell(v, first);
  for (uint32_t i = last + 1; i < v->n; i++) {
    int64_t y = last > first ? on_line(v, last - 1, last, i) : *cell(v, last);
    *cell(v, i) = y > *cell(v, last) ? y : *cell(v, last);
  }
}

/* Runs over all lines along axis a. */
static void fill_axis(struct lattice *l, uint32_t a, void (*fill)(const struct line *))
{
  size_t stride = 1, cells = lattice_cells(l);
  for (uint32_t b = a + 1; b < l->rank; b++)
    stride *= l->n[b];
  for (size_t i = 0; i < cells; i++) {
    if (i / stride % l->n[a])
      continue;
    struct line v = {l->x[a], l->n[a], l->y + i, stride};
    fill(&v);
  }
}

int grid_make(struct lattice *l, uint32_t rank, const uint32_t *order,
              const struct grid_point *point, size_t n, struct base_error *e)
{
  l->rank = rank;
  if (!n)
    return base_fail(e, BASE_INPUT, "there is no point to make a grid of");
  if (place_points(l, point, n, e)) {
    lattice_free(l);
    return -1;
  }
  for (uint32_t k = 0; k < rank; k++)
    fill_axis(l, order[k], fill_between);
  for (uint32_t k = 0; k < rank; k++)
    fill_axis(l, order[k], fill_ends);
  return 0;
}

/* --------------------------------------------------------------------------------- hold-out --- */

/* Is there a point before and behind this one on some line along an axis? */
static int is_inner(const struct lattice *l, const struct grid_point *p)
{
  size_t at = 0, stride = 1;
  for (uint32_t a = 0; a < l->rank; a++)
    at = at * l->n[a] + find(l->x[a], l->n[a], p->x[a]);
  for (uint32_t a = l->rank; a-- > 0; stride *= l->n[a]) {
    uint32_t i = find(l->x[a], l->n[a], p->x[a]), j = i, k = i + 1;
    while (j > 0 && l->y[at - (i - j + 1) * stride] == HOLE)
      j--;
    while (k < l->n[a] && l->y[at + (k - i) * stride] == HOLE)
      k++;
    if (j > 0 && k < l->n[a])
      return 1;
  }
  return 0;
}

/* Marks every fifth inner point: a point at an edge can only be extrapolated, which says nothing of
 * what lies between points. */
static int mark_held(uint32_t rank, const struct grid_point *point, size_t n, unsigned char *held,
                     struct base_error *e)
{
  struct lattice l = {.rank = rank};
  size_t inner = 0;
  int rc = place_points(&l, point, n, e);
  for (size_t i = 0; !rc && i < n; i++)
    held[i] = is_inner(&l, &point[i]) && inner++ % 5 == 4;
  lattice_free(&l);
  return rc;
}

static int64_t median_of_held(const struct grid_point *point, size_t n, const unsigned char *held,
                              int64_t *ps)
{
  size_t m = 0;
  for (size_t i = 0; i < n; i++)
    if (held[i])
      ps[m++] = point[i].ps;
  base_sort_int64(ps, m);
  return m ? ps[m / 2] : 0;
}

static void judge(const struct lattice *l, const struct grid_point *point, size_t n,
                  const unsigned char *held, int64_t median, struct fit_thirds *t)
{
  for (size_t i = 0; i < n; i++) {
    struct lattice_point at[LATTICE_RANK];
    int large = point[i].ps >= median;
    t->f[0].samples++;
    t->f[1 + large].samples++;
    if (!held[i])
      continue;
    for (uint32_t a = 0; a < l->rank; a++)
      at[a] = (struct lattice_point){point[i].x[a], 1};
    int64_t guess = lattice_value(l, at);
    fit_errors_add(&t->f[0], guess, point[i].ps);
    fit_errors_add(&t->f[1 + large], guess, point[i].ps);
  }
}

int grid_judge(uint32_t rank, const uint32_t *order, const struct grid_point *point, size_t n,
               struct fit_thirds *t, struct base_error *e)
{
  struct lattice l = {0};
  struct grid_point *train = calloc(n + 1, sizeof *train);
  int64_t *ps = malloc((n + 1) * sizeof *ps);
  unsigned char *held = calloc(n + 1, 1);
  size_t m = 0;
  int rc = train && ps && held ? mark_held(rank, point, n, held, e) : base_fail_memory(e);
  for (size_t i = 0; !rc && i < n; i++)
    if (!held[i])
      train[m++] = point[i];
  if (!rc)
    rc = grid_make(&l, rank, order, train, m, e);
  if (!rc)
    judge(&l, point, n, held, median_of_held(point, n, held, ps), t);
  free(train);
  free(held);
  free(ps);
  lattice_free(&l);
  return rc;
}

int grid_errors(uint32_t rank, const uint32_t *order, const struct grid_point *point, size_t n,
                const char *name, struct calibration_residual *r, struct base_error *e)
{
  struct fit_thirds t;
  if (fit_thirds_init(&t, n))
    return base_fail_memory(e);
  int rc = grid_judge(rank, order, point, n, &t, e);
  if (!rc)
    fit_thirds_close(&t, name, r);
  fit_thirds_free(&t);
  return rc;
}
