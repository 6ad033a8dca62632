/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Adapters and sleep as works of the real device, on an engine of a tiny model: what is loaded
 * beside steps, who gets which version, what memory it takes, and that tokens are the same after
 * sleep.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "backend/device.h"
#include "tests/engine_fixture.h"
#include "tests/suite.h"

enum { SLOTS = 2, VERSIONS = 3, BLOCK = 8, PAGES = 40, PROMPT = 40, OUTPUT = 6, HELD = 5000 };
enum { PLAIN = VERSIONS }; /* of no version */

/* A device with one GPU whose memory takes KV and, beside it, two adapters. Version 10 + i is
 * adapter i; 13 is of another base. */
static struct weights *weights;
static struct ops *ops;
static struct engine *en;
static struct adapter *adapter[VERSIONS], *foreign;
static int64_t kv_bytes, adapter_bytes;
static struct lull_device *dev;
static int serve, copy, train;
static struct lull_chunk chunk;
static lull_id row;
static struct lull_batch batch;
static int micro_steps;

static const struct adapter *find_adapter(void *ctx, int gpu, uint64_t version)
{
  ck_assert(ctx == &micro_steps && gpu == 0);
  return version >= 10 && version < 10 + VERSIONS ? adapter[version - 10]
         : version == 13                          ? foreign
                                                  : NULL;
}

static int micro_step(void *ctx, const volatile int *stop, struct base_error *e)
{
  (void)stop, (void)e;
  ++*(int *)ctx;
  return 0;
}

static const struct device_trainer trainer = {.ctx = &micro_steps, .micro_step = micro_step};

/* With B as large as A, or nothing would come of it. */
static struct adapter *make_adapter(const struct config *c, uint64_t seed)
{
  struct base_error e = {0};
  struct adapter *a = adapter_random(c, 4, 64, 1u << LORA_Q | 1u << LORA_V | 1u << LORA_DOWN, seed,
                                     TENSOR_F32, &e);
  ck_assert_msg(a != NULL, "%s", e.text);
  for (uint32_t i = 0; i < a->layers * LORA_TARGETS; i++) {
    float *b = a->pair[i].b.data ? (float *)a->pair[i].b.data : NULL;
    for (uint32_t k = 0; b && k < a->pair[i].b.rows * a->pair[i].b.cols; k++)
      b[k] = (float)((k * 7 + seed * 31 + i) % 13) / 13.0f - 0.5f;
  }
  return a;
}

static void open_device(int64_t room)
{
  struct base_error e = {0};
  const struct device_gpu g = {.engine = en,
                               .vocab = weights->config.vocab,
                               .max_seqs = 4,
                               .adapters = SLOTS,
                               .memory_bytes = HELD + kv_bytes + room,
                               .held_bytes = HELD,
                               .trainer = &trainer};
  const struct device_options o = {
      .seed = 3, .how = {.top_p = 1}, .adapter = find_adapter, .adapter_ctx = &micro_steps};
  const int gpu = 0;
  dev = device_create(&g, 1, &o, &e);
  ck_assert_msg(dev != NULL, "%s", e.text);
  serve = device_ops.lane_open(dev, &gpu, 1, LULL_LANE_SERVE);
  copy = device_ops.lane_open(dev, &gpu, 1, LULL_LANE_COPY);
  train = device_ops.lane_open(dev, &gpu, 1, LULL_LANE_TRAIN);
  ck_assert(serve == 0 && copy == 1 && train == 2);
  ck_assert_int_eq(device_ops.reserve(dev, 0, kv_bytes), 0);
}

static void open_all(void)
{
  static const struct engine_options o = {.block_tokens = BLOCK,
                                          .pages = PAGES,
                                          .host_pages = PAGES,
                                          .max_tokens = 64,
                                          .max_seqs = 4,
                                          .adapters = SLOTS + 1};
  struct base_error e = {0};
  weights = fixture_weights("qwen3", TENSOR_F32);
  ops = fixture_ops(TENSOR_F32, 1, NULL);
  en = engine_create(weights, ops, &o, &e);
  ck_assert_msg(en != NULL, "%s", e.text);
  for (int i = 0; i < VERSIONS; i++)
    adapter[i] = make_adapter(&weights->config, (uint64_t)i + 1);
  struct config other = weights->config;
  other.layers++;
  foreign = make_adapter(&other, 9);
  kv_bytes = PAGES * BLOCK * config_kv_bytes(&weights->config, 4);
  adapter_bytes = engine_adapter_bytes(en, adapter[0]);
  ck_assert_int_gt(adapter_bytes, 1000);
  open_device(2 * adapter_bytes);
}

