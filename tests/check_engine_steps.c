/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The engine's edges: bad calls, steps that fail or are stopped, full pools, versions of adapters,
 * sleep, memory that is refused, and swaps beside steps. */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "tests/engine_requests.h"
#include "tests/suite.h"

static const struct engine_options usual = {.block_tokens = 8,
                                            .pages = 60,
                                            .host_pages = 30,
                                            .max_tokens = 64,
                                            .max_seqs = 8,
                                            .adapters = ADAPTERS};

/* An engine on the best kernels, and what the requests yield alone on it. */
static struct requests *q;
static struct ops *ops;
static struct engine *en;

static void open_all(void)
{
  q = requests_make(TENSOR_BF16);
  ops = faulty_ops(TENSOR_BF16, 1, NULL);
  requests_answer(q, ops);
  en = requests_engine(q, ops, &usual);
}

static void close_all(void)
{
  engine_check(en);
  engine_destroy(en);
  cpu_ops_destroy(ops);
  requests_free(q);
}

static void begin(int32_t i)
{
  struct base_error e = {0};
  ck_assert_good(engine_begin(en, i, &q->one[i].r, &e), &e);
}

/* One step of request i, its tokens up to `tokens` of the prompt or one row; held against its
 * answer. */
static void go_on(int32_t i, uint32_t tokens)
{
  const struct request *one = &q->one[i];
  struct base_error e = {0};
  struct engine_token out;
  float logits[VOCAB];
  uint32_t start = engine_kv_tokens(en, i);
  ck_assert_good(step_one(en, i, start, tokens, logits, &out, &e), &e);
  uint32_t end = engine_kv_tokens(en, i);
  ck_assert_uint_eq(end, start + (tokens ? tokens : 1));
  if (end < one->r.prompt_tokens)
    return;
  ck_assert_uint_eq(logit_bits(logits), one->bits[end - one->r.prompt_tokens]);
  if (out.token >= 0)
    ck_assert_int_eq(out.token, one->token[end - one->r.prompt_tokens]);
}

/* All that is left of a request, in chunks of at most 13 tokens. */
static void finish(int32_t i)
{
  const struct request *one = &q->one[i];
  uint32_t known;
  for (;;) {
    engine_tokens(en, i, &known);
    if (known == one->r.prompt_tokens + one->r.max_tokens)
      break;
    uint32_t left = known - engine_kv_tokens(en, i);
    go_on(i, left > 13 ? 13 : left);
  }
  engine_drop(en, i);
}

/* Requests that are long enough to be disturbed. */
static int32_t long_request(uint32_t nth)
{
  for (int32_t i = 0; i < REQUESTS; i++)
    if (q->one[i].r.prompt_tokens > 60 && q->one[i].r.prompt_tokens <= 120 &&
        q->one[i].r.max_tokens > 5 && nth-- == 0)
      return i;
  ck_abort_msg("there are not so many long requests");
}

static void expect_error(int result, const struct base_error *e, int code, const char *text)
{
  ck_assert_int_eq(result, -1);
  ck_assert_msg(e->code == code && strstr(e->text, text), "not '%s' but: %s", text, e->text);
}

/* ----------------------------------------------------------------------------- bad calls ---- */

