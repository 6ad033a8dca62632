/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The engine's operations on every kernel path of this processor against plain references in double
 * precision. Where results are rounded to bf16 in the middle, the reference rounds there too; then
 * nearly all results must be the very same, and none further off than such a rounding can tip.
 */
#include <stdio.h>

#include "backend/cpu/kernels.h"
#include "tests/ops_fixture.h"

/* ---- linear layers ---- */
static void check_linear(struct ops *o, uint32_t T, uint32_t n, uint32_t k, int w_dtype, size_t off,
                         int with_bias)
{
  const struct tensor w = weights_at(w_dtype, n, k, off);
  struct tensor bias = {w_dtype, 1, n, NULL};
  if (with_bias)
    bias = weights_at(w_dtype, 1, n, off);
  const float *x = numbers(o, (size_t)T * k, 1);
  float *y = zeros((size_t)T * n + 1);
  y[(size_t)T * n] = 77;
  o->table->linear(o, y, x, &w, with_bias ? &bias : NULL, T);
  for (uint32_t t = 0; t < T; t++)
    for (uint32_t c = 0; c < n; c++) {
      double sum = with_bias ? tensor_get(&bias, c) : 0, size = fabs(sum);
      for (uint32_t i = 0; i < k; i++) {
        double p = (double)x[(size_t)t * k + i] * tensor_get(&w, (size_t)c * k + i);
        sum += p;
        size += fabs(p);
      }
      assert_near(y[(size_t)t * n + c], sum, size * (k / 4 + 8) * 0x1p-24 + bf16_half(o, sum),
                  o->path);
    }
  ck_assert_float_eq(y[(size_t)T * n], 77);
  give_all();
}

START_TEST(linear_is_the_product)
{
  static const uint32_t ks[] = {1, 3, 16, 31, 64, 77, 200, 256};
  struct ops *o = variant_ops(_i, 1);
  for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++)
    for (uint32_t T = 0; T <= 33; T = T < 8 ? T + 1 : T + 5) {
      check_linear(o, T, 1 + below(21), ks[i], (int)below(2), 0, (int)below(2));
      check_linear(o, T, 4 * (1 + below(4)), ks[i], (int)below(2), 0, 0);
    }
  cpu_ops_destroy(o);
}
END_TEST

/* Files do not pad: weights stand at any even address, fp32 ones too. */
START_TEST(linear_of_unaligned_weights)
{
  struct ops *o = variant_ops(_i, 2);
  for (size_t off = 1; off < 8; off++)
    for (int dtype = 0; dtype < 2; dtype++)
      check_linear(o, 1 + below(9), 1 + below(30), 1 + below(90), dtype, off, 1);
  cpu_ops_destroy(o);
}
END_TEST

/* More rows than are packed at once, and shares of several threads. */
START_TEST(linear_of_many_rows)
{
  struct ops *o = variant_ops(_i, 3);
  check_linear(o, 301, 7, 1040, TENSOR_BF16, 0, 0);
  check_linear(o, 100, 67, 130, TENSOR_F32, 0, 1);
  cpu_ops_destroy(o);
}
END_TEST

START_TEST(nan_and_infinity_come_through)
{
  struct ops *o = variant_ops(_i, 1);
  const struct tensor w = weights_of(TENSOR_BF16, 5, 40);
  float *x = numbers(o, 3 * 40, 1), *y = zeros(3 * 5);
  x[7] = NAN;
  x[40 + 9] = INFINITY;
  o->table->linear(o, y, x, &w, NULL, 3);
  for (int c = 0; c < 5; c++) {
    ck_assert(isnan(y[c]));
    ck_assert(isinf(y[5 + c]));
    ck_assert(isfinite(y[10 + c]));
  }
  float g[4] = {NAN, INFINITY, -INFINITY, -1000}, u[4] = {1, 1, 1, 1};
  o->table->swiglu(o, y, g, u, 4);
  ck_assert(isnan(y[0]) && isinf(y[1]));
  ck_assert(fabsf(y[3]) < 1e-30f);
  give_all();
  cpu_ops_destroy(o);
}
END_TEST

/* ---- LoRA ---- */
/* One row of a product, rounded. */
static void row_product(const struct ops *o, const double *x, const struct tensor *w, double *y)
{
  for (uint32_t c = 0; c < w->rows; c++) {
    double sum = 0;
    for (uint32_t i = 0; i < w->cols; i++)
      sum += x[i] * tensor_get(w, (size_t)c * w->cols + i);
    y[c] = rounded(o, sum);
  }
}

