/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/measured_points.h"

#include <stdlib.h>
#include <string.h>

#include "models/calibration.h"

/* The columns that are the axes of a part's grid, as importers name them. */
static const struct {
  uint32_t rank;
  const char *axis[LATTICE_RANK];
} parts[MEASURED_PARTS] = {[MEASURED_DECODE] = {2, {"rows", "ctx"}},
                           [MEASURED_PROMPT] = {2, {"chunk", "history"}},
                           [MEASURED_MIXED] = {4, {"chunk", "history", "rows", "ctx"}}};

static int compare_points(const void *a, const void *b)
{
  const int64_t *x = a, *y = b;
  for (int i = 0; i < LATTICE_RANK; i++)
    if (x[i] != y[i])
      return x[i] < y[i] ? -1 : 1;
  return 0;
}

/* The place of a column among those of a set, -1: it has none of this name. */
static int find_column(const struct calibration_samples *s, const char *name)
{
  size_t n = strlen(name);
  int at = 0;
  for (const char *p = s->columns; *p; at++) {
    size_t len = strcspn(p, ",");
    if (len == n && !memcmp(p, name, n))
      return at;
    p += len + (p[len] == ',');
  }
  return -1;
}

/* Is a row of the part? One table may hold all parts: there, 0 tokens mean that there are none. */
static int of_part(const struct calibration_samples *s, const int64_t *row, int part)
{
  int chunk = find_column(s, "chunk"), rows = find_column(s, "rows");
  int has_chunk = chunk >= 0 && row[chunk], has_rows = rows >= 0 && row[rows];
  return has_chunk == (part != MEASURED_DECODE) && has_rows == (part != MEASURED_PROMPT);
}

static int add_set(struct measured_points *m, const struct calibration_samples *s, int part,
                   struct base_error *e)
{
  int column[LATTICE_RANK];
  for (uint32_t a = 0; a < parts[part].rank; a++)
    if ((column[a] = find_column(s, parts[part].axis[a])) < 0)
      return 0;
  void *more = realloc(m->x, (m->n + s->n + 1) * sizeof *m->x);
  if (!more)
    return base_fail_memory(e);
  m->x = more;
  m->known = 1;
  for (uint32_t i = 0; i < s->n; i++) {
    const int64_t *row = s->v + (size_t)i * s->width;
    if (!of_part(s, row, part))
      continue;
    memset(m->x[m->n], 0, sizeof *m->x);
    for (uint32_t a = 0; a < parts[part].rank; a++)
      m->x[m->n][a] = row[column[a]];
    m->n++;
  }
  return 0;
}

int measured_points_list(struct measured_points *m, const struct calibration *c, int part,
                         struct base_error *e)
{
  *m = (struct measured_points){0};
  for (uint32_t i = 0; i < c->nsamples; i++)
    if (add_set(m, &c->sample[i], part, e)) {
      measured_points_free(m);
      return -1;
    }
  if (m->n)
    qsort(m->x, m->n, sizeof *m->x, compare_points);
  return 0;
}

int measured_points_has(const struct measured_points *m, const struct lattice_point *p,
                        uint32_t rank)
{
  int64_t x[LATTICE_RANK] = {0};
  for (uint32_t a = 0; a < rank; a++)
    x[a] = p[a].num;
  return m->n && bsearch(x, m->x, m->n, sizeof *m->x, compare_points) != NULL;
}

void measured_points_free(struct measured_points *m)
{
  free(m->x);
  *m = (struct measured_points){0};
}
