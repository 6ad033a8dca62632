/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/bench_engine.h"

#include <inttypes.h>
#include <stdlib.h>

#include "backend/device.h"
#include "calib/bench_ops.h"

enum { BLOCK = 16, SEED = 1 };

struct bench_engine {
  struct bench bench;
  struct bench_ops ops;
  struct engine *engine;
  struct lull_device *device;
  uint32_t max_rows, max_tokens, max_context, vocab;
  int32_t *prompt;          /* [max_context]: of every sequence */
  struct lull_chunk *chunk; /* [max_rows] */
  lull_id *row;             /* [max_rows] */
  lull_id before;           /* a row for the step before one without rows */
};

/* ---------------------------------------------------------------------------- sequences ---- */

/* A sequence of which `kv` tokens are computed, and `tokens` more are to be. */
static int begin(struct bench_engine *b, lull_id id, uint32_t kv, uint32_t tokens,
                 struct base_error *e)
{
  const struct engine_request r = {.prompt = b->prompt,
                                   .prompt_tokens = kv + tokens,
                                   .max_tokens = 2,
                                   .how = {.top_p = 1, .key = (uint64_t)id},
                                   .adapter = -1};
  return engine_begin(b->engine, id, &r, e) || engine_assume(b->engine, id, kv, e) ? -1 : 0;
}

static int begin_all(struct bench_engine *b, const struct bench_step *s, struct lull_batch *batch,
                     struct base_error *e)
{
  lull_id id = 0;
  *batch = (struct lull_batch){.row_tokens = 1, .chunk = b->chunk, .row = b->row};
  for (uint32_t i = 0; i < s->rows; i++) {
    if (begin(b, id, s->ctx[i] - 1, 1, e)) /* one less, for the step before */
      return -1;
    b->row[batch->rows++] = id++;
  }
  for (uint32_t i = 0; i < s->chunks; i++) {
    if (begin(b, id, s->chunk[i].start, s->chunk[i].tokens, e))
      return -1;
    b->chunk[batch->chunks++] = (struct lull_chunk){id++, s->chunk[i].start, s->chunk[i].tokens};
  }
  return 0;
}

static void drop_all(struct bench_engine *b, const struct bench_step *s)
{
  for (uint32_t i = s->rows + s->chunks; i-- > 0;)
    engine_drop(b->engine, (int32_t)i);
}

/* -------------------------------------------------------------------------------- steps ---- */

static int broken(struct bench_engine *b, struct base_error *e)
{
  const char *why = device_ops.why(b->device);
  return base_fail(e, BASE_ENV, "a step that was to be measured failed: %s",
                   why ? why : "the device does not say why");
}

/* *busy: how long the lane was at it, ps. */
static int wait_for(struct bench_engine *b, int64_t *busy, struct base_error *e)
{
  struct lull_completion c[LULL_LANES];
  int n;
  while ((n = device_ops.wait(b->device, LULL_NEVER, c, LULL_LANES)) == 0)
    ;
  *busy = n > 0 ? c[0].busy : 0;
  return n < 0 || c[0].status ? broken(b, e) : 0;
}

/* In a run a step follows another, of the same rows: weights, keys and values are in what caches
 * they fit into, and the lane has only just gone to sleep. So each row makes a token first; where
 * there are no rows, one that is there for this alone. */
static int run_before(struct bench_engine *b, const struct lull_batch *timed, struct base_error *e)
{
  struct lull_batch batch = {.row_tokens = 1, .rows = timed->rows, .row = timed->row};
  const struct lull_work work = {
      .size = sizeof work, .kind = LULL_WORK_FORWARD, .batch = &batch, .repeat = 1};
  int64_t busy;
  if (!batch.rows) {
    batch.rows = 1;
    batch.row = &b->before;
  }
  if (device_ops.submit(b->device, &work))
    return broken(b, e);
  return wait_for(b, &busy, e);
}

