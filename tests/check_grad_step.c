/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What follows the gradients: sums, AdamW, published weights; and that threads do not change bits.
 */
#include <math.h>
#include <string.h>

#include "tests/grad_stage.h"
#include "tests/suite.h"

enum { MOST = 60000 };

/* -------------------------------------------------------------------------------- the step --- */

static void check_adamw(void)
{
  enum { N = 133, STEPS = 4 };
  float p[N], m[N] = {0}, v[N] = {0}, g[N];
  double rp[N], rm[N] = {0}, rv[N] = {0};
  draw(p, N);
  for (int i = 0; i < N; i++)
    rp[i] = (double)p[i];
  for (int t = 1; t <= STEPS; t++) {
    draw(g, N);
    struct grad_adamw s = {.p = p,
                           .m = m,
                           .v = v,
                           .grad = g,
                           .n = N,
                           .scale = 0.5f,
                           .rate = 0.125f,
                           .beta1 = 0.875f,
                           .beta2 = 0.96875f,
                           .eps = 0x1p-20f,
                           .decay = 0.25f,
                           .correct1 = 1 - powf(0.875f, (float)t),
                           .correct2 = 1 - powf(0.96875f, (float)t)};
    grad->table->adamw(grad, &s);
    for (int i = 0; i < N; i++) {
      double x = 0.5 * (double)g[i];
      rp[i] *= 1 - 0.125 * 0.25;
      rm[i] = 0.875 * rm[i] + 0.125 * x;
      rv[i] = 0.96875 * rv[i] + 0.03125 * x * x;
      rp[i] -= 0.125 * (rm[i] / (1 - pow(0.875, t))) /
               (sqrt(rv[i] / (1 - pow(0.96875, t))) + 0x1p-20);
      ck_assert_double_eq_tol((double)p[i], rp[i], 2e-6);
    }
  }
}

static void check_sums(void)
{
  float *x = drawn(MOST), *y = zeros(MOST);
  double want = 0;
  for (size_t i = 0; i < MOST; i++)
    want += (double)x[i] * (double)x[i];
  ck_assert_double_eq_tol(grad->table->square_sum(grad, x, MOST), want, 1e-6 * want);
  ck_assert(grad->table->square_sum(grad, x, 1) == (double)(x[0] * x[0]));
  grad->table->add(grad, y, x, MOST);
  ck_assert_mem_eq(x, y, MOST * sizeof *x);
  grad->table->zero(grad, y, MOST - 1);
  ck_assert(y[0] == 0 && y[MOST - 2] == 0 && y[MOST - 1] == x[MOST - 1]);
  uint16_t h[7];
  struct tensor t = {TENSOR_BF16, 1, 7, h};
  grad->table->publish(grad, &t, x);
  for (int i = 0; i < 7; i++)
    ck_assert_uint_eq(h[i], bf16_from_f32(x[i]));
  free(x);
  free(y);
}

START_TEST(steps_on_every_path)
{
  const char *const *paths = cpu_ops_paths(TENSOR_F32);
  for (int i = 0; paths[i]; i++) {
    open_stage(paths[i], 1 + i);
    check_adamw();
    check_sums();
    close_stage();
  }
}
END_TEST

/* Products of shapes at the borders of tiles, with 1, 2 and 3 threads: the same bits. */
START_TEST(threads_do_not_change_bits)
{
  const char *const *paths = cpu_ops_paths(TENSOR_F32);
  for (int i = 0; paths[i]; i++) {
    float *first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
      open_stage(paths[i], threads);
      uint32_t T = 193, in = 97, out = 145;
      float *x = drawn((size_t)T * in), *w = drawn((size_t)in * out);
      float *dy = drawn((size_t)T * out);
      size_t n = (size_t)T * in + (size_t)in * out;
      float *got = zeros(n);
      struct tensor wt = matrix(out, in, w);
      grad->table->linear_back(grad, got, dy, &wt, T, 0);
      grad->table->weight_back(grad, got + (size_t)T * in, NULL, dy, x, T, in, out);
      if (first)
        ck_assert_mem_eq(first, got, n * sizeof *got);
      if (first)
        free(got);
      else
        first = got;
      free(x);
      free(w);
      free(dy);
      close_stage();
    }
    free(first);
  }
}
END_TEST

int main(void)
{
  Suite *s = suite_create("grad_step");
  TCase *c = tcase_create("grad_step");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, steps_on_every_path);
  tcase_add_test(c, threads_do_not_change_bits);
  suite_add_tcase(s, c);
  return suite_run(s);
}
