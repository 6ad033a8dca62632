/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A row's bits do not depend on what it is computed with: each operation, on each kernel path, for
 * random choices of rows in random order, with one, two and three threads.
 */
#include "tests/ops_fixture.h"

enum { ROWS = 70, TURNS = 12 };

/* Rows of a batch: each of 0 .. ROWS - 1, some of them several times. */
struct pick {
  uint32_t T, row[ROWS];
};

static struct pick picked(int turn)
{
  struct pick p = {.T = turn < 8 ? (uint32_t)turn : below(ROWS + 1)};
  for (uint32_t i = 0; i < p.T; i++)
    p.row[i] = below(ROWS);
  return p;
}

static float *batch(const struct pick *p, const float *x, uint32_t n)
{
  float *y = take((size_t)p->T * n * sizeof *y);
  for (uint32_t i = 0; i < p->T; i++)
    memcpy(y + (size_t)i * n, x + (size_t)p->row[i] * n, n * sizeof *y);
  return y;
}

static void same_rows(const struct pick *p, const float *some, const float *all, uint32_t n)
{
  for (uint32_t i = 0; i < p->T; i++)
    assert_same_bits(some + (size_t)i * n, all + (size_t)p->row[i] * n, n);
}

static void linear_batches(struct ops *one, struct ops *o, uint32_t n, uint32_t k, int w_dtype)
{
  const struct tensor w = weights_of(w_dtype, n, k), bias = weights_of(w_dtype, 1, n);
  const float *x = numbers(o, ROWS * k, 1);
  float *all = zeros(ROWS * n);
  one->table->linear(one, all, x, &w, &bias, ROWS);
  for (int turn = 0; turn < TURNS; turn++) {
    const struct pick p = picked(turn);
    float *y = zeros(p.T * n);
    o->table->linear(o, y, batch(&p, x, k), &w, &bias, p.T);
    same_rows(&p, y, all, n);
  }
  give_all();
}

START_TEST(linear)
{
  struct ops *one = variant_ops(_i, 1);
  for (int threads = 1; threads <= 3; threads++) {
    struct ops *o = variant_ops(_i, threads);
    for (int dtype = 0; dtype < 2; dtype++) {
      linear_batches(one, o, 83, 77, dtype);
      linear_batches(one, o, 64, 1500, dtype);
      linear_batches(one, o, 1001, 264, dtype); /* enough work for all threads from four rows on */
    }
    cpu_ops_destroy(o);
  }
  cpu_ops_destroy(one);
}
END_TEST

START_TEST(norm)
{
  enum { N = 1001 };
  struct ops *one = variant_ops(_i, 1);
  for (int threads = 1; threads <= 3; threads++) {
    struct ops *o = variant_ops(_i, threads);
    const struct tensor w = weights_of(TENSOR_BF16, 1, N);
    const float *x = numbers(o, ROWS * N, 1), *d = numbers(o, ROWS * N, 1);
    float *sum = copy_of(x, ROWS * N), *all = zeros(ROWS * N);
    one->table->rms_norm(one, all, sum, d, &w, 1e-6f, ROWS, N);
    for (int turn = 0; turn < TURNS; turn++) {
      const struct pick p = picked(turn);
      float *xs = batch(&p, x, N), *y = zeros(p.T * N);
      o->table->rms_norm(o, y, xs, batch(&p, d, N), &w, 1e-6f, p.T, N);
      same_rows(&p, y, all, N);
      same_rows(&p, xs, sum, N);
    }
    give_all();
    cpu_ops_destroy(o);
  }
  cpu_ops_destroy(one);
}
END_TEST

START_TEST(rope)
{
  enum { HEADS = 5, DIM = 64, N = HEADS * DIM };
  float inv_freq[DIM / 2];
  for (int i = 0; i < DIM / 2; i++)
    inv_freq[i] = powf(1e4f, -2.f * (float)i / DIM);
  struct ops *one = variant_ops(_i, 1);
  for (int threads = 1; threads <= 3; threads++) {
    struct ops *o = variant_ops(_i, threads);
    const struct tensor w = weights_of(TENSOR_BF16, 1, DIM);
    const float *x = numbers(o, ROWS * N, 1);
    float *all = copy_of(x, ROWS * N);
    uint32_t position[ROWS], at[ROWS];
    for (int i = 0; i < ROWS; i++)
      position[i] = below(5000);
    one->table->norm_rope(one, all, &w, 1e-6f, inv_freq, position, ROWS, HEADS, DIM);
    for (int turn = 0; turn < TURNS; turn++) {
      const struct pick p = picked(turn);
      for (uint32_t i = 0; i < p.T; i++)
        at[i] = position[p.row[i]];
      float *y = batch(&p, x, N);
      o->table->norm_rope(o, y, &w, 1e-6f, inv_freq, at, p.T, HEADS, DIM);
      same_rows(&p, y, all, N);
    }
    give_all();
    cpu_ops_destroy(o);
  }
  cpu_ops_destroy(one);
}
END_TEST

