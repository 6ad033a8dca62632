/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Vidur's profiles to a calibration by tables. */
#include "calib/vidur.h"

#include <stdlib.h>
#include <string.h>

#include "calib/assemble.h"
#include "calib/calib.h"
#include "calib/collective.h"
#include "calib/fit.h"
#include "calib/grid_fit.h"
#include "calib/operator_sum.h"
#include "calib/source.h"
#include "models/calibration.h"
#include "models/llm.h"

/* What is given, and what is being made. */
struct import {
  const struct calib_input *in;
  struct vidur t;
  struct llm part; /* of the model, that one GPU runs */
  struct roofline roof;
  FILE *talk;
  struct base_error *e;
  struct calibration *c;
};

/* --------------------------------------------------------------------------------- operators -- */

/* The largest token count at which every operator was profiled: beyond, a sum would mix what is
 * measured with what is not. */
static int64_t common_end(const struct vidur *t)
{
  int64_t end = INT64_MAX;
  for (int op = 0; op < VIDUR_OPERATORS; op++) {
    struct operator_span s = operator_rows(t->mlp, t->nmlp, op);
    int64_t last = s.n ? s.row[s.n - 1].x : 0;
    end = last < end ? last : end;
  }
  return end;
}

static int sum(struct import *im, int step, const char *name, struct calibration_curve *v)
{
  int64_t times[VIDUR_OPERATORS], end = common_end(&im->t);
  for (int op = 0; op < VIDUR_OPERATORS; op++)
    times[op] = step ? vidur_operators[op].step : vidur_operators[op].layer;
  if (operator_sum(v, im->t.mlp, im->t.nmlp, times, VIDUR_OPERATORS, im->e))
    return -1;
  while (v->n && v->x[v->n - 1] > end)
    v->n--;
  if (v->n < 2)
    return base_fail_at(im->e, BASE_INPUT, im->t.path[VIDUR_MLP], 0,
                        "there are no two token counts at which all operators were profiled");
  return fit_curve_errors(v, name, assemble_residuals(im->c, 1), im->e) ||
                 operator_plateaus(v, im->e)
             ? -1
             : 0;
}

static int make_operators(struct import *im)
{
  return sum(im, 0, "dense layer over tokens", &im->c->body) ||
                 assemble_check_peak(im->c, im->in->model, im->in->gpu, im->t.path[VIDUR_MLP],
                                     im->e) ||
                 sum(im, 1, "embedding and final norm", &im->c->once) ||
                 assemble_head(im->c, &im->roof, im->e)
             ? -1
             : 0;
}

/* --------------------------------------------------------------------------------- attention -- */

static const uint32_t fill_order[] = {1, 0};

static int judge(struct import *im, const struct vidur_attention_row *row, size_t n,
                 const char *name, struct lattice *l)
{
  struct grid_point *point = calloc(n + 1, sizeof *point);
  if (!point)
    return base_fail_memory(im->e);
  for (size_t i = 0; i < n; i++)
    point[i] = (struct grid_point){{row[i].x[0], row[i].x[1]}, row[i].ps};
  int rc = grid_errors(2, fill_order, point, n, name, assemble_residuals(im->c, 3), im->e);
  if (!rc && l)
    rc = grid_make(l, 2, fill_order, point, n, im->e);
  free(point);
  return rc;
}

static int make_decode(struct import *im)
{
  struct attention_table t = {.n = im->t.ndecode};
  struct calibration_residual unused;
  t.row = calloc(t.n + 1, sizeof *t.row);
  if (!t.row)
    return base_fail_memory(im->e);
  for (size_t i = 0; i < t.n; i++) {
    const struct vidur_attention_row *r = &im->t.decode[i];
    t.row[i] = (struct attention_row){r->x[0], r->x[1], 1, r->ps, r->line};
  }
  int rc = fit_decode(&t, &im->c->decode, &unused, im->e);
  attention_free(&t);
  return rc;
}

static int check_times(const struct import *im)
{
  const struct vidur *t = &im->t;
  for (size_t i = 0; i < t->ndecode + t->nprompt; i++) {
    int decode = i < t->ndecode;
    const struct vidur_attention_row *r = decode ? &t->decode[i] : &t->prompt[i - t->ndecode];
    const struct attention_row row = {decode ? r->x[0] : 1, r->x[1], decode ? 1 : r->x[0], r->ps,
                                      r->line};
    if (assemble_check_attention(&im->roof, &row, 1, t->path[VIDUR_ATTENTION], im->e))
      return -1;
  }
  return 0;
}

