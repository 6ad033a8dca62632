/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "backend/weights_roles.h"

#include <stdio.h>
#include <stdlib.h>

/* A side of a tensor. */
enum width { ONE, HIDDEN, QUERIES, KEYS, HEAD, INNER, VOCAB };
/* Which models have it. */
enum needs { ALWAYS, UNTIED, QK_NORM, QKV_BIAS };

struct role {
  const char *name;
  size_t offset; /* in struct weights, or in struct layer_weights */
  int kind;      /* enum weights_kind */
  int rows, cols, needs;
};

#define MODEL(name, field, kind, rows, cols, needs)                                                \
  {                                                                                                \
    name, offsetof(struct weights, field), kind, rows, cols, needs                                 \
  }
#define LAYER(name, field, kind, rows, cols, needs)                                                \
  {                                                                                                \
    name ".weight", offsetof(struct layer_weights, field), kind, rows, cols, needs                 \
  }
#define BIAS(name, field, cols)                                                                    \
  {                                                                                                \
    name ".bias", offsetof(struct layer_weights, field), WEIGHTS_BIAS, ONE, cols, QKV_BIAS         \
  }

static const struct role first_role[] = {
    MODEL("model.embed_tokens.weight", embed, WEIGHTS_LINEAR, VOCAB, HIDDEN, ALWAYS),
};
static const struct role layer_role[] = {
    LAYER("input_layernorm", input_norm, WEIGHTS_NORM, ONE, HIDDEN, ALWAYS),
    LAYER("self_attn.q_proj", q, WEIGHTS_LINEAR, QUERIES, HIDDEN, ALWAYS),
    BIAS("self_attn.q_proj", q_bias, QUERIES),
    LAYER("self_attn.k_proj", k, WEIGHTS_LINEAR, KEYS, HIDDEN, ALWAYS),
    BIAS("self_attn.k_proj", k_bias, KEYS),
    LAYER("self_attn.v_proj", v, WEIGHTS_LINEAR, KEYS, HIDDEN, ALWAYS),
    BIAS("self_attn.v_proj", v_bias, KEYS),
    LAYER("self_attn.o_proj", o, WEIGHTS_LINEAR, HIDDEN, QUERIES, ALWAYS),
    LAYER("self_attn.q_norm", q_norm, WEIGHTS_NORM, ONE, HEAD, QK_NORM),
    LAYER("self_attn.k_norm", k_norm, WEIGHTS_NORM, ONE, HEAD, QK_NORM),
    LAYER("post_attention_layernorm", post_norm, WEIGHTS_NORM, ONE, HIDDEN, ALWAYS),
    LAYER("mlp.gate_proj", gate, WEIGHTS_LINEAR, INNER, HIDDEN, ALWAYS),
    LAYER("mlp.up_proj", up, WEIGHTS_LINEAR, INNER, HIDDEN, ALWAYS),
    LAYER("mlp.down_proj", down, WEIGHTS_LINEAR, HIDDEN, INNER, ALWAYS),
};
static const struct role last_role[] = {
    MODEL("model.norm.weight", norm, WEIGHTS_NORM, ONE, HIDDEN, ALWAYS),
    MODEL("lm_head.weight", head, WEIGHTS_LINEAR, VOCAB, HIDDEN, UNTIED),
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static uint32_t width_of(const struct config *c, int width)
{
  switch (width) {
  case HIDDEN:
    return c->hidden;
  case QUERIES:
    return c->q_heads * c->head_dim;
  case KEYS:
    return c->kv_heads * c->head_dim;
  case HEAD:
    return c->head_dim;
  case INNER:
    return c->intermediate;
  case VOCAB:
    return c->vocab;
  default:
    return 1;
  }
}

static int has(const struct config *c, int needs)
{
  switch (needs) {
  case UNTIED:
    return !c->tied;
  case QK_NORM:
    return c->qk_norm;
  case QKV_BIAS:
    return c->qkv_bias;
  default:
    return 1;
  }
}

/* The tensors of one table, those of a layer under its number. */
static int walk(const struct config *c, const struct role *role, size_t n, void *base, int layer,
                int (*visit)(void *ctx, const struct weights_item *item), void *ctx)
{
  for (size_t i = 0; i < n; i++) {
    struct weights_item item = {.kind = role[i].kind};
    if (!has(c, role[i].needs))
      continue;
    if (layer < 0)
      snprintf(item.name, sizeof item.name, "%s", role[i].name);
    else
      snprintf(item.name, sizeof item.name, "model.layers.%d.%s", layer, role[i].name);
    item.tensor = (struct tensor *)(void *)((char *)base + role[i].offset);
    int result = visit(ctx, &item);
    if (result)
      return result;
  }
  return 0;
}

int weights_walk(struct weights *w, int (*visit)(void *ctx, const struct weights_item *item),
                 void *ctx)
{
  const struct config *c = &w->config;
  int result = walk(c, first_role, COUNT(first_role), w, -1, visit, ctx);
  for (uint32_t i = 0; i < c->layers && !result; i++)
    result = walk(c, layer_role, COUNT(layer_role), &w->layer[i], (int)i, visit, ctx);
  return result ? result : walk(c, last_role, COUNT(last_role), w, -1, visit, ctx);
}

static size_t count(const struct config *c, const struct role *role, size_t n)
{
  size_t found = 0;
  for (size_t i = 0; i < n; i++)
    found += has(c, role[i].needs) != 0;
  return found;
}

size_t weights_count(const struct config *c)
{
  return count(c, first_role, COUNT(first_role)) +
         c->layers * count(c, layer_role, COUNT(layer_role)) +
         count(c, last_role, COUNT(last_role));
}

static void outline(const struct config *c, const struct role *role, size_t n, void *base,
                    int dtype)
{
  for (size_t i = 0; i < n; i++)
    if (has(c, role[i].needs))
      *(struct tensor *)(void *)((char *)base + role[i].offset) = (struct tensor){
          .dtype = dtype, .rows = width_of(c, role[i].rows), .cols = width_of(c, role[i].cols)};
}

struct weights *weights_outline(const struct config *c, int dtype, struct base_error *e)
{
  struct weights *w = calloc(1, sizeof *w);
  struct layer_weights *layer = calloc(c->layers, sizeof *layer);
  if (!w || !layer) {
    base_fail_memory(e);
    free(layer);
    free(w);
    return NULL;
  }
  w->config = *c;
  w->config.dtype = dtype;
  w->layer = layer;
  w->dtype = dtype;
  outline(c, first_role, COUNT(first_role), w, dtype);
  for (uint32_t i = 0; i < c->layers; i++)
    outline(c, layer_role, COUNT(layer_role), &layer[i], dtype);
  outline(c, last_role, COUNT(last_role), w, dtype);
  return w;
}
