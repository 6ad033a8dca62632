/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The device contract, on the simulated device and on the real one alike where the rule is the
 * same; what only a real one can do: fail, and lose a thread. Its engine is a toy.
 */
#include <check.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "backend/device.h"
#include "models/cost.h"
#include "models/simdev.h"
#include "tests/suite.h"
#include "tests/toy_engine.h"

enum { SIM, REAL, KINDS };
enum { BLOCK = 4, PAGES = 64, SEQS = 8, LAYERS = 20, MEMORY = 1000 };
#define MS ((lull_time)1000000000) /* ps */

/* A device with one GPU, its lanes, and a batch. */
struct bed {
  int kind;
  struct lull_device *dev;
  const struct lull_device_ops *ops;
  struct cost_model *cost;
  struct engine *engine;
  struct toy_options toy;
  struct device_trainer trainer;
  int serve, copy, train;
  int micro_steps;
  struct lull_chunk chunk;
  lull_id row[2];
  struct lull_batch batch;
};

static int micro_step(void *ctx, const volatile int *stop, struct base_error *e)
{
  (void)stop;
  struct bed *b = ctx;
  return ++b->micro_steps > 3 ? base_fail(e, BASE_ENV, "no more data") : 0;
}

/* One without an end, but for the stop. */
static int endless_step(void *ctx, const volatile int *stop, struct base_error *e)
{
  struct bed *b = ctx;
  (void)e;
  __atomic_store_n(&b->micro_steps, 1, __ATOMIC_RELEASE);
  while (!__atomic_load_n(stop, __ATOMIC_RELAXED))
    ;
  __atomic_store_n(&b->micro_steps, 2, __ATOMIC_RELEASE);
  return DEVICE_STOPPED;
}

static void make_sim(struct bed *b, struct base_error *e)
{
  /* a step lasts 8 ms, a copy of a byte a millisecond */
  b->cost = cost_from_analytic(&(struct cost_analytic){.base = 8 * MS / LULL_TICK_PS}, LAYERS, e);
  ck_assert_ptr_nonnull(b->cost);
  const struct simdev_gpu g = {.memory_bytes = MEMORY,
                               .copy_bytes_per_s = 1000,
                               .cost = b->cost,
                               .layers = LAYERS,
                               .contended_ps = LULL_TICK_PS};
  b->dev = simdev_create(&g, 1, e);
  b->ops = &simdev_ops;
}

static void make_real(struct bed *b, struct base_error *e)
{
  if (!b->toy.layers)
    b->toy.layers = LAYERS;
  if (!b->toy.step_ns)
    b->toy.step_ns = b->toy.copy_ns = 8000000;
  b->toy.engine = (struct engine_options){.block_tokens = BLOCK,
                                          .pages = PAGES,
                                          .host_pages = PAGES,
                                          .max_tokens = 64,
                                          .max_seqs = SEQS};
  b->engine = toy_engine_create(&b->toy);
  b->trainer = (struct device_trainer){.ctx = b, .micro_step = micro_step};
  const struct device_gpu g = {.engine = b->engine,
                               .vocab = 997,
                               .max_seqs = SEQS,
                               .memory_bytes = MEMORY,
                               .held_bytes = 400,
                               .trainer = &b->trainer};
  b->dev = device_create(&g, 1, &(struct device_options){.seed = 5}, e);
  b->ops = &device_ops;
}

/* Steps so long that a moment within one is met on a busy machine too. */
static const struct toy_options slow = {.step_ns = 200000000, .copy_ns = 8000000};

