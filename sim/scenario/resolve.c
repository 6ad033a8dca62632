/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From an engine's settings to its KV pool and its cost model. */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "models/calibration.h"
#include "sim/scenario/reader.h"

static const char *gib(int64_t bytes, char buf[32])
{
  snprintf(buf, 32, "%.1f GiB", (double)bytes / (double)(1 << 30));
  return buf;
}

static int pool_from_fraction(struct reader *r, const xmlNode *node, const struct raw_engine *raw,
                              struct scenario_engine *out)
{
  const struct calibration *c = r->whole->calib;
  char a[32], b[32], d[32];
  if (!c)
    return node_fail_once(r, node,
                          "memory-fraction needs a calibration, which knows sizes; write "
                          "kv-blocks for an analytic cost model");
  int64_t taken = (int64_t)((__int128)c->gpu_memory_bytes * raw->memory_fraction / 1000000);
  int64_t left = taken - c->weight_bytes - raw->reserve;
  int64_t blocks = left > 0 ? left / out->block_bytes : 0;
  if (blocks < 1)
    return node_fail_once(r, node,
                          "no memory is left for KV: %s by memory-fraction, weights %s, reserve "
                          "%s",
                          gib(taken, a), gib(c->weight_bytes, b), gib(raw->reserve, d));
  out->kv_blocks = blocks < INT32_MAX ? (uint32_t)blocks : INT32_MAX;
  return 0;
}

static int pool_given(struct reader *r, const xmlNode *node, const struct raw_engine *raw,
                      struct scenario_engine *out)
{
  const struct calibration *c = r->whole->calib;
  char a[32], b[32], d[32];
  out->kv_blocks = (uint32_t)raw->kv_blocks;
  if (!c)
    return 0;
  int64_t pool = raw->kv_blocks * out->block_bytes;
  if (pool <= c->gpu_memory_bytes - c->weight_bytes - raw->reserve)
    return 0;
  return node_fail_once(r, node,
                        "weights (%s), reserve and KV pool (%s) are more than the GPU's memory "
                        "(%s); lower kv-blocks",
                        gib(c->weight_bytes, a), gib(pool, b), gib(c->gpu_memory_bytes, d));
}

static int resolve_pool(struct reader *r, const xmlNode *node, const struct raw_engine *raw,
                        struct scenario_engine *out)
{
  int bad = 0;
  if (raw->kv_blocks != FIELD_UNSET)
    bad = pool_given(r, node, raw, out);
  else if (raw->memory_fraction != FIELD_UNSET)
    bad = pool_from_fraction(r, node, raw, out);
  else
    bad = node_fail_once(r, node,
                         "the size of the KV pool is missing; write kv-blocks or "
                         "memory-fraction on <engine>");
  out->watermark_ppm = raw->watermark;
  out->watermark_blocks = (uint32_t)((uint64_t)raw->watermark * out->kv_blocks / 1000000);
  return bad;
}

static struct cost_settings cost_settings_of(const struct raw_engine *raw)
{
  return (struct cost_settings){
      .max_rows = (uint32_t)raw->max_seqs,
      .max_tokens = (uint32_t)(raw->token_budget + raw->max_seqs * (1 + raw->depth)),
      .draft_depth = (uint32_t)raw->depth,
      .host_step = raw->host_step,
      .host_overlapped = raw->host_overlapped,
      .graph_tokens = (uint32_t)raw->graph_tokens,
      .launches = raw->launches,
      .elementwise_kernels = (uint32_t)raw->kernels,
      .elementwise_launch = raw->launch,
      .elementwise_bytes_per_s = raw->bandwidth,
      .draft_layers_ppm = raw->draft_layers,
      .draft_head = raw->draft_head};
}

/* Nearest tick. */
static lull_ticks ticks_of(lull_time ps)
{
  return (ps + LULL_TICK_PS / 2) / LULL_TICK_PS;
}

/* A time a pair, as the cost model holds it: ticks with 16 fraction bits. */
static lull_ticks pair_ticks_q16(lull_time ps)
{
  return ps * (LULL_Q16_ONE / LULL_TICK_PS);
}

static struct cost_model *compile(struct reader *r, const struct raw_analytic *raw,
                                  const struct scenario_engine *out, struct base_error *e)
{
  if (r->whole->calib)
    return cost_from_calibration(r->whole->calib, &out->cost, e);
  struct cost_analytic a = {.base = ticks_of(raw->base),
                            .per_token = ticks_of(raw->per_token),
                            .per_row = ticks_of(raw->per_row),
                            .per_ctx = ticks_of(raw->per_context),
                            .per_pair_q16 = pair_ticks_q16(raw->per_pair)};
  return cost_from_analytic(&a, 1 + out->draft_depth, e);
}

