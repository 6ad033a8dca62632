/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <string.h>

#include "models/calibration_io.h"

/* Bounds that keep every product of the cost model far from overflow: a kernel may take 2 h. */
#define TIME_MAX INT64_C(7200000000000000)
#define HOST_MAX INT64_C(1000000000000)
#define X_MAX (INT64_C(1) << 44)

/* What is being checked: for messages. */
struct check {
  const char *file;
  struct base_error *e;
};

static int wrong(const struct check *k, const char *what, const char *why)
{
  return base_fail_at(k->e, BASE_INPUT, k->file, 0, "%s: %s", what, why);
}

/* Strictly ascending within [min, X_MAX]. */
static int check_axis(const struct check *k, const char *what, const int64_t *x, size_t n,
                      int64_t min)
{
  for (size_t i = 0; i < n; i++) {
    if (x[i] < min || x[i] > X_MAX)
      return wrong(k, what, "a knot is out of range");
    if (i && x[i] <= x[i - 1])
      return wrong(k, what, "knots must ascend strictly");
  }
  return 0;
}

/* Times within [0, TIME_MAX]; with `rising`, none below the one before. */
static int check_times(const struct check *k, const char *what, const int64_t *y, size_t n,
                       int rising)
{
  for (size_t i = 0; i < n; i++) {
    if (y[i] < 0 || y[i] > TIME_MAX)
      return wrong(k, what, "a time is negative or longer than 2 hours");
    if (rising && i && y[i] < y[i - 1])
      return wrong(k, what, "times must not fall");
  }
  return 0;
}

static int check_curve(const struct check *k, const char *what, const struct calibration_curve *v,
                       uint32_t knots, int rising)
{
  if (v->n < knots || v->n > CALIBRATION_KNOTS_MAX)
    return wrong(k, what, "a curve has 2 to 4096 knots");
  if (check_axis(k, what, v->x, v->n, 0))
    return -1;
  return check_times(k, what, v->y, v->n, rising);
}

/* The measured limit of a row count must be a knot. */
static int check_measured(const struct check *k, const struct calibration_grid *g)
{
  for (uint32_t i = 0; i < g->nrows; i++) {
    uint32_t j = 0;
    while (j < g->nctx && g->ctx[j] != g->ctx_measured[i])
      j++;
    if (j == g->nctx)
      return wrong(k, "decode", "ctx_measured must be one of ctx");
  }
  return 0;
}

static int check_grid(const struct check *k, const struct calibration_grid *g)
{
  if (g->nrows < 1 || g->nrows > CALIBRATION_KNOTS_MAX || g->nctx < 2 ||
      g->nctx > CALIBRATION_KNOTS_MAX || g->nrows * g->nctx > CALIBRATION_CELLS_MAX)
    return wrong(k, "decode", "the grid is too small or too large");
  if (check_axis(k, "decode rows", g->rows, g->nrows, 1) ||
      check_axis(k, "decode ctx", g->ctx, g->nctx, 1) || check_measured(k, g))
    return -1;
  for (uint32_t i = 0; i < g->nrows; i++)
    if (check_times(k, "decode", g->y + (size_t)i * g->nctx, g->nctx, 1))
      return -1;
  return 0;
}

/* Not empty (unless optional) and no control characters: these texts go into reports. */
static int check_texts(const struct check *k, const void *base, const struct calibration_slots *s,
                       int optional)
{
  for (size_t i = 0; i < s->n; i++) {
    const char *text = calibration_at(base, &s->item[i]);
    if (!memchr(text, 0, s->item[i].size))
      return wrong(k, s->item[i].name, "the text has no end");
    if (!*text && !optional)
      return wrong(k, s->item[i].name, "the text is empty");
    for (const char *p = text; *p; p++)
      if ((unsigned char)*p < 0x20 || *p == 0x7f)
        return wrong(k, s->item[i].name, "the text has a control character");
  }
  return 0;
}

static int check_numbers(const struct check *k, const struct calibration *c)
{
  for (size_t i = 0; i < calibration_shapes.n; i++) {
    const struct calibration_slot *s = &calibration_shapes.item[i];
    uint32_t v = *(const uint32_t *)calibration_at(c, s);
    if (v < 1 || v > 1u << 24)
      return wrong(k, s->name, "must be 1 to 2^24");
  }
  for (size_t i = 0; i < calibration_sizes.n; i++) {
    const struct calibration_slot *s = &calibration_sizes.item[i];
    int64_t v = *(const int64_t *)calibration_at(c, s);
    if (v < 0 || v > INT64_C(1) << 50)
      return wrong(k, s->name, "must be 0 to 2^50");
  }
  if (c->layers > 1024 || c->kv_bytes_per_token < 1)
    return wrong(k, "layers, kv_bytes_per_token", "out of range");
  return 0;
}

