/* SPDX-License-Identifier: GPL-3.0-or-later */
/* AIConfigurator's kernel tables to a calibration. */
#include <stdlib.h>
#include <string.h>

#include "calib/assemble.h"
#include "calib/calib.h"
#include "calib/fit.h"
#include "calib/roofline.h"
#include "calib/source.h"
#include "calib/tables.h"
#include "models/calibration.h"
#include "models/gpu.h"
#include "models/llm.h"

enum { KNOTS_MAX = 512, RESIDUALS_MAX = 8, SOURCES = 3 };

/* What is given, and what is being made. */
struct import {
  const char *path[SOURCES]; /* gemm, context, generation */
  const struct llm *model;
  const struct gpu *gpu;
  const char *weight_dtype, *kv_dtype;
  FILE *talk;
  struct base_error *e;
  struct calibration *c;
};

/* ------------------------------------------------------------------------------------ GEMMs --- */

/* Sum over operators at so many tokens; -1 if one cannot be had of the table. */
static int64_t sum_linears(const struct gemm_table *t, int dtype, int64_t tokens,
                           const struct roofline_linear *op, int n)
{
  int64_t sum = 0;
  for (int i = 0; i < n; i++) {
    int64_t ps = gemm_ps(t, dtype, tokens, op[i].n, op[i].k, NULL);
    if (ps < 0)
      return -1;
    sum += ps;
  }
  return sum;
}

/* A curve over all measured token counts, of the sum of some operators. */
static int make_gemm_curve(const struct import *im, const struct gemm_table *t, int dtype,
                           const struct roofline_linear *op, int n, const char *what,
                           struct calibration_curve *v)
{
  int64_t m[KNOTS_MAX];
  size_t have = gemm_tokens(t, dtype, m, KNOTS_MAX);
  v->x = calloc(have + 1, sizeof *v->x);
  v->y = calloc(have + 1, sizeof *v->y);
  if (!v->x || !v->y)
    return base_fail_memory(im->e);
  for (size_t i = 0; i < have; i++) {
    int64_t ps = sum_linears(t, dtype, m[i], op, n);
    if (ps < 0)
      continue;
    v->x[v->n] = m[i];
    v->y[v->n++] = ps;
  }
  if (v->n >= 2)
    return 0;
  return base_fail_at(im->e, BASE_INPUT, im->path[0], 0,
                      "%s: the table lacks GEMMs near the shapes of model '%s' (n %lld, k %lld)",
                      what, im->model->name, (long long)op[0].n, (long long)op[0].k);
}

static struct calibration_residual *next_residual(struct import *im)
{
  return &im->c->residual[im->c->nresiduals++];
}

/*
 * How good the rules over n are, at shapes that were measured: the widest measured n that is not
 * beyond `n` (or, with `beyond`, the widest of all) is left out and predicted from the others.
 */
static int check_rule(struct import *im, const struct gemm_table *t, int dtype,
                      struct roofline_linear op, int beyond, const char *name)
{
  int64_t m[KNOTS_MAX], wide = 0;
  size_t have = gemm_tokens(t, dtype, m, KNOTS_MAX);
  struct fit_errors f;
  for (size_t i = 0; i < t->n; i++) {
    const struct gemm_row *r = &t->row[i];
    if (r->dtype == dtype && r->k == op.k && r->n > wide && (beyond || r->n <= op.n))
      wide = r->n;
  }
  if (!wide)
    return 0;
  if (fit_errors_init(&f, have))
    return base_fail_memory(im->e);
  for (size_t i = 0; i < have; i++) {
    struct gemm_rule rule = {beyond ? wide : 0, wide};
    int64_t truth = gemm_ps(t, dtype, m[i], wide, op.k, NULL), guess;
    f.samples += truth >= 0;
    guess = beyond || wide < op.n ? gemm_ps(t, dtype, m[i], wide, op.k, &rule) : -1;
    if (truth >= 0 && guess >= 0)
      fit_errors_add(&f, guess, truth);
  }
  if (f.n)
    fit_errors_close(&f, name, next_residual(im));
  else
    free(f.ppb);
  return 0;
}

static int make_gemms(struct import *im, const struct gemm_table *t)
{
  struct calibration *c = im->c;
  struct roofline_linear op[ROOFLINE_LINEARS], head = {im->model->vocab, im->model->hidden};
  roofline_linears(im->model, op);
  if (make_gemm_curve(im, t, t->weight, op, ROOFLINE_LINEARS, "body", &c->body) ||
      make_gemm_curve(im, t, TABLE_BF16, op, ROOFLINE_LINEARS, "draft layer", &c->draft_layer) ||
      make_gemm_curve(im, t, TABLE_BF16, &head, 1, "LM head", &c->head))
    return -1;
  if (fit_curve_errors(&c->body, "body over tokens", next_residual(im), im->e) ||
      fit_curve_errors(&c->draft_layer, "draft layer over tokens", next_residual(im), im->e) ||
      fit_curve_errors(&c->head, "head over positions", next_residual(im), im->e))
    return -1;
  if (check_rule(im, t, t->weight, op[2], 0, "body over n"))
    return -1;
  return check_rule(im, t, TABLE_BF16, head, 1, "head over n");
}

