/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/experiment_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "models/calibration.h"

/* Lines gathered before they are hashed: one call of the hash for many short lines. */
struct bench_digest {
  XXH3_state_t *state;
  size_t used;
  unsigned char buffer[16384];
};

/* A GPU of an analytic scenario, whose memory nobody described: its KV pool is the bound. */
static const int64_t unbounded_bytes = INT64_C(1) << 60;

/* Hashes what was gathered. Only a NULL state could fail. */
static void flush(struct bench_digest *d)
{
  XXH3_128bits_update(d->state, d->buffer, d->used);
  d->used = 0;
}

/* Appends bytes of any length. */
static void put_bytes(struct bench_digest *d, const void *bytes, size_t n)
{
  if (n > sizeof d->buffer - d->used)
    flush(d);
  if (n > sizeof d->buffer) {
    XXH3_128bits_update(d->state, bytes, n);
    return;
  }
  memcpy(d->buffer + d->used, bytes, n);
  d->used += n;
}

/* Appends the low `n` bytes of an integer, least significant first. */
static void put_integer(struct bench_digest *d, uint64_t value, int n)
{
  unsigned char bytes[8];

  for (int i = 0; i < n; i++)
    bytes[i] = (unsigned char)(value >> (8 * i));
  put_bytes(d, bytes, (size_t)n);
}

/* The world's log callback. */
static void on_log(void *ctx, const struct world_log_line *line)
{
  struct bench_digest *d = ctx;
  size_t length = line->text ? strlen(line->text) : 0;

  put_integer(d, (uint64_t)line->time, 8);
  put_integer(d, (uint64_t)(int64_t)line->server, 2);
  put_integer(d, line->kind, 1);
  put_integer(d, (uint64_t)line->a, 8);
  put_integer(d, (uint64_t)line->b, 8);
  put_integer(d, line->text ? length : UINT32_MAX, 4);
  put_bytes(d, line->text ? line->text : "", length);
}

void bench_digest(const struct bench *b, char hex[33])
{
  XXH128_hash_t hash;

  flush(b->digest);
  hash = XXH3_128bits_digest(b->digest->state);
  snprintf(hex, 33, "%016llx%016llx", (unsigned long long)hash.high64,
           (unsigned long long)hash.low64);
}

/* An empty digest. */
static struct bench_digest *digest_new(void)
{
  struct bench_digest *d = calloc(1, sizeof *d);

  if (!d)
    return NULL;
  d->state = XXH3_createState();
  if (!d->state || XXH3_128bits_reset(d->state) == XXH_ERROR) {
    XXH3_freeState(d->state);
    free(d);
    return NULL;
  }
  return d;
}

/* The classes as the world sees them. */
static void fill_classes(struct bench *b, const struct scenario *s)
{
  for (uint32_t c = 0; c < s->nclasses; c++)
    b->cls[c] = (struct world_class){.name = s->cls[c].id,
                                     .interactive = s->cls[c].interactive != 0,
                                     .slo_ttft = s->cls[c].slo_ttft,
                                     .slo_tpot = s->cls[c].slo_tpot};
}

/* The world's view of one server. */
static struct world_server server_of(const struct scenario_server *v)
{
  const struct scenario_engine *g = &v->engine;

  return (struct world_server){.gpu = v->gpu,
                               .class_mask = v->class_mask,
                               .max_seqs = g->max_seqs,
                               .token_budget = g->token_budget,
                               .block_tokens = g->block_tokens,
                               .kv_blocks = g->kv_blocks,
                               .watermark_blocks = g->watermark_blocks,
                               .layers = g->layers,
                               .row_tokens = 1 + g->draft_depth,
                               .async = g->async,
                               .prefix_caching = g->prefix_caching,
                               .model_limit = g->model_limit,
                               .block_bytes = g->block_bytes,
                               .cost = g->model};
}

/* The simulated GPU under one server. */
static struct simdev_gpu gpu_of(const struct scenario *s, const struct scenario_server *v)
{
  const struct scenario_engine *g = &v->engine;

