/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The pass over the layers, there and back. Forward it is the engine's, over whole sequences at
 * once; what the backward reads is kept on the way, or computed once more.
 */
#include "backend/trainer_inner.h"

static const struct ops_table *ops_of(const struct trainer *t)
{
  return t->g->ops->table;
}

static int stopped(const struct trainer *t)
{
  return t->stop && __atomic_load_n(t->stop, __ATOMIC_RELAXED);
}

/* ---------------------------------------------------------------------------------- forward --- */

static void copy_act(struct trainer *t, void *to, const void *from, uint32_t width)
{
  ops_of(t)->copy(t->g->ops, to, from, (size_t)t->rows * width * ops_of(t)->act_bytes);
}

static const struct adapter_pair *pair_of(const struct trainer *t, uint32_t layer, int target)
{
  if (!t->a)
    return NULL;
  const struct adapter_pair *p = &t->a->pair[(size_t)layer * LORA_TARGETS + (size_t)target];
  return p->a.data ? p : NULL;
}

static void linear(struct trainer *t, uint32_t layer, int target, void *y, const void *x,
                   const struct tensor *w, const struct tensor *bias)
{
  const struct adapter_pair *p = pair_of(t, layer, target);
  ops_of(t)->linear(t->g->ops, y, x, w, bias, t->rows);
  if (!p)
    return;
  struct ops_lora group = {.rows = t->rows, .a = &p->a, .b = &p->b, .scale = t->a->scale};
  ops_of(t)->lora(t->g->ops, y, x, &group, 1, w->cols, w->rows);
}

static void turn(struct trainer *t, void *to, const void *raw, const struct tensor *norm,
                 uint32_t heads)
{
  const struct config *c = &t->w->config;
  copy_act(t, to, raw, heads * c->head_dim);
  ops_of(t)->norm_rope(t->g->ops, to, norm, (float)c->rms_eps, t->inv_freq, t->position, t->rows,
                       heads, c->head_dim);
}

static struct grad_heads heads_of(const struct config *c)
{
  return (struct grad_heads){c->q_heads, c->kv_heads, c->head_dim};
}

/* From t->x (and t->delta, if `add`, which the layer before left) to t->x and t->delta. */
static void layer_forward(struct trainer *t, uint32_t l, int add)
{
  const struct ops_table *o = ops_of(t);
  const struct layer_weights *w = &t->w->layer[l];
  const struct config *c = &t->w->config;
  void *at[KEPT_COUNT];
  for (int i = 0; i < KEPT_COUNT; i++)
    at[i] = trainer_kept_at(t, l, i);
  o->rms_norm(t->g->ops, at[KEPT_NORMED], t->x, add ? t->delta : NULL, &w->input_norm,
              (float)c->rms_eps, t->rows, c->hidden);
  copy_act(t, at[KEPT_X], t->x, c->hidden);
  linear(t, l, LORA_Q, at[KEPT_Q_RAW], at[KEPT_NORMED], &w->q, &w->q_bias);
  linear(t, l, LORA_K, at[KEPT_K_RAW], at[KEPT_NORMED], &w->k, &w->k_bias);
  linear(t, l, LORA_V, at[KEPT_V], at[KEPT_NORMED], &w->v, &w->v_bias);
  turn(t, at[KEPT_Q], at[KEPT_Q_RAW], &w->q_norm, c->q_heads);
  turn(t, at[KEPT_K], at[KEPT_K_RAW], &w->k_norm, c->kv_heads);
  t->g->table->attention(t->g, at[KEPT_ATTENDED], t->lse[t->o.recompute ? 0 : l], at[KEPT_Q],
                         at[KEPT_K], at[KEPT_V], t->seq, t->nseq, heads_of(c));
  linear(t, l, LORA_O, t->delta, at[KEPT_ATTENDED], &w->o, NULL);
  o->rms_norm(t->g->ops, at[KEPT_MID_NORMED], t->x, t->delta, &w->post_norm, (float)c->rms_eps,
              t->rows, c->hidden);
  copy_act(t, at[KEPT_MID], t->x, c->hidden);
  linear(t, l, LORA_GATE, at[KEPT_GATE], at[KEPT_MID_NORMED], &w->gate, NULL);
  linear(t, l, LORA_UP, at[KEPT_UP], at[KEPT_MID_NORMED], &w->up, NULL);
  o->swiglu(t->g->ops, at[KEPT_GATED], at[KEPT_GATE], at[KEPT_UP],
            (size_t)t->rows * c->intermediate);
  linear(t, l, LORA_DOWN, t->delta, at[KEPT_GATED], &w->down, NULL);
}