/* ------------------------------------------------------------------------------- provenance --- */

static int note_source(struct import *im, int which, const struct table_origin *o)
{
  struct calibration *c = im->c;
  if (source_add(c, im->path[which], o->engine, o->kernel, "Apache-2.0",
                 "https://github.com/ai-dynamo/aiconfigurator", im->e))
    return -1;
  if (c->engine[0] && strcmp(c->engine, o->engine))
    return base_fail_at(im->e, BASE_INPUT, im->path[which], 0,
                        "the table is of engine '%s', another one of '%s'", o->engine, c->engine);
  source_text(c->engine, sizeof c->engine, o->engine);
  return 0;
}

/* ---------------------------------------------------------------------------------- import --- */

static int import_gemms(struct import *im)
{
  struct gemm_table t;
  if (gemm_load(&t, im->path[0], im->weight_dtype, im->gpu->device, im->e))
    return -1;
  int rc = note_source(im, 0, &t.origin);
  if (!rc)
    rc = make_gemms(im, &t);
  gemm_free(&t);
  return rc;
}

/* which: 1 prefill, 2 decode. */
static int import_attention(struct import *im, int which)
{
  struct attention_table t;
  struct calibration *c = im->c;
  if (attention_load(&t, im->path[which], im->model, im->kv_dtype, im->gpu->device, im->e))
    return -1;
  const struct roofline roof = {im->model, im->gpu, 2, strcmp(im->kv_dtype, "fp8") ? 2 : 1};
  int rc = note_source(im, which, &t.origin) ||
           assemble_check_attention(&roof, t.row, t.n, im->path[which], im->e);
  if (!rc && which == 1)
    rc = fit_prefill(&t, &c->prefill, &c->prefill_token_fs, next_residual(im), im->e);
  else if (!rc)
    rc = fit_decode(&t, &c->decode, next_residual(im), im->e);
  attention_free(&t);
  return rc ? -1 : 0;
}

static void set_shapes(const struct import *im)
{
  im->c->law = CALIBRATION_PAIRS;
  source_describe(im->c, im->model, im->gpu, im->weight_dtype, im->kv_dtype, 1);
}

static int check_dtypes(const char *weight_dtype, const char *kv_dtype, struct base_error *e)
{
  if (strcmp(weight_dtype, "fp8_block") == 0)
    return base_fail(e, BASE_INPUT,
                     "weight type fp8_block is not imported: its times of few rows hold the "
                     "host's launch; use fp8");
  if (strcmp(weight_dtype, "fp8") && strcmp(weight_dtype, "bfloat16"))
    return base_fail(e, BASE_INPUT, "weight type '%s' is not known; use fp8 or bfloat16",
                     weight_dtype);
  if (strcmp(kv_dtype, "fp8") && strcmp(kv_dtype, "bfloat16"))
    return base_fail(e, BASE_INPUT, "KV type '%s' is not known; use fp8 or bfloat16", kv_dtype);
  return 0;
}

static int import_all(struct import *im)
{
  struct calibration *c = im->c;
  c->residual = calloc(RESIDUALS_MAX, sizeof *c->residual);
  c->source = calloc(SOURCES, sizeof *c->source);
  if (!c->residual || !c->source)
    return base_fail_memory(im->e);
  set_shapes(im);
  if (import_gemms(im) || import_attention(im, 1) || import_attention(im, 2))
    return -1;
  calibration_seal(c);
  source_tell(c, im->talk);
  return 0;
}

struct calibration *calib_fit_aiconfigurator(const char *gemm_csv, const char *context_csv,
                                             const char *generation_csv, const struct llm *model,
                                             const struct gpu *gpu, const char *weight_dtype,
                                             const char *kv_dtype, FILE *talk, struct base_error *e)
{
  struct import im = {
      {gemm_csv, context_csv, generation_csv}, model, gpu, weight_dtype, kv_dtype, talk, e, NULL};
  if (check_dtypes(weight_dtype, kv_dtype, e))
    return NULL;
  im.c = calloc(1, sizeof *im.c);
  if (!im.c) {
    base_fail_memory(e);
    return NULL;
  }
  if (import_all(&im)) {
    calibration_free(im.c);
    return NULL;
  }
  return im.c;
}

int calib_import_aiconfigurator(const char *gemm_csv, const char *context_csv,
                                const char *generation_csv, const struct llm *model,
                                const struct gpu *gpu, const char *weight_dtype,
                                const char *kv_dtype, const char *output_h5, FILE *talk,
                                struct base_error *e)
{
  struct calibration *c = calib_fit_aiconfigurator(gemm_csv, context_csv, generation_csv, model,
                                                   gpu, weight_dtype, kv_dtype, talk, e);
  if (!c)
    return -1;
  int rc = calibration_write(c, output_h5, e);
  if (!rc && talk)
    fprintf(talk, "  written to %s\n", output_h5);
  calibration_free(c);
  return rc;
}
