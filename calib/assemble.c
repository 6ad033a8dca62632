/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/assemble.h"

#include <stdlib.h>
#include <string.h>

#include "calib/source.h"
#include "calib/tables.h"
#include "models/calibration.h"
#include "models/gpu.h"
#include "models/llm.h"

/* ------------------------------------------------------------------------------------ begin --- */

static int check_type(const char *what, const char *dtype, struct base_error *e)
{
  if (!strcmp(dtype, "fp8") || !strcmp(dtype, "bfloat16"))
    return 0;
  return base_fail(e, BASE_INPUT, "%s type '%s' is not known; use fp8 or bfloat16", what, dtype);
}

int assemble_check_types(const struct assemble_of *of, struct base_error *e)
{
  return check_type("weight", of->weight_dtype, e) || check_type("KV", of->kv_dtype, e) ? -1 : 0;
}

struct calibration *assemble_begin(const struct assemble_of *of, struct base_error *e)
{
  struct calibration *c = calloc(1, sizeof *c);
  if (c) {
    c->residual = calloc(ASSEMBLE_RESIDUALS, sizeof *c->residual);
    c->source = calloc(SOURCE_FILES_MAX, sizeof *c->source);
    c->sample = calloc(ASSEMBLE_SAMPLES, sizeof *c->sample);
  }
  if (!c || !c->residual || !c->source || !c->sample) {
    base_fail_memory(e);
    calibration_free(c);
    return NULL;
  }
  c->law = CALIBRATION_TABLES;
  source_describe(c, of->model, of->gpu, of->weight_dtype, of->kv_dtype, of->tp);
  return c;
}

struct calibration_residual *assemble_residuals(struct calibration *c, uint32_t n)
{
  c->nresiduals += n;
  return &c->residual[c->nresiduals - n];
}

struct calibration_samples *assemble_samples(struct calibration *c, const char *name,
                                             const char *columns, uint32_t width, size_t n,
                                             struct base_error *e)
{
  struct calibration_samples *s = &c->sample[c->nsamples];
  if (strlen(columns) >= sizeof s->columns) {
    base_fail(e, BASE_INVARIANT, "samples '%.47s': the names of their columns take over %zu bytes",
              name, sizeof s->columns - 1);
    return NULL;
  }
  source_text(s->name, sizeof s->name, name);
  source_text(s->columns, sizeof s->columns, columns);
  s->width = width;
  s->v = calloc(n * width + 1, sizeof *s->v);
  if (!s->v) {
    base_fail_memory(e);
    return NULL;
  }
  c->nsamples++;
  s->n = (uint32_t)n;
  return s;
}

void assemble_derived(struct calibration *c, const char *part)
{
  size_t have = strlen(c->derived);
  snprintf(c->derived + have, sizeof c->derived - have, "%s%s", have ? ", " : "", part);
}

int assemble_check_peak(const struct calibration *c, const struct llm *model, const struct gpu *g,
                        const char *path, struct base_error *e)
{
  const struct calibration_curve *v = &c->body;
  int64_t h = model->hidden, q = (int64_t)model->q_heads * model->head_dim,
          kv = (int64_t)model->kv_heads * model->head_dim;
  int64_t peak = strcmp(c->weight_dtype, "fp8") ? g->bf16_flops : g->fp8_flops;
  __int128 flops = (__int128)2 * (h * (q + 2 * kv) + q * h + 3 * h * model->intermediate) / c->tp;
  for (uint32_t i = 0; i < v->n; i++) {
    int64_t least = (int64_t)(flops * v->x[i] * 1000000000000 / peak);
    if (v->y[i] < least / 3 * 2)
      return base_fail_at(e, BASE_INPUT, path, 0,
                          "a layer of '%s' takes %.1f us at %lld tokens, but at the peak of '%s' "
                          "its multiplications alone take %.1f us; are the model, the GPU, --tp "
                          "and the unit right?",
                          model->name, (double)v->y[i] / 1e6, (long long)v->x[i], g->name,
                          (double)least / 1e6);
  }
  return 0;
}