/* With a request 0 of 6 prompt tokens whose first chunk, of all of them, is the batch. */
static struct bed *bed_open(int kind, const struct toy_options *toy)
{
  struct base_error e = {0};
  struct bed *b = calloc(1, sizeof *b);
  ck_assert_ptr_nonnull(b);
  b->kind = kind;
  if (toy)
    b->toy = *toy;
  if (kind == SIM)
    make_sim(b, &e);
  else
    make_real(b, &e);
  ck_assert_msg(b->dev != NULL, "%s", e.text);
  const int gpu = 0;
  b->serve = b->ops->lane_open(b->dev, &gpu, 1, LULL_LANE_SERVE);
  b->copy = b->ops->lane_open(b->dev, &gpu, 1, LULL_LANE_COPY);
  b->train = b->ops->lane_open(b->dev, &gpu, 1, LULL_LANE_TRAIN);
  ck_assert(b->serve == 0 && b->copy == 1 && b->train == 2);
  const struct lull_device_request who = {
      .size = sizeof who,
                                          .lane = (lull_lane_id)b->serve,
                                          .key = 77,
                                          .prompt = 6,
                                          .output = 8,
                                          .adapter = -1};
  if (kind == REAL)
    ck_assert_int_eq(b->ops->request(b->dev, 0, &who), 0);
  b->chunk = (struct lull_chunk){.request = 0, .start = 0, .tokens = 6};
  b->batch = (struct lull_batch){.row_tokens = 1,
                                 .chunks = 1,
                                 .chunk_tokens = 6,
                                 .chunk_ends = 1,
                                 .chunk_work = 21,
                                 .chunk = &b->chunk,
                                 .row = b->row};
  return b;
}

static void bed_close(struct bed *b)
{
  if (b->kind == SIM)
    simdev_destroy(b->dev);
  else
    device_destroy(b->dev);
  if (b->kind == REAL)
    ck_assert_uint_eq(toy_sequences(b->engine), 0);
  engine_destroy(b->engine);
  cost_free(b->cost);
  free(b);
}

static struct lull_work forward(const struct bed *b)
{
  return (struct lull_work){.size = sizeof(struct lull_work),
                            .kind = LULL_WORK_FORWARD,
                            .lane = (lull_lane_id)b->serve,
                            .batch = &b->batch,
                            .repeat = 1,
                            .tag = 9};
}

static struct lull_work copy(const struct bed *b, int kind)
{
  return (struct lull_work){.size = sizeof(struct lull_work),
                            .kind = (uint8_t)kind,
                            .lane = (lull_lane_id)b->copy,
                            .bytes = 5,
                            .tag = 3,
                            .request = 0};
}

static int submit(struct bed *b, struct lull_work w)
{
  return b->ops->submit(b->dev, &w);
}

/* Waits for the next completion, however often it comes back with nothing. */
static struct lull_completion next(struct bed *b)
{
  struct lull_completion c[4];
  int n = 0;
  while (!n)
    n = b->ops->wait(b->dev, LULL_NEVER, c, 4);
  ck_assert_int_eq(n, 1);
  return c[0];
}

/* Until a moment. Nothing may be told. */
static void pass(struct bed *b, lull_time until)
{
  struct lull_completion c[4];
  while (b->ops->now(b->dev) < until)
    ck_assert_int_eq(b->ops->wait(b->dev, until, c, 4), 0);
}

/* The batch becomes request 0 as a row, after its prompt. */
static void make_row(struct bed *b, uint32_t kv)
{
  b->batch.chunks = b->batch.chunk_tokens = b->batch.chunk_ends = 0;
  b->batch.chunk_work = 0;
  b->batch.rows = 1;
  b->batch.ctx_q16 = (int64_t)kv << 16;
  b->batch.ctx_inc_q16 = 1 << 16;
  b->batch.version++;
}

/* ------------------------------------------------------------------------------- alike on both ---
 */

START_TEST(a_step)
{
  struct bed *b = bed_open(_i, NULL);
  ck_assert_int_eq(b->ops->now(b->dev), 0);
  ck_assert_int_eq(submit(b, forward(b)), 0);
  ck_assert_int_eq(b->ops->now(b->dev), 0);
  struct lull_completion c = next(b);
  ck_assert(c.tag == 9 && c.lane == b->serve && c.kind == LULL_WORK_FORWARD);
  ck_assert(c.final && !c.aborted && c.status == LULL_DEV_OK && c.span.steps == 1);
  ck_assert(c.span.first_end == c.end && c.span.last_end == c.end);
  ck_assert(c.end > 7 * MS && c.end <= b->ops->now(b->dev));
  ck_assert(c.busy > 7 * MS && c.busy <= c.end);
  if (_i == REAL)
    ck_assert_int_eq(c.tokens[0], toy_token(77, 6));
  make_row(b, 6);
  lull_time start = b->ops->now(b->dev);
  ck_assert_int_eq(submit(b, forward(b)), 0);
  c = next(b);
  ck_assert(c.final && c.end > start && c.span.steps == 1);
  if (_i == REAL)
    ck_assert_int_eq(c.tokens[0], toy_token(77, 7));
  bed_close(b);
}
END_TEST

