/* SPDX-License-Identifier: GPL-3.0-or-later */
/* For the suites of the engine's operations: every kernel path of this processor, arrays of random
 * numbers, comparisons. */
#ifndef TESTS_OPS_FIXTURE_H
#define TESTS_OPS_FIXTURE_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/rng.h"
#include "tests/suite.h"

/* Looped tests run once for each: i of 0 .. variants() - 1. */
struct variant {
  int dtype;
  const char *path;
};

static inline int variants(void)
{
  int n = 0;
  for (int dtype = TENSOR_F32; dtype <= TENSOR_BF16; dtype++)
    for (const char *const *p = cpu_ops_paths(dtype); *p; p++)
      n++;
  return n;
}

static inline struct variant variant(int i)
{
  for (int dtype = TENSOR_F32;; dtype++)
    for (const char *const *p = cpu_ops_paths(dtype); *p; p++)
      if (i-- == 0)
        return (struct variant){dtype, *p};
}

static inline struct ops *variant_ops(int i, int threads)
{
  struct base_error e = {0};
  const struct variant v = variant(i);
  struct ops *o = cpu_ops_create(v.dtype, NULL, threads, v.path, &e);
  ck_assert_msg(o != NULL, "%s", e.text);
  ck_assert_str_eq(o->path, v.path);
  return o;
}

/* What a test has taken; given back by give_all(). */
static struct {
  void *p[256];
  int n;
} taken;

static inline void *take(size_t bytes)
{
  void *p = malloc(bytes ? bytes : 1);
  ck_assert_ptr_nonnull(p);
  ck_assert_int_lt(taken.n, 256);
  return taken.p[taken.n++] = p;
}

static inline void give_all(void)
{
  while (taken.n > 0)
    free(taken.p[--taken.n]);
}

static inline uint32_t draw(void)
{
  static uint32_t counter[4];
  const uint32_t key[2] = {20261130, 7};
  uint32_t out[4];
  counter[0]++;
  base_philox4x32(counter, key, out);
  return out[0];
}

static inline uint32_t below(uint32_t n)
{
  return draw() % n;
}

/* -1 .. 1 */
static inline float number(void)
{
  return (float)draw() * 0x1p-31f - 1;
}

static inline double rounded(const struct ops *o, double x)
{
  return o->dtype == TENSOR_BF16 ? (double)bf16_to_f32(bf16_from_f32((float)x)) : x;
}

/* n activations as this dtype has them, times a scale. */
static inline float *numbers(const struct ops *o, size_t n, float scale)
{
  float *x = take(n * sizeof *x);
  for (size_t i = 0; i < n; i++)
    x[i] = (float)rounded(o, number() * scale);
  return x;
}

static inline float *zeros(size_t n)
{
  float *x = take(n * sizeof *x);
  memset(x, 0, n * sizeof *x);
  return x;
}

static inline float *copy_of(const float *x, size_t n)
{
  return memcpy(take(n * sizeof *x), x, n * sizeof *x);
}

/* Random weights, `off` bytes beyond an aligned place. */
static inline struct tensor weights_at(int dtype, uint32_t rows, uint32_t cols, size_t off)
{
  struct tensor t = {dtype, rows, cols, NULL};
  char *p = take(tensor_bytes(&t) + off);
  t.data = p + off;
  for (size_t i = 0; i < (size_t)rows * cols; i++) {
    float x = number();
    uint16_t h = bf16_from_f32(x);
    if (dtype == TENSOR_BF16)
      memcpy(p + off + i * sizeof h, &h, sizeof h);
    else
      memcpy(p + off + i * sizeof x, &x, sizeof x);
  }
  return t;
}

static inline struct tensor weights_of(int dtype, uint32_t rows, uint32_t cols)
{
  return weights_at(dtype, rows, cols, 0);
}

/* Half a unit in the last place of bf16 is 2^-8 of the value at most. */
static inline double bf16_half(const struct ops *o, double x)
{
  return o->dtype == TENSOR_BF16 ? 0x1p-8 * fabs(x) : 0;
}

/* For millions of numbers: Check writes a note for every assertion, so only what fails becomes one.
 */
#define assert_near(got, want, bound, ...)                                                         \
  do {                                                                                             \
    const double got_ = (got), want_ = (want), bound_ = (bound);                                   \
    if (!(fabs(got_ - want_) <= bound_))                                                           \
      ck_abort_msg("%s: got %.9g, want %.9g, bound %.3g", __VA_ARGS__, got_, want_, bound_);       \
  } while (0)

#define assert_same_bits(a, b, n)                                                                  \
  do {                                                                                             \
    if (memcmp((a), (b), (n) * sizeof(float)) != 0)                                                \
      ck_abort_msg("%s: not the same bits", #a);                                                   \
  } while (0)

#endif