int trainer_forward(struct trainer *t)
{
  const struct config *c = &t->w->config;
  ops_of(t)->embed(t->g->ops, t->x, &t->w->embed, t->token, t->rows);
  t->g->table->rotation(t->g, t->turn, t->inv_freq, t->position, t->rows, c->head_dim);
  for (uint32_t l = 0; l < c->layers; l++) {
    if (stopped(t))
      return 1;
    layer_forward(t, l, l > 0);
  }
  ops_of(t)->rms_norm(t->g->ops, t->last, t->x, t->delta, &t->w->norm, (float)c->rms_eps, t->rows,
                      c->hidden);
  return 0;
}

void trainer_layer_again(struct trainer *t, uint32_t layer)
{
  copy_act(t, t->x, trainer_kept_at(t, layer, KEPT_X), t->w->config.hidden);
  layer_forward(t, layer, 0);
}

/* ------------------------------------------------------------------------------------- head --- */

static const struct tensor *head_of(const struct trainer *t)
{
  return t->w->config.tied ? &t->w->embed : &t->w->head;
}

/* Losses of n counted rows, whose numbers are in `row`, and what goes back from them. */
static void head_chunk(struct trainer *t, const uint32_t *row, uint32_t n, float *dw, int back)
{
  const struct tensor *head = head_of(t);
  const struct grad_table *g = t->g->table;
  for (uint32_t i = 0; i < n; i++)
    t->picked_target[i] = t->target[row[i]];
  ops_of(t)->gather(t->g->ops, t->picked, t->last, row, n, head->cols);
  ops_of(t)->linear(t->g->ops, t->logits, t->picked, head, NULL, n);
  g->cross_entropy(t->g, t->loss, t->dlogits, t->logits, t->picked_target, n, head->rows);
  ops_of(t)->copy(t->g->ops, t->losses, t->loss, n * sizeof *t->losses);
  for (uint32_t i = 0; i < n; i++)
    t->loss_sum += (double)t->losses[i];
  if (!back)
    return;
  g->linear_back(t->g, t->dpicked, t->dlogits, head, n, 0);
  for (uint32_t i = 0; i < n; i++)
    ops_of(t)->copy(t->g->ops, t->slope[SLOPE_NORMED] + (size_t)row[i] * head->cols,
                    t->dpicked + (size_t)i * head->cols, head->cols * sizeof(float));
  if (dw)
    g->weight_back(t->g, dw, NULL, t->dlogits, t->picked, n, head->cols, head->rows);
}

/* Rows that do not count have no logits. */
void trainer_head(struct trainer *t, int back)
{
  float *dw = back ? trainer_fresh(t, head_of(t)) : NULL;
  uint32_t n = 0;
  t->loss_sum = 0;
  if (back)
    t->g->table->zero(t->g, t->slope[SLOPE_NORMED], (size_t)t->rows * t->w->config.hidden);
  for (uint32_t i = 0; i < t->rows; i++) {
    if (t->target[i] >= 0)
      t->picked_row[n++] = i;
    if (n == t->chunk || (i + 1 == t->rows && n > 0)) {
      head_chunk(t, t->picked_row, n, dw, back);
      n = 0;
    }
  }
}

/* --------------------------------------------------------------------------------- backward --- */

static void linear_back(struct trainer *t, uint32_t layer, int target, float *dx, int add,
                        const float *dy, const void *x, const struct tensor *w,
                        const struct tensor *bias)
{
  const struct grad_table *g = t->g->table;
  const struct adapter_pair *p = pair_of(t, layer, target);
  float *dw = trainer_fresh(t, w);
  g->linear_back(t->g, dx, dy, w, t->rows, add);
  if (dw)
    g->weight_back(t->g, dw, bias && bias->data ? trainer_fresh(t, bias) : NULL, dy, x, t->rows,
                   w->cols, w->rows);
  if (p)
    g->lora_back(t->g, dx, trainer_fresh(t, &p->a), trainer_fresh(t, &p->b), dy, x, &p->a, &p->b,
                 t->a->scale, t->rows);
}

