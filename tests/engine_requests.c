/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/engine_requests.h"

#include <string.h>
#include <xxhash.h>

#include "base/rng.h"

static const char *const adapter_name[ADAPTERS] = {"lora-all", "lora-qv"};

static void draw_request(gsl_rng *rng, struct request *q, uint32_t i)
{
  static const uint32_t length[] = {1, 2, PROMPT_MAX, 15, 16, 17};
  uint32_t fixed = sizeof length / sizeof *length;
  q->r = (struct engine_request){.prompt = q->prompt, .adapter = (int)below(rng, 4) - 2};
  q->r.prompt_tokens = i < fixed ? length[i] : 1 + below(rng, PROMPT_MAX);
  q->r.max_tokens = 1 + below(rng, ANSWER_MAX);
  if (q->r.adapter < 0)
    q->r.adapter = -1;
  for (uint32_t t = 0; t < q->r.prompt_tokens; t++)
    q->prompt[t] = (int32_t)below(rng, VOCAB);
  q->r.how = (struct ops_sample){.top_p = 1, .seed = 5, .key = i};
  if (i % 2)
    q->r.how.temperature = 0.5f + (float)below(rng, 100) / 50;
  if (i % 4 == 3)
    q->r.how.top_k = 1 + below(rng, 40);
  if (i % 8 >= 5)
    q->r.how.top_p = 0.3f + (float)below(rng, 70) / 100;
}

struct requests *requests_make(int dtype)
{
  struct requests *q = calloc(1, sizeof *q);
  ck_assert_ptr_nonnull(q);
  q->w = fixture_weights("qwen3", dtype);
  ck_assert_uint_eq(q->w->config.vocab, VOCAB);
  for (int i = 0; i < ADAPTERS; i++)
    q->adapter[i] = fixture_adapter(adapter_name[i], &q->w->config);
  gsl_rng *rng = base_rng_open(1, "requests");
  for (uint32_t i = 0; i < REQUESTS; i++) {
    base_rng_entity(rng, i);
    draw_request(rng, &q->one[i], i);
  }
  gsl_rng_free(rng);
  return q;
}

void requests_free(struct requests *q)
{
  for (int i = 0; i < ADAPTERS; i++)
    adapter_free(q->adapter[i]);
  weights_free(q->w);
  free(q);
}

struct engine *requests_engine(const struct requests *q, struct ops *ops,
                               const struct engine_options *o)
{
  struct base_error e = {0};
  struct engine *en = engine_create(q->w, ops, o, &e);
  ck_assert_msg(en != NULL, "%s", e.text);
  for (int i = 0; i < ADAPTERS; i++)
    ck_assert_good(engine_adapter_load(en, i, q->adapter[i], &e), &e);
  return en;
}

int step_one(struct engine *en, int32_t seq, uint32_t start, uint32_t tokens, float *logits,
             struct engine_token *out, struct base_error *e)
{
  struct engine_chunk chunk = {seq, start, tokens};
  struct engine_step step = {.chunk = &chunk, .chunks = tokens != 0, .row = &seq, .rows = !tokens};
  step.out = out;
  step.logits = logits;
  step.stop = &faulty_stop;
  return engine_step(en, &step, e);
}

uint64_t logit_bits(const float *logits)
{
  return XXH3_64bits(logits, VOCAB * sizeof *logits);
}

void requests_answer(struct requests *q, struct ops *ops)
{
  struct engine_options o = {.block_tokens = 16,
                             .pages = 32,
                             .max_tokens = PROMPT_MAX,
                             .max_seqs = 1,
                             .adapters = ADAPTERS};
  struct engine *en = requests_engine(q, ops, &o);
  q->path = ops->path;
  for (int32_t i = 0; i < REQUESTS; i++) {
    struct request *one = &q->one[i];
    struct base_error e = {0};
    struct engine_token out;
    float logits[VOCAB];
    ck_assert_good(engine_begin(en, i, &one->r, &e), &e);
    for (uint32_t t = 0; t < one->r.max_tokens; t++) {
      uint32_t chunk = t ? 0 : one->r.prompt_tokens;
      ck_assert_good(step_one(en, i, 0, chunk, logits, &out, &e), &e);
      one->token[t] = out.token;
      one->bits[t] = logit_bits(logits);
    }
    engine_drop(en, i);
  }
  ck_assert_uint_eq(engine_free_pages(en), o.pages);
  engine_destroy(en);
}

/* -------------------------------------------------------------------------------- faults ---- */

static const struct ops_table *real;
static struct ops_table faulty;
static int stop_layer = -1, refuse_call = -1;
volatile int faulty_stop;

static void *poisoned_alloc(struct ops *ops, size_t bytes)
{
  if (refuse_call >= 0 && refuse_call-- == 0)
    return NULL;
  void *p = real->alloc(ops, bytes);
  if (p)
    memset(p, 0xff, bytes);
  return p;
}

static void stopping_attention(struct ops *ops, void *y, const void *q, const struct ops_kv *kv,
                               uint32_t layer, const struct ops_seq *seq, uint32_t nseq,
                               uint32_t q_heads)
{
  real->attention(ops, y, q, kv, layer, seq, nseq, q_heads);
  if (stop_layer == (int)layer)
    __atomic_store_n(&faulty_stop, 1, __ATOMIC_RELAXED);
}

struct ops *faulty_ops(int dtype, int threads, const char *path)
{
  struct ops *ops = fixture_ops(dtype, threads, path);
  real = ops->table;
  faulty = *real;
  faulty.alloc = poisoned_alloc;
  faulty.attention = stopping_attention;
  ops->table = &faulty;
  return ops;
}

void faulty_stop_at(int layer)
{
  stop_layer = layer;
  __atomic_store_n(&faulty_stop, 0, __ATOMIC_RELAXED);
}

void faulty_refuse_memory(int call)
{
  refuse_call = call;
}