/* An element stands anywhere: first, last, in any lane. */
START_TEST(swiglu)
{
  enum { N = 40000 };
  struct ops *one = variant_ops(_i, 1);
  for (int threads = 1; threads <= 3; threads++) {
    struct ops *o = variant_ops(_i, threads);
    const float *g = numbers(o, N, 9), *u = numbers(o, N, 1);
    float *all = zeros(N), *y = zeros(N);
    one->table->swiglu(one, all, g, u, N);
    for (int turn = 0; turn < TURNS; turn++) {
      const uint32_t at = below(N), n = turn ? below(N - at + 1) : N - at;
      o->table->swiglu(o, y, g + at, u + at, n);
      assert_same_bits(y, all + at, n);
    }
    give_all();
    cpu_ops_destroy(o);
  }
  cpu_ops_destroy(one);
}
END_TEST

/* Rows of an adapter alone, and in a batch where others have theirs. */
START_TEST(lora)
{
  enum { IN = 300, OUT = 520, RANK = 16, ADAPTERS = 3 };
  for (int threads = 1; threads <= 3; threads++) {
    struct ops *o = variant_ops(_i, threads);
    struct tensor a[ADAPTERS], b[ADAPTERS];
    float *all[ADAPTERS];
    const float *x = numbers(o, ROWS * IN, 1), *old = numbers(o, ROWS * OUT, 1);
    for (int i = 0; i < ADAPTERS; i++) {
      a[i] = weights_of(i % 2, RANK - (uint32_t)i, IN);
      b[i] = weights_of(i % 2, OUT, RANK - (uint32_t)i);
      all[i] = copy_of(old, ROWS * OUT);
      const struct ops_lora g = {0, ROWS, &a[i], &b[i], 0.7f};
      o->table->lora(o, all[i], x, &g, 1, IN, OUT);
    }
    for (int turn = 0; turn < TURNS; turn++) {
      const struct pick p = picked(turn);
      struct ops_lora g[ADAPTERS];
      uint32_t row = 0;
      for (int i = 0; i < ADAPTERS; i++) {
        g[i] = (struct ops_lora){row, below(p.T - row + 1), &a[i], &b[i], 0.7f};
        row += g[i].rows;
      }
      float *y = batch(&p, old, OUT);
      o->table->lora(o, y, batch(&p, x, IN), g, ADAPTERS, IN, OUT);
      for (int i = 0; i < ADAPTERS; i++)
        for (uint32_t r = g[i].first_row; r < g[i].first_row + g[i].rows; r++)
          assert_same_bits(y + r * OUT, all[i] + p.row[r] * OUT, OUT);
      for (uint32_t r = row; r < p.T; r++)
        assert_same_bits(y + r * OUT, old + p.row[r] * OUT, OUT);
    }
    give_all();
    cpu_ops_destroy(o);
  }
}
END_TEST

/* One ops after the other, from one caller thread; bound and not. */
START_TEST(threads_come_and_go)
{
  struct base_error e = {0};
  const int cores[2] = {0, 0};
  const struct tensor w = weights_of(TENSOR_BF16, 700, 400);
  float *first = NULL;
  for (int i = 0; i < 24; i++) {
    struct ops *o = cpu_ops_create(TENSOR_BF16, i % 3 == 2 ? cores : NULL, i % 3 + (i % 3 != 2),
                                   NULL, &e);
    ck_assert_msg(o != NULL, "%s", e.text);
    float *x = zeros(400), *y = zeros(700);
    for (int k = 0; k < 400; k++)
      x[k] = (float)(k % 7);
    for (int turn = 0; turn < 20; turn++)
      o->table->linear(o, y, x, &w, NULL, 1);
    if (!first)
      first = y;
    assert_same_bits(first, y, 700);
    cpu_ops_destroy(o);
  }
  give_all();
}
END_TEST

int main(void)
{
  const int n = variants();
  TCase *tc = tcase_create("batches");
  tcase_set_timeout(tc, 120);
  tcase_add_loop_test(tc, linear, 0, n);
  tcase_add_loop_test(tc, norm, 0, n);
  tcase_add_loop_test(tc, rope, 0, n);
  tcase_add_loop_test(tc, swiglu, 0, n);
  tcase_add_loop_test(tc, lora, 0, n);
  tcase_add_test(tc, threads_come_and_go);
  Suite *s = suite_create("ops_batch");
  suite_add_tcase(s, tc);
  return suite_run(s);
}