static void close_all(void)
{
  device_destroy(dev);
  engine_check(en);
  ck_assert_uint_eq(engine_free_pages(en), PAGES);
  engine_destroy(en);
  cpu_ops_destroy(ops);
  for (int i = 0; i < VERSIONS; i++)
    adapter_free(adapter[i]);
  adapter_free(foreign);
  weights_free(weights);
}

/* ----------------------------------------------------------------------------------- works ---- */

static struct lull_work work(int kind, int lane)
{
  return (struct lull_work){.size = sizeof(struct lull_work),
                            .kind = (uint8_t)kind,
                            .lane = (lull_lane_id)lane,
                            .tag = (uint64_t)kind};
}

static int submit(struct lull_work w)
{
  return device_ops.submit(dev, &w);
}

static struct lull_work load(int slot, uint64_t version)
{
  struct lull_work w = work(LULL_WORK_ADAPTER_LOAD, copy);
  w.slot = slot;
  w.version = version;
  return w;
}

static struct lull_work drop(int slot)
{
  struct lull_work w = work(LULL_WORK_ADAPTER_DROP, copy);
  w.slot = slot;
  return w;
}

static struct lull_work sleep_to(int level)
{
  struct lull_work w = work(LULL_WORK_WEIGHTS_DROP, serve);
  w.level = level;
  return w;
}

static struct lull_work wake(void)
{
  return work(LULL_WORK_WEIGHTS_LOAD, serve);
}

static struct lull_work swap(int kind, lull_id id)
{
  struct lull_work w = work(kind, copy);
  w.request = id;
  return w;
}

static struct lull_completion next(void)
{
  struct lull_completion c;
  int n = 0;
  while (!n)
    n = device_ops.wait(dev, LULL_NEVER, &c, 1);
  ck_assert_int_eq(n, 1);
  ck_assert(c.final && !c.aborted && c.busy > 0 && c.busy <= c.end);
  return c;
}

/* Work that is done to its end, and well. */
static void doing(struct lull_work w)
{
  ck_assert_msg(!submit(w), "%s", device_ops.why(dev));
  struct lull_completion c = next();
  ck_assert(c.kind == w.kind && c.tag == w.tag && c.lane == w.lane && !c.span.steps);
  ck_assert_msg(c.status == LULL_DEV_OK, "%s", device_ops.why(dev));
}

static void expect_refused(int status, int want, const char *text)
{
  const char *why = device_ops.why(dev);
  ck_assert_int_eq(status, want);
  ck_assert_msg(why && strstr(why, text), "'%s' is not in '%s'", text, why ? why : "nothing");
}

/* Bytes that can be reserved still. */
static int64_t room(void)
{
  int64_t low = 0, high = 1 << 30;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (device_ops.reserve(dev, 0, middle)) {
      high = middle;
    } else {
      device_ops.release(dev, 0, middle);
      low = middle;
    }
  }
  return low;
}

/* -------------------------------------------------------------------------------- requests ---- */

static int ask(lull_id id, int slot)
{
  const struct lull_device_request who = {.size = sizeof who,
                                          .lane = (lull_lane_id)serve,
                                          .key = 7,
                                          .prompt = PROMPT,
                                          .output = OUTPUT,
                                          .adapter = slot};
  return device_ops.request(dev, id, &who);
}

/* The prompt's only chunk, or one more token. */
static struct lull_work step_of(lull_id id)
{
  struct lull_work w = work(LULL_WORK_FORWARD, serve);
  uint32_t kv = engine_kv_tokens(en, id);
  chunk = (struct lull_chunk){.request = id, .start = 0, .tokens = PROMPT};
  row = id;
  batch = kv ? (struct lull_batch){.rows = 1, .row_tokens = 1, .row = &row}
             : (struct lull_batch){.chunks = 1, .row_tokens = 1, .chunk = &chunk};
  w.batch = &batch;
  w.repeat = 1;
  return w;
}

static int32_t step(lull_id id)
{
  ck_assert_msg(!submit(step_of(id)), "%s", device_ops.why(dev));
  struct lull_completion c = next();
  ck_assert_msg(c.status == LULL_DEV_OK && c.span.steps == 1, "%s", device_ops.why(dev));
  return c.tokens[0];
}