  return (struct simdev_gpu){
      .memory_bytes = s->calib ? s->calib->gpu_memory_bytes : unbounded_bytes,
      .copy_bytes_per_s = g->host_link_bytes_per_s > 0 ? g->host_link_bytes_per_s : 1,
      .cost = g->model,
      .layers = g->layers};
}

/* Servers and the GPUs under them; a GPU index out of range is the scenario reader's fault. */
static int fill_servers(struct bench *b, const struct scenario *s, const struct scenario_arm *arm,
                        const struct scenario_candidate *candidate, struct base_error *e)
{
  for (uint32_t g = 0; g < arm->ngpus; g++)
    b->gpu[g] = gpu_of(s, &candidate->server[0]);
  for (uint32_t v = 0; v < candidate->nservers; v++) {
    const struct scenario_server *from = &candidate->server[v];

    if (from->gpu < 0 || (uint32_t)from->gpu >= arm->ngpus)
      return base_fail(e, BASE_INPUT, "arm %s: server %s is on GPU %d, but the arm has %u GPUs",
                       arm->id, from->id, from->gpu, arm->ngpus);
    b->server[v] = server_of(from);
    b->gpu[from->gpu] = gpu_of(s, from);
  }
  for (uint32_t j = 0; j < arm->njobs; j++)
    b->gpu[arm->job[j].gpu].contended_ps = arm->contended_ps[j];
  return 0;
}

/* The configuration, but for what the caller adds. */
static void fill_config(struct bench *b, const struct scenario *s, const struct scenario_arm *arm,
                        const struct scenario_candidate *candidate)
{
  b->config = (struct world_config){.nclasses = s->nclasses,
                                    .nservers = candidate->nservers,
                                    .nbacklogs = candidate->nbacklogs,
                                    .ngpus = arm->ngpus,
                                    .njobs = arm->njobs,
                                    .job = arm->job,
                                    .cls = b->cls,
                                    .server = b->server,
                                    .backlog = candidate->backlog,
                                    .policy = arm->policy,
                                    .params = arm->params,
                                    .window = s->window,
                                    .drain = s->drain,
                                    .max_preempts = s->max_preempts,
                                    .log = on_log,
                                    .log_ctx = b->digest};
}

/* The classes that some server of the candidate takes. */
static uint32_t classes_of(const struct scenario_candidate *candidate)
{
  uint32_t mask = 0;

  for (uint32_t v = 0; v < candidate->nservers; v++)
    mask |= candidate->server[v].class_mask;
  return mask;
}

int bench_open(struct bench *b, const struct scenario *s, const struct scenario_arm *arm,
               const struct scenario_candidate *candidate, const struct plan *plan,
               struct base_error *e)
{
  *b = (struct bench){0};
  if (candidate->nservers == 0 || arm->ngpus == 0)
    return base_fail(e, BASE_INPUT, "arm %s has no server", arm->id);
  b->cls = calloc(s->nclasses + 1, sizeof *b->cls);
  b->server = calloc(candidate->nservers, sizeof *b->server);
  b->gpu = calloc(arm->ngpus, sizeof *b->gpu);
  b->digest = digest_new();
  if (!b->cls || !b->server || !b->gpu || !b->digest) {
    base_fail_memory(e);
    goto failed;
  }
  fill_classes(b, s);
  if (fill_servers(b, s, arm, candidate, e))
    goto failed;
  fill_config(b, s, arm, candidate);
  if (plan_open(plan, classes_of(candidate), &b->cursor, &b->config.source, e))
    goto failed;
  b->cursor_open = 1;
  return 0;

failed:
  bench_close(b);
  return -1;
}

int bench_simulate(struct bench *b, struct base_error *e)
{
  b->device = simdev_create(b->gpu, (int)b->config.ngpus, e);
  return b->device ? 0 : -1;
}

void bench_close(struct bench *b)
{
  if (b->device)
    simdev_destroy(b->device);
  if (b->cursor_open)
    plan_close(&b->cursor);
  if (b->digest) {
    XXH3_freeState(b->digest->state);
    free(b->digest);
  }
  free(b->gpu);
  free(b->server);
  free(b->cls);
  *b = (struct bench){0};
}
