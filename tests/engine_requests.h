/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Requests to a tiny model with what each yields alone, to hold against what it yields otherwise;
 * and operations that can be stopped in the middle of a step.
 */
#ifndef TESTS_ENGINE_REQUESTS_H
#define TESTS_ENGINE_REQUESTS_H

#include <gsl/gsl_rng.h>

#include "tests/engine_fixture.h"

enum {
  REQUESTS = 64,
  PROMPT_MAX = 200,
  ANSWER_MAX = 16,
  VOCAB = 320, /* of the fixtures' qwen3 */
  ADAPTERS = 2
};

struct request {
  int32_t prompt[PROMPT_MAX];
  struct engine_request r;
  /* Alone: the answer, and a hash of the bits of the logits that each token was chosen from. */
  int32_t token[ANSWER_MAX];
  uint64_t bits[ANSWER_MAX];
};

/* Everything that the suites share; made once. */
struct requests {
  struct weights *w;
  struct adapter *adapter[ADAPTERS]; /* in slots 0 and 1 */
  struct request one[REQUESTS];
  const char *path; /* on which the answers were made */
};

/* Prompts of 1..200 tokens, greedy and sampled, some with adapters: the same at each call. */
struct requests *requests_make(int dtype);
void requests_free(struct requests *q);
/* Each alone on an engine of its own: fills in the answers. */
void requests_answer(struct requests *q, struct ops *ops);
/* An engine with the adapters loaded. */
struct engine *requests_engine(const struct requests *q, struct ops *ops,
                               const struct engine_options *o);

/* 0 <= x < n */
static inline uint32_t below(gsl_rng *rng, uint32_t n)
{
  return (uint32_t)gsl_rng_uniform_int(rng, n);
}

/* A step of one chunk or, with tokens 0, one row; returns engine_step's result. */
int step_one(struct engine *en, int32_t seq, uint32_t start, uint32_t tokens, float *logits,
             struct engine_token *out, struct base_error *e);
uint64_t logit_bits(const float *logits);

/* The operations once more, with faults: memory is handed out full of NaNs, the stop flag rises at
 * a layer's attention, and memory may be refused. One at a time. */
struct ops *faulty_ops(int dtype, int threads, const char *path);
void faulty_stop_at(int layer); /* of the next step, from 0; -1: never */
extern volatile int faulty_stop;
void faulty_refuse_memory(int call); /* the call'th from now on, from 0; -1: none */

#endif