START_TEST(refused)
{
  struct bed *b = bed_open(_i, NULL);
  struct lull_work w = forward(b);
  w.lane = 7;
  ck_assert_int_eq(submit(b, w), LULL_DEV_BAD_CALL);
  w.lane = (lull_lane_id)b->copy;
  ck_assert_int_eq(submit(b, w), LULL_DEV_BAD_CALL);
  w = forward(b);
  w.repeat = 0;
  ck_assert_int_eq(submit(b, w), LULL_DEV_BAD_CALL);
  w = forward(b);
  w.batch = NULL;
  ck_assert_int_eq(submit(b, w), LULL_DEV_BAD_CALL);
  w = forward(b);
  b->batch.chunks = 0;
  ck_assert_int_eq(submit(b, w), LULL_DEV_BAD_CALL);
  b->batch.chunks = 1;
  w.kind = LULL_WORK_COLLECTIVE;
  ck_assert_int_eq(submit(b, w), LULL_DEV_UNSUPPORTED);
  w = forward(b);
  w.size = 8;
  ck_assert_int_eq(submit(b, w), LULL_DEV_BAD_CALL);
  ck_assert_int_eq(submit(b, forward(b)), 0);
  ck_assert_int_eq(submit(b, forward(b)), LULL_DEV_BAD_CALL); /* full */
  ck_assert(next(b).final);
  bed_close(b);
}
END_TEST

START_TEST(lanes)
{
  struct bed *b = bed_open(_i, NULL);
  const int gpu[2] = {0, 1};
  ck_assert_int_eq(b->ops->lane_open(b->dev, gpu, 2, LULL_LANE_SERVE), LULL_DEV_UNSUPPORTED);
  ck_assert_int_eq(b->ops->lane_open(b->dev, gpu + 1, 1, LULL_LANE_SERVE), LULL_DEV_BAD_CALL);
  ck_assert_int_eq(b->ops->depth(b->dev), 1);
  ck_assert_uint_ge(b->ops->max_repeat(b->dev), 1);
  bed_close(b);
}
END_TEST

START_TEST(the_clock)
{
  struct bed *b = bed_open(_i, &slow);
  struct lull_completion c[4];
  ck_assert_int_eq(b->ops->wait(b->dev, 0, c, 4), 0); /* a poll */
  ck_assert_int_eq(b->ops->now(b->dev), 0);
  pass(b, 3 * MS);
  lull_time now = b->ops->now(b->dev);
  ck_assert_int_ge(now, 3 * MS);
  ck_assert_int_eq(b->ops->wait(b->dev, now - 1, c, 4), LULL_DEV_BAD_CALL);
  ck_assert_int_eq(submit(b, forward(b)), 0);
  ck_assert_int_eq(b->ops->wait(b->dev, now, c, 4), 0);
  ck_assert_int_eq(b->ops->now(b->dev), now);
  uint64_t steps = 7;
  lull_time at = 0;
  b->ops->progress(b->dev, (lull_lane_id)b->serve, &steps, &at);
  ck_assert_uint_eq(steps, 0);
  pass(b, now + MS);
  ck_assert_int_gt(next(b).end, now + MS);
  bed_close(b);
}
END_TEST

