/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From a world's result to figures, and from figures to a verdict. */
#include <math.h>

#include "tests/report_fixture.h"
#include "tests/suite.h"

START_TEST(summary_counts)
{
  struct world_config cfg = {.nclasses = 2, .ngpus = 2, .cls = two_classes};
  struct world_result r = hand_result();
  struct base_error e = {0};
  struct summary s;

  struct summary_collector c = {.cfg = &cfg};
  for (uint64_t i = 0; i < r.records; i++)
    summary_collect(&c, (lull_id)i, &r.record[i]);
  ck_assert_int_eq(summary_of(&c, &r, &s, &e), 0);
  ck_assert_uint_eq(s.live_met, 3);
  ck_assert_uint_eq(s.live_met_half, 2);
  ck_assert_uint_eq(s.live_met_double, 4);
  ck_assert_uint_eq(s.errors, 1);
  ck_assert_uint_eq(s.ttft.n, 4);
  ck_assert_uint_eq(s.tpot.n, 3);
  ck_assert_double_eq(s.gpu_seconds, 2);
  ck_assert_double_eq(summary_value(&s, METRIC_ATTAINMENT), 0.5);
  ck_assert_double_eq(summary_value(&s, METRIC_USEFUL_RATE), 24 * 1800.0);
  ck_assert_double_eq(summary_value(&s, METRIC_DEVICE_BUSY), 0.75);
  ck_assert_double_eq(summary_value(&s, METRIC_LEDGER_BUSY), 0.375);
  ck_assert_double_eq(summary_value(&s, METRIC_LIVE_RATE), 19);
  ck_assert_double_eq_tol(summary_value(&s, METRIC_TTFT_P50), 0.075, 1e-15);
  ck_assert(isnan(summary_value(&s, METRIC_RATIO)));
  ck_assert(isnan(summary_value(&s, METRIC_ITL_P50)));
  summary_free(&s);
}
END_TEST

/* Pools {10, 20} with {30, 40} ps, and 1 GPU-second all busy with 3 all idle. */
START_TEST(pooled_percentiles)
{
  struct summary pool = {0}, part = {.runs = 1, .gpu_seconds = 1, .seconds = 1, .device_busy = 1};
  struct base_error e = {0};
  int64_t first[] = {10, 20}, second_part[] = {30, 40};

  part.ttft = (struct base_sample){.n = 2, .x = first, .used = 2};
  part.account[WORLD_BATCH_USEFUL] = 0.25;
  part.account[WORLD_TRAINING] = 0.25;
  ck_assert_int_eq(base_hist_init(&part.itl), 0);
  base_hist_add(&part.itl, 100, 3);
  ck_assert_int_eq(summary_pool(&pool, &part, &e), 0);
  part.ttft.x = second_part;
  part.gpu_seconds = 3;
  part.device_busy = 0;
  ck_assert_int_eq(summary_pool(&pool, &part, &e), 0);
  ck_assert_uint_eq(pool.runs, 2);
  ck_assert_double_eq_tol(summary_value(&pool, METRIC_TTFT_P50) * 1e12, 25, 1e-9);
  ck_assert_double_eq_tol(summary_value(&pool, METRIC_TTFT_P95) * 1e12, 38.5, 1e-9);
  ck_assert_double_eq(pool.device_busy, 0.25);
  ck_assert_double_eq(pool.ledger_busy, 0.25);
  ck_assert_uint_eq(pool.itl.n, 6);
  base_hist_free(&part.itl);
  summary_free(&pool);
  ck_assert_ptr_null(pool.ttft.x);
}
END_TEST

START_TEST(empty_is_undefined)
{
  struct summary none = {0};

  for (int m = 0; m < METRICS; m++) {
    ck_assert_msg(isnan(summary_value(&none, m)), "%s", summary_metrics[m].name);
    ck_assert_int_eq(summary_metric_by_name(summary_metrics[m].name), m);
  }
  ck_assert_int_eq(summary_metric_by_name("ratios"), -1);
}
END_TEST

START_TEST(qualified_baseline)
{
  reach();
  for (int k = 0; k < SEEDS; k++) {
    ck_assert_int_eq(f.xarm[DEDICATED].best[k], 0);
    ck_assert_double_eq_tol(f.xarm[SHARED].ratio[k], 1.5 + 0.1 * k, 1e-12);
  }
  ck_assert_int_eq(f.xarm[DEDICATED].qualified, 1);
  ck_assert_double_eq_tol(f.xarm[SHARED].ratio_pooled, 1.6, 1e-12);
  ck_assert(isnan(f.xarm[DEDICATED].ratio_pooled));
}
END_TEST

/* t(0.975, 2) = 4.3026527297, s = 0.1, so 1.6 +- 4.3026527297 * 0.1 / sqrt(3). */
START_TEST(t_interval)
{
  reach();
  ck_assert_double_eq_tol(f.xarm[SHARED].ratio_low, 1.6 - 0.248413772, 1e-8);
  ck_assert_double_eq_tol(f.xarm[SHARED].ratio_high, 1.6 + 0.248413772, 1e-8);
  ck_assert_ptr_nonnull(strstr(f.xgate[0].why, "contains the bound"));
}
END_TEST

