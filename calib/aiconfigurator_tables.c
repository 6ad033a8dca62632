/* SPDX-License-Identifier: GPL-3.0-or-later */
/* AIConfigurator's kernel tables to a calibration by tables, of one GPU of a group. */
#include <stdlib.h>
#include <string.h>

#include "calib/assemble.h"
#include "calib/calib.h"
#include "calib/chunk_fit.h"
#include "calib/collective.h"
#include "calib/falls.h"
#include "calib/fit.h"
#include "calib/gemm_fit.h"
#include "calib/grid_fit.h"
#include "calib/source.h"
#include "calib/tables.h"
#include "models/calibration.h"
#include "models/gpu.h"
#include "models/llm.h"

enum { GEMM, CONTEXT, GENERATION, TABLES };

/* What is given, and what is being made. */
struct import {
  const struct calib_input *in;
  struct llm part; /* of the model, that one GPU runs */
  struct roofline roof;
  FILE *talk;
  struct base_error *e;
  struct calibration *c;
};

static int element_bytes(const char *dtype)
{
  return strcmp(dtype, "fp8") ? 2 : 1;
}

static int note_source(struct import *im, const char *path, const char *engine, const char *kernel)
{
  return source_add(im->c, path, engine, kernel, "Apache-2.0",
                    "https://github.com/ai-dynamo/aiconfigurator", im->e);
}

/* A table of kernels; all must be of one engine. */
static int note_table(struct import *im, int which, const struct table_origin *o)
{
  struct calibration *c = im->c;
  if (c->engine[0] && strcmp(c->engine, o->engine))
    return base_fail_at(im->e, BASE_INPUT, im->in->path[which], 0,
                        "the table is of engine '%s', another one of '%s'", o->engine, c->engine);
  source_text(c->engine, sizeof c->engine, o->engine);
  return note_source(im, im->in->path[which], o->engine, o->kernel);
}

/* ------------------------------------------------------------------------------------ GEMMs --- */

/* The sum of these operators at each token count of the table. */
static int sum_gemms(struct import *im, const struct gemm_fit *f, const struct roofline_linear *op,
                     int n, const char *name, struct calibration_curve *v)
{
  const struct surface *s = &f->s;
  if (assemble_curve(v, s->axis[2], s->naxis[2], im->e))
    return -1;
  for (uint32_t i = 0; i < v->n; i++)
    for (int j = 0; j < n; j++) {
      int64_t ps = gemm_fit_ps(f, v->x[i], op[j].n, op[j].k);
      if (ps < 0)
        return base_fail_at(im->e, BASE_INPUT, im->in->path[GEMM], 0,
                            "the table has no GEMM near n %lld, k %lld", (long long)op[j].n,
                            (long long)op[j].k);
      v->y[i] += ps;
    }
  if (v->n < 2)
    return base_fail_at(im->e, BASE_INPUT, im->in->path[GEMM], 0,
                        "the table has one token count (m) alone, which gives no curve");
  return fit_curve_errors(v, name, assemble_residuals(im->c, 1), im->e);
}

static int make_body(struct import *im, const struct gemm_table *t)
{
  struct gemm_fit f;
  struct roofline_linear op[ROOFLINE_LINEARS];
  char name[48];
  snprintf(name, sizeof name, "GEMM %s", im->in->weight_dtype);
  roofline_linears(&im->part, op);
  int rc = gemm_fit_make(&f, t, t->weight, im->roof.weight_bytes, name,
                         assemble_residuals(im->c, 4), im->e);
  if (!rc)
    rc = sum_gemms(im, &f, op, ROOFLINE_LINEARS, "layer's GEMMs over tokens", &im->c->body);
  gemm_fit_free(&f);
  return rc;
}

static int make_head(struct import *im, const struct gemm_table *t)
{
  struct gemm_fit f;
  const struct roofline_linear op = {im->part.vocab, im->part.hidden};
  int rc = gemm_fit_make(&f, t, TABLE_BF16, 2, "LM head", NULL, im->e);
  if (!rc)
    rc = sum_gemms(im, &f, &op, 1, "head over positions", &im->c->head);
  gemm_fit_free(&f);
  return rc;
}

static void tell_gemm_falls(const struct import *im, const struct gemm_table *t)
{
  struct falls f = {0};
  for (size_t i = 1; i < t->n; i++) {
    const struct gemm_row *a = &t->row[i - 1], *b = &t->row[i];
    if (a->dtype == b->dtype && a->k == b->k && a->n == b->n)
      falls_note(&f, a->ps, a->line, b->ps, b->line);
  }
  falls_tell(&f, im->in->path[GEMM], t->n, im->talk);
}

/* The rows of one type. */
static int keep_type(struct import *im, const struct gemm_table *t, int dtype, const char *name)
{
  struct calibration_samples *s = assemble_samples(im->c, name, "k,n,m,time_ps", 4, t->n, im->e);
  if (!s)
    return -1;
  s->n = 0;
  for (size_t i = 0; i < t->n; i++) {
    const struct gemm_row *r = &t->row[i];
    const int64_t v[] = {r->k, r->n, r->m, r->ps};
    if (r->dtype == dtype)
      memcpy(s->v + 4 * (size_t)s->n++, v, sizeof v);
  }
  return 0;
}

static int keep_gemms(struct import *im, const struct gemm_table *t)
{
  if (keep_type(im, t, TABLE_BF16, "GEMM bfloat16"))
    return -1;
  return t->weight == TABLE_BF16 ? 0 : keep_type(im, t, TABLE_WEIGHT, "GEMM fp8");
}