/* A step that is stopped between layers is lost; it can be asked for again. */
START_TEST(safe_point)
{
  struct bed *b = bed_open(_i, &slow);
  pass(b, MS);
  ck_assert_int_eq(submit(b, forward(b)), 0);
  b->ops->interrupt(b->dev, (lull_lane_id)b->serve, LULL_AT_SAFEPOINT); /* at a boundary: nothing */
  ck_assert_int_eq(next(b).aborted, 0);
  make_row(b, 6);
  lull_time start = b->ops->now(b->dev);
  ck_assert_int_eq(submit(b, forward(b)), 0);
  pass(b, start + MS);
  b->ops->interrupt(b->dev, (lull_lane_id)b->serve, LULL_AT_SAFEPOINT);
  struct lull_completion c = next(b);
  ck_assert(c.final && c.aborted && c.status == LULL_DEV_OK && !c.span.steps);
  ck_assert(c.end > start + MS && c.end <= b->ops->now(b->dev));
  ck_assert_int_eq(submit(b, forward(b)), 0);
  c = next(b);
  ck_assert(c.final && !c.aborted && c.span.steps == 1);
  if (_i == REAL)
    ck_assert_int_eq(c.tokens[0], toy_token(77, 7));
  b->ops->interrupt(b->dev, (lull_lane_id)b->serve, LULL_AT_SAFEPOINT); /* free: nothing */
  bed_close(b);
}
END_TEST

START_TEST(at_the_boundary)
{
  struct bed *b = bed_open(_i, &slow);
  ck_assert_int_eq(submit(b, forward(b)), 0);
  pass(b, MS);
  b->ops->interrupt(b->dev, (lull_lane_id)b->serve, LULL_AT_BOUNDARY);
  struct lull_completion c = next(b);
  ck_assert(c.final && !c.aborted && c.span.steps == 1);
  bed_close(b);
}
END_TEST

START_TEST(memory)
{
  struct bed *b = bed_open(_i, NULL);
  int64_t room = _i == SIM ? MEMORY : MEMORY - 400;
  ck_assert_int_eq(b->ops->reserve(b->dev, 0, room + 1), LULL_DEV_NO_MEMORY);
  ck_assert_int_eq(b->ops->reserve(b->dev, 0, room - 100), LULL_DEV_OK);
  ck_assert_int_eq(b->ops->reserve(b->dev, 0, 101), LULL_DEV_NO_MEMORY);
  b->ops->release(b->dev, 0, 1);
  ck_assert_int_eq(b->ops->reserve(b->dev, 0, 101), LULL_DEV_OK);
  ck_assert_int_eq(b->ops->reserve(b->dev, 1, 1), LULL_DEV_BAD_CALL);
  ck_assert_int_eq(b->ops->reserve(b->dev, 0, -1), LULL_DEV_BAD_CALL);
  bed_close(b);
}
END_TEST

/* A copy beside a step: what ends first is told first, and one does not hold up the other. */
START_TEST(copies)
{
  struct bed *b = bed_open(_i, NULL);
  ck_assert_int_eq(submit(b, forward(b)), 0);
  ck_assert(next(b).final);
  ck_assert_int_eq(submit(b, copy(b, LULL_WORK_COPY_OUT)), 0);
  struct lull_completion c = next(b);
  ck_assert(c.kind == LULL_WORK_COPY_OUT && c.final && c.tag == 3 && c.lane == b->copy);
  ck_assert(c.busy > 0 && c.status == LULL_DEV_OK);
  ck_assert_int_eq(submit(b, copy(b, LULL_WORK_COPY_IN)), 0);
  ck_assert(next(b).kind == LULL_WORK_COPY_IN);
  make_row(b, 6);
  ck_assert_int_eq(submit(b, forward(b)), 0);
  ck_assert(next(b).span.steps == 1);
  bed_close(b);
}
END_TEST

