/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The tables of tests/data/operators: a made-up model of 2 layers. All times in us, by formula:
 *
 *   layer (7 operators, layernorm twice)   49 at 1 and 4 tokens, 76 at 64, 199 at 256
 *   once a step (embedding, final norm)    3, 3, 6, 15
 *   head and sampler                       55 at 1 position, 69 at 8
 *   decode attention                       4 + rows * context / 64
 *   prefill attention                      5 + chunk * (history + chunk / 2) / 256
 *   both in one call                       the sum of these and 2
 *   uneven batches                         0.2 and 0.1 of the way at 2 and 8 rows; with a chunk 0.5
 *                                          and 0.25
 */
#ifndef TESTS_TOY_TABLES_H
#define TESTS_TOY_TABLES_H

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "calib/calib.h"
#include "models/calibration.h"
#include "models/gpu.h"
#include "models/lattice.h"
#include "models/llm.h"

/* The path of a file of tests/data/operators; up to eight at once. */
static inline const char *toy_path(const char *name)
{
  static char path[8][512];
  static unsigned next;
  const char *dir = getenv("srcdir");
  next = (next + 1) % 8;
  snprintf(path[next], sizeof path[next], "%s/tests/data/operators/%s", dir ? dir : ".", name);
  return path[next];
}

static inline void toy_describe(struct llm *model, struct gpu *gpu)
{
  struct base_error e = {0};
  ck_assert_msg(!llm_open(toy_path("toy.xml"), model, &e) &&
                    !gpu_open(toy_path("box.xml"), gpu, &e),
                "%s", e.text);
}

static inline struct calibration *toy_import(const char *const *path, size_t n, uint32_t tp,
                                             FILE *talk, struct base_error *e)
{
  struct llm model;
  struct gpu gpu;
  toy_describe(&model, &gpu);
  const struct calib_operators in = {
      .path = path, .npaths = n, .model = &model, .gpu = &gpu, .tp = tp};
  return calib_fit_llmservingsim(&in, talk, e);
}

/* All four tables. */
static inline struct calibration *toy_calibration(void)
{
  const char *const path[] = {toy_path("attention.csv"), toy_path("skew.csv"),
                              toy_path("dense.csv"), toy_path("per_sequence.csv")};
  struct base_error e = {0};
  struct calibration *c = toy_import(path, 4, 1, NULL, &e);
  ck_assert_msg(c != NULL, "%s:%u: %s", e.file, e.line, e.text);
  return c;
}

static inline struct calib_input toy_input(const char *const *path, size_t n, struct llm *m,
                                           struct gpu *g)
{
  toy_describe(m, g);
  return (struct calib_input){.path = path,
                              .npaths = n,
                              .model = m,
                              .gpu = g,
                              .weight_dtype = "bfloat16",
                              .kv_dtype = "bfloat16",
                              .tp = 1};
}

static inline int64_t toy_us(double v)
{
  return llround(v * 1e6);
}

/* A value of a lattice at whole numbers. */
static inline int64_t toy_at(const struct lattice *l, int64_t a, int64_t b, int64_t c, int64_t d)
{
  const struct lattice_point p[] = {{a, 1}, {b, 1}, {c, 1}, {d, 1}};
  return lattice_value(l, p);
}

#endif