static int check_records(const struct check *k, const struct calibration *c)
{
  if (c->nresiduals > CALIBRATION_ENTRIES_MAX || c->nsources > CALIBRATION_ENTRIES_MAX)
    return wrong(k, "residuals, sources", "there are more than 64");
  for (uint32_t i = 0; i < c->nresiduals; i++) {
    const struct calibration_residual *r = &c->residual[i];
    if (check_texts(k, r, &calibration_residual_texts, 0))
      return -1;
    if (!(isfinite(r->p50) && isfinite(r->p95) && isfinite(r->max) && r->p50 >= 0 &&
          r->p50 <= r->p95 && r->p95 <= r->max))
      return wrong(k, r->curve, "residuals must be 0 <= p50 <= p95 <= max");
  }
  for (uint32_t i = 0; i < c->nsources; i++)
    if (check_texts(k, &c->source[i], &calibration_source_texts, 1))
      return -1;
  return 0;
}

/* Axes of sizes that a step can have, no knot twice; a chunk or a batch of 0 is no grid point. */
static int check_lattice(const struct check *k, const struct calibration_lattice *s,
                         const struct lattice *l)
{
  if (l->rank != s->rank)
    return wrong(k, s->name, "the grid is missing");
  for (uint32_t a = 0; a < l->rank; a++) {
    int64_t least = strcmp(s->axis[a], "history") ? 1 : 0;
    if (!l->n[a] || l->n[a] > CALIBRATION_KNOTS_MAX)
      return wrong(k, s->name, "an axis has 1 to 4096 knots");
    if (check_axis(k, s->name, l->x[a], l->n[a], least))
      return -1;
    if (l->x[a][l->n[a] - 1] > 1 << 24)
      return wrong(k, s->name, "a knot is beyond 2^24 tokens");
  }
  return check_times(k, s->name, l->y, lattice_cells(l), 0);
}

static int check_samples(const struct check *k, const struct calibration *c)
{
  if (c->nsamples > CALIBRATION_ENTRIES_MAX)
    return wrong(k, "samples", "there are more than 64 sets");
  for (uint32_t i = 0; i < c->nsamples; i++) {
    const struct calibration_samples *s = &c->sample[i];
    if (check_texts(k, s, &calibration_sample_texts, 0))
      return -1;
    if (s->n > CALIBRATION_SAMPLES_MAX || s->width < 1 || s->width > CALIBRATION_WIDTH_MAX)
      return wrong(k, s->name, "there are too many samples or columns");
  }
  return 0;
}

static int check_share(const struct check *k, const char *what, const struct calibration_curve *v)
{
  for (uint32_t i = 0; i < v->n; i++)
    if (v->y[i] > 1000000)
      return wrong(k, what, "a share is above 1");
  return 0;
}

static int check_tables(const struct check *k, const struct calibration *c)
{
  if (c->tp < 1 || c->tp > 1024)
    return wrong(k, "tp", "must be 1 to 1024");
  if (c->sampled[0] && strcmp(c->sampled, CALIBRATION_ENDS))
    return wrong(k, "sampled", "must be " CALIBRATION_ENDS ", or not there");
  if (c->host_step_ps < 0 || c->host_step_ps > HOST_MAX)
    return wrong(k, "host_step_ps", "must be 0 to 1 s");
  if (check_texts(k, c, &calibration_table_texts, 0) ||
      check_texts(k, c, &calibration_option_texts, 1) ||
      check_share(k, "skew_decode", &c->skew_decode) ||
      check_share(k, "skew_mixed", &c->skew_mixed))
    return -1;
  for (int i = 0; i < CALIBRATION_LATTICES; i++)
    if (check_lattice(k, &calibration_lattices[i],
                      calibration_lattice_of(c, &calibration_lattices[i])))
      return -1;
  return check_samples(k, c);
}

int calibration_check(const struct calibration *c, const char *file, struct base_error *e)
{
  struct check k = {file, e};
  const struct calibration_slots *slots = calibration_curves_of(c);
  if (check_texts(&k, c, &calibration_texts, 0) || check_numbers(&k, c))
    return -1;
  for (size_t i = 0; i < slots->n; i++) {
    const struct calibration_curve *v = calibration_at(c, &slots->item[i]);
    if (check_curve(&k, slots->item[i].name, v, slots->item[i].knots, v == &c->prefill))
      return -1;
  }
  if (c->law == CALIBRATION_PAIRS && c->prefill.x[0] != 0)
    return wrong(&k, "prefill", "the first knot must be at 0 pairs");
  if (c->law == CALIBRATION_TABLES && check_tables(&k, c))
    return -1;
  if (check_grid(&k, &c->decode))
    return -1;
  return check_records(&k, c);
}
