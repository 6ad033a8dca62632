/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/operator_sum.h"

#include <stdlib.h>
#include <string.h>

#include "models/calibration.h"

enum { TILE = 16 }; /* rows of the smallest tile of a tensor core */

struct operator_span operator_rows(const struct operator_row *row, size_t n, int op)
{
  struct operator_span s = {row, 0};
  while (n && s.row->op != op)
    s.row++, n--;
  while (s.n < n && s.row[s.n].op == op)
    s.n++;
  return s;
}

/* An operator's time at x: linear between its rows, the nearest outside. */
static int64_t time_at(const struct operator_span *s, int64_t x)
{
  size_t i = 0;
  while (i < s->n && s->row[i].x < x)
    i++;
  if (i == 0 || i == s->n)
    return s->row[i ? i - 1 : 0].ps;
  const struct operator_row *a = &s->row[i - 1], *b = &s->row[i];
  return a->ps + (int64_t)((__int128)(b->ps - a->ps) * (x - a->x) / (b->x - a->x));
}

/* All x at which any operator was measured, ascending; returns how many. */
static uint32_t list_x(const struct operator_row *row, size_t n, int64_t *x)
{
  uint32_t have = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t j = have;
    while (j > 0 && x[j - 1] > row[i].x)
      j--;
    if (j > 0 && x[j - 1] == row[i].x)
      continue;
    memmove(x + j + 1, x + j, (have - j) * sizeof *x);
    x[j] = row[i].x;
    have++;
  }
  return have;
}

int operator_sum(struct calibration_curve *v, const struct operator_row *row, size_t n,
                 const int64_t *times, size_t nops, struct base_error *e)
{
  v->x = calloc(n + 1, sizeof *v->x);
  v->y = calloc(n + 1, sizeof *v->y);
  if (!v->x || !v->y)
    return base_fail_memory(e);
  v->n = list_x(row, n, v->x);
  for (size_t op = 0; op < nops; op++) {
    struct operator_span s = operator_rows(row, n, (int)op);
    for (uint32_t i = 0; s.n && times[op] && i < v->n; i++)
      v->y[i] += times[op] * time_at(&s, v->x[i]);
  }
  return 0;
}

int operator_plateaus(struct calibration_curve *v, struct base_error *e)
{
  int64_t *x = calloc(2 * (size_t)v->n + 1, sizeof *x),
          *y = calloc(2 * (size_t)v->n + 1, sizeof *y);
  uint32_t n = 0;
  if (!x || !y) {
    free(x);
    free(y);
    return base_fail_memory(e);
  }
  for (uint32_t i = 0; i < v->n; i++) {
    int64_t gap = i ? v->x[i] - v->x[i - 1] : 0;
    if (gap > 1 && gap <= TILE) {
      x[n] = v->x[i - 1] + 1;
      y[n++] = v->y[i];
    }
    x[n] = v->x[i];
    y[n++] = v->y[i];
  }
  free(v->x);
  free(v->y);
  *v = (struct calibration_curve){n, x, y};
  return 0;
}