/* The least time of a row of attention, ps. Cached keys may be of fp8, and multiplied as such. */
static int64_t least_attention(const struct roofline *r, const struct attention_row *a)
{
  const struct llm *m = r->part;
  int64_t peak = r->kv_bytes == 1 ? r->gpu->fp8_flops : r->gpu->bf16_flops;
  __int128 pairs = (__int128)a->isl * a->step + (__int128)a->isl * (a->isl + 1) / 2;
  __int128 flops = 4 * pairs * a->batch * m->q_heads * m->head_dim;
  __int128 bytes = (__int128)2 * m->kv_heads * m->head_dim * r->kv_bytes * a->batch * a->step;
  int64_t compute = (int64_t)(flops * 1000000000000 / peak);
  int64_t memory = (int64_t)(bytes * 1000000000000 / r->gpu->memory_bytes_per_s);
  return compute > memory ? compute : memory;
}

int assemble_check_attention(const struct roofline *r, const struct attention_row *row, size_t n,
                             const char *path, struct base_error *e)
{
  for (size_t i = 0; i < n; i++) {
    int64_t least = row[i].isl ? least_attention(r, &row[i]) : 0;
    if (row[i].ps < least / 3 * 2)
      return base_fail_at(e, BASE_INPUT, path, row[i].line,
                          "attention of %lld x %lld tokens behind %lld takes %.1f us, but at the "
                          "peaks of '%s' it takes %.1f us; are the model, the GPU, --tp and the "
                          "unit right?",
                          (long long)row[i].batch, (long long)row[i].isl, (long long)row[i].step,
                          (double)row[i].ps / 1e6, r->gpu->name, (double)least / 1e6);
  }
  return 0;
}

int assemble_curve(struct calibration_curve *v, const int64_t *x, size_t n, struct base_error *e)
{
  v->x = calloc(n + 1, sizeof *v->x);
  v->y = calloc(n + 1, sizeof *v->y);
  if (!v->x || !v->y)
    return base_fail_memory(e);
  memcpy(v->x, x, n * sizeof *v->x);
  v->n = (uint32_t)n;
  return 0;
}

/* ------------------------------------------------------------------------------ derived parts --
 */

int assemble_elementwise(struct calibration *c, const struct roofline *r)
{
  for (uint32_t i = 0; i < c->body.n; i++)
    c->body.y[i] += roofline_elementwise(r, c->body.x[i]);
  assemble_derived(c, "element-wise kernels");
  return 0;
}

int assemble_once(struct calibration *c, const struct roofline *r, struct base_error *e)
{
  static const int64_t tokens[] = {1, 1 << 20};
  if (assemble_curve(&c->once, tokens, 2, e))
    return -1;
  for (uint32_t i = 0; i < 2; i++)
    c->once.y[i] = roofline_once(r, tokens[i]);
  assemble_derived(c, "embedding and final norm");
  return 0;
}

void assemble_sampler(struct calibration *c, const struct roofline *r)
{
  for (uint32_t i = 0; i < c->head.n; i++)
    c->head.y[i] += roofline_sampler(r, c->head.x[i], c->tp);
  assemble_derived(c, "sampler");
}

/* Powers of two up to most; returns how many. */
static size_t powers(int64_t first, int64_t most, int64_t *x)
{
  size_t n = 0;
  for (int64_t v = first; v <= most; v *= 2)
    x[n++] = v;
  return n;
}

int assemble_head(struct calibration *c, const struct roofline *r, struct base_error *e)
{
  int64_t x[32];
  if (assemble_curve(&c->head, x, powers(1, 4096, x), e))
    return -1;
  for (uint32_t i = 0; i < c->head.n; i++)
    c->head.y[i] = roofline_head(r, c->head.x[i]);
  assemble_derived(c, "LM head");
  return 0;
}

static int derive_decode(struct calibration *c, const struct roofline *r, struct base_error *e)
{
  struct calibration_grid *g = &c->decode;
  int64_t x[32];
  g->nrows = (uint32_t)powers(1, 4096, x);
  g->nctx = (uint32_t)powers(1, 1 << 17, x);
  g->rows = calloc(g->nrows, sizeof *g->rows);
  g->ctx = calloc(g->nctx, sizeof *g->ctx);
  g->ctx_measured = calloc(g->nrows, sizeof *g->ctx_measured);
  g->y = calloc((size_t)g->nrows * g->nctx, sizeof *g->y);
  if (!g->rows || !g->ctx || !g->ctx_measured || !g->y)
    return base_fail_memory(e);
  powers(1, 4096, g->rows);
  powers(1, 1 << 17, g->ctx);
  for (uint32_t i = 0; i < g->nrows; i++) {
    g->ctx_measured[i] = g->ctx[g->nctx - 1];
    for (uint32_t j = 0; j < g->nctx; j++)
      g->y[(size_t)i * g->nctx + j] = roofline_decode(r, g->rows[i], g->ctx[j]);
  }
  return 0;
}

