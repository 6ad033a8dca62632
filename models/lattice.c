/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "models/lattice.h"

#include <stdlib.h>
#include <string.h>

typedef __int128 wide;

enum { CORNERS = 1 << LATTICE_RANK };
#define VALUE_MAX (INT64_C(1) << 53)

size_t lattice_cells(const struct lattice *l)
{
  size_t cells = l->rank ? 1 : 0;
  for (uint32_t a = 0; a < l->rank; a++)
    cells *= l->n[a];
  return cells;
}

void lattice_cell_point(const struct lattice *l, size_t cell, struct lattice_point *p)
{
  for (uint32_t a = l->rank; a-- > 0;) {
    p[a] = (struct lattice_point){l->x[a][cell % l->n[a]], 1};
    cell /= l->n[a];
  }
}

/* Where a coordinate lies on its axis: between knots i and j, at part / whole of the way (more than
 * whole: beyond the last). */
struct place {
  uint32_t i, j;
  wide part, whole;
};

static struct place find_place(const int64_t *x, uint32_t n, const struct lattice_point *p)
{
  struct place at = {0, 0, 0, 1};
  if (n == 1 || p->num <= (wide)x[0] * p->den)
    return at;
  uint32_t lo = 0, hi = n - 1;
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if ((wide)x[mid] * p->den <= p->num)
      lo = mid;
    else
      hi = mid;
  }
  at = (struct place){lo, hi, p->num - (wide)x[lo] * p->den, (wide)(x[hi] - x[lo]) * p->den};
  return at;
}

/* On the line through two values; beyond the second it does not fall, and no value
 * passes VALUE_MAX. */
static int64_t between(int64_t y0, int64_t y1, const struct place *at)
{
  if (!at->part)
    return y0;
  if (at->part > at->whole && y1 <= y0)
    return y1;
  wide v = y0 + (wide)(y1 - y0) * at->part / at->whole;
  return v > VALUE_MAX ? VALUE_MAX : (int64_t)v;
}

int64_t lattice_value(const struct lattice *l, const struct lattice_point *p)
{
  struct place at[LATTICE_RANK];
  size_t stride[LATTICE_RANK], step = 1;
  int64_t v[CORNERS];
  for (uint32_t a = l->rank; a-- > 0;) {
    at[a] = find_place(l->x[a], l->n[a], &p[a]);
    stride[a] = step;
    step *= l->n[a];
  }
  uint32_t corners = 1u << l->rank;
  for (uint32_t c = 0; c < corners; c++) {
    size_t cell = 0;
    for (uint32_t a = 0; a < l->rank; a++)
      cell += stride[a] * (c >> a & 1 ? at[a].j : at[a].i);
    v[c] = l->y[cell];
  }
  for (uint32_t a = l->rank; a-- > 0;) {
    corners >>= 1;
    for (uint32_t c = 0; c < corners; c++)
      v[c] = between(v[c], v[c + corners], &at[a]);
  }
  return v[0];
}

unsigned lattice_outside(const struct lattice *l, const struct lattice_point *p, int beyond)
{
  unsigned bits = 0;
  for (uint32_t a = 0; a < l->rank; a++) {
    wide first = (wide)l->x[a][0] * p[a].den, last = (wide)l->x[a][l->n[a] - 1] * p[a].den;
    if (beyond ? p[a].num > last : p[a].num < first)
      bits |= 1u << a;
  }
  return bits;
}

int lattice_copy(struct lattice *to, const struct lattice *from)
{
  *to = (struct lattice){.rank = from->rank};
  for (uint32_t a = 0; a < from->rank; a++) {
    to->n[a] = from->n[a];
    to->x[a] = malloc(from->n[a] * sizeof *to->x[a]);
    if (!to->x[a])
      goto free_to;
    memcpy(to->x[a], from->x[a], from->n[a] * sizeof *to->x[a]);
  }
  size_t cells = lattice_cells(from);
  to->y = malloc((cells + 1) * sizeof *to->y);
  if (!to->y)
    goto free_to;
  memcpy(to->y, from->y, cells * sizeof *to->y);
  return 0;
free_to:
  lattice_free(to);
  return -1;
}

void lattice_free(struct lattice *l)
{
  for (uint32_t a = 0; a < LATTICE_RANK; a++)
    free(l->x[a]);
  free(l->y);
  *l = (struct lattice){0};
}
