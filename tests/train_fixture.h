/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the suites of training stand on: operations, a trainer, and a model of no size. */
#ifndef TESTS_TRAIN_FIXTURE_H
#define TESTS_TRAIN_FIXTURE_H

#include <check.h>
#include <stdlib.h>

#include "backend/cpu/cpu.h"
#include "backend/trainer.h"

/* All that a training stands on; freed in reverse. */
struct stage {
  struct weights *w;
  struct adapter *a; /* NULL: all of w is trained */
  struct ops *ops;
  struct grad *grad;
  struct trainer *t;
};

static inline struct config stage_config(void)
{
  return (struct config){.family = CONFIG_QWEN3,
                         .hidden = 24,
                         .layers = 2,
                         .q_heads = 4,
                         .kv_heads = 2,
                         .head_dim = 10,
                         .intermediate = 40,
                         .vocab = 50,
                         .max_position = 64,
                         .rms_eps = 1e-6,
                         .rope_theta = 1e4,
                         .tied = 1,
                         .qk_norm = 1,
                         .dtype = TENSOR_F32,
                         .bos = -1};
}

/* The stage takes w and a. */
static inline struct stage stage_open(struct weights *w, struct adapter *a, int dtype, int threads,
                                      const char *path, const struct trainer_options *o)
{
  struct base_error e = {0};
  struct stage s = {.w = w, .a = a};
  struct grad_limits most = trainer_limits(w, a, o);
  s.ops = cpu_ops_create(dtype, NULL, threads, path, &e);
  ck_assert_msg(s.ops != NULL, "%s", e.text);
  s.grad = cpu_grad_create(s.ops, &most, &e);
  ck_assert_msg(s.grad != NULL, "%s", e.text);
  s.t = trainer_create(w, a, s.grad, o, &e);
  ck_assert_msg(s.t != NULL, "%s", e.text);
  return s;
}

static inline void stage_close(struct stage *s)
{
  trainer_destroy(s->t);
  cpu_grad_destroy(s->grad);
  cpu_ops_destroy(s->ops);
  adapter_free(s->a);
  weights_free(s->w);
}

/* Weights that may be written to, of random ones. */
static inline struct weights *stage_weights(const struct config *c, uint64_t seed, int dtype)
{
  struct base_error e = {0};
  struct weights *w = weights_random(c, seed, TENSOR_F32, &e);
  struct weights *copy = w ? weights_copy(w, dtype, &e) : NULL;
  ck_assert_msg(copy != NULL, "%s", e.text);
  weights_free(w);
  return copy;
}

/* Gradients of these; the loss is returned. */
static inline struct trainer_loss stage_micro(struct stage *s, const struct trainer_seq *seq,
                                              uint32_t n)
{
  struct base_error e = {0};
  struct trainer_loss loss = {0};
  ck_assert_msg(trainer_micro(s->t, seq, n, NULL, &loss, &e) == 0, "%s", e.text);
  return loss;
}

static inline double stage_step(struct stage *s, float rate)
{
  struct base_error e = {0};
  double norm = 0;
  ck_assert_msg(trainer_step(s->t, rate, &norm, &e) == 0, "%s", e.text);
  return norm;
}

#endif
