/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Background jobs of the cpu device: an adapter's bits are of the number of micro-steps alone. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* affinity */
#endif
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "cli/device_train.h"
#include "cli/lesson.h"
#include "tests/suite.h"

static const struct scenario_training usual = {
    .batch = 2, .accumulate = 1, .rank = 4, .rate = 0.002};

static struct weights *model(uint32_t vocab)
{
  struct base_error e = {0};
  const struct config c = {.family = CONFIG_QWEN3,
                           .hidden = 32,
                           .layers = 2,
                           .q_heads = 2,
                           .kv_heads = 1,
                           .head_dim = 16,
                           .intermediate = 48,
                           .vocab = vocab,
                           .max_position = 256,
                           .rms_eps = 1e-6,
                           .rope_theta = 1e4,
                           .tied = 1,
                           .qk_norm = 1,
                           .dtype = TENSOR_BF16,
                           .bos = -1};
  struct weights *w = weights_random(&c, 3, TENSOR_BF16, &e);
  ck_assert_msg(w != NULL, "%s", e.text);
  return w;
}

static struct device_train *open_train(struct weights *w, const struct scenario_training *how,
                                       int threads, uint64_t seed)
{
  struct base_error e = {0};
  const struct device_train_place p = {.w = w, .threads = threads, .seed = seed};
  struct device_train *t = device_train_open(&p, how, &e);
  ck_assert_msg(t != NULL, "%s", e.text);
  return t;
}

static int micro(struct device_train *t, int stop, struct base_error *e)
{
  const struct device_trainer *h = device_train_hook(t);
  return h->micro_step(h->ctx, &stop, e);
}

/* After n more micro-steps. */
static struct experiment_training after(struct device_train *t, int n)
{
  struct base_error e = {0};
  struct experiment_training out = {.job = "tuning"};
  for (int i = 0; i < n; i++)
    ck_assert_msg(micro(t, 0, &e) == 0, "%s", e.text);
  ck_assert_msg(device_train_finish(t, 1, &out, &e) == 0, "%s", e.text);
  return out;
}

START_TEST(learns)
{
  struct weights *w = model(LESSON_VOCAB);
  struct device_train *t = open_train(w, &usual, 1, 7);
  ck_assert_int_gt(device_train_bytes(t), 100000);
  struct experiment_training none = after(t, 0), some = after(t, 30);
  ck_assert(none.micro_steps == 0 && none.steps == 0 && none.loss_after == none.loss_before);
  ck_assert(some.micro_steps == 30 && some.steps == 30);
  ck_assert(some.loss_before == none.loss_before && some.loss_after < some.loss_before - 0.01);
  ck_assert_str_ne(none.digest, some.digest);
  ck_assert_uint_eq(strlen(some.digest), 32);
  device_train_close(t);
  weights_free(w);
}
END_TEST

/* Whatever was stopped, whatever the number of threads. Another seed, or another n, is another. */
START_TEST(same_bits)
{
  struct base_error e = {0};
  struct weights *w = model(LESSON_VOCAB);
  struct device_train *one = open_train(w, &usual, 1, 7), *two = open_train(w, &usual, 2, 7);
  struct device_train *other = open_train(w, &usual, 1, 8);
  struct experiment_training a = after(one, 6), b = after(two, 5);
  ck_assert_str_ne(a.digest, b.digest);
  ck_assert_int_eq(micro(two, 1, &e), DEVICE_STOPPED);
  b = after(two, 1);
  ck_assert_str_eq(a.digest, b.digest);
  ck_assert(a.loss_after == b.loss_after && b.micro_steps == 6);
  ck_assert_str_ne(a.digest, after(other, 6).digest);
  device_train_close(one);
  device_train_close(two);
  device_train_close(other);
  weights_free(w);
}
END_TEST