START_TEST(bad_requests)
{
  static const int32_t prompt[] = {1, 2, 3}, low[] = {-1}, high[] = {5, VOCAB};
  const struct ops_sample how = {.top_p = 1};
  const struct {
    int32_t seq;
    struct engine_request r;
    const char *text;
  } bad[] = {
      {-1, {prompt, 3, 1, how, -1}, "start at 0"},
      {0, {prompt, 0, 1, how, -1}, "at least 1"},
      {0, {prompt, 3, 0, how, -1}, "at least 1"},
      {0, {prompt, 3, 254, how, -1}, "longer than the model's 256"},
      {0, {prompt, 3, UINT32_MAX, how, -1}, "longer than the model's 256"},
      {0, {prompt, UINT32_MAX, 1, how, -1}, "longer than the model's 256"},
      {0, {low, 1, 1, how, -1}, "token -1 (number 1 of the prompt) is outside"},
      {0, {high, 2, 1, how, -1}, "token 320 (number 2 of the prompt) is outside"},
      {0, {prompt, 3, 1, {.temperature = -1, .top_p = 1}, -1}, "temperature"},
      {0, {prompt, 3, 1, {.temperature = NAN, .top_p = 1}, -1}, "temperature"},
      {0, {prompt, 3, 1, {.temperature = INFINITY, .top_p = 1}, -1}, "temperature"},
      {0, {prompt, 3, 1, {.top_p = 0}, -1}, "top-p"},
      {0, {prompt, 3, 1, {.top_p = 1.5f}, -1}, "top-p"},
      {0, {prompt, 3, 1, {.top_p = NAN}, -1}, "top-p"},
      {0, {prompt, 3, 1, how, ADAPTERS}, "not loaded"},
      {0, {prompt, 3, 1, how, 1}, "not loaded"},
      {7, {prompt, 3, 1, how, -1}, "already"},
  };
  struct base_error none = {0};
  struct engine_request good = {prompt, 3, 253, how, -1};
  engine_adapter_drop(en, 1);
  engine_adapter_drop(en, 1);
  engine_adapter_drop(en, -3);
  engine_adapter_drop(en, 99);
  ck_assert_good(engine_begin(en, 7, &good, &none), &none);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct base_error e = {0};
    expect_error(engine_begin(en, bad[i].seq, &bad[i].r, &e), &e, BASE_INPUT, bad[i].text);
  }
  engine_drop(en, 0); /* unknown ones are ignored */
  engine_evict(en, 0);
  uint32_t n = 1;
  ck_assert_ptr_null(engine_tokens(en, 0, &n));
  ck_assert_uint_eq(n, 0);
  ck_assert_uint_eq(engine_kv_tokens(en, 0), 0);
}
END_TEST

static void expect_bad_step(const struct engine_chunk *chunk, uint32_t chunks, const int32_t *row,
                            uint32_t rows, int code, const char *text)
{
  struct base_error e = {0};
  struct engine_token out[80];
  struct engine_step step = {
      .chunk = chunk, .chunks = chunks, .row = row, .rows = rows, .out = out};
  uint32_t pages = engine_free_pages(en);
  expect_error(engine_step(en, &step, &e), &e, code, text);
  ck_assert_uint_eq(engine_free_pages(en), pages);
  engine_check(en);
}

START_TEST(bad_steps)
{
  int32_t a = long_request(0), b = long_request(1);
  uint32_t prompt = q->one[a].r.prompt_tokens;
  struct base_error e = {0};
  begin(a);
  begin(b);
  go_on(a, 20);
  const struct engine_chunk chunk[] = {{a, 20, 5},      {a, 20, 5},          {99, 0, 1},
                                       {a, 19, 5},      {a, 21, 5},          {a, 20, 0},
                                       {a, 20, prompt}, {a, 20, UINT32_MAX}, {b, 0, 60}};
  const int32_t row[] = {a, b};
  expect_bad_step(chunk, 0, row, 0, BASE_INPUT, "a step of 0 sequences");
  expect_bad_step(chunk, 65, row, 0, BASE_INPUT, "a step of 65 sequences; 1 to 64 fit");
  expect_bad_step(chunk, 2, row, 0, BASE_INPUT, "is twice in the step");
  expect_bad_step(chunk, 1, row, 1, BASE_INPUT, "is twice in the step");
  expect_bad_step(chunk + 2, 1, row, 0, BASE_INPUT, "there is no sequence 99");
  expect_bad_step(chunk + 3, 1, row, 0, BASE_INPUT, "up to token 20");
  expect_bad_step(chunk + 4, 1, row, 0, BASE_INPUT, "up to token 20");
  expect_bad_step(chunk + 5, 1, row, 0, BASE_INPUT, "a chunk of 0 tokens");
  expect_bad_step(chunk + 6, 1, row, 0, BASE_INPUT, "are to be computed");
  expect_bad_step(chunk + 7, 1, row, 0, BASE_INPUT, "are to be computed");
  expect_bad_step(NULL, 0, row, 2, BASE_INPUT, "up to token 20"); /* a row in mid-prompt */
  const struct engine_chunk both[] = {chunk[0], chunk[8]};
  expect_bad_step(both, 2, row, 0, BASE_INPUT, "a step of 65 tokens; at most 64 fit");
  ck_assert_good(engine_swap_out(en, a, &e), &e);
  expect_bad_step(chunk, 1, row, 0, BASE_INPUT, "swap it in first");
  ck_assert_good(engine_swap_in(en, a, &e), &e);
  finish(b);
  begin(b);
  finish(a);
  begin(a);
  for (uint32_t t = 0; t < prompt; t += 20)
    go_on(a, prompt - t < 20 ? prompt - t : 20);
  for (uint32_t t = 1; t < q->one[a].r.max_tokens; t++)
    go_on(a, 0);
  expect_bad_step(NULL, 0, row, 1, BASE_INPUT, "has all of its");
}
END_TEST

