/* SPDX-License-Identifier: GPL-3.0-or-later */
/* base/: percentiles, histograms, samples. */
#include <check.h>
#include <gsl/gsl_randist.h>
#include <math.h>
#include <stdlib.h>

#include "base/hist.h"
#include "base/rng.h"
#include "tests/suite.h"

/* A value of 1 to 63 bits, so that all magnitudes come up. */
static int64_t any_magnitude(gsl_rng *r)
{
  uint64_t x = (uint64_t)gsl_rng_get(r) << 32 | gsl_rng_get(r);
  return (int64_t)(x >> (1 + gsl_rng_uniform_int(r, 63)));
}

/* Type 7 by the textbook, on a copy. */
static double slow_percentile(const int64_t *sorted, size_t n, double p)
{
  double h = (double)(n - 1) * p;
  size_t k = (size_t)h;
  size_t up = k + 1 < n ? k + 1 : k;
  return (double)sorted[k] + (h - (double)k) * ((double)sorted[up] - (double)sorted[k]);
}

START_TEST(hist_percentile_sorted)
{
  int64_t x[] = {40, 10, 30, 20};
  base_sort_int64(x, 4);
  ck_assert_int_eq(x[0], 10);
  ck_assert_int_eq(x[3], 40);
  ck_assert_double_eq(base_percentile_sorted(x, 4, 0.5), 25);
  ck_assert_double_eq(base_percentile_sorted(x, 4, 0), 10);
  ck_assert_double_eq(base_percentile_sorted(x, 4, 1), 40);
  ck_assert_double_eq_tol(base_percentile_sorted(x, 4, 0.95), 38.5, 1e-12);
  ck_assert_double_eq(base_percentile_sorted(x, 1, 0.3), 10);
  base_sort_int64(NULL, 0);
}
END_TEST

static void same(const struct base_hist *a, const struct base_hist *b)
{
  ck_assert_uint_eq(a->n, b->n);
  ck_assert(a->sum == b->sum);
  ck_assert_int_eq(a->min, b->min);
  ck_assert_int_eq(a->max, b->max);
  ck_assert_mem_eq(a->bin, b->bin, BASE_HIST_BINS * sizeof *a->bin);
}

static void add_one_by_one(struct base_hist *h, int64_t start, int64_t inc, uint64_t count,
                           uint64_t weight)
{
  base_int128 v = start;
  for (uint64_t i = 0; i < count; i++, v += inc)
    base_hist_add(h, v > INT64_MAX ? INT64_MAX : (int64_t)v, weight);
}

START_TEST(hist_series)
{
  struct base_hist a, b;
  gsl_rng *r = base_rng_open(4, "series");
  ck_assert(!base_hist_init(&a) && !base_hist_init(&b));
  for (int i = 0; i < 3000; i++) {
    int64_t start = any_magnitude(r), inc = any_magnitude(r) >> gsl_rng_uniform_int(r, 40);
    uint64_t count = gsl_rng_uniform_int(r, 200), weight = gsl_rng_uniform_int(r, 300);
    if (i % 5 == 0)
      inc = 0;
    base_hist_series(&a, start, inc, count, weight);
    add_one_by_one(&b, start, inc, count, weight);
    if (i % 100 == 0)
      same(&a, &b);
  }
  same(&a, &b);
  base_hist_free(&a);
  base_hist_free(&b);
  gsl_rng_free(r);
}
END_TEST

START_TEST(hist_series_edges)
{
  struct base_hist a, b;
  ck_assert(!base_hist_init(&a) && !base_hist_init(&b));
  base_hist_series(&a, INT64_MAX - 10, 3, 100, 7);
  add_one_by_one(&b, INT64_MAX - 10, 3, 100, 7);
  base_hist_series(&a, 0, INT64_MAX, 3, 1);
  add_one_by_one(&b, 0, INT64_MAX, 3, 1);
  base_hist_series(&a, 1020, 1, 10, 1);
  add_one_by_one(&b, 1020, 1, 10, 1);
  same(&a, &b);
  base_hist_series(&a, 5, 5, 0, 1);
  base_hist_series(&a, 5, 5, 9, 0);
  same(&a, &b);
  base_hist_free(&a);
  base_hist_series(&b, 1000000, 1, UINT64_C(1) << 40, 256); /* in O(bins) */
  ck_assert_uint_eq(b.n, 700 + 3 + 10 + (UINT64_C(256) << 40));
  base_hist_free(&b);
}
END_TEST