static int derive_prompt(struct calibration *c, const struct roofline *r, struct base_error *e)
{
  struct lattice *l = &c->prompt;
  int64_t chunk[32], history[32] = {0};
  l->rank = 2;
  l->n[0] = (uint32_t)powers(16, 1 << 15, chunk);
  l->n[1] = 1 + (uint32_t)powers(128, 1 << 17, history + 1);
  l->x[0] = calloc(l->n[0], sizeof *chunk);
  l->x[1] = calloc(l->n[1], sizeof *chunk);
  l->y = calloc(lattice_cells(l), sizeof *l->y);
  if (!l->x[0] || !l->x[1] || !l->y)
    return base_fail_memory(e);
  memcpy(l->x[0], chunk, l->n[0] * sizeof *chunk);
  memcpy(l->x[1], history, l->n[1] * sizeof *chunk);
  for (uint32_t i = 0; i < l->n[0]; i++)
    for (uint32_t j = 0; j < l->n[1]; j++)
      l->y[i * l->n[1] + j] = roofline_prompt(r, chunk[i], history[j]);
  return 0;
}

int assemble_attention(struct calibration *c, const struct roofline *r, struct base_error *e)
{
  if (derive_decode(c, r, e) || derive_prompt(c, r, e))
    return -1;
  assemble_derived(c, "attention");
  return 0;
}

/* ------------------------------------------------------------------------------------ mixed --- */

/* At most `most` of n knots, the first and the last among them; returns how many. */
static uint32_t thin(const int64_t *x, uint32_t n, uint32_t most, int64_t *out)
{
  uint32_t m = n < most ? n : most;
  for (uint32_t i = 0; i < m; i++)
    out[i] = x[m > 1 ? (uint64_t)i * (n - 1) / (m - 1) : 0];
  return m;
}

int assemble_sum(struct calibration *c, struct base_error *e)
{
  struct lattice *l = &c->mixed;
  const struct lattice decode = calibration_grid_lattice(&c->decode);
  enum { CHUNKS = 20, HISTORIES = 12, ROWS = 16, CONTEXTS = 14 };
  const int64_t *const from[] = {c->prompt.x[0], c->prompt.x[1], c->decode.rows, c->decode.ctx};
  const uint32_t n[] = {c->prompt.n[0], c->prompt.n[1], c->decode.nrows, c->decode.nctx};
  static const uint32_t most[] = {CHUNKS, HISTORIES, ROWS, CONTEXTS};
  l->rank = LATTICE_RANK;
  for (uint32_t a = 0; a < LATTICE_RANK; a++) {
    l->x[a] = calloc(most[a], sizeof *l->x[a]);
    if (!l->x[a])
      return base_fail_memory(e);
    l->n[a] = thin(from[a], n[a], most[a], l->x[a]);
  }
  size_t cells = lattice_cells(l);
  l->y = calloc(cells, sizeof *l->y);
  if (!l->y)
    return base_fail_memory(e);
  for (size_t i = 0; i < cells; i++) {
    struct lattice_point p[LATTICE_RANK];
    lattice_cell_point(l, i, p);
    l->y[i] = lattice_value(&c->prompt, p) + lattice_value(&decode, p + 2);
  }
  return 0;
}

int assemble_mixed(struct calibration *c, struct base_error *e)
{
  if (assemble_sum(c, e))
    return -1;
  assemble_derived(c, "chunks and decode rows together (the sum of both)");
  return 0;
}

void assemble_finish(struct calibration *c, FILE *talk)
{
  calibration_seal(c);
  if (talk && c->derived[0])
    fprintf(talk, "derived, not measured: %s\n", c->derived);
  source_tell(c, talk);
}