START_TEST(lora_adds_both_products)
{
  struct ops *o = variant_ops(_i, 2);
  enum { IN = 50, OUT = 37, T = 12, RANK = 6 };
  for (int dtype = 0; dtype < 2; dtype++) {
    struct tensor a[2], b[2];
    for (int i = 0; i < 2; i++) {
      a[i] = weights_of(dtype, RANK + (uint32_t)i, IN);
      b[i] = weights_of(dtype, OUT, RANK + (uint32_t)i);
    }
    const struct ops_lora group[] = {
        {1, 3, &a[0], &b[0], 2.f}, {5, 0, &a[1], &b[1], 1.f}, {6, 5, &a[1], &b[1], 0.3f}};
    const float *x = numbers(o, T * IN, 1), *old = numbers(o, T * OUT, 1);
    float *y = copy_of(old, T * OUT);
    o->table->lora(o, y, x, group, 3, IN, OUT);
    for (uint32_t t = 0; t < T; t++) {
      const struct ops_lora *g = t >= 1 && t < 4 ? &group[0] : t >= 6 && t < 11 ? &group[2] : NULL;
      if (!g) {
        assert_same_bits(y + t * OUT, old + t * OUT, OUT);
        continue;
      }
      double row[IN], mid[RANK + 1], d[OUT];
      for (uint32_t i = 0; i < IN; i++)
        row[i] = x[t * IN + i];
      row_product(o, row, g->a, mid);
      row_product(o, mid, g->b, d);
      for (uint32_t c = 0; c < OUT; c++) {
        double s = rounded(o, d[c] * (double)g->scale), want = rounded(o, old[t * OUT + c] + s);
        /* mid may be one place off in each element */
        assert_near(y[t * OUT + c], want, o->dtype == TENSOR_BF16 ? 0.15 : 3e-5, o->path);
      }
    }
    give_all();
  }
  cpu_ops_destroy(o);
}
END_TEST

/* ---- rows ---- */
/* How many of the results were not the very number that was wanted. */
struct tally {
  uint32_t n, off;
};

static void compare(const struct ops *o, struct tally *c, float got, double want, double size)
{
  c->n++;
  c->off += (double)got != (double)(float)want;
  assert_near(got, want, size * (o->dtype == TENSOR_BF16 ? 0x1p-6 : 0x1p-20), o->path);
}

static void mostly_equal(const struct ops *o, struct tally c)
{
  if (o->dtype == TENSOR_BF16)
    ck_assert_msg(c.off <= c.n / 50, "%s: %u of %u results are rounded elsewhere", o->path, c.off,
                  c.n);
}

static void norm_reference(const struct ops *o, const double *x, const struct tensor *w, double eps,
                           uint32_t n, double *y)
{
  double sum = 0;
  for (uint32_t i = 0; i < n; i++)
    sum += x[i] * x[i];
  for (uint32_t i = 0; i < n; i++)
    y[i] = rounded(o, rounded(o, x[i] / sqrt(sum / n + eps)) * tensor_get(w, i));
}

START_TEST(norms)
{
  struct ops *o = variant_ops(_i, 2);
  for (int turn = 0; turn < 40; turn++) {
    const uint32_t T = below(7), n = 1 + below(turn % 2 ? 40 : 700);
    const struct tensor w = weights_at((int)below(2), 1, n, 2 * below(2));
    const float eps = turn % 3 ? 1e-6f : 1e-1f;
    float *x = numbers(o, (size_t)T * n, 3), *y = zeros((size_t)T * n);
    const float *before = copy_of(x, (size_t)T * n), *d = numbers(o, (size_t)T * n, 3);
    struct tally c = {0, 0};
    o->table->rms_norm(o, y, x, turn % 4 ? d : NULL, &w, eps, T, n);
    for (uint32_t t = 0; t < T; t++) {
      double row[700], want[700];
      for (uint32_t i = 0; i < n; i++) {
        const float sum = turn % 4 ? before[t * n + i] + d[t * n + i] : before[t * n + i];
        row[i] = rounded(o, (double)sum);
        assert_near(x[t * n + i], row[i], 0, o->path);
      }
      norm_reference(o, row, &w, (double)eps, n, want);
      for (uint32_t i = 0; i < n; i++)
        compare(o, &c, y[t * n + i], want[i], fabs(want[i]));
    }
    if (c.n > 500)
      mostly_equal(o, c);
    give_all();
  }
  cpu_ops_destroy(o);
}
END_TEST

