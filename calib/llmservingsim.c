/* SPDX-License-Identifier: GPL-3.0-or-later */
/* LLMServingSim's operator tables to a calibration by tables. */
#include <stdlib.h>
#include <string.h>

#include "calib/assemble.h"
#include "calib/calib.h"
#include "calib/collective.h"
#include "calib/fit.h"
#include "calib/grid_fit.h"
#include "calib/operator_sum.h"
#include "calib/operators.h"
#include "calib/skew.h"
#include "calib/source.h"
#include "calib/tables.h"
#include "models/calibration.h"
#include "models/gpu.h"
#include "models/llm.h"

#define REPOSITORY "https://github.com/casys-kaist/LLMServingSim"

/* What is given, and what is being made. */
struct import {
  struct operators t;
  const struct calib_operators *in;
  FILE *talk;
  struct base_error *e;
  struct calibration *c;
};

/* ---------------------------------------------------------------------------- operator sums --- */

/* Every operator that the model runs must be there, and no other. */
static int check_operators(const struct import *im, const struct operator_row *row, size_t n,
                           int kind)
{
  const struct llm *m = im->in->model;
  for (size_t op = 0; op < operators_nknown; op++) {
    const struct operators_known *k = &operators_known[op];
    struct operator_span s = operator_rows(row, n, (int)op);
    if (k->kind != kind)
      continue;
    if (!s.n && (k->need || m->qk_norm))
      return base_fail_at(im->e, BASE_INPUT, im->t.path[kind], 0,
                          "there is no row of layer '%s', which model '%s' runs; is the table of "
                          "this model?",
                          k->name, m->name);
    if (s.n && !k->need && !m->qk_norm)
      return base_fail_at(im->e, BASE_INPUT, im->t.path[kind], s.row->line,
                          "model '%s' has no layer '%s'; is the table of this model?", m->name,
                          k->name);
  }
  return 0;
}

/* The sum over the operators of a table, each as often as it runs a layer (`step` 0) or a step. */
static int sum_operators(struct import *im, const struct operator_row *row, size_t n, int step,
                         const char *name, struct calibration_curve *v)
{
  int64_t times[32];
  for (size_t op = 0; op < operators_nknown; op++)
    times[op] = step ? operators_known[op].step : operators_known[op].layer;
  if (operator_sum(v, row, n, times, operators_nknown, im->e))
    return -1;
  if (fit_curve_errors(v, name, assemble_residuals(im->c, 1), im->e))
    return -1;
  return row == im->t.dense ? operator_plateaus(v, im->e) : 0;
}

static int make_dense(struct import *im)
{
  const struct operators *t = &im->t;
  struct calibration *c = im->c;
  if (check_operators(im, t->dense, t->ndense, OPERATORS_DENSE) ||
      check_operators(im, t->sequence, t->nsequence, OPERATORS_SEQUENCE))
    return -1;
  return sum_operators(im, t->dense, t->ndense, 0, "dense layer over tokens", &c->body) ||
                 assemble_check_peak(c, im->in->model, im->in->gpu, t->path[OPERATORS_DENSE],
                                     im->e) ||
                 sum_operators(im, t->dense, t->ndense, 1, "embedding and final norm", &c->once) ||
                 sum_operators(im, t->sequence, t->nsequence, 1, "head and sampler", &c->head)
             ? -1
             : 0;
}

/* -------------------------------------------------------------------------------- attention --- */

/* The strata of the attention table: coordinates that are not 0, and the axes along which to fill
 * holes first: those along which time is closest to a line. */
static const struct stratum {
  const char *name;
  uint32_t rank;
  int axis[LATTICE_RANK];
  uint32_t order[LATTICE_RANK];
} decode = {"decode attention", 2, {2, 3}, {1, 0}},
  prompt = {"prefill attention", 2, {0, 1}, {1, 0}},
  mixed = {"mixed attention", 4, {0, 1, 2, 3}, {1, 3, 0, 2}};

static int in_stratum(const struct operators_attention_row *r, const struct stratum *s)
{
  int chunk = s != &decode, rows = s != &prompt;
  return !r->x[0] == !chunk && !r->x[2] == !rows;
}

/* The stratum's points, at most as many as the table has rows; an empty one is an error. */
static int list_points(const struct import *im, const struct stratum *s, struct grid_point *point,
                       size_t *n)
{
  *n = 0;
  for (size_t i = 0; i < im->t.nattention; i++) {
    const struct operators_attention_row *r = &im->t.attention[i];
    if (!in_stratum(r, s))
      continue;
    for (uint32_t a = 0; a < s->rank; a++)
      point[*n].x[a] = r->x[s->axis[a]];
    point[(*n)++].ps = r->ps;
  }
  if (*n)
    return 0;
  return base_fail_at(im->e, BASE_INPUT, im->t.path[OPERATORS_ATTENTION], 0,
                      "there is no row of %s (0 means absent); the table must hold pure decode, "
                      "pure prefill and mixed rows",
                      s->name);
}