START_TEST(too_many_sampled)
{
  int32_t row[9];
  struct engine_chunk chunk[9];
  const int32_t prompt[] = {1, 2};
  struct engine_request r = {prompt, 2, 3, {.top_p = 1}, -1};
  struct base_error e = {0};
  struct engine_token out[9];
  for (int32_t i = 0; i < 9; i++) {
    ck_assert_good(engine_begin(en, i, &r, &e), &e);
    chunk[i] = (struct engine_chunk){i, 0, 2};
    row[i] = i;
  }
  expect_bad_step(chunk, 9, row, 0, BASE_INPUT, "samples 9 tokens; at most 8 fit");
  for (int32_t i = 0; i < 9; i++)
    chunk[i].tokens = 1;
  struct engine_step step = {.chunk = chunk, .chunks = 9, .out = out};
  ck_assert_good(engine_step(en, &step, &e), &e); /* no chunk reaches the end of its prompt */
  for (int i = 0; i < 9; i++)
    ck_assert_int_eq(out[i].token, -1);
  expect_bad_step(NULL, 0, row, 9, BASE_INPUT, "samples 9 tokens; at most 8 fit");
}
END_TEST

START_TEST(bad_options)
{
  const struct {
    struct engine_options o;
    const char *text;
  } bad[] = {{{0, 1, 0, 1, 1, 0}, "power of two"},   {{12, 1, 0, 1, 1, 0}, "power of two"},
             {{16, 0, 0, 1, 1, 0}, "1 to 2^31-1"},   {{16, UINT32_MAX, 0, 1, 1, 0}, "1 to 2^31-1"},
             {{16, 1, UINT32_MAX, 1, 1, 0}, "1 to"}, {{16, 1, 0, 0, 1, 0}, "no token"},
             {{16, 1, 0, 1, 0, 0}, "no sequence"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct base_error e = {0};
    int failed = engine_create(q->w, ops, &bad[i].o, &e) ? 0 : -1;
    expect_error(failed, &e, BASE_INPUT, bad[i].text);
  }
  struct base_error e = {0};
  struct weights *w = fixture_weights("qwen3", TENSOR_F32);
  expect_error(engine_create(w, ops, &usual, &e) ? 0 : -1, &e, BASE_INPUT,
               "the weights are float32 and the device computes in bfloat16");
  weights_free(w);
}
END_TEST

/* Shapes that a config may have, but that the kernels have no room for: no crash in the first step.
 */
START_TEST(shapes_too_large)
{
  const struct {
    size_t at;
    uint32_t is;
    const char *text;
  } bad[] = {
      {offsetof(struct config, head_dim), 514, "head_dim is 514; the kernels of the CPU take"},
      {offsetof(struct config, hidden), 1 << 20, "hidden_size is"},
      {offsetof(struct config, intermediate), 349526, "at most 349525"},
      {offsetof(struct config, vocab), 262145, "vocab_size is 262145"},
      {offsetof(struct config, q_heads), 32768, "the width of all query heads"},
      {offsetof(struct config, q_heads), 1026, "the number of query heads of a key head"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct base_error e = {0};
    struct weights w = *q->w;
    w.config.head_dim = 32;
    w.config.kv_heads = 2;
    *(uint32_t *)(void *)((char *)&w.config + bad[i].at) = bad[i].is;
    expect_error(engine_create(&w, ops, &usual, &e) ? 0 : -1, &e, BASE_INPUT, bad[i].text);
  }
}
END_TEST

/* Whichever piece is refused: an error, and nothing leaks. */
START_TEST(no_memory)
{
  struct base_error e;
  for (int call = 0; call < 2; call++) {
    e = (struct base_error){0};
    faulty_refuse_memory(call);
    expect_error(engine_create(q->w, ops, &usual, &e) ? 0 : -1, &e, BASE_ENV, "no memory for");
  }
  e = (struct base_error){0};
  faulty_refuse_memory(0);
  expect_error(engine_adapter_load(en, 0, q->adapter[0], &e), &e, BASE_ENV, "no memory for");
  e = (struct base_error){0};
  ck_assert_int_gt(engine_sleep(en, 1, &e), 0);
  faulty_refuse_memory(0);
  expect_error((int)engine_wake(en, &e), &e, BASE_ENV, "no memory for 60 pages");
  faulty_refuse_memory(-1);
  ck_assert_int_gt(engine_wake(en, &e), 0);
  int32_t a = long_request(0);
  begin(a);
  finish(a);
}
END_TEST

/* -------------------------------------------------------------------- steps that do not happen
 * ---- */

START_TEST(stopped_at_each_layer)
{
  int32_t a = long_request(0), b = long_request(1);
  begin(a);
  begin(b);
  go_on(b, 30);
  for (;;) {
    uint32_t known, kv = engine_kv_tokens(en, a);
    engine_tokens(en, a, &known);
    if (known == q->one[a].r.prompt_tokens + q->one[a].r.max_tokens)
      break;
    uint32_t n = known - kv < 11 ? known - kv : 11, pages = engine_free_pages(en);
    for (int layer = -1; layer < (int)q->w->config.layers; layer++) {
      struct base_error e = {0};
      struct engine_token out = {.token = -7};
      uint32_t now;
      faulty_stop_at(layer);
      if (layer < 0)
        faulty_stop = 1; /* before the first */
      ck_assert_int_eq(step_one(en, a, kv, n, NULL, &out, &e), ENGINE_ABORTED);
      ck_assert_int_eq(out.token, -7);
      ck_assert_uint_eq(engine_kv_tokens(en, a), kv);
      ck_assert_uint_eq(engine_free_pages(en), pages);
      engine_tokens(en, a, &now);
      ck_assert_uint_eq(now, known);
      engine_check(en);
    }
    faulty_stop_at(-1);
    go_on(a, n);
  }
  finish(b);
}
END_TEST

/* 60 pages of 8 tokens. */
START_TEST(no_page_is_free)
{
  int32_t a = long_request(0), b = long_request(1), big = 2; /* of 200 tokens */
  struct engine_request r = {q->one[big].prompt, 200, 3, {.top_p = 1}, -1};
  struct base_error e = {0};
  ck_assert_good(engine_begin(en, 1000, &r, &e), &e);
  ck_assert_good(engine_begin(en, 1001, &r, &e), &e);
  struct engine_token out;
  for (int32_t s = 1000; s < 1002; s++)
    for (uint32_t t = 0; t < 200; t += 50)
      ck_assert_good(step_one(en, s, t, 50, NULL, &out, &e), &e);
  begin(a);
  begin(b);
  go_on(a, 60); /* 8 pages: 2 are left */
  ck_assert_uint_eq(engine_free_pages(en), 2);
  const struct engine_chunk plan[] = {{b, 0, 17}, {a, 60, 4}};
  expect_bad_step(plan, 2, NULL, 0, BASE_ENV, "needs 3 pages of keys and values; 2 of 60 are free");
  go_on(a, 4); /* fits into its last page */
  go_on(b, 16);
  ck_assert_uint_eq(engine_free_pages(en), 0);
  const struct engine_chunk next[] = {{b, 16, 1}};
  expect_bad_step(next, 1, NULL, 0, BASE_ENV, "needs 1 pages");
  engine_drop(en, 1000);
  finish(b);
  finish(a);
  engine_drop(en, 1001);
  ck_assert_uint_eq(engine_free_pages(en), 60);
}
END_TEST

/* 30 pages of 8 tokens on the host. */
START_TEST(host_is_full)
{
  int32_t s[3];
  struct base_error e = {0};
  for (uint32_t i = 0; i < 3; i++) {
    s[i] = long_request(i);
    begin(s[i]);
    go_on(s[i], 60);
  }
  uint32_t pages = engine_free_pages(en);
  for (int i = 0; i < 3; i++)
    ck_assert_good(engine_swap_out(en, s[i], &e), &e);
  ck_assert_uint_eq(engine_free_pages(en), pages + 24);
  ck_assert_uint_eq(engine_free_host_pages(en), 6);
  int32_t more = long_request(3);
  begin(more);
  go_on(more, 56);
  expect_error(engine_swap_out(en, more, &e), &e, BASE_ENV,
               "has 7 pages; 6 of 30 are free on the host");
  e = (struct base_error){0};
  expect_error(engine_swap_out(en, s[0], &e), &e, BASE_INPUT, "swapped out already");
  e = (struct base_error){0};
  expect_error(engine_swap_in(en, more, &e), &e, BASE_INPUT, "on the device already");
  e = (struct base_error){0};
  expect_error(engine_swap_in(en, 999, &e), &e, BASE_INPUT, "there is no sequence 999");
  finish(more);
  engine_drop(en, s[0]); /* with its pages on the host */
  engine_evict(en, s[1]);
  ck_assert_uint_eq(engine_free_host_pages(en), 22);
  finish(s[1]);
  e = (struct base_error){0};
  ck_assert_good(engine_swap_in(en, s[2], &e), &e);
  finish(s[2]);
}
END_TEST

/* -------------------------------------------------------------------- adapters and sleep ---- */

/* A request with an adapter keeps the version it began with. */
START_TEST(versions_of_adapters)
{
  int32_t a = 0;
  struct base_error e = {0};
  while (q->one[a].r.adapter != 0 || q->one[a].r.prompt_tokens < 60)
    a++;
  begin(a);
  go_on(a, 30);
  ck_assert_good(engine_adapter_load(en, 0, q->adapter[1], &e), &e);
  go_on(a, 20);
  engine_adapter_drop(en, 0);
  finish(a);
  e = (struct base_error){0};
  expect_error(engine_begin(en, a, &q->one[a].r, &e), &e, BASE_INPUT,
               "adapter 0, which is not loaded");
  e = (struct base_error){0};
  ck_assert_good(engine_adapter_load(en, 0, q->adapter[0], &e), &e);
  begin(a);
  finish(a);
}
END_TEST

START_TEST(foreign_adapters)
{
  struct config c = q->w->config;
  struct base_error e = {0};
  expect_error(engine_adapter_load(en, ADAPTERS, q->adapter[0], &e), &e, BASE_ENV,
               "there is no adapter slot 2");
  e = (struct base_error){0};
  expect_error(engine_adapter_load(en, -1, q->adapter[0], &e), &e, BASE_ENV, "no adapter slot -1");
  for (int change = 0; change < 2; change++) {
    c = q->w->config;
    if (change)
      c.intermediate *= 2;
    else
      c.layers++;
    e = (struct base_error){0};
    struct adapter *a = adapter_random(&c, 4, 8, 1u << LORA_DOWN | 1u << LORA_UP, 1, TENSOR_F32,
                                       &e);
    ck_assert_ptr_nonnull(a);
    expect_error(engine_adapter_load(en, 0, a, &e), &e, BASE_INPUT,
                 "the adapter is of another base");
    adapter_free(a);
  }
  int32_t i = 0;
  while (q->one[i].r.adapter != 0)
    i++;
  begin(i); /* what was loaded is there still */
  finish(i);
}
END_TEST

START_TEST(sleeping)
{
  int32_t a = long_request(0), b = long_request(1);
  struct base_error e = {0};
  begin(a);
  begin(b);
  go_on(a, 33);
  expect_error((int)engine_sleep(en, 1, &e), &e, BASE_INPUT, "5 pages are in use");
  e = (struct base_error){0};
  expect_error((int)engine_sleep(en, 3, &e), &e, BASE_INPUT, "sleep of level 3");
  e = (struct base_error){0};
  ck_assert_good(engine_swap_out(en, a, &e), &e);
  int64_t bytes = 60 * 8 * config_kv_bytes(&q->w->config, 2);
  ck_assert_int_eq(engine_wake(en, &e), 0);
  ck_assert_int_eq(engine_sleep(en, 1, &e), bytes);
  ck_assert_int_eq(engine_sleep(en, 2, &e), 0);
  expect_error(engine_swap_in(en, a, &e), &e, BASE_INPUT, "wake it first");
  const struct engine_chunk chunk = {b, 0, 5};
  expect_bad_step(&chunk, 1, NULL, 0, BASE_INPUT, "wake it first");
  e = (struct base_error){0};
  ck_assert_int_eq(engine_wake(en, &e), bytes);
  ck_assert_good(engine_swap_in(en, a, &e), &e);
  finish(a);
  finish(b);
}
END_TEST

/* ------------------------------------------------------------------------------- threads ---- */

enum { SWAPS = 100 };
static int running; /* threads beside the one that steps; atomic */

/* Swaps one sequence out and in. */
static void *swapper(void *arg)
{
  int32_t i = *(const int32_t *)arg;
  for (int n = 0; n < SWAPS; n++) {
    struct base_error e = {0};
    ck_assert_good(engine_swap_out(en, i, &e), &e);
    ck_assert_good(engine_swap_in(en, i, &e), &e);
  }
  __atomic_sub_fetch(&running, 1, __ATOMIC_RELAXED);
  return NULL;
}

/* Begins and drops sequences, and loads adapters. */
static void *visitor(void *arg)
{
  int32_t i = *(const int32_t *)arg;
  for (int n = 0; n < SWAPS / 4; n++) {
    struct base_error e = {0};
    ck_assert_good(engine_begin(en, 5000 + n, &q->one[i].r, &e), &e);
    ck_assert_good(engine_adapter_load(en, n % ADAPTERS, q->adapter[n % ADAPTERS], &e), &e);
    engine_evict(en, 5000 + n);
    engine_drop(en, 5000 + n);
    engine_check(en);
  }
  __atomic_sub_fetch(&running, 1, __ATOMIC_RELAXED);
  return NULL;
}

START_TEST(swaps_beside_steps)
{
  int32_t a = long_request(0), b = long_request(1);
  pthread_t one, other;
  begin(a);
  go_on(a, 50);
  running = 2;
  ck_assert_int_eq(pthread_create(&one, NULL, swapper, &a), 0);
  ck_assert_int_eq(pthread_create(&other, NULL, visitor, &a), 0);
  do {
    begin(b);
    finish(b);
  } while (__atomic_load_n(&running, __ATOMIC_RELAXED));
  pthread_join(one, NULL);
  pthread_join(other, NULL);
  finish(a);
}
END_TEST

START_TEST(computed_tokens_are_taken_as_such_once)
{
  struct base_error e = {0};
  struct weights *w = fixture_weights("qwen3", TENSOR_BF16);
  struct ops *mine = fixture_ops(TENSOR_BF16, 1, NULL);
  const struct engine_options o = {.block_tokens = 4, .pages = 3, .max_tokens = 16, .max_seqs = 2};
  struct engine *own = engine_create(w, mine, &o, &e);
  const int32_t prompt[16] = {1, 2, 3};
  const struct engine_request r = {
      .prompt = prompt, .prompt_tokens = 16, .max_tokens = 1, .how = {.top_p = 1}, .adapter = -1};
  ck_assert_good(engine_begin(own, 0, &r, &e), &e);
  ck_assert_int_eq(engine_assume(own, 1, 4, &e), -1); /* there is none */
  ck_assert_int_eq(e.code, BASE_INPUT);
  e = (struct base_error){0};
  ck_assert_int_eq(engine_assume(own, 0, 16, &e), -1); /* nothing would be left to compute */
  ck_assert_int_eq(e.code, BASE_INPUT);
  e = (struct base_error){0};
  ck_assert_int_eq(engine_assume(own, 0, 13, &e), -1); /* four pages */
  ck_assert_int_eq(e.code, BASE_ENV);
  ck_assert_uint_eq(engine_free_pages(own), 3);
  ck_assert_good(engine_assume(own, 0, 5, &e), &e);
  ck_assert_uint_eq(engine_free_pages(own), 1);
  ck_assert_uint_eq(engine_kv_tokens(own, 0), 5);
  engine_check(own);
  e = (struct base_error){0};
  ck_assert_int_eq(engine_assume(own, 0, 5, &e), -1); /* it has pages */
  ck_assert_int_eq(e.code, BASE_INPUT);
  engine_drop(own, 0);
  ck_assert_uint_eq(engine_free_pages(own), 3);
  engine_destroy(own);
  cpu_ops_destroy(mine);
  weights_free(w);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("engine_steps");
  TCase *t = tcase_create("steps");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, open_all, close_all);
  tcase_add_test(t, bad_requests);
  tcase_add_test(t, bad_steps);
  tcase_add_test(t, too_many_sampled);
  tcase_add_test(t, bad_options);
  tcase_add_test(t, shapes_too_large);
  tcase_add_test(t, no_memory);
  tcase_add_test(t, stopped_at_each_layer);
  tcase_add_test(t, no_page_is_free);
  tcase_add_test(t, host_is_full);
  tcase_add_test(t, versions_of_adapters);
  tcase_add_test(t, foreign_adapters);
  tcase_add_test(t, sleeping);
  tcase_add_test(t, swaps_beside_steps);
  suite_add_tcase(s, t);
  t = tcase_create("assumed");
  tcase_add_test(t, computed_tokens_are_taken_as_such_once);
  suite_add_tcase(s, t);
  return suite_run(s);
}