START_TEST(gates_pass_and_fail)
{
  reach();
  for (int g = 0; g < 3; g++)
    ck_assert_int_eq(f.xgate[g].outcome, OUTCOME_PASS);
  ck_assert_int_eq(f.x.exit_code, BASE_OK);
  summary_free(&f.xarm[0].pooled);
  summary_free(&f.xarm[1].pooled);
  f.gate[0].min = 1.7;
  f.xarm[SHARED].run[1].sum.errors = 1;
  reach();
  ck_assert_int_eq(f.xgate[0].outcome, OUTCOME_FAIL);
  ck_assert_int_eq(f.xgate[1].outcome, OUTCOME_PASS);
  ck_assert_int_eq(f.xgate[2].outcome, OUTCOME_FAIL);
  ck_assert_double_eq(f.xgate[2].value, 1);
  ck_assert_int_eq(f.x.exit_code, BASE_GATE);
}
END_TEST

START_TEST(no_baseline_qualifies)
{
  f.xarm[DEDICATED].run[2].sum.live_met = 989; /* k3, seed 43 */
  reach();
  ck_assert_int_eq(f.xarm[DEDICATED].best[2], -1);
  ck_assert_int_eq(f.xarm[DEDICATED].best[0], 0);
  ck_assert_int_eq(f.xarm[DEDICATED].qualified, 0);
  ck_assert(isnan(f.xarm[SHARED].ratio_pooled));
  ck_assert_int_eq(f.xgate[0].outcome, OUTCOME_INCONCLUSIVE);
  ck_assert_ptr_nonnull(strstr(f.xgate[0].why, "seed 43"));
  ck_assert_int_eq(f.x.exit_code, BASE_INCONCLUSIVE);
  ck_assert_int_eq(verdict_shown(&f.x, DEDICATED, 2), 1);
}
END_TEST

START_TEST(nothing_completed)
{
  for (int a = 0; a < 2; a++)
    for (uint32_t i = 0; i < f.xarm[a].ncandidates * SEEDS; i++) {
      struct summary *s = &f.xarm[a].run[i].sum;

      s->useful_tokens = s->finished = s->live_offered = s->live_met = 0;
    }
  f.s.qualify_attainment = 0;
  reach();
  ck_assert(isnan(f.xarm[SHARED].ratio[0]));
  ck_assert_int_eq(f.xgate[0].outcome, OUTCOME_INCONCLUSIVE);
  ck_assert_int_eq(f.xgate[1].outcome, OUTCOME_INCONCLUSIVE);
  ck_assert_ptr_nonnull(strstr(f.xgate[1].why, "no completed requests"));
  ck_assert_int_eq(f.x.exit_code, BASE_INCONCLUSIVE);
}
END_TEST

START_TEST(partial_and_skipped)
{
  f.xarm[SHARED].run[2].sum.partial = 1;
  f.x.partial = 1;
  reach();
  ck_assert_int_eq(f.xgate[1].outcome, OUTCOME_INCONCLUSIVE);
  ck_assert_str_eq(f.xgate[1].why, "partial run");
  ck_assert_int_eq(f.x.exit_code, BASE_INCOMPLETE);
  f.x.partial = 0;
  f.xarm[SHARED].skipped = 1;
  summary_free(&f.xarm[1].pooled);
  reach();
  ck_assert_int_eq(f.xgate[0].outcome, OUTCOME_INCONCLUSIVE);
  ck_assert_int_eq(f.x.exit_code, BASE_OK);
}
END_TEST

START_TEST(order_of_exit_codes)
{
  static const int order[] = {7, 6, 3, 5, 1, 4, 0};

  for (size_t i = 0; i < 7; i++)
    for (size_t j = i; j < 7; j++) {
      ck_assert_int_eq(verdict_worst(order[i], order[j]), order[i]);
      ck_assert_int_eq(verdict_worst(order[j], order[i]), order[i]);
    }
}
END_TEST
/* Runs the suite. */
int main(void)
{
  Suite *s = suite_create("ledger");
  TCase *t = tcase_create("ledger");

  tcase_add_checked_fixture(t, set_up, tear_down);
  tcase_add_test(t, summary_counts);
  tcase_add_test(t, pooled_percentiles);
  tcase_add_test(t, empty_is_undefined);
  tcase_add_test(t, qualified_baseline);
  tcase_add_test(t, t_interval);
  tcase_add_test(t, gates_pass_and_fail);
  tcase_add_test(t, no_baseline_qualifies);
  tcase_add_test(t, nothing_completed);
  tcase_add_test(t, partial_and_skipped);
  tcase_add_test(t, order_of_exit_codes);
  suite_add_tcase(s, t);
  return suite_run(s);
}
