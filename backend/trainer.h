/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Training, of all weights of a model or of an adapter on frozen ones. Masters and moments are
 * fp32; the weights or adapter that the caller gave, which an engine may read between steps, get
 * each step's result in their own type.
 *
 *   struct trainer *t = trainer_create(weights, NULL, grad, &options, &e);
 *   trainer_micro(t, seq, nseq, NULL, &loss, &e);     any number of them: gradients add up
 *   trainer_step(t, rate, &norm, &e);                 mean over all counted tokens, clip, AdamW
 *
 * Same inputs, same bits, whatever the number of threads, on the same kernel path. One caller at a
 * time; no engine steps on these weights during trainer_step.
 */
#ifndef BACKEND_TRAINER_H
#define BACKEND_TRAINER_H

#include "backend/adapter.h"
#include "backend/grad.h"
#include "backend/weights.h"

struct trainer;

struct trainer_options {
  uint32_t max_tokens;     /* rows of the largest micro-batch: tokens less one, over sequences */
  uint32_t max_seq_tokens; /* rows of the longest sequence; 0: max_tokens */
  int recompute;           /* keep a layer's input only, and compute it once more backwards */
  float beta1, beta2, eps;
  float decay;       /* of matrices; norms and biases have none */
  int decay_vectors; /* they have it too */
  float clip;        /* largest norm of all gradients together; 0: none */
};

/* A sequence: token i + 1 is predicted from tokens 0 .. i. */
struct trainer_seq {
  const int32_t *token;
  const uint8_t *counted; /* [n]: whether the loss of predicting it counts; NULL: all do */
  uint32_t n;             /* at least 2 */
};

struct trainer_loss {
  double sum; /* of -log probability, natural */
  uint64_t tokens;
};

/* Set by trainer_micro: stopped; as if it had not been called. */
enum { TRAINER_ABORTED = 1 };

/* Betas 0.9 and 0.999, eps 1e-8, decay 0.01, clip 1. */
struct trainer_options trainer_defaults(uint32_t max_tokens);

/* What a struct grad must take for such training. */
struct grad_limits trainer_limits(const struct weights *w, const struct adapter *a,
                                  const struct trainer_options *o);

/* `a` NULL: all of w is trained, else a alone. What is trained lies in memory that may be written
 * to (weights_copy, adapter_random). All are borrowed; options are copied. NULL with BASE_ENV, or BASE_INPUT where the operations do not
 * take such shapes. */
struct trainer *trainer_create(struct weights *w, struct adapter *a, struct grad *g,
                               const struct trainer_options *o, struct base_error *e);
void trainer_destroy(struct trainer *t);

/* Adds the gradients of the sequences' summed loss, which it tells. `stop` is looked at between
 * layers (NULL: never). 0, TRAINER_ABORTED, or -1 with nothing added: BASE_INPUT for sequences that
 * are too long, tokens outside the vocabulary, no token that counts, a loss that is no number (the
 * step is named). */
int trainer_micro(struct trainer *t, const struct trainer_seq *seq, uint32_t nseq,
                  const volatile int *stop, struct trainer_loss *loss, struct base_error *e);
/* The loss alone, with nothing added: how good the model is on tokens that it does not learn. */
int trainer_loss(struct trainer *t, const struct trainer_seq *seq, uint32_t nseq,
                 struct trainer_loss *loss, struct base_error *e);
/* Takes what has added up. *norm (may be NULL): of the mean gradient, before clipping. BASE_INPUT:
 * nothing has, or a gradient is no number (the step is named); then nothing has changed. */
int trainer_step(struct trainer *t, float rate, double *norm, struct base_error *e);
/* Forgets what has added up. */
void trainer_discard(struct trainer *t);

uint64_t trainer_steps(const struct trainer *t); /* taken */
size_t trainer_parameters(const struct trainer *t);
/* Bytes held: masters, moments, gradients and workspace. */
size_t trainer_state_bytes(const struct trainer *t);
/* What has added up for a tensor of the weights or adapter, fp32, in the backend's memory; NULL: it
 * is not trained. */
const float *trainer_gradient(const struct trainer *t, const struct tensor *of);
/* Writes what is trained: a model's folder or an adapter's. */
int trainer_write(const struct trainer *t, const char *folder, struct base_error *e);

/* Rates over a training: up in a straight line for `warmup` steps, then constant, or with `cosine`
 * down to `last` at the end. */
struct trainer_schedule {
  double peak, last;
  uint64_t steps, warmup;
  int cosine;
};
/* Of step 0, 1, ... */
double trainer_rate(const struct trainer_schedule *s, uint64_t step);

#endif