START_TEST(hist_percentiles)
{
  enum { N = 5001 };
  static const double ps[] = {0, 0.001, 0.25, 0.5, 0.9, 0.95, 0.99, 0.9999, 1};
  static int64_t x[N];
  struct base_hist h, small, merged;
  gsl_rng *r = base_rng_open(5, "percentiles");
  ck_assert(!base_hist_init(&h) && !base_hist_init(&small) && !base_hist_init(&merged));
  ck_assert(isnan(base_hist_percentile(&h, 0.5)));
  for (int i = 0; i < N; i++) {
    x[i] = (int64_t)gsl_ran_lognormal(r, 22, 3);
    base_hist_add(i % 2 ? &h : &merged, x[i], 1);
    base_hist_add(&small, x[i] % 1024, 1);
  }
  base_hist_merge(&merged, &h);
  base_sort_int64(x, N);
  ck_assert_int_eq(merged.min, x[0]);
  ck_assert_int_eq(merged.max, x[N - 1]);
  for (size_t i = 0; i < sizeof ps / sizeof *ps; i++) {
    double exact = slow_percentile(x, N, ps[i]);
    ck_assert_double_eq_tol(base_percentile_sorted(x, N, ps[i]), exact, fabs(exact) * 1e-15);
    ck_assert_double_eq_tol(base_hist_percentile(&merged, ps[i]), exact, exact * 0x1p-10);
  }
  for (int i = 0; i < N; i++)
    x[i] %= 1024;
  base_sort_int64(x, N);
  for (size_t i = 0; i < sizeof ps / sizeof *ps; i++) /* below 2^10 bins are exact */
    ck_assert_double_eq_tol(base_hist_percentile(&small, ps[i]), slow_percentile(x, N, ps[i]),
                            1e-9);
  gsl_rng_free(r);
  base_hist_free(&h);
  base_hist_free(&small);
  base_hist_free(&merged);
}
END_TEST

/* Exact up to its limit, binned beyond, the same however it came together. */
START_TEST(hist_samples)
{
  struct base_sample a = {0}, b = {0}, whole = {0};
  int failed = 0; /* asked once: Check notes the place of each assertion in a file */
  for (int64_t i = 0; i < BASE_SAMPLE_EXACT; i++) {
    int64_t v = 1000000 + i * 7919 % BASE_SAMPLE_EXACT;
    failed |= base_sample_add(i % 3 ? &a : &b, v);
    failed |= base_sample_add(&whole, v);
  }
  ck_assert_int_eq(failed, 0);
  ck_assert_int_eq(base_sample_merge(&a, &b), 0);
  ck_assert(base_sample_is_exact(&a) && a.n == BASE_SAMPLE_EXACT);
  ck_assert_int_eq(base_sample_settle(&a), 0);
  ck_assert_int_eq(base_sample_settle(&whole), 0);
  ck_assert_double_eq(base_sample_percentile(&a, 0), 1000000);
  ck_assert_double_eq(base_sample_percentile(&a, 0.5), 1000000 + (BASE_SAMPLE_EXACT - 1) / 2.0);
  ck_assert_double_eq(base_sample_percentile(&a, 0.99), base_sample_percentile(&whole, 0.99));
  double exact = base_sample_percentile(&a, 0.95);
  ck_assert_int_eq(base_sample_add(&whole, 1000000), 0); /* one too many */
  ck_assert(!base_sample_is_exact(&whole) && whole.n == BASE_SAMPLE_EXACT + 1);
  ck_assert_int_eq(base_sample_merge(&a, &b), 0);
  ck_assert_int_eq(base_sample_merge(&b, &whole), 0);
  ck_assert(!base_sample_is_exact(&a) && !base_sample_is_exact(&b));
  for (int64_t i = 0; i < 5000; i++) /* they wait by the thousand */
    failed |= base_sample_add(&whole, 1000000) || base_sample_add(&b, 1000000);
  ck_assert_int_eq(failed, 0);
  ck_assert(!base_sample_settle(&whole) && !base_sample_settle(&b));
  ck_assert_uint_eq(b.h.n, b.n);
  ck_assert_uint_eq(whole.h.n, BASE_SAMPLE_EXACT + 5001);
  ck_assert_double_eq_tol(base_sample_percentile(&whole, 0.95), exact, exact * 0x1p-10);
  base_sample_free(&a);
  base_sample_free(&b);
  base_sample_free(&whole);
  ck_assert(isnan(base_sample_percentile(&a, 0.5)));
}
END_TEST

/* Percentiles of a settled sample are those of the sorted values: few and many, all equal, of
 * either sign, spread over all magnitudes. */
START_TEST(hist_settled)
{
  enum { N = 3000 };
  static const double ps[] = {0, 0.001, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1};
  static int64_t x[N];
  gsl_rng *r = gsl_rng_alloc(gsl_rng_mt19937);
  for (int kind = 0; kind < 5; kind++) {
    size_t n = kind == 4 ? 1 : N;
    struct base_sample s = {0};
    for (size_t i = 0; i < n; i++) {
      int64_t v = (int64_t)fmin(gsl_ran_lognormal(r, 22, 6), 9e18);
      x[i] = kind == 0 ? v : kind == 1 ? 7 : kind == 2 ? (i % 2 ? v : -v) : (int64_t)(i % 5);
      ck_assert_int_eq(base_sample_add(&s, x[i]), 0);
    }
    base_sort_int64(x, n);
    ck_assert_int_eq(base_sample_settle(&s), 0);
    for (size_t i = 0; i < sizeof ps / sizeof *ps; i++)
      ck_assert_double_eq(base_sample_percentile(&s, ps[i]), base_percentile_sorted(x, n, ps[i]));
    base_sample_free(&s);
  }
  gsl_rng_free(r);
}
END_TEST

static TCase *hist_case(void)
{
  TCase *t = tcase_create("hist");
  tcase_add_test(t, hist_percentile_sorted);
  tcase_add_test(t, hist_series);
  tcase_add_test(t, hist_series_edges);
  tcase_add_test(t, hist_percentiles);
  tcase_add_test(t, hist_samples);
  tcase_add_test(t, hist_settled);
  return t;
}

int main(void)
{
  Suite *s = suite_create("base hist");
  suite_add_tcase(s, hist_case());
  return suite_run(s);
}