static void norm_back(struct trainer *t, const void *x, const struct tensor *w)
{
  const struct config *c = &t->w->config;
  t->g->table->norm_back(t->g, t->slope[SLOPE_X], trainer_fresh(t, w), t->slope[SLOPE_NORMED], x, w,
                         (float)c->rms_eps, t->rows, c->hidden);
}

static void mlp_back(struct trainer *t, uint32_t l, void **at)
{
  const struct layer_weights *w = &t->w->layer[l];
  float **d = t->slope;
  linear_back(t, l, LORA_DOWN, d[SLOPE_GATED], 0, d[SLOPE_X], at[KEPT_GATED], &w->down, NULL);
  t->g->table->swiglu_back(t->g, d[SLOPE_GATE], d[SLOPE_UP], d[SLOPE_GATED], at[KEPT_GATE],
                           at[KEPT_UP], (size_t)t->rows * t->w->config.intermediate);
  linear_back(t, l, LORA_GATE, d[SLOPE_NORMED], 0, d[SLOPE_GATE], at[KEPT_MID_NORMED], &w->gate,
              NULL);
  linear_back(t, l, LORA_UP, d[SLOPE_NORMED], 1, d[SLOPE_UP], at[KEPT_MID_NORMED], &w->up, NULL);
  norm_back(t, at[KEPT_MID], &w->post_norm);
}

static void turn_back(struct trainer *t, float *d, const void *raw, const struct tensor *norm,
                      uint32_t heads)
{
  const struct config *c = &t->w->config;
  t->g->table->norm_rope_back(t->g, d, norm->data ? trainer_fresh(t, norm) : NULL, raw, norm,
                              (float)c->rms_eps, t->turn, t->rows, heads, c->head_dim);
}

static void attention_back(struct trainer *t, uint32_t l, void **at)
{
  const struct layer_weights *w = &t->w->layer[l];
  const struct config *c = &t->w->config;
  float **d = t->slope;
  linear_back(t, l, LORA_O, d[SLOPE_ATTENDED], 0, d[SLOPE_X], at[KEPT_ATTENDED], &w->o, NULL);
  t->g->table->attention_back(t->g, d[SLOPE_Q], d[SLOPE_K], d[SLOPE_V], d[SLOPE_ATTENDED],
                              at[KEPT_Q], at[KEPT_K], at[KEPT_V], at[KEPT_ATTENDED],
                              t->lse[t->o.recompute ? 0 : l], t->seq, t->nseq, heads_of(c));
  turn_back(t, d[SLOPE_Q], at[KEPT_Q_RAW], &w->q_norm, c->q_heads);
  turn_back(t, d[SLOPE_K], at[KEPT_K_RAW], &w->k_norm, c->kv_heads);
  linear_back(t, l, LORA_Q, d[SLOPE_NORMED], 0, d[SLOPE_Q], at[KEPT_NORMED], &w->q, &w->q_bias);
  linear_back(t, l, LORA_K, d[SLOPE_NORMED], 1, d[SLOPE_K], at[KEPT_NORMED], &w->k, &w->k_bias);
  linear_back(t, l, LORA_V, d[SLOPE_NORMED], 1, d[SLOPE_V], at[KEPT_NORMED], &w->v, &w->v_bias);
  norm_back(t, at[KEPT_X], &w->input_norm);
}

int trainer_backward(struct trainer *t)
{
  const struct config *c = &t->w->config;
  float *dembed = trainer_fresh(t, &t->w->embed);
  t->g->table->zero(t->g, t->slope[SLOPE_X], (size_t)t->rows * c->hidden);
  norm_back(t, t->x, &t->w->norm);
  for (uint32_t l = c->layers; l-- > 0;) {
    void *at[KEPT_COUNT];
    if (stopped(t))
      return 1;
    if (t->o.recompute)
      trainer_layer_again(t, l);
    for (int i = 0; i < KEPT_COUNT; i++)
      at[i] = trainer_kept_at(t, l, i);
    mlp_back(t, l, at);
    attention_back(t, l, at);
  }
  if (dembed)
    t->g->table->embed_back(t->g, dembed, t->slope[SLOPE_X], t->token, t->rows, c->hidden);
  return 0;
}