static int fit_grid(struct import *im, const struct stratum *s, struct grid_point *point,
                    struct lattice *l)
{
  size_t n;
  if (list_points(im, s, point, &n) ||
      grid_errors(s->rank, s->order, point, n, s->name, assemble_residuals(im->c, 3), im->e))
    return -1;
  return l ? grid_make(l, s->rank, s->order, point, n, im->e) : 0;
}

/* The decode grid, made as those of other sources: falls of noise are pooled. */
static int make_decode(struct import *im)
{
  struct attention_table t = {0};
  struct calibration_residual unused;
  t.row = calloc(im->t.nattention + 1, sizeof *t.row);
  if (!t.row)
    return base_fail_memory(im->e);
  for (size_t i = 0; i < im->t.nattention; i++) {
    const struct operators_attention_row *r = &im->t.attention[i];
    if (in_stratum(r, &decode))
      t.row[t.n++] = (struct attention_row){r->x[2], r->x[3], 1, r->ps, r->line};
  }
  int rc = fit_decode(&t, &im->c->decode, &unused, im->e);
  attention_free(&t);
  return rc;
}

/* A row's chunk, and its decode rows; both were run in its time. */
static int check_times(const struct import *im)
{
  struct llm part;
  const struct roofline roof = {&part, im->in->gpu, 2, 2};
  if (llm_shard(im->in->model, im->in->tp, &part, im->e))
    return -1;
  for (size_t i = 0; i < im->t.nattention; i++) {
    const struct operators_attention_row *r = &im->t.attention[i];
    const struct attention_row row[] = {{1, r->x[1], r->x[0], r->ps, r->line},
                                        {r->x[2], r->x[3], 1, r->ps, r->line}};
    if (assemble_check_attention(&roof, row, 2, im->t.path[OPERATORS_ATTENTION], im->e))
      return -1;
  }
  return 0;
}

static int make_attention(struct import *im)
{
  if (check_times(im))
    return -1;
  struct grid_point *point = malloc((im->t.nattention + 1) * sizeof *point);
  if (!point)
    return base_fail_memory(im->e);
  int rc = fit_grid(im, &decode, point, NULL) || make_decode(im) ||
           fit_grid(im, &prompt, point, &im->c->prompt) ||
           fit_grid(im, &mixed, point, &im->c->mixed);
  free(point);
  return rc ? -1 : 0;
}

/* --------------------------------------------------------------------- skew and collectives --- */

static int make_skew(struct import *im)
{
  const struct operators *t = &im->t;
  if (!t->path[OPERATORS_SKEW]) {
    if (im->talk)
      fputs("there is no skew table: uneven batches cost what even ones of their mean do\n",
            im->talk);
    return 0;
  }
  return skew_fit(t->skew, t->nskew, 0, &im->c->skew_decode, assemble_residuals(im->c, 2), im->e) ||
                 skew_fit(t->skew, t->nskew, 1, &im->c->skew_mixed, assemble_residuals(im->c, 2),
                          im->e)
             ? -1
             : 0;
}

static int make_collectives(struct import *im)
{
  const struct operators *t = &im->t;
  int64_t launch = INT64_MAX; /* of a phase: the quickest measured kernel's time */
  if (im->in->tp > 1 && t->ncollective)
    return collective_take(im->c, t->collective, t->ncollective, assemble_residuals(im->c, 1),
                           im->e);
  for (size_t i = 0; i < t->ndense; i++)
    launch = t->dense[i].ps < launch ? t->dense[i].ps : launch;
  return collective_derive(im->c, im->in->gpu, launch, im->talk, im->e);
}

/* ---------------------------------------------------------------------------------- samples --- */

static int keep_operators(struct import *im, const struct operator_row *row, size_t n,
                          const char *columns)
{
  for (size_t i = 0; i < n;) {
    struct operator_span s = operator_rows(row + i, n - i, row[i].op);
    struct calibration_samples *to = assemble_samples(im->c, operators_known[row[i].op].name,
                                                      columns, 2, s.n, im->e);
    if (!to)
      return -1;
    for (size_t j = 0; j < s.n; j++) {
      to->v[2 * j] = s.row[j].x;
      to->v[2 * j + 1] = s.row[j].ps;
    }
    i += s.n;
  }
  return 0;
}

