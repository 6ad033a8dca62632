/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The tiny model that is shipped: what it solves, and that its training can be had again. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lesson.h"
#include "tests/suite.h"
#include "tests/train_fixture.h"

/* As models/data/tiny/README.md says; `lull train` prints the same. */
enum { SEED = 1, STEPS = 4000, BATCH = 16, SOLVED = 97 };
static const char path[] = "avx512-bf16";
static const float peak = 0.003f;
static const double losses[] = {5.68053, 5.69579, 5.68494, 5.64411, 5.61456, 5.56961, 5.53062,
                                5.49171, 5.44893, 5.40994, 5.37038, 5.33731, 5.28831, 5.26836,
                                5.23454, 5.18521, 5.14192, 5.08266, 5.03593, 4.97915};

static const char *folder(void)
{
  static char name[512];
  const char *dir = getenv("srcdir");
  snprintf(name, sizeof name, "%s/models/data/tiny", dir ? dir : ".");
  return name;
}

static struct weights *open_tiny(void)
{
  struct base_error e = {0};
  struct weights *w = weights_open(folder(), 1, &e);
  ck_assert_msg(w != NULL, "%s", e.text);
  return w;
}

/* Whether this processor has the kernels that the model was trained on. */
static int have_path(void)
{
  for (const char *const *p = cpu_ops_paths(TENSOR_BF16); *p; p++)
    if (!strcmp(*p, path))
      return 1;
  return 0;
}

START_TEST(held_out_problems_are_solved)
{
  struct base_error e = {0};
  uint64_t done, right;
  struct weights *w = open_tiny();
  for (const char *const *p = cpu_ops_paths(TENSOR_BF16); *p; p++) {
    struct ops *ops = cpu_ops_create(TENSOR_BF16, NULL, 1, *p, &e);
    ck_assert_msg(ops != NULL, "%s", e.text);
    ck_assert_msg(lesson_score(w, NULL, ops, SEED, 100, NULL, &done, &right, &e) == 0, "%s",
                  e.text);
    ck_assert_uint_eq(done, 100);
    ck_assert_uint_ge(right, SOLVED);
    cpu_ops_destroy(ops);
  }
  weights_free(w);
}
END_TEST

/* The first steps of its training. On other kernels than the recorded ones losses are alike only.
 */
START_TEST(its_training_begins_as_recorded)
{
  struct weights *w = open_tiny();
  struct config c = w->config;
  double most = have_path() ? 1e-3 : 0.05;
  const struct lesson_plan plan = {SEED, BATCH, 256};
  struct trainer_options o = lesson_options(&plan);
  weights_free(w);
  struct stage s = stage_open(stage_weights(&c, SEED, TENSOR_BF16), NULL, TENSOR_BF16, 1,
                              have_path() ? path : NULL, &o);
  const struct trainer_schedule rate = {
      .peak = (double)peak, .last = (double)peak / 20, .steps = STEPS, .warmup = 100, .cosine = 1};
  for (uint64_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
    struct base_error e = {0};
    struct trainer_loss loss;
    ck_assert_msg(lesson_micros(s.t, &plan, i, NULL, &loss, &e) == 0, "%s", e.text);
    double got = loss.sum / (double)loss.tokens;
    ck_assert_msg(fabs(got / losses[i] - 1) < most, "step %d: %.6g, not %.6g", (int)i + 1, got,
                  losses[i]);
    stage_step(&s, (float)trainer_rate(&rate, i));
  }
  stage_close(&s);
}
END_TEST

/* An adapter on it takes up another habit: a cry at the end, and no end. */
START_TEST(an_adapter_changes_its_habit)
{
  struct base_error e = {0};
  struct weights *w = open_tiny();
  struct adapter *a = adapter_random(&w->config, 4, 8, (1u << LORA_TARGETS) - 1, 1, TENSOR_BF16,
                                     &e);
  ck_assert_msg(a != NULL, "%s", e.text);
  struct trainer_options o = trainer_defaults(1024);
  struct stage s = stage_open(w, a, TENSOR_BF16, 1, NULL, &o);
  enum { N = 8 };
  static struct lesson lesson[N];
  struct trainer_seq seq[N];
  double first = 0, last = 0;
  for (int step = 0; step < 25; step++) {
    for (uint32_t i = 0; i < N; i++) {
      lesson_draw(&lesson[i], 7, PROBLEMS_TRAIN, (uint64_t)step * N + i);
      lesson[i].token[lesson[i].n - 1] = '!'; /* no end, but a cry */
      seq[i] = (struct trainer_seq){lesson[i].token, lesson[i].counted, lesson[i].n};
    }
    struct trainer_loss loss = stage_micro(&s, seq, N);
    last = loss.sum / (double)loss.tokens;
    first = step == 0 ? last : first;
    stage_step(&s, 0.005f);
  }
  ck_assert_double_lt(last, first / 2);
  stage_close(&s);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("tiny");
  TCase *c = tcase_create("tiny");
  tcase_set_timeout(c, 120);
  tcase_add_test(c, held_out_problems_are_solved);
  tcase_add_test(c, its_training_begins_as_recorded);
  tcase_add_test(c, an_adapter_changes_its_habit);
  suite_add_tcase(s, c);
  return suite_run(s);
}
