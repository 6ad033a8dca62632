/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Word problems as tokens: what a training step reads, and how good a model is at problems that it
 * did not learn. Tokens are bytes; LESSON_END ends an answer.
 */
#ifndef CLI_LESSON_H
#define CLI_LESSON_H

#include "backend/engine.h"
#include "backend/trainer.h"
#include "models/problems.h"

enum { LESSON_END = 256, LESSON_VOCAB = 257, LESSON_TOKENS = 2 * PROBLEM_TEXT };

/* A problem as a sequence: the question, whose tokens do not count, the solution and its end. */
struct lesson {
  struct problem problem;
  int32_t token[LESSON_TOKENS];
  uint8_t counted[LESSON_TOKENS];
  uint32_t n, prompt; /* tokens; of the question */
};

void lesson_draw(struct lesson *l, uint64_t seed, int split, uint64_t index);

/* Which problems a training sees: step i the problems i*batch .. i*batch+batch-1 of its seed. */
struct lesson_plan {
  uint64_t seed, batch;
  uint32_t seq_tokens; /* longest sequence; BASE_INPUT if a problem is longer */
};

/* Of a trainer that takes such a plan's micro-batches. */
struct trainer_options lesson_options(const struct lesson_plan *p);
/* Gradients of a whole step, in as many micro-batches as needed. 0, TRAINER_ABORTED or -1. */
int lesson_micros(struct trainer *t, const struct lesson_plan *p, uint64_t step,
                  const volatile int *stop, struct trainer_loss *loss, struct base_error *e);
/* Loss of the first n held-out problems of a seed. 0, TRAINER_ABORTED or -1. */
int lesson_held_out(struct trainer *t, const struct lesson_plan *p, uint64_t n,
                    const volatile int *stop, struct trainer_loss *loss, struct base_error *e);

/* How many of the first n held-out problems greedy generation solves, into *right; *done is n
 * unless stopped. Weights and ops are of one type. */
int lesson_score(const struct weights *w, const struct adapter *a, struct ops *ops, uint64_t seed,
                 uint64_t n, const volatile int *stop, uint64_t *done, uint64_t *right,
                 struct base_error *e);

#endif
