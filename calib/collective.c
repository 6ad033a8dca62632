/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/collective.h"

#include <stdlib.h>
#include <string.h>

#include "calib/fit.h"
#include "calib/source.h"
#include "models/calibration.h"
#include "models/gpu.h"

/* Adds the rows of a further table that are larger than all that are there. */
static int append(struct operators *t, const struct operators *more, struct base_error *e)
{
  int64_t most = t->ncollective ? t->collective[t->ncollective - 1].bytes : 0;
  size_t n = t->ncollective;
  struct operators_collective_row *row = realloc(t->collective,
                                                 (n + more->ncollective + 1) * sizeof *row);
  if (!row)
    return base_fail_memory(e);
  t->collective = row;
  for (size_t i = 0; i < more->ncollective; i++)
    if (more->collective[i].bytes > most)
      row[n++] = more->collective[i];
  t->ncollective = n;
  return 0;
}

/* Puts the custom kernel's table first: NCCL's has the column nccl_dtype. */
static int join(struct operators *t, struct operators *other, struct base_error *e)
{
  if (strstr(t->collective_kernel, "NCCL")) {
    struct operators swap = *t;
    *t = *other;
    *other = swap;
  }
  return append(t, other, e);
}

int collective_load(struct operators *t, const char *const *path, size_t n, uint32_t tp,
                    const char *device, struct base_error *e)
{
  struct operators other = {0};
  if (n > 2)
    return base_fail(e, BASE_INPUT,
                     "at most two all-reduce tables are read: a custom kernel's and NCCL's");
  if (n && operators_load_collective(t, path[0], tp, device, e))
    return -1;
  int rc = n < 2 ? 0 : operators_load_collective(&other, path[1], tp, device, e);
  if (!rc && n == 2)
    rc = join(t, &other, e);
  operators_free(&other);
  return rc;
}

static int allocate(struct calibration_curve *v, size_t n, struct base_error *e)
{
  v->x = calloc(n, sizeof *v->x);
  v->y = calloc(n, sizeof *v->y);
  v->n = (uint32_t)n;
  return v->x && v->y ? 0 : base_fail_memory(e);
}

int collective_take(struct calibration *c, const struct operators_collective_row *row, size_t n,
                    struct calibration_residual *r, struct base_error *e)
{
  struct calibration_curve *v = &c->collective;
  source_text(c->collective_note, sizeof c->collective_note, "measured");
  if (allocate(v, n, e))
    return -1;
  for (size_t i = 0; i < n; i++) {
    v->x[i] = row[i].bytes;
    v->y[i] = row[i].ps;
  }
  return fit_curve_errors(v, "all-reduce over bytes", r, e);
}

int collective_derive(struct calibration *c, const struct gpu *g, int64_t launch_ps, FILE *talk,
                      struct base_error *e)
{
  struct calibration_curve *v = &c->collective;
  const int64_t most = INT64_C(1) << 32, tp = c->tp;
  source_text(c->collective_note, sizeof c->collective_note, "none: one GPU");
  if (tp == 1)
    return 0;
  if (allocate(v, 2, e))
    return -1;
  v->x[1] = most;
  v->y[0] = 2 * launch_ps;
  v->y[1] = 2 * launch_ps + (int64_t)((__int128)2 * (tp - 1) * most * 1000000000000 /
                                      ((__int128)tp * g->gpu_link_bytes_per_s));
  snprintf(c->collective_note, sizeof c->collective_note,
           "derived, not measured: the peak of the link of '%.40s'", g->name);
  if (talk)
    fprintf(talk,
            "there is no all-reduce table: collectives are %s; give a measured one for this GPU "
            "and %u GPUs if you can\n",
            c->collective_note, c->tp);
  return 0;
}