static void answer(lull_id id, int32_t *token, int from)
{
  for (int i = from; i < OUTPUT; i++)
    token[i] = step(id);
  device_ops.forget(dev, id, LULL_FORGET_FINISHED);
}

/* What the prompt yields with adapter i, or without, from an engine of its own. */
static void alone(int i, int32_t token[OUTPUT])
{
  static const struct engine_options o = {
      .block_tokens = BLOCK, .pages = 20, .max_tokens = 64, .max_seqs = 1, .adapters = 1};
  struct base_error e = {0};
  struct ops *own = fixture_ops(TENSOR_F32, 1, NULL);
  struct engine *one = engine_create(weights, own, &o, &e);
  int32_t prompt[PROMPT];
  for (uint32_t k = 0; k < PROMPT; k++)
    prompt[k] = device_prompt_token(3, 7, k, weights->config.vocab);
  const struct engine_request r = {.prompt = prompt,
                                   .prompt_tokens = PROMPT,
                                   .max_tokens = OUTPUT,
                                   .how = {.top_p = 1},
                                   .adapter = i == PLAIN ? -1 : 0};
  const struct engine_chunk all = {0, 0, PROMPT};
  const int32_t seq = 0;
  struct engine_token out;
  if (i != PLAIN)
    ck_assert_good(engine_adapter_load(one, 0, adapter[i], &e), &e);
  ck_assert_good(engine_begin(one, 0, &r, &e), &e);
  for (int k = 0; k < OUTPUT; k++) {
    const struct engine_step s = {
        .chunk = &all, .chunks = !k, .row = &seq, .rows = k != 0, .out = &out};
    ck_assert_good(engine_step(one, &s, &e), &e);
    token[k] = out.token;
  }
  engine_destroy(one);
  cpu_ops_destroy(own);
}

static void check_answer(const int32_t token[OUTPUT], int i)
{
  int32_t want[OUTPUT];
  alone(i, want);
  for (int k = 0; k < OUTPUT; k++)
    ck_assert_msg(token[k] == want[k], "token %d is %d, with adapter %d it is %d", k, (int)token[k],
                  i, (int)want[k]);
}

static void check_request(lull_id id, int slot, int i)
{
  int32_t token[OUTPUT];
  ck_assert_msg(!ask(id, slot), "%s", device_ops.why(dev));
  answer(id, token, 0);
  check_answer(token, i);
}

/* -------------------------------------------------------------------------------- adapters ---- */

/* The rest would show nothing if these were equal. */
START_TEST(they_differ)
{
  int32_t token[VERSIONS + 1][OUTPUT];
  for (int i = 0; i <= PLAIN; i++) {
    alone(i, token[i]);
    for (int k = 0; k < i; k++)
      ck_assert_int_ne(memcmp(token[i], token[k], sizeof token[i]), 0);
  }
}
END_TEST

START_TEST(slots)
{
  expect_refused(ask(0, 0), LULL_DEV_BAD_CALL,
                 "GPU 0: request 0 asks for the adapter in slot 0, where none is loaded");
  expect_refused(ask(0, SLOTS), LULL_DEV_BAD_CALL, "slot 2, where none is loaded");
  check_request(0, -1, PLAIN);
  doing(load(1, 10));
  doing(load(0, 12));
  check_request(1, 1, 0);
  check_request(2, 0, 2);
  check_request(3, -1, PLAIN);
  doing(drop(1));
  expect_refused(ask(4, 1), LULL_DEV_BAD_CALL, "slot 1, where none is loaded");
  doing(load(1, 11));
  check_request(4, 1, 1);
  struct device_stats s;
  device_get_stats(dev, &s);
  ck_assert_uint_eq(s.adapter_loads, 3);
}
END_TEST

