/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The engine: sequences, their pages, and forward steps over many of them at once. It decides
 * nothing: which sequences a step holds is the caller's plan. Knows no time and no policy.
 *
 *   struct engine *en = engine_create(weights, ops, &options, &e);
 *   engine_begin(en, 7, &request, &e);
 *   engine_step(en, &step, &e);       chunk {7, 0, 64}: its last token's successor is sampled
 *   engine_step(en, &step, &e);       row 7: one more token
 *   engine_drop(en, 7);
 *
 * THREADS. One thread steps; another may at the same time call engine_swap_out and engine_swap_in
 * for sequences that are in no step, and load and drop adapters. begin, drop and evict are made by
 * one thread, which may drop adapters too, and run beside both (a lock guards the tables). A
 * sequence of a step under way is not touched. Sleep and wake are calls of the stepping thread.
 */
#ifndef BACKEND_ENGINE_H
#define BACKEND_ENGINE_H

#include "backend/adapter.h"
#include "backend/ops.h"
#include "backend/weights.h"

struct engine;

struct engine_options {
  uint32_t block_tokens; /* tokens a page: a power of two */
  uint32_t pages;        /* of keys and values on the device */
  uint32_t host_pages;   /* of the host pool that swapped pages go to */
  uint32_t max_tokens;   /* rows of the largest step */
  uint32_t max_seqs;     /* sampled rows of the largest step */
  uint32_t adapters;     /* slots */
};

/* A sequence to be. Tokens are copied. */
struct engine_request {
  const int32_t *prompt;
  uint32_t prompt_tokens, max_tokens; /* max_tokens: generated at most */
  struct ops_sample how;              /* position is ignored; key: what its noise depends on */
  int adapter;                        /* slot, -1: none */
};

/* Tokens start .. start+tokens-1 of a sequence (prompt, then what it generated). */
struct engine_chunk {
  int32_t seq;
  uint32_t start, tokens;
};

/* What a step computed of one sequence. */
struct engine_token {
  int32_t seq, token; /* token -1: a chunk that does not reach the end of what is known */
  float logprob;
};

/* Set by engine_step: nothing of the step happened. */
enum { ENGINE_ABORTED = 1 };

struct engine_step {
  const struct engine_chunk *chunk;
  uint32_t chunks;
  const int32_t *row;
  uint32_t rows;            /* sequences that compute their last token */
  const volatile int *stop; /* looked at between layers; NULL: never. Set: ends the step
                               with ENGINE_ABORTED; no sequence has changed */
  struct engine_token *out; /* [chunks + rows], chunks first */
  /* NULL, or [chunks + rows][vocab], for tests: logits behind the last token of each. All of them
   * then count as sampled. */
  float *logits;
};

/* Weights, ops and options outlive it (borrowed; options are copied). NULL with BASE_ENV or
 * BASE_INPUT (weights of another dtype than the ops take). */
struct engine *engine_create(const struct weights *w, struct ops *ops,
                             const struct engine_options *o, struct base_error *e);
void engine_destroy(struct engine *en);

/* A sequence seq (>= 0, the caller's number) comes to be, without pages. BASE_INPUT: a token
 * outside the vocabulary, prompt + max_tokens beyond the model, an adapter that is not loaded. */
int engine_begin(struct engine *en, int32_t seq, const struct engine_request *r,
                 struct base_error *e);
/* It is gone, with its pages here or on the host. Unknown ones are ignored. */
void engine_drop(struct engine *en, int32_t seq);
/* Gives up its pages, keeps its tokens: a recompute follows, by chunks from 0. */
void engine_evict(struct engine *en, int32_t seq);
/* As if the first `tokens` of a sequence without pages had been computed: it gets the pages for
 * them, and what these hold stays as it is. For measuring what a step costs, which does not depend
 * on it. BASE_INPUT: the sequence has pages, or not so many tokens; BASE_ENV: no page is free. */
int engine_assume(struct engine *en, int32_t seq, uint32_t tokens, struct base_error *e);
/* Pages to the host and back; the bytes are the same afterwards. BASE_ENV when the pool is full;
 * then nothing has changed. */
int engine_swap_out(struct engine *en, int32_t seq, struct base_error *e);
int engine_swap_in(struct engine *en, int32_t seq, struct base_error *e);

/* One step. 0, ENGINE_ABORTED, or -1: BASE_INPUT (unknown sequence, a chunk that does not start
 * where its pages end, pages on the host), BASE_ENV (no page is free); then nothing has changed. */
int engine_step(struct engine *en, const struct engine_step *s, struct base_error *e);

/* Tokens of a sequence that have keys and values; all it has; those it has generated. */
uint32_t engine_kv_tokens(const struct engine *en, int32_t seq);
const int32_t *engine_tokens(const struct engine *en, int32_t seq, uint32_t *n);
uint32_t engine_free_pages(const struct engine *en);
uint32_t engine_free_host_pages(const struct engine *en);
/* Asserts that every page is free or held by one sequence, and that sequences hold what their
 * tokens need. For tests and after failures; takes time by sequences. */
void engine_check(const struct engine *en);

/* An adapter version into a slot (copied to the device), while others serve; sequences that began
 * with the slot's older version keep it to their end. BASE_INPUT: of another base; BASE_ENV: no
 * slot. */
int engine_adapter_load(struct engine *en, int slot, const struct adapter *a, struct base_error *e);
/* What it takes of the backend's memory. Pure. */
int64_t engine_adapter_bytes(const struct engine *en, const struct adapter *a);
void engine_adapter_drop(struct engine *en, int slot);

/* Sleep: level 1 gives back the pages (all sequences must be gone or swapped out), level 2 the
 * weights too, where the backend holds a copy. Wake takes them again. Bytes given back or taken. */
int64_t engine_sleep(struct engine *en, int level, struct base_error *e);
int64_t engine_wake(struct engine *en, struct base_error *e);

#endif
