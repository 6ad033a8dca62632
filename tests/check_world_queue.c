/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The world against queueing theory: one-token requests on a server of one sequence, whose cost is
 * one tick a prompt token, are a queue with a single server. Times in ticks.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "sim/policies.h"
#include "tests/script_policy.h"
#include "tests/suite.h"

enum { TICK = LULL_TICK_PS, JOBS = 200000, BATCHES = 40, MEAN_SERVICE = 1000 };

/* Uniform in (0, 1), from a counter. */
static double uniform(uint64_t i, uint64_t stream)
{
  uint64_t x = (i + stream * 0x100000001b3u) * 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return ((double)(x >> 11) + 0.5) * 0x1p-53;
}

/* One-token requests whose service is their prompt's length in ticks, Poisson arrivals. */
static struct world_arrival *jobs(int exponential, double load)
{
  struct world_arrival *a = calloc(JOBS, sizeof *a);
  double t = 0;
  ck_assert_ptr_nonnull(a);
  for (uint64_t i = 0; i < JOBS; i++) {
    t += -log(uniform(i, 1)) * MEAN_SERVICE / load;
    double service = exponential ? -log(uniform(i, 2)) * MEAN_SERVICE : MEAN_SERVICE;
    a[i] = (struct world_arrival){
        .time = (lull_time)t, .prompt = (uint32_t)ceil(service), .output = 1};
  }
  return a;
}

/* Mean wait of batches of the run, and half the width of its confidence interval (Student t of 39
 * degrees, 99.9%). */
static double mean_wait(const struct world_result *r, double *half)
{
  double sum = 0, squares = 0;
  for (int b = 0; b < BATCHES; b++) {
    double wait = 0;
    for (int i = b * (JOBS / BATCHES); i < (b + 1) * (JOBS / BATCHES); i++)
      wait += (double)(r->record[i].first_chunk - r->record[i].arrival) / TICK;
    wait /= JOBS / BATCHES;
    sum += wait;
    squares += wait * wait;
  }
  double mean = sum / BATCHES;
  *half = 3.558 * sqrt((squares - BATCHES * mean * mean) / (BATCHES - 1.0) / BATCHES);
  return mean;
}

static void queue_of(int exponential, double load, double theory)
{
  struct world_arrival *a = jobs(exponential, load);
  struct stage s = stage(a, JOBS);
  double half;
  s.policy = policies_find("fcfs", &s.e);
  ck_assert_msg(s.policy != NULL, "%s", s.e.text);
  s.server.max_seqs = 1;
  s.server.token_budget = s.server.kv_blocks = 1 << 20;
  s.base = s.per_ctx = 0;
  s.per_token = 1;
  s.window = a[JOBS - 1].time + 1;
  int rc = stage_run(&s, 0);
  ck_assert_msg(!rc, "%s", s.e.text);
  ck_assert_uint_eq(s.r.cls[0].finished, JOBS);
  double mean = mean_wait(&s.r, &half);
  ck_assert_msg(fabs(mean - theory) <= half, "mean wait %.1f ticks, theory %.1f, +- %.1f", mean,
                theory, half);
  ck_assert_msg(half < 0.15 * theory, "too wide to say anything: +- %.1f of %.1f", half, theory);
  stage_end(&s);
  free(a);
}

/* M/D/1: rho S / (2 (1 - rho)). */
START_TEST(queue_md1)
{
  static const double load[] = {0.3, 0.6, 0.8};
  for (int i = 0; i < 3; i++)
    queue_of(0, load[i], load[i] * MEAN_SERVICE / (2 * (1 - load[i])));
}
END_TEST

/* M/M/1: rho S / (1 - rho); lengths rounded up to whole ticks make S larger by half of one. */
START_TEST(queue_mm1)
{
  static const double load[] = {0.3, 0.6, 0.8};
  for (int i = 0; i < 3; i++)
    queue_of(1, load[i], load[i] * MEAN_SERVICE / (1 - load[i]));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("world queue");
  TCase *t = tcase_create("queueing theory");
  tcase_set_timeout(t, 300);
  tcase_add_test(t, queue_md1);
  tcase_add_test(t, queue_mm1);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
