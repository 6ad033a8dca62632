/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Something whose steps can be timed: an engine (bench_engine.h), or in tests a law.
 */
#ifndef CALIB_BENCH_H
#define CALIB_BENCH_H

#include <stdint.h>

#include "base/error.h"

/* Tokens of a prompt behind `start` others; they end it, so that a token is sampled. */
struct bench_chunk {
  uint32_t start, tokens;
};

struct bench_step {
  const struct bench_chunk *chunk; /* [chunks] */
  const uint32_t *ctx;             /* [rows] KV tokens of each decode row before the step, >= 1 */
  uint32_t chunks, rows;
};

/* Where the time of a step went, ps. All of it together is the time from its submission to when its
 * end was told. */
struct bench_times {
  int64_t host;      /* nobody computes: it is on its way to the lane, or its end to who waits */
  int64_t once;      /* in the lane, but none of the others: bookkeeping, embedding */
  int64_t layers;    /* all layers, without their attention */
  int64_t attention; /* all layers */
  int64_t head;      /* of sampled positions: final norm, LM head, sampler */
};

struct bench {
  void *ctx;
  /* Runs a step once. */
  int (*step)(void *ctx, const struct bench_step *s, struct bench_times *out, struct base_error *e);
  int64_t (*clock)(void *ctx); /* ns: for how long measuring may go on */
};

static inline int64_t bench_total(const struct bench_times *t)
{
  return t->host + t->once + t->layers + t->attention + t->head;
}

#endif