static int keep_attention(struct import *im)
{
  const struct operators *t = &im->t;
  struct calibration_samples *s = assemble_samples(
      im->c, "attention", "chunk,history,rows,ctx,time_ps", 5, t->nattention, im->e);
  for (size_t i = 0; s && i < t->nattention; i++) {
    memcpy(s->v + 5 * i, t->attention[i].x, 4 * sizeof *s->v);
    s->v[5 * i + 4] = t->attention[i].ps;
  }
  return s ? 0 : -1;
}

static int keep_skew(struct import *im)
{
  const struct operators *t = &im->t;
  if (!t->nskew)
    return 0;
  struct calibration_samples *s = assemble_samples(
      im->c, "uneven batches", "chunk,rows,mean_ps,max_ps,skew_ps", 5, t->nskew, im->e);
  for (size_t i = 0; s && i < t->nskew; i++) {
    const struct operators_skew_row *r = &t->skew[i];
    const int64_t v[] = {r->chunk, r->rows, r->mean_ps, r->max_ps, r->skew_ps};
    memcpy(s->v + 5 * i, v, sizeof v);
  }
  return s ? 0 : -1;
}

static int keep_samples(struct import *im)
{
  const struct operators *t = &im->t;
  if (keep_operators(im, t->dense, t->ndense, "tokens,time_ps") ||
      keep_operators(im, t->sequence, t->nsequence, "sequences,time_ps") || keep_attention(im))
    return -1;
  return keep_skew(im);
}

/* ----------------------------------------------------------------------------------- import --- */

/* A table of the source; nothing in it tells what was measured. */
static int note_table(struct import *im, int kind, int *unchecked)
{
  struct calibration *c = im->c;
  struct calibration_source *s = &c->source[c->nsources];
  const char *path = im->t.path[kind];
  int told;
  if (source_add(c, path, "", "as vLLM chooses", "MIT", REPOSITORY, im->e) ||
      source_check(c, s, path, &told, im->e))
    return -1;
  const char *engine = im->in->engine ? im->in->engine : source_engine(s->sha256);
  source_text(s->engine, sizeof s->engine, engine ? engine : "vLLM, version not stated");
  if (!told)
    source_text(s->kernel, sizeof s->kernel,
                "as vLLM chooses; model, GPU and group as stated by the user, not checked");
  *unchecked += !told;
  if (kind == OPERATORS_DENSE)
    source_text(c->engine, sizeof c->engine, s->engine);
  return 0;
}

static int note_sources(struct import *im)
{
  const struct operators *t = &im->t;
  int unchecked = 0;
  for (int k = 0; k < OPERATORS_KINDS; k++) {
    if (!t->path[k])
      continue;
    if (k != OPERATORS_COLLECTIVE
            ? note_table(im, k, &unchecked)
            : source_add(im->c, t->path[k], t->collective_engine, t->collective_kernel,
                         "Apache-2.0", "https://github.com/ai-dynamo/aiconfigurator", im->e))
      return -1;
  }
  if (unchecked && im->talk)
    fprintf(im->talk,
            "model %s, GPU %s and tensor parallel %u are as stated, not checked: nothing tells of "
            "what %d of the tables are\n",
            im->c->model, im->c->gpu, im->c->tp, unchecked);
  return 0;
}

static int import_all(struct import *im)
{
  struct calibration *c = im->c;
  const struct calib_operators *in = im->in;
  if (operators_load(&im->t, in->path, in->npaths, in->tp, in->gpu->device, im->e) ||
      note_sources(im) || make_dense(im) || make_attention(im) || make_skew(im) ||
      make_collectives(im) || keep_samples(im))
    return -1;
  calibration_seal(c);
  operators_tell_falls(&im->t, im->talk);
  source_tell(c, im->talk);
  return 0;
}

struct calibration *calib_fit_llmservingsim(const struct calib_operators *in, FILE *talk,
                                            struct base_error *e)
{
  struct import im = {.in = in, .talk = talk, .e = e};
  if (in->tp < 1 || in->model->q_heads % in->tp) {
    base_fail(e, BASE_INPUT, "a group of %u GPUs cannot share the %u heads of '%s' evenly", in->tp,
              in->model->q_heads, in->model->name);
    return NULL;
  }
  const struct assemble_of of = {in->model, in->gpu, "bfloat16", "bfloat16", in->tp};
  im.c = assemble_begin(&of, e);
  if (!im.c)
    return NULL;
  int rc = import_all(&im);
  operators_free(&im.t);
  if (rc) {
    calibration_free(im.c);
    return NULL;
  }
  return im.c;
}

int calib_import_llmservingsim(const struct calib_operators *in, const char *output_h5, FILE *talk,
                               struct base_error *e)
{
  struct calibration *c = calib_fit_llmservingsim(in, talk, e);
  int rc = c ? calibration_write(c, output_h5, e) : -1;
  calibration_free(c);
  return rc;
}
