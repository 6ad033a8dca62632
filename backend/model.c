/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "backend/model.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* The workspace: a buffer each of so many elements a row. */
enum buffer {
  RESIDUAL, /* x: the residual stream without the last delta */
  NORMED,
  DELTA, /* what o and down add to x; the next norm adds it */
  Q,
  K,
  V,
  ATTENDED,
  GATE,
  UP,
  GATED,
  /* of sampled rows only */
  LAST_RESIDUAL,
  LAST_DELTA,
  LAST_NORMED,
  LOGITS,
  BUFFERS
};

enum { ALIGN = 64 };

struct model {
  const struct weights *w;
  struct ops *ops;
  uint32_t max_rows, max_sampled;
  char *memory; /* of the backend; all buffers */
  size_t bytes;
  void *at[BUFFERS];
  float *inv_freq;
  struct ops_lora *group; /* [max_rows] */
  float *seen;            /* what visit is shown; made at its first call */
};

/* ----------------------------------------------------------------------------- workspace ---- */

static uint32_t q_width(const struct config *c)
{
  return c->q_heads * c->head_dim;
}

static uint32_t kv_width(const struct config *c)
{
  return c->kv_heads * c->head_dim;
}

static uint32_t buffer_width(const struct config *c, enum buffer b)
{
  switch (b) {
  case Q:
  case ATTENDED:
    return q_width(c);
  case K:
  case V:
    return kv_width(c);
  case GATE:
  case UP:
  case GATED:
    return c->intermediate;
  case LOGITS:
    return c->vocab;
  default:
    return c->hidden;
  }
}

/* Cuts the workspace at `memory` into its buffers; returns its size. NULL: the size only. */
static size_t lay_out(struct model *m, char *memory)
{
  size_t bytes = 0;
  for (int b = 0; b < BUFFERS; b++) {
    size_t rows = b < LAST_RESIDUAL ? m->max_rows : m->max_sampled;
    size_t size = rows * buffer_width(&m->w->config, (enum buffer)b) * m->ops->table->act_bytes;
    m->at[b] = memory ? memory + bytes : NULL;
    bytes += (size + ALIGN - 1) / ALIGN * ALIGN;
  }
  return bytes;
}

struct model *model_create(const struct weights *w, struct ops *ops, uint32_t max_rows,
                           uint32_t max_sampled, struct base_error *e)
{
  if (ops->table->check && ops->table->check(ops, &w->config, e))
    return NULL;
  struct model *m = calloc(1, sizeof *m);
  if (!m) {
    base_fail_memory(e);
    return NULL;
  }
  *m = (struct model){.w = w, .ops = ops, .max_rows = max_rows, .max_sampled = max_sampled};
  m->inv_freq = calloc(w->config.head_dim / 2 + 1, sizeof *m->inv_freq);
  m->group = calloc((size_t)max_rows + 1, sizeof *m->group);
  if (!m->inv_freq || !m->group) {
    base_fail_memory(e);
    goto destroy;
  }
  model_inv_freq(&w->config, m->inv_freq);
  m->bytes = lay_out(m, NULL);
  m->memory = ops->table->alloc(ops, m->bytes);
  if (!m->memory) {
    base_fail(e, BASE_ENV, "no memory for the workspace of steps of %u tokens (%zu bytes)",
              max_rows, m->bytes);
    goto destroy;
  }
  lay_out(m, m->memory);
  return m;
destroy:
  model_destroy(m);
  return NULL;
}

void model_destroy(struct model *m)
{
  if (!m)
    return;
  if (m->memory)
    m->ops->table->free(m->ops, m->memory);
  free(m->inv_freq);
  free(m->group);
  free(m->seen);
  free(m);
}

size_t model_workspace(const struct model *m)
{
  return m->bytes;
}

/* Llama-3: long waves are slowed by `factor`, short ones kept, those between blended. The formula
 * is that of transformers' _compute_llama3_parameters. */
static float scale_llama3(const struct config *c, float freq)
{
  const float wave = (float)(2 * M_PI) / freq, original = (float)c->rope_original;
  const float low = (float)c->rope_low_freq, high = (float)c->rope_high_freq;
  const float factor = (float)c->rope_factor;
  if (wave > original / low)
    return freq / factor;
  if (wave < original / high)
    return freq;
  const float smooth = (original / wave - low) / (high - low);
  return (1 - smooth) * freq / factor + smooth * freq;
}

/* In fp32 where transformers is: far out in a long context a last place of a frequency is an angle
 * that bf16 tells apart. */
void model_inv_freq(const struct config *c, float *inv_freq)
{
  for (uint32_t i = 0; i < c->head_dim / 2; i++) {
    const float freq = 1 / (float)pow(c->rope_theta, 2.0 * i / c->head_dim);
    inv_freq[i] = c->rope_factor > 0 ? scale_llama3(c, freq) : freq;
  }
}

/* -------------------------------------------------------------------------------- layers ---- */

static int stopped(const struct model_batch *b)
{
  return b->stop && __atomic_load_n(b->stop, __ATOMIC_RELAXED);
}

/* y += what the rows' adapters say of this target. */
static void add_lora(struct model *m, const struct model_batch *b, uint32_t layer, int target,
                     void *y, const void *x)
{
  uint32_t n = 0, in, out;
  for (uint32_t i = 0; i < b->nlora; i++) {
    const struct model_lora *l = &b->lora[i];
    const struct adapter_pair *p = &l->adapter->pair[layer * LORA_TARGETS + (uint32_t)target];
    if (p->a.data)
      m->group[n++] = (struct ops_lora){l->first_row, l->rows, &p->a, &p->b, l->adapter->scale};
  }
  if (!n)
    return;
  adapter_shape(&m->w->config, target, &in, &out);
  m->ops->table->lora(m->ops, y, x, m->group, n, in, out);
}

