/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdlib.h>
#include <string.h>

#include "calib/calib.h"
#include "calib/fit.h"
#include "calib/measured_points.h"
#include "models/calibration.h"

/* The parts by name. points: what was measured by the samples, NULL or not known; where it is not:
 * measured: the longest context that was, of each row count; no_history: the first has none but
 * what was carried over by pairs; steps: of equal times of neighbours only the last was measured
 * (operator_plateaus). */
struct pair {
  const char *name;
  struct lattice a, b;
  const struct measured_points *points;
  const int64_t *measured;
  int no_history, steps;
};

/* Was the point measured: by the samples, or not beyond the longest context of its rows, no history
 * that was carried over, and not the start of a step? */
static int was_measured(const struct pair *x, size_t cell, const struct lattice_point *p)
{
  if (x->points && x->points->known)
    return measured_points_has(x->points, p, x->a.rank);
  if (x->measured && p[1].num > x->measured[cell / x->a.n[1]])
    return 0;
  if (x->steps && cell + 1 < x->a.n[0] && x->a.y[cell + 1] == x->a.y[cell])
    return 0;
  return !x->no_history || !p[1].num;
}

static int compare_pair(const struct pair *x, struct calibration_residual *r, struct base_error *e)
{
  struct fit_errors f;
  size_t cells = lattice_cells(&x->a);
  if (fit_errors_init(&f, cells))
    return base_fail_memory(e);
  for (size_t i = 0; i < cells; i++) {
    struct lattice_point p[LATTICE_RANK];
    lattice_cell_point(&x->a, i, p);
    if (!was_measured(x, i, p))
      continue;
    f.samples++;
    fit_errors_add(&f, lattice_value(&x->b, p), x->a.y[i]);
  }
  fit_errors_close(&f, x->name, r);
  return 0;
}

/* With the points listed by part. */
static int compare_all(const struct calibration *a, const struct calibration *b,
                       const struct measured_points *points, struct calibration_residual *r,
                       size_t max, struct base_error *e)
{
  const struct lattice none = {0}; /* what the first derived itself says nothing */
  const int no_history = strstr(a->derived, CALIBRATION_HISTORY) != NULL;
  const struct pair all[] = {
      {"layer", calibration_curve_lattice(&a->body), calibration_curve_lattice(&b->body), NULL,
       NULL, 0, 1},
      {"head", strstr(a->derived, "LM head") ? none : calibration_curve_lattice(&a->head),
       calibration_curve_lattice(&b->head), NULL, NULL, 0, 0},
      {"all-reduce", calibration_curve_lattice(&a->collective),
       calibration_curve_lattice(&b->collective), NULL, NULL, 0, 0},
      {"decode attention", calibration_grid_lattice(&a->decode),
       calibration_grid_lattice(&b->decode), &points[MEASURED_DECODE], a->decode.ctx_measured, 0,
       0},
      {"prefill attention", a->prompt, b->prompt, &points[MEASURED_PROMPT], NULL, no_history, 0},
      {"mixed attention", points[MEASURED_MIXED].known ? a->mixed : none, b->mixed,
       &points[MEASURED_MIXED], NULL, 0, 0},
  };
  size_t n = 0;
  for (size_t i = 0; i < sizeof all / sizeof all[0] && n < max; i++)
    if (all[i].a.rank && all[i].b.rank && compare_pair(&all[i], &r[n++], e))
      return -1;
  return (int)n;
}

int calib_compare(const struct calibration *measured, const struct calibration *other,
                  struct calibration_residual *r, size_t max, struct base_error *e)
{
  struct measured_points points[MEASURED_PARTS] = {0};
  int n = 0;
  for (int i = 0; i < MEASURED_PARTS && !n; i++)
    n = measured_points_list(&points[i], measured, i, e);
  if (!n)
    n = compare_all(measured, other, points, r, max, e);
  for (int i = 0; i < MEASURED_PARTS; i++)
    measured_points_free(&points[i]);
  return n;
}
