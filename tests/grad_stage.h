/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Training operations on one kernel path, and numbers drawn to try them with. */
#ifndef TESTS_GRAD_STAGE_H
#define TESTS_GRAD_STAGE_H

#include <check.h>
#include <gsl/gsl_randist.h>
#include <stdlib.h>

#include "backend/cpu/cpu.h"
#include "base/rng.h"

/* One path with some threads; numbers drawn anew for each case. */
static struct ops *ops;
static struct grad *grad;
static gsl_rng *rng;

static inline void open_stage(const char *path, int threads)
{
  struct base_error e = {0};
  struct grad_limits most = {
      .tokens = 300, .width = 700, .seq_tokens = 200, .head_dim = 4, .rank = 16};
  ops = cpu_ops_create(TENSOR_F32, NULL, threads, path, &e);
  ck_assert_msg(ops != NULL, "%s", e.text);
  grad = cpu_grad_create(ops, &most, &e);
  ck_assert_msg(grad != NULL, "%s", e.text);
  rng = base_rng_open(11, "check_grad");
}

static inline void close_stage(void)
{
  cpu_grad_destroy(grad);
  cpu_ops_destroy(ops);
  gsl_rng_free(rng);
}

static inline uint32_t below(uint32_t n)
{
  return (uint32_t)gsl_rng_uniform_int(rng, n);
}

static inline void draw(float *x, size_t n)
{
  for (size_t i = 0; i < n; i++)
    x[i] = (float)gsl_ran_gaussian(rng, 1);
}

static inline float *drawn(size_t n)
{
  float *x = malloc((n + 1) * sizeof *x);
  ck_assert(x != NULL);
  draw(x, n);
  return x;
}

static inline float *zeros(size_t n)
{
  float *x = calloc(n + 1, sizeof *x);
  ck_assert(x != NULL);
  return x;
}

static inline struct tensor matrix(uint32_t rows, uint32_t cols, const float *data)
{
  return (struct tensor){TENSOR_F32, rows, cols, data};
}

#endif