/* y = x w^T + bias, and the adapters' part. */
static void project(struct model *m, const struct model_batch *b, uint32_t layer, int target,
                    enum buffer y, enum buffer x, const struct tensor *w, const struct tensor *bias)
{
  m->ops->table->linear(m->ops, m->at[y], m->at[x], w, bias, b->rows);
  add_lora(m, b, layer, target, m->at[y], m->at[x]);
}

/* NORMED = norm of the residual stream, which takes up DELTA first unless `delta` is NULL. */
static void norm(struct model *m, const struct model_batch *b, const void *delta,
                 const struct tensor *w)
{
  const struct config *c = &m->w->config;
  m->ops->table->rms_norm(m->ops, m->at[NORMED], m->at[RESIDUAL], delta, w, (float)c->rms_eps,
                          b->rows, c->hidden);
}

static void attend(struct model *m, const struct ops_kv *kv, const struct model_batch *b,
                   uint32_t l)
{
  const struct ops_table *t = m->ops->table;
  const struct config *c = &m->w->config;
  const struct layer_weights *w = &m->w->layer[l];
  project(m, b, l, LORA_Q, Q, NORMED, &w->q, &w->q_bias);
  project(m, b, l, LORA_K, K, NORMED, &w->k, &w->k_bias);
  project(m, b, l, LORA_V, V, NORMED, &w->v, &w->v_bias);
  t->norm_rope(m->ops, m->at[Q], &w->q_norm, (float)c->rms_eps, m->inv_freq, b->position, b->rows,
               c->q_heads, c->head_dim);
  t->norm_rope(m->ops, m->at[K], &w->k_norm, (float)c->rms_eps, m->inv_freq, b->position, b->rows,
               c->kv_heads, c->head_dim);
  t->kv_write(m->ops, kv, l, m->at[K], m->at[V], b->seq, b->nseq);
  t->attention(m->ops, m->at[ATTENDED], m->at[Q], kv, l, b->seq, b->nseq, c->q_heads);
  project(m, b, l, LORA_O, DELTA, ATTENDED, &w->o, &(struct tensor){0});
}

static void feed_forward(struct model *m, const struct model_batch *b, uint32_t l)
{
  const struct layer_weights *w = &m->w->layer[l];
  const struct tensor none = {0};
  project(m, b, l, LORA_GATE, GATE, NORMED, &w->gate, &none);
  project(m, b, l, LORA_UP, UP, NORMED, &w->up, &none);
  m->ops->table->swiglu(m->ops, m->at[GATED], m->at[GATE], m->at[UP],
                        (size_t)b->rows * m->w->config.intermediate);
  project(m, b, l, LORA_DOWN, DELTA, GATED, &w->down, &none);
}

/* Shows a buffer of hidden states. */
static void show(struct model *m, const struct model_batch *b, uint32_t layer, enum buffer from)
{
  size_t n = (size_t)b->rows * m->w->config.hidden;
  if (!m->seen)
    m->seen = malloc((size_t)m->max_rows * m->w->config.hidden * sizeof *m->seen);
  if (!m->seen)
    return;
  m->ops->table->read(m->ops, m->at[from], n, m->seen);
  b->visit(b->visit_ctx, layer, m->seen);
}

/* The logits of the sampled rows, and their tokens. */
static void finish(struct model *m, const struct model_batch *b)
{
  const struct ops_table *t = m->ops->table;
  const struct config *c = &m->w->config;
  if (!b->nsampled)
    return;
  t->gather(m->ops, m->at[LAST_RESIDUAL], m->at[RESIDUAL], b->sampled, b->nsampled, c->hidden);
  t->gather(m->ops, m->at[LAST_DELTA], m->at[DELTA], b->sampled, b->nsampled, c->hidden);
  t->rms_norm(m->ops, m->at[LAST_NORMED], m->at[LAST_RESIDUAL], m->at[LAST_DELTA], &m->w->norm,
              (float)c->rms_eps, b->nsampled, c->hidden);
  t->linear(m->ops, m->at[LOGITS], m->at[LAST_NORMED], &m->w->head, &(struct tensor){0},
            b->nsampled);
  t->sample(m->ops, m->at[LOGITS], b->how, b->nsampled, c->vocab, b->out, b->logprob);
}

int model_forward(struct model *m, const struct ops_kv *kv, const struct model_batch *b)
{
  const struct config *c = &m->w->config;
  assert(b->rows && b->rows <= m->max_rows && b->nsampled <= m->max_sampled);
  m->ops->table->embed(m->ops, m->at[RESIDUAL], &m->w->embed, b->token, b->rows);
  for (uint32_t l = 0; l < c->layers; l++) {
    const struct layer_weights *w = &m->w->layer[l];
    if (stopped(b))
      return 1;
    norm(m, b, l ? m->at[DELTA] : NULL, &w->input_norm);
    if (b->visit)
      show(m, b, l, RESIDUAL);
    attend(m, kv, b, l);
    norm(m, b, m->at[DELTA], &w->post_norm);
    feed_forward(m, b, l);
  }
  if (stopped(b))
    return 1;
  finish(m, b);
  if (b->visit) {
    norm(m, b, m->at[DELTA], &m->w->norm);
    show(m, b, c->layers, RESIDUAL);
    show(m, b, c->layers + 1, NORMED);
  }
  return 0;
}

void model_logits(const struct model *m, uint32_t i, float *out)
{
  size_t vocab = m->w->config.vocab;
  const char *row = (const char *)m->at[LOGITS] + i * vocab * m->ops->table->act_bytes;
  m->ops->table->read(m->ops, row, vocab, out);
}