START_TEST(training)
{
  struct bed *b = bed_open(_i, NULL);
  struct lull_work w = {.size = sizeof w,
                        .kind = LULL_WORK_TRAIN_MICRO,
                        .lane = (lull_lane_id)b->train,
                        .ticks = 100};
  for (int i = 0; i < 3; i++) {
    ck_assert_int_eq(submit(b, w), 0);
    struct lull_completion c = next(b);
    ck_assert(c.kind == LULL_WORK_TRAIN_MICRO && c.final && c.end > 0 && !c.status);
  }
  if (_i == REAL) {
    ck_assert_int_eq(submit(b, w), 0);
    ck_assert_int_eq(next(b).status, LULL_DEV_IO);
    ck_assert_str_eq(b->ops->why(b->dev), "GPU 0: no more data");
    w.kind = LULL_WORK_OPTIMIZER; /* the trainer has none */
    ck_assert_int_eq(submit(b, w), LULL_DEV_UNSUPPORTED);
  }
  bed_close(b);
}
END_TEST

/* -------------------------------------------------------------------------------- the real one ---
 */

START_TEST(requests)
{
  struct bed *b = bed_open(REAL, NULL);
  struct lull_device_request who = {
      .size = sizeof who, .lane = 0, .key = 5, .prompt = 3, .output = 1, .adapter = -1};
  ck_assert_int_eq(b->ops->request(b->dev, 0, &who), LULL_DEV_BAD_CALL); /* known */
  who.lane = 1;
  ck_assert_int_eq(b->ops->request(b->dev, 1, &who), LULL_DEV_BAD_CALL); /* a copy lane */
  who.lane = 0;
  ck_assert_int_eq(b->ops->request(b->dev, 1, &who), 0);
  ck_assert_uint_eq(toy_sequences(b->engine), 2);
  uint32_t n;
  const int32_t *t = engine_tokens(b->engine, 1, &n);
  ck_assert_uint_eq(n, 3);
  for (uint32_t i = 0; i < n; i++)
    ck_assert_int_eq(t[i], device_prompt_token(5, 5, i, 997));
  b->ops->forget(b->dev, 1, LULL_FORGET_FAILED);
  b->ops->forget(b->dev, 1, LULL_FORGET_FAILED);
  ck_assert_uint_eq(toy_sequences(b->engine), 1);
  ck_assert_int_eq(submit(b, forward(b)), 0);
  ck_assert(next(b).final);
  b->ops->forget(b->dev, 0, LULL_FORGET_KV); /* all of it is computed again, with what came of it */
  b->chunk.tokens = 7;
  ck_assert_int_eq(submit(b, forward(b)), 0);
  struct lull_completion c = next(b);
  ck_assert_int_eq(c.tokens[0], toy_token(77, 7));
  bed_close(b);
}
END_TEST

/* Every token of the vocabulary, no other; another seed and another key have others. */
START_TEST(prompts)
{
  uint32_t seen[5] = {0}, equal = 0;
  for (uint32_t i = 0; i < 5000; i++) {
    int32_t t = device_prompt_token(1, 2, i, 5);
    ck_assert(t >= 0 && t < 5);
    seen[t]++;
    equal += t == device_prompt_token(1, 3, i, 5);
    equal += t == device_prompt_token(2, 2, i, 5);
  }
  for (int i = 0; i < 5; i++)
    ck_assert(seen[i] > 850 && seen[i] < 1150);
  ck_assert(equal > 1700 && equal < 2300);
}
END_TEST

START_TEST(engine_fails)
{
  struct bed *b = bed_open(REAL, &(struct toy_options){.fail_at = 1});
  ck_assert_int_eq(submit(b, forward(b)), 0);
  struct lull_completion c = next(b);
  ck_assert(c.final && c.status == LULL_DEV_IO && !c.span.steps && c.end > 0);
  ck_assert_str_eq(b->ops->why(b->dev), "GPU 0: the toy is broken at work 1");
  ck_assert_int_eq(submit(b, forward(b)), 0); /* the lane lives */
  ck_assert_int_eq(next(b).status, LULL_DEV_OK);
  bed_close(b);
}
END_TEST