static void check_rope(struct ops *o, uint32_t heads, uint32_t dim, int with_norm)
{
  enum { T = 9 };
  const uint32_t half = dim / 2;
  const struct tensor w = weights_of((int)below(2), 1, dim);
  const size_t n = (size_t)T * heads * dim;
  float *x = numbers(o, n, 2), *inv_freq = take(half * sizeof *inv_freq);
  const float *before = copy_of(x, n);
  uint32_t position[T];
  struct tally c = {0, 0};
  for (uint32_t i = 0; i < half; i++)
    inv_freq[i] = powf(1e6f, -2.f * (float)i / (float)dim);
  for (int t = 0; t < T; t++)
    position[t] = t == 0 ? 0 : t == 1 ? 40000 : below(3000);
  o->table->norm_rope(o, x, with_norm ? &w : NULL, 1e-6f, inv_freq, position, T, heads, dim);
  for (uint32_t r = 0; r < T * heads; r++) {
    double head[256], in[256];
    for (uint32_t i = 0; i < dim; i++)
      head[i] = in[i] = before[r * dim + i];
    if (with_norm)
      norm_reference(o, in, &w, 1e-6, dim, head);
    for (uint32_t i = 0; i < half; i++) {
      const float angle = (float)position[r / heads] * inv_freq[i];
      const double co = rounded(o, cos((double)angle)), si = rounded(o, sin((double)angle));
      const double a = head[i], b = head[half + i], size = fabs(a) + fabs(b);
      compare(o, &c, x[r * dim + i], rounded(o, rounded(o, a * co) - rounded(o, b * si)), size);
      compare(o, &c, x[r * dim + half + i], rounded(o, rounded(o, b * co) + rounded(o, a * si)),
              size);
    }
  }
  mostly_equal(o, c);
  give_all();
}

START_TEST(rotations)
{
  static const uint32_t dims[] = {2, 6, 16, 32, 64, 80, 128, 256};
  struct ops *o = variant_ops(_i, 2);
  for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
    check_rope(o, 1 + below(9), dims[i], 0);
    check_rope(o, 1 + below(9), dims[i], 1);
  }
  cpu_ops_destroy(o);
}
END_TEST

static const struct cpu_kernels *kernels_of(const char *path)
{
  static const struct cpu_kernels *const all[] = {
#if defined(__x86_64__)
    &cpu_kernels_avx512_bf16,
    &cpu_kernels_avx512,
    &cpu_kernels_avx2,
#endif
    &cpu_kernels_scalar
  };
  size_t i = 0;
  while (strcmp(all[i]->name, path) != 0)
    i++;
  return all[i];
}

START_TEST(activations)
{
  struct ops *o = variant_ops(_i, 3);
  for (size_t n = 0; n < 20000; n = n < 70 ? n + 1 : n * 3) {
    const float *g = numbers(o, n, n % 2 ? 4 : 80), *u = numbers(o, n, 2);
    float *y = zeros(n + 1);
    struct tally c = {0, 0};
    o->table->swiglu(o, y, g, u, n);
    for (size_t i = 0; i < n; i++) {
      const double s = rounded(o, (double)g[i] / (1 + exp(-(double)g[i])));
      const double want = rounded(o, s * (double)u[i]);
      compare(o, &c, y[i], want, fabs(want) + 1e-30);
    }
    ck_assert_float_eq(y[n], 0);
    if (n > 500)
      mostly_equal(o, c);
    give_all();
  }
  cpu_ops_destroy(o);
}
END_TEST

START_TEST(exponentials)
{
  const struct cpu_kernels *k = kernels_of(variant(_i).path);
  double worst = 0;
  for (float x = -87.33f; x < 88.37f; x += 0.0007f) {
    const double got = k->exp_sum(&x, 0, 1), want = exp((double)x);
    worst = fmax(worst, fabs(got / want - 1));
  }
  ck_assert_double_lt(worst, 2e-7);
  static const float x[] = {0, -87.4f, -1e30f, -INFINITY, 89, INFINITY, NAN};
  ck_assert_double_eq(k->exp_sum(&x[0], 0, 1), 1);
  for (int i = 1; i < 4; i++)
    ck_assert_double_eq(k->exp_sum(&x[i], 0, 1), 0);
  ck_assert(isinf(k->exp_sum(&x[4], 0, 1)) && isinf(k->exp_sum(&x[5], 0, 1)));
  ck_assert(isnan(k->exp_sum(&x[6], 0, 1)));
}
END_TEST