/* A model that lives as long as the scenario. */
static int add_model(struct reader *r, const xmlNode *node, const struct raw_analytic *analytic,
                     struct scenario_engine *out)
{
  struct scenario_whole *w = r->whole;
  struct base_error e = {0};
  struct cost_model **more = realloc(w->model, (w->nmodels + 1) * sizeof(*w->model));
  if (!more) {
    r->arena->failed = 1;
    return -1;
  }
  w->model = more;
  struct cost_model *m = compile(r, analytic, out, &e);
  if (!m)
    return node_fail_once(r, node, "<%s> costs: %s", (const char *)node->name, e.text);
  out->model = w->model[w->nmodels++] = m;
  return 0;
}

/* What the world asks of an engine beyond the ranges of its values. */
static int check_shape(struct reader *r, const xmlNode *node, const struct raw_engine *raw)
{
  if (raw->block & (raw->block - 1))
    return node_fail_once(r, node, "block: %lld tokens are no power of two; write 16tok or 32tok",
                          (long long)raw->block);
  if (raw->token_budget < 1 + raw->depth)
    return node_fail_once(r, node,
                          "token-budget: a decode row takes %lld tokens a step (1 + depth); make "
                          "it larger",
                          (long long)raw->depth + 1);
  if (raw->depth > 0 && r->whole->calib && raw->draft_layers == 0)
    return node_fail_once(r, node,
                          "depth %lld needs draft-layers on <speculation>: drafting is not free",
                          (long long)raw->depth);
  return 0;
}

static int resolve_new(struct reader *r, const xmlNode *node, const struct raw_engine *raw,
                       const struct raw_analytic *analytic, struct scenario_engine *out)
{
  const struct calibration *c = r->whole->calib;
  int64_t token = c ? c->kv_bytes_per_token : analytic->kv_per_token;
  *out = (struct scenario_engine){.max_seqs = (uint32_t)raw->max_seqs,
                                  .token_budget = (uint32_t)raw->token_budget,
                                  .block_tokens = (uint32_t)raw->block,
                                  .layers = c ? c->layers : (uint32_t)analytic->layers,
                                  .model_limit = (uint32_t)raw->max_context,
                                  .block_bytes = raw->block * token,
                                  .host_link_bytes_per_s = raw->host_link,
                                  .async = raw->async == 1,
                                  .prefix_caching = raw->prefix_caching == 1,
                                  .draft_depth = (uint32_t)raw->depth,
                                  .accept_ppm = raw->accept,
                                  .accept_sd_ppm = raw->accept_sd,
                                  .cost = cost_settings_of(raw)};
  if (check_shape(r, node, raw))
    return -1;
  if (resolve_pool(r, node, raw, out))
    return -1;
  return add_model(r, node, analytic, out);
}

/* Whether the engine's values were all read; else its own errors were told. */
static int is_complete(const struct reader *r, const struct raw_engine *raw)
{
  int64_t value[sizeof *raw / sizeof(int64_t)];
  struct raw_engine needed = *raw;
  needed.kv_blocks = needed.memory_fraction = 0;
  memcpy(value, &needed, sizeof needed);
  for (size_t i = 0; i < sizeof value / sizeof *value; i++)
    if (value[i] == FIELD_UNSET)
      return 0;
  return raw->block > 0 && raw->max_seqs > 0 && (r->whole->calib || r->is_analytic);
}

int resolve_engine(struct reader *r, const xmlNode *node, const struct raw_engine *raw,
                   const struct raw_analytic *analytic, struct scenario_engine *out)
{
  if (!is_complete(r, raw))
    return -1;
  for (size_t i = 0; i < r->nresolved; i++)
    if (!memcmp(&r->resolved[i].raw, raw, sizeof *raw) &&
        !memcmp(&r->resolved[i].analytic, analytic, sizeof *analytic)) {
      *out = r->resolved[i].engine;
      return r->resolved[i].good ? 0 : -1;
    }
  struct resolved *more = realloc(r->resolved, (r->nresolved + 1) * sizeof *more);
  if (!more) {
    r->arena->failed = 1;
    return -1;
  }
  r->resolved = more;
  int bad = resolve_new(r, node, raw, analytic, out);
  r->resolved[r->nresolved++] = (struct resolved){
      .raw = *raw, .analytic = *analytic, .engine = *out, .good = !bad};
  return bad;
}