START_TEST(thread_dies)
{
  struct bed *b = bed_open(REAL, &(struct toy_options){.exit_at = 1});
  ck_assert_int_eq(submit(b, forward(b)), 0);
  struct lull_completion c = next(b);
  ck_assert(c.final && c.status == LULL_DEV_IO);
  ck_assert_str_eq(b->ops->why(b->dev), "GPU 0: the thread of its lane has ended");
  ck_assert_int_eq(submit(b, forward(b)), LULL_DEV_IO);
  ck_assert_str_eq(b->ops->why(b->dev), "GPU 0: the thread of lane 0 has ended");
  bed_close(b);
}
END_TEST

/* A world that fails gives back its batch while a step runs. */
START_TEST(batch_goes)
{
  struct bed *b = bed_open(REAL, NULL);
  struct lull_chunk *chunk = calloc(1, sizeof *chunk);
  lull_id *row = calloc(1, sizeof *row);
  ck_assert(chunk && row);
  *chunk = b->chunk;
  b->batch.chunk = chunk;
  ck_assert_int_eq(submit(b, forward(b)), 0);
  chunk->request = 99;
  free(chunk);
  struct lull_completion c = next(b);
  ck_assert(c.status == LULL_DEV_OK && c.tokens[0] == toy_token(77, 6));
  make_row(b, 6);
  b->batch.row = row;
  ck_assert_int_eq(submit(b, forward(b)), 0);
  *row = 99;
  free(row);
  b->batch.rows = 0;
  c = next(b);
  ck_assert(c.status == LULL_DEV_OK && c.tokens[0] == toy_token(77, 7));
  bed_close(b);
}
END_TEST

/* Work under way when the device goes. */
START_TEST(destroyed_at_work)
{
  struct bed *b = bed_open(REAL, &(struct toy_options){.step_ns = 900000000, .layers = 900});
  ck_assert_int_eq(submit(b, forward(b)), 0);
  pass(b, 2 * MS);
  bed_close(b); /* not 900 ms later, which nobody measures here */
}
END_TEST

/* A micro-step is stopped where it looks, and nobody tells of it. */
START_TEST(destroyed_in_training)
{
  struct bed *b = bed_open(REAL, NULL);
  b->trainer.micro_step = endless_step;
  ck_assert_int_eq(submit(b, (struct lull_work){.size = sizeof(struct lull_work),
                                                .kind = LULL_WORK_TRAIN_MICRO,
                                                .lane = (lull_lane_id)b->train}),
                   0);
  while (!__atomic_load_n(&b->micro_steps, __ATOMIC_ACQUIRE))
    sched_yield();
  device_destroy(b->dev);
  b->dev = NULL;
  ck_assert_int_eq(b->micro_steps, 2);
  bed_close(b);
}
END_TEST

START_TEST(too_heavy)
{
  struct base_error e = {0};
  const struct device_gpu g = {.memory_bytes = 10, .held_bytes = 11};
  ck_assert_ptr_null(device_create(&g, 1, &(struct device_options){0}, &e));
  ck_assert(e.code == BASE_INPUT && strstr(e.text, "10 bytes"));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("device");
  TCase *both = tcase_create("contract");
  tcase_add_loop_test(both, a_step, 0, KINDS);
  tcase_add_loop_test(both, refused, 0, KINDS);
  tcase_add_loop_test(both, lanes, 0, KINDS);
  tcase_add_loop_test(both, the_clock, 0, KINDS);
  tcase_add_loop_test(both, safe_point, 0, KINDS);
  tcase_add_loop_test(both, at_the_boundary, 0, KINDS);
  tcase_add_loop_test(both, memory, 0, KINDS);
  tcase_add_loop_test(both, copies, 0, KINDS);
  tcase_add_loop_test(both, training, 0, KINDS);
  suite_add_tcase(suite, both);
  TCase *real = tcase_create("real");
  tcase_add_test(real, requests);
  tcase_add_test(real, prompts);
  tcase_add_test(real, engine_fails);
  tcase_add_test(real, thread_dies);
  tcase_add_test(real, batch_goes);
  tcase_add_test(real, destroyed_at_work);
  tcase_add_test(real, destroyed_in_training);
  tcase_add_test(real, too_heavy);
  suite_add_tcase(suite, real);
  return suite_run(suite);
}