/* A version is loaded while requests with the older one, and without, are in steps. */
START_TEST(beside_steps)
{
  int32_t token[OUTPUT];
  doing(load(0, 10));
  ck_assert_int_eq(ask(0, 0), 0);
  ck_assert_int_eq(submit(step_of(0)), 0);
  ck_assert_int_eq(submit(load(0, 11)), 0);
  ck_assert_int_eq(ask(1, 0), 0); /* before its end is told */
  for (int i = 0; i < 2; i++) {
    struct lull_completion c = next();
    ck_assert_int_eq(c.status, LULL_DEV_OK);
    if (c.kind == LULL_WORK_FORWARD)
      token[0] = c.tokens[0];
  }
  ck_assert_int_eq(ask(2, 0), 0);
  ck_assert_int_eq(submit(drop(0)), 0);
  expect_refused(ask(3, 0), LULL_DEV_BAD_CALL, "none is loaded"); /* from the submit on */
  ck_assert_int_eq(next().kind, LULL_WORK_ADAPTER_DROP);
  ck_assert_int_eq(room(), 0); /* both versions have requests yet */
  answer(0, token, 1);
  check_answer(token, 0);
  ck_assert_int_eq(room(), 0); /* request 1 has it too */
  answer(1, token, 0);
  check_answer(token, 0);
  ck_assert_int_eq(room(), adapter_bytes);
  answer(2, token, 0);
  check_answer(token, 1);
  ck_assert_int_eq(room(), 2 * adapter_bytes);
}
END_TEST

/* Those that began with the slot's older version keep it. */
START_TEST(keep_their_version)
{
  int32_t old[OUTPUT], fresh[OUTPUT];
  doing(load(0, 10));
  ck_assert_int_eq(ask(0, 0), 0);
  old[0] = step(0);
  doing(load(0, 12));
  ck_assert_int_eq(ask(1, 0), 0);
  fresh[0] = step(1);
  old[1] = step(0);
  doing(drop(0));
  answer(0, old, 2);
  answer(1, fresh, 1);
  check_answer(old, 0);
  check_answer(fresh, 2);
}
END_TEST

START_TEST(refused)
{
  struct lull_work w = load(0, 10);
  expect_refused(submit(load(0, 9)), LULL_DEV_BAD_CALL,
                 "GPU 0: there is no version 9 of an adapter");
  expect_refused(submit(load(SLOTS, 10)), LULL_DEV_BAD_CALL, "no adapter slot 2; it has 2");
  expect_refused(submit(load(-1, 10)), LULL_DEV_BAD_CALL, "no adapter slot -1");
  expect_refused(submit(drop(0)), LULL_DEV_BAD_CALL, "no adapter in slot 0 to drop");
  w.lane = (lull_lane_id)serve;
  ck_assert_int_eq(submit(w), LULL_DEV_BAD_CALL);
  w.lane = (lull_lane_id)train;
  ck_assert_int_eq(submit(w), LULL_DEV_BAD_CALL);
  w = load(0, 10);
  w.size = offsetof(struct lull_work, slot); /* of a caller that knows no slots */
  ck_assert_int_eq(submit(w), LULL_DEV_BAD_CALL);
  w = step_of(0);
  w.size = offsetof(struct lull_work, slot);
  ck_assert_int_eq(ask(0, -1), 0);
  ck_assert_int_eq(submit(w), 0);
  ck_assert_int_eq(next().status, LULL_DEV_OK);
  ck_assert_int_eq(submit(load(0, 13)), 0);
  expect_refused(next().status, LULL_DEV_BAD_CALL, "the adapter is of another base");
  ck_assert_int_eq(room(), 2 * adapter_bytes);
  expect_refused(ask(1, 0), LULL_DEV_BAD_CALL, "none is loaded");
}
END_TEST

START_TEST(memory)
{
  doing(load(0, 10));
  ck_assert_int_eq(room(), adapter_bytes);
  doing(load(1, 11));
  expect_refused(submit(load(0, 12)), LULL_DEV_NO_MEMORY, "bytes; 0 are free");
  check_request(0, 0, 0); /* a refused submit changes nothing */
  doing(drop(1));
  ck_assert_int_eq(device_ops.reserve(dev, 0, 1), 0);
  expect_refused(submit(load(1, 12)), LULL_DEV_NO_MEMORY, "GPU 0: an adapter takes");
  device_ops.release(dev, 0, 1);
  doing(load(0, 12)); /* both versions are there for a while */
  ck_assert_int_eq(room(), adapter_bytes);
  check_request(1, 0, 2);
}
END_TEST

/* What is on its way, or loaded, when the device goes, goes too. */
START_TEST(destroyed)
{
  doing(load(0, 10));
  ck_assert_int_eq(ask(0, 0), 0);
  ck_assert_int_eq(submit(_i ? load(0, 11) : drop(0)), 0);
}
END_TEST