static int run(struct bench_engine *b, const struct lull_batch *batch, struct bench_times *out,
               struct base_error *e)
{
  const struct lull_work work = {
      .size = sizeof work, .kind = LULL_WORK_FORWARD, .batch = batch, .repeat = 1};
  const struct bench_marks *m = &b->ops.marks;
  int64_t began = bench_ops_clock(), busy;
  if (device_ops.submit(b->device, &work))
    return broken(b, e);
  if (wait_for(b, &busy, e))
    return -1;
  int64_t total = bench_ops_clock() - began;
  out->layers = (m->head - m->embedded - m->attention) * 1000;
  out->attention = m->attention * 1000;
  out->head = (m->sampled - m->head) * 1000;
  out->once = busy - out->layers - out->attention - out->head;
  out->host = total * 1000 - busy;
  return 0;
}

static int step(void *ctx, const struct bench_step *s, struct bench_times *out,
                struct base_error *e)
{
  struct bench_engine *b = ctx;
  struct lull_batch batch;
  b->before = (lull_id)(s->rows + s->chunks);
  int bad = begin_all(b, s, &batch, e) || begin(b, b->before, 1, 1, e) ||
            run_before(b, &batch, e) || run(b, &batch, out, e);
  drop_all(b, s);
  engine_drop(b->engine, b->before);
  return bad ? -1 : 0;
}

static int64_t now(void *ctx)
{
  (void)ctx;
  return bench_ops_clock();
}

/* ---------------------------------------------------------------------------- life, death ---- */

/* Pages for rows and chunks that are all as long as may be. */
static uint32_t pages_of(const struct bench_engine *b)
{
  return (b->max_rows + 2) * ((b->max_context + BLOCK - 1) / BLOCK + 1);
}

static int make_arrays(struct bench_engine *b, struct base_error *e)
{
  b->prompt = calloc(b->max_context + 1, sizeof *b->prompt);
  b->chunk = calloc(b->max_rows + 1, sizeof *b->chunk);
  b->row = calloc(b->max_rows + 1, sizeof *b->row);
  if (!b->prompt || !b->chunk || !b->row)
    return base_fail_memory(e);
  for (uint32_t i = 0; i < b->max_context; i++)
    b->prompt[i] = device_prompt_token(SEED, 0, i, b->vocab);
  return 0;
}

static int open_device(struct bench_engine *b, struct base_error *e)
{
  const struct device_options how = {.seed = SEED, .how = {.top_p = 1}};
  const struct device_gpu gpu = {.engine = b->engine,
                                 .vocab = b->vocab,
                                 .max_seqs = b->max_rows + 1,
                                 .memory_bytes = INT64_MAX};
  static const int first = 0;
  b->device = device_create(&gpu, 1, &how, e);
  if (!b->device)
    return -1;
  return device_ops.lane_open(b->device, &first, 1, LULL_LANE_SERVE) < 0 ? broken(b, e) : 0;
}

struct bench_engine *bench_engine_create(const struct weights *w, struct ops *ops,
                                         uint32_t max_rows, uint32_t max_tokens,
                                         uint32_t max_context, struct base_error *e)
{
  if (max_context > w->config.max_position) {
    base_fail(e, BASE_INPUT,
              "steps of contexts up to %" PRIu32
              " tokens are to be measured, but the model takes %" PRIu32,
              max_context, w->config.max_position);
    return NULL;
  }
  struct bench_engine *b = calloc(1, sizeof *b);
  if (!b) {
    base_fail_memory(e);
    return NULL;
  }
  b->bench = (struct bench){b, step, now};
  b->max_rows = max_rows;
  b->max_tokens = max_tokens;
  b->max_context = max_context;
  b->vocab = w->config.vocab;
  bench_ops_open(&b->ops, ops);
  const struct engine_options o = {.block_tokens = BLOCK,
                                   .pages = pages_of(b),
                                   .max_tokens = max_tokens,
                                   .max_seqs = max_rows + 1};
  b->engine = engine_create(w, &b->ops.ops, &o, e);
  if (!b->engine || make_arrays(b, e) || open_device(b, e)) {
    bench_engine_destroy(b);
    return NULL;
  }
  return b;
}

void bench_engine_destroy(struct bench_engine *b)
{
  if (!b)
    return;
  device_destroy(b->device);
  engine_destroy(b->engine);
  free(b->prompt);
  free(b->chunk);
  free(b->row);
  free(b);
}

const struct bench *bench_engine_bench(const struct bench_engine *b)
{
  return &b->bench;
}