static int import_gemms(struct import *im)
{
  struct gemm_table t;
  if (gemm_load(&t, im->in->path[GEMM], im->in->weight_dtype, im->in->gpu->device, im->e))
    return -1;
  int rc = note_table(im, GEMM, &t.origin) || make_body(im, &t) || make_head(im, &t) ||
           keep_gemms(im, &t);
  if (!rc)
    tell_gemm_falls(im, &t);
  gemm_free(&t);
  return rc ? -1 : 0;
}

/* -------------------------------------------------------------------------------- attention --- */

static int is_decode(const struct attention_row *r)
{
  return r->isl == 1 && r->step >= 1;
}

/* Held-out errors of the decode table as a grid of rows and contexts, as of other sources. */
static int judge_decode(struct import *im, const struct attention_table *t)
{
  static const uint32_t order[] = {1, 0};
  struct grid_point *point = calloc(t->n + 1, sizeof *point);
  size_t n = 0;
  if (!point)
    return base_fail_memory(im->e);
  for (size_t i = 0; i < t->n; i++)
    if (is_decode(&t->row[i]))
      point[n++] = (struct grid_point){{t->row[i].batch, t->row[i].step}, t->row[i].ps};
  int rc = grid_errors(2, order, point, n, "decode attention", assemble_residuals(im->c, 3), im->e);
  free(point);
  return rc;
}

static int make_decode(struct import *im, const struct attention_table *t)
{
  struct calibration_residual unused;
  return fit_decode(t, &im->c->decode, &unused, im->e) ? -1 : judge_decode(im, t);
}

/* Along the new tokens, or the context of a decode row: the rest being equal. */
static void tell_attention_falls(const struct import *im, int which,
                                 const struct attention_table *t)
{
  struct falls f = {0};
  for (size_t i = 1; i < t->n; i++) {
    const struct attention_row *a = &t->row[i - 1], *b = &t->row[i];
    if (a->batch == b->batch && (a->step == b->step || a->isl == b->isl))
      falls_note(&f, a->ps, a->line, b->ps, b->line);
  }
  falls_tell(&f, im->in->path[which], t->n, im->talk);
}

static int keep_attention(struct import *im, const char *name, const struct attention_table *t)
{
  struct calibration_samples *s = assemble_samples(im->c, name, "batch,cached,new,time_ps", 4, t->n,
                                                   im->e);
  for (size_t i = 0; s && i < t->n; i++) {
    const struct attention_row *r = &t->row[i];
    const int64_t v[] = {r->batch, r->step, r->isl, r->ps};
    memcpy(s->v + 4 * i, v, sizeof v);
  }
  return s ? 0 : -1;
}

static int import_attention(struct import *im, int which)
{
  struct attention_table t;
  struct calibration *c = im->c;
  if (attention_load(&t, im->in->path[which], &im->part, im->in->kv_dtype, im->in->gpu->device,
                     im->e))
    return -1;
  int rc = note_table(im, which, &t.origin) ||
           assemble_check_attention(&im->roof, t.row, t.n, im->in->path[which], im->e);
  if (!rc && which == CONTEXT)
    rc = chunk_fit(&t, &c->prompt, assemble_residuals(c, 3), im->e) ||
         keep_attention(im, "context attention", &t);
  else if (!rc)
    rc = make_decode(im, &t) || keep_attention(im, "generation attention", &t);
  if (!rc && which == CONTEXT)
    assemble_derived(c, CALIBRATION_HISTORY);
  if (!rc)
    tell_attention_falls(im, which, &t);
  attention_free(&t);
  return rc ? -1 : 0;
}

/* ---------------------------------------------------------------------------------- import --- */

static int import_collectives(struct import *im)
{
  struct operators t = {0};
  const struct calib_input *in = im->in;
  size_t n = in->npaths - TABLES;
  if (in->tp == 1 || !n)
    return collective_derive(im->c, in->gpu, ROOFLINE_GEMM_PS, im->talk, im->e);
  int rc = collective_load(&t, in->path + TABLES, n, in->tp, in->gpu->device, im->e);
  if (!rc)
    rc = collective_take(im->c, t.collective, t.ncollective, assemble_residuals(im->c, 1), im->e);
  for (size_t i = 0; !rc && i < n; i++)
    rc = note_source(im, in->path[TABLES + i], t.collective_engine, t.collective_kernel);
  operators_free(&t);
  return rc;
}

static int import_all(struct import *im)
{
  if (import_gemms(im) || import_attention(im, CONTEXT) || import_attention(im, GENERATION) ||
      import_collectives(im) ||
      assemble_check_peak(im->c, im->in->model, im->in->gpu, im->in->path[GEMM], im->e))
    return -1;
  if (assemble_elementwise(im->c, &im->roof) || assemble_once(im->c, &im->roof, im->e))
    return -1;
  assemble_sampler(im->c, &im->roof);
  if (assemble_mixed(im->c, im->e))
    return -1;
  assemble_finish(im->c, im->talk);
  return 0;
}

struct calibration *calib_fit_kernels(const struct calib_input *in, FILE *talk,
                                      struct base_error *e)
{
  const struct assemble_of of = {in->model, in->gpu, in->weight_dtype, in->kv_dtype, in->tp};
  struct import im = {.in = in, .talk = talk, .e = e};
  if (in->npaths < TABLES) {
    base_fail(e, BASE_INPUT,
              "three tables are needed: GEMM, context attention, generation attention");
    return NULL;
  }
  if (assemble_check_types(&of, e) || llm_shard(in->model, in->tp, &im.part, e))
    return NULL;
  im.roof = (struct roofline){&im.part, in->gpu, element_bytes(in->weight_dtype),
                              element_bytes(in->kv_dtype)};
  im.c = assemble_begin(&of, e);
  if (im.c && import_all(&im)) {
    calibration_free(im.c);
    return NULL;
  }
  return im.c;
}