/* Nothing changes before the last micro-step of a step; so many small ones are one large one. */
START_TEST(accumulates)
{
  struct scenario_training how = usual;
  struct weights *w = model(LESSON_VOCAB);
  how.accumulate = 3;
  struct device_train *t = open_train(w, &how, 1, 7);
  struct experiment_training none = after(t, 0), two = after(t, 2), three = after(t, 1);
  ck_assert_str_eq(none.digest, two.digest);
  ck_assert(two.steps == 0 && three.steps == 1 && three.micro_steps == 3);
  ck_assert_str_ne(two.digest, three.digest);
  ck_assert_uint_eq(after(t, 4).steps, 2);
  device_train_close(t);
  weights_free(w);
}
END_TEST

/* Rates that let weights grow without bounds: a micro-step fails, and says why. */
START_TEST(no_number)
{
  struct base_error e = {0};
  struct scenario_training how = usual;
  struct experiment_training out = {.job = "tuning"};
  struct weights *w = model(LESSON_VOCAB);
  how.rate = 1000;
  struct device_train *t = open_train(w, &how, 1, 7);
  int n = 0;
  while (n < 200 && !micro(t, 0, &e))
    n++;
  ck_assert_int_lt(n, 200);
  ck_assert_ptr_nonnull(strstr(e.text, "is no number"));
  ck_assert_int_eq(device_train_finish(t, 0, &out, &e), 0);
  ck_assert(out.micro_steps == (uint64_t)n && isnan(out.loss_after));
  e = (struct base_error){0};
  if (device_train_finish(t, 1, &out, &e)) { /* a gradient may be none while the loss is */
    ck_assert_int_eq(e.code, BASE_ENV);
    ck_assert_ptr_nonnull(strstr(e.text, "job 'tuning', after"));
  }
  device_train_close(t);
  weights_free(w);
}
END_TEST

static int processors(cpu_set_t *set)
{
  ck_assert_int_eq(pthread_getaffinity_np(pthread_self(), sizeof *set, set), 0);
  return CPU_COUNT(set);
}

/* Who trains is on the GPU's processor, by an operation of whatever size; who opens is not. */
START_TEST(bound)
{
  struct base_error e = {0};
  struct experiment_training out = {.job = "tuning"};
  struct weights *w = model(LESSON_VOCAB);
  cpu_set_t before, now;
  int all = processors(&before), core = 0;
  while (!CPU_ISSET(core, &before))
    core++;
  const struct device_train_place p = {.w = w, .core = &core, .threads = 1, .seed = 7};
  struct device_train *t = device_train_open(&p, &usual, &e);
  ck_assert_msg(t != NULL, "%s", e.text);
  ck_assert_int_eq(device_train_finish(t, 1, &out, &e), 0);
  ck_assert_int_eq(processors(&now), all);
  ck_assert_int_eq(micro(t, 0, &e), 0);
  ck_assert(processors(&now) == 1 && CPU_ISSET(core, &now));
  ck_assert_int_eq(pthread_setaffinity_np(pthread_self(), sizeof before, &before), 0);
  device_train_close(t);

  struct ops *ops = cpu_ops_create(TENSOR_F32, &core, 1, NULL, &e);
  float gate[4] = {1}, up[4] = {1}, y[4];
  ck_assert_msg(ops != NULL, "%s", e.text);
  ops->table->swiglu(ops, y, gate, up, 4);
  ck_assert_int_eq(processors(&now), 1);
  ck_assert_int_eq(pthread_setaffinity_np(pthread_self(), sizeof before, &before), 0);
  cpu_ops_destroy(ops);
  weights_free(w);
}
END_TEST

START_TEST(no_room)
{
  struct base_error e = {0};
  struct weights *w = model(LESSON_VOCAB);
  const struct device_train_place p = {.w = w, .threads = 1, .path = "abacus"};
  ck_assert_ptr_null(device_train_open(&p, &usual, &e));
  ck_assert_int_eq(e.code, BASE_USAGE);
  weights_free(w);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("device train");
  TCase *c = tcase_create("jobs");
  tcase_set_timeout(c, 120);
  tcase_add_test(c, learns);
  tcase_add_test(c, same_bits);
  tcase_add_test(c, accumulates);
  tcase_add_test(c, no_number);
  tcase_add_test(c, bound);
  tcase_add_test(c, no_room);
  suite_add_tcase(suite, c);
  return suite_run(suite);
}
