/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An engine for tests: it keeps sequences, pages and tokens as engine.h says, and computes nothing.
 * A token is a hash of the sequence's key and the token's position. A step lasts `step_ns`, in
 * `layers` equal parts between which it looks at the stop flag. It is linked instead of the real
 * one.
 */
#ifndef TESTS_TOY_ENGINE_H
#define TESTS_TOY_ENGINE_H

#include "backend/engine.h"

struct toy_options {
  struct engine_options engine;
  long step_ns, copy_ns; /* how long they last */
  int layers;
  uint64_t fail_at; /* this step or copy (from 1) fails; 0: none */
  uint64_t exit_at; /* the thread of this step or copy ends */
};

/* Free with engine_destroy. */
struct engine *toy_engine_create(const struct toy_options *o);
/* The token that a sequence with this key has at a position behind its prompt. */
int32_t toy_token(uint64_t key, uint32_t position);
/* Sequences there are, and steps and copies begun. */
uint32_t toy_sequences(const struct engine *en);
uint64_t toy_works(const struct engine *en);

#endif