/* ----------------------------------------------------------------------------------- sleep ---- */

/* Level _i: what was swapped out goes on as if nothing had been. */
START_TEST(sleeping)
{
  int32_t token[OUTPUT];
  doing(load(0, 10));
  ck_assert_int_eq(ask(0, 0), 0);
  token[0] = step(0);
  token[1] = step(0);
  doing(swap(LULL_WORK_COPY_OUT, 0));
  int64_t before = room();
  doing(sleep_to(_i));
  ck_assert_int_eq(room(), before + kv_bytes);
  expect_refused(submit(step_of(0)), LULL_DEV_BAD_CALL, "sleeps (level");
  expect_refused(submit(swap(LULL_WORK_COPY_IN, 0)), LULL_DEV_BAD_CALL, "wake it first");
  expect_refused(submit(sleep_to(1)), LULL_DEV_BAD_CALL, "sleeps already");
  doing(load(1, 11)); /* while it sleeps */
  int st = submit(work(LULL_WORK_TRAIN_MICRO, train));
  if (_i == 2)
    expect_refused(st, LULL_DEV_BAD_CALL, "GPU 0 sleeps (level 2)");
  else
    ck_assert(!st && !next().status);
  ck_assert_int_eq(device_ops.reserve(dev, 0, 1), 0);
  expect_refused(submit(wake()), LULL_DEV_NO_MEMORY, "waking takes");
  device_ops.release(dev, 0, 1);
  doing(wake());
  ck_assert_int_eq(room(), 0);
  doing(swap(LULL_WORK_COPY_IN, 0));
  answer(0, token, 2);
  check_answer(token, 0);
  check_request(1, 1, 1);
  struct device_stats s;
  device_get_stats(dev, &s);
  ck_assert(s.slept == 1 && s.slept_bytes == kv_bytes);
}
END_TEST

START_TEST(sleep_refused)
{
  struct lull_work w = sleep_to(1);
  w.lane = (lull_lane_id)copy;
  ck_assert_int_eq(submit(w), LULL_DEV_BAD_CALL);
  expect_refused(submit(sleep_to(0)), LULL_DEV_BAD_CALL, "sleep of level 0; there are 1 and 2");
  expect_refused(submit(wake()), LULL_DEV_BAD_CALL, "GPU 0 does not sleep");
  ck_assert_int_eq(ask(0, -1), 0);
  ck_assert_int_eq(submit(step_of(0)), 0);
  ck_assert_int_eq(submit(sleep_to(1)), LULL_DEV_BAD_CALL); /* the lane is not idle */
  ck_assert_int_eq(next().status, LULL_DEV_OK);
  int64_t before = room();
  ck_assert_int_eq(submit(sleep_to(1)), 0);
  expect_refused(next().status, LULL_DEV_BAD_CALL, "pages are in use");
  ck_assert_int_eq(room(), before);
  ck_assert_int_eq(submit(swap(LULL_WORK_COPY_OUT, 0)), 0);
  expect_refused(submit(sleep_to(1)), LULL_DEV_BAD_CALL, "a copy of KV, or training, is under way");
  ck_assert_int_eq(next().status, LULL_DEV_OK);
  ck_assert_int_eq(submit(work(LULL_WORK_TRAIN_MICRO, train)), 0);
  expect_refused(submit(sleep_to(2)), LULL_DEV_BAD_CALL, "is under way");
  ck_assert_int_eq(next().status, LULL_DEV_OK);
  ck_assert_int_eq(submit(sleep_to(2)), 0);
  expect_refused(submit(swap(LULL_WORK_COPY_IN, 0)), LULL_DEV_BAD_CALL, "sleeps (level 2)");
  ck_assert_int_eq(next().status, LULL_DEV_OK);
  doing(wake());
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("device_adapters");
  TCase *t = tcase_create("works");
  tcase_add_checked_fixture(t, open_all, close_all);
  tcase_set_timeout(t, 60);
  tcase_add_test(t, they_differ);
  tcase_add_test(t, slots);
  tcase_add_test(t, beside_steps);
  tcase_add_test(t, keep_their_version);
  tcase_add_test(t, refused);
  tcase_add_test(t, memory);
  tcase_add_loop_test(t, destroyed, 0, 2);
  tcase_add_loop_test(t, sleeping, 1, 3);
  tcase_add_test(t, sleep_refused);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