static int make_attention(struct import *im)
{
  const struct vidur *t = &im->t;
  if (t->path[VIDUR_ATTENTION])
    return check_times(im) || judge(im, t->decode, t->ndecode, "decode attention", NULL) ||
                   make_decode(im) ||
                   judge(im, t->prompt, t->nprompt, "prefill attention", &im->c->prompt)
               ? -1
               : 0;
  if (im->in->derive)
    return assemble_attention(im->c, &im->roof, im->e);
  return base_fail_at(im->e, BASE_INPUT, t->path[VIDUR_MLP], 0,
                      "model '%s' also needs the attention table (attention.csv), which is not "
                      "given; add it, or have attention derived from shapes by --derive",
                      im->in->model->name);
}

static int make_collectives(struct import *im)
{
  const struct vidur *t = &im->t;
  if (im->in->tp > 1 && t->nreduce)
    return collective_take(im->c, t->reduce, t->nreduce, assemble_residuals(im->c, 1), im->e);
  return collective_derive(im->c, im->in->gpu, ROOFLINE_GEMM_PS, im->talk, im->e);
}

/* ----------------------------------------------------------------------------------- samples -- */

static int keep_operators(struct import *im)
{
  for (int op = 0; op < VIDUR_OPERATORS; op++) {
    struct operator_span s = operator_rows(im->t.mlp, im->t.nmlp, op);
    struct calibration_samples *to = assemble_samples(im->c, vidur_operators[op].name,
                                                      "tokens,time_ps", 2, s.n, im->e);
    if (!to)
      return -1;
    for (size_t i = 0; i < s.n; i++) {
      to->v[2 * i] = s.row[i].x;
      to->v[2 * i + 1] = s.row[i].ps;
    }
  }
  return 0;
}

static int keep_attention(struct import *im, const char *name, const char *columns,
                          const struct vidur_attention_row *row, size_t n)
{
  struct calibration_samples *to = n ? assemble_samples(im->c, name, columns, 3, n, im->e) : NULL;
  for (size_t i = 0; to && i < n; i++) {
    const int64_t v[] = {row[i].x[0], row[i].x[1], row[i].ps};
    memcpy(to->v + 3 * i, v, sizeof v);
  }
  return to || !n ? 0 : -1;
}

/* ------------------------------------------------------------------------------------ import -- */

static int note_sources(struct import *im)
{
  const char *engine = im->in->engine ? im->in->engine : "vidur's profiler, version not stated";
  source_text(im->c->engine, sizeof im->c->engine, engine);
  for (int k = 0; k < VIDUR_SEND_RECV; k++) {
    const char *kernel = k == VIDUR_ATTENTION && im->t.backend[0] ? im->t.backend : "not stated";
    if (im->t.path[k] && source_add(im->c, im->t.path[k], engine, kernel, "MIT",
                                    "https://github.com/microsoft/vidur", im->e))
      return -1;
  }
  return 0;
}

static int import_all(struct import *im)
{
  const struct calib_input *in = im->in;
  if (vidur_load(&im->t, in->path, in->npaths, in->model, in->tp, im->e) || note_sources(im) ||
      make_operators(im) || make_attention(im) || make_collectives(im) || keep_operators(im) ||
      keep_attention(im, "prefill attention", "chunk,history,time_ps", im->t.prompt,
                     im->t.nprompt) ||
      keep_attention(im, "decode attention", "rows,ctx,time_ps", im->t.decode, im->t.ndecode))
    return -1;
  assemble_sampler(im->c, &im->roof);
  if (assemble_mixed(im->c, im->e))
    return -1;
  vidur_tell(&im->t, im->talk);
  assemble_finish(im->c, im->talk);
  return 0;
}

struct calibration *calib_fit_vidur(const struct calib_input *in, FILE *talk, struct base_error *e)
{
  const struct assemble_of of = {in->model, in->gpu, "bfloat16", "bfloat16", in->tp};
  struct import im = {.in = in, .talk = talk, .e = e};
  if (llm_shard(in->model, in->tp, &im.part, e))
    return NULL;
  im.roof = (struct roofline){&im.part, in->gpu, 2, 2};
  im.c = assemble_begin(&of, e);
  if (!im.c)
    return NULL;
  int rc = import_all(&im);
  vidur_free(&im.t);
  if (rc) {
    calibration_free(im.c);
    return NULL;
  }
  return im.c;
}