START_TEST(rows_are_looked_up)
{
  struct ops *o = variant_ops(_i, 1);
  for (int dtype = 0; dtype < 2; dtype++) {
    const struct tensor w = weights_at(dtype, 11, 13, 2);
    const int32_t token[] = {10, 0, 3, 3};
    const uint32_t row[] = {2, 0, 1, 1, 3};
    float y[4 * 13], z[5 * 13];
    o->table->embed(o, y, &w, token, 4);
    o->table->gather(o, z, y, row, 5, 13);
    for (uint32_t i = 0; i < 4 * 13; i++)
      ck_assert_double_eq(y[i],
                          rounded(o, (double)tensor_get(&w, (size_t)token[i / 13] * 13 + i % 13)));
    for (uint32_t i = 0; i < 5; i++)
      assert_same_bits(z + i * 13, y + row[i] * 13, 13);
    o->table->embed(o, y, &w, token, 0);
    give_all();
  }
  cpu_ops_destroy(o);
}
END_TEST

START_TEST(memory)
{
  struct ops *o = variant_ops(_i, 1);
  static const size_t sizes[] = {0, 1, 64, 100, 5 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    char *p = o->table->alloc(o, sizes[i]);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq((uintptr_t)p % 64, 0);
    memset(p, 1, sizes[i]);
    o->table->free(o, p);
  }
  ck_assert_ptr_null(o->table->alloc(o, SIZE_MAX));
  o->table->free(o, NULL);
  const float in[3] = {1.001f, -2, 1e-3f};
  float act[3], out[3], other[3];
  o->table->write(o, act, 3, in);
  o->table->copy(o, other, act, sizeof act);
  o->table->read(o, other, 3, out);
  for (int i = 0; i < 3; i++)
    ck_assert_double_eq(out[i], rounded(o, (double)in[i]));
  cpu_ops_destroy(o);
}
END_TEST

START_TEST(paths_are_asked_for_by_name)
{
  struct base_error e = {0};
  ck_assert_ptr_null(cpu_ops_create(TENSOR_F32, NULL, 1, "avx512-bf16", &e));
  ck_assert_int_eq(e.code, BASE_USAGE);
  ck_assert_ptr_nonnull(strstr(e.text, "scalar"));
  e = (struct base_error){0};
  ck_assert_ptr_null(cpu_ops_create(TENSOR_BF16, NULL, 1, "mmx", &e));
  ck_assert_int_eq(e.code, BASE_USAGE);
  e = (struct base_error){0};
  const int nowhere[2] = {0, 1000000};
  ck_assert_ptr_null(cpu_ops_create(TENSOR_BF16, nowhere, 2, NULL, &e));
  ck_assert_int_eq(e.code, BASE_USAGE);
  for (int n = 1; n <= 2; n++) { /* 1023: none here, first or not */
    e = (struct base_error){0};
    ck_assert_ptr_null(cpu_ops_create(TENSOR_BF16, (int[2]){n == 1 ? 1023 : 0, 1023}, n, NULL, &e));
    ck_assert_int_eq(e.code, BASE_USAGE);
    ck_assert_ptr_nonnull(strstr(e.text, "processor 1023"));
  }
  for (int dtype = 0; dtype < 2; dtype++) {
    struct ops *o = cpu_ops_create(dtype, NULL, 1, NULL, &e);
    ck_assert_ptr_nonnull(o);
    ck_assert_str_eq(o->path, cpu_ops_paths(dtype)[0]);
    ck_assert_int_eq(o->dtype, dtype);
    cpu_ops_destroy(o);
  }
  cpu_ops_destroy(NULL);
}
END_TEST

int main(void)
{
  const int n = variants();
  TCase *tc = tcase_create("operations");
  tcase_set_timeout(tc, 120);
  tcase_add_loop_test(tc, linear_is_the_product, 0, n);
  tcase_add_loop_test(tc, linear_of_unaligned_weights, 0, n);
  tcase_add_loop_test(tc, linear_of_many_rows, 0, n);
  tcase_add_loop_test(tc, nan_and_infinity_come_through, 0, n);
  tcase_add_loop_test(tc, lora_adds_both_products, 0, n);
  tcase_add_loop_test(tc, norms, 0, n);
  tcase_add_loop_test(tc, rotations, 0, n);
  tcase_add_loop_test(tc, activations, 0, n);
  tcase_add_loop_test(tc, exponentials, 0, n);
  tcase_add_loop_test(tc, rows_are_looked_up, 0, n);
  tcase_add_loop_test(tc, memory, 0, n);
  tcase_add_test(tc, paths_are_asked_for_by_name);
  Suite *s = suite_create("ops");
  suite_add_tcase(s, tc);
  return suite_run(s);
}
