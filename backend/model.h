/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One forward pass of a decoder of the Qwen3, Qwen2 and Llama families over a batch of rows, in
 * nothing but the operations of ops.h. Rows of one sequence stand together, and so do rows with one
 * adapter. It owns the workspace, so one caller at a time.
 */
#ifndef BACKEND_MODEL_H
#define BACKEND_MODEL_H

#include "backend/adapter.h"
#include "backend/ops.h"
#include "backend/weights.h"

struct model;

/* Rows with one adapter. Groups are in the order of rows and do not overlap; rows in none have no
 * adapter. */
struct model_lora {
  uint32_t first_row, rows;
  const struct adapter *adapter; /* its tensors lie in the backend's memory */
};

struct model_batch {
  uint32_t rows;            /* 1 .. max_rows */
  const int32_t *token;     /* [rows] */
  const uint32_t *position; /* [rows] */
  const struct ops_seq *seq;
  uint32_t nseq;
  const struct model_lora *lora;
  uint32_t nlora;
  /* The rows that get logits and a token, at most max_sampled. */
  const uint32_t *sampled;      /* [nsampled] */
  const struct ops_sample *how; /* [nsampled] */
  uint32_t nsampled;
  int32_t *out;             /* [nsampled] */
  float *logprob;           /* [nsampled], or NULL */
  const volatile int *stop; /* looked at between layers; NULL: never */
  /* For tests, or NULL: x[rows][hidden] as it goes into layer `layer`; with layer = layers as it
   * comes out of the last one, with layers + 1 behind the final norm. */
  void (*visit)(void *ctx, uint32_t layer, const float *x);
  void *visit_ctx;
};

/* Borrows weights and ops. BASE_ENV without memory for the workspace, BASE_INPUT where the
 * operations do not take such shapes. */
struct model *model_create(const struct weights *w, struct ops *ops, uint32_t max_rows,
                           uint32_t max_sampled, struct base_error *e);
void model_destroy(struct model *m);

/* 0, or 1 if `stop` was set: then pages hold keys and values of some layers, and nothing else was
 * written. */
int model_forward(struct model *m, const struct ops_kv *kv, const struct model_batch *b);
/* Logits of the i-th sampled row of the last pass, on the host: [vocab]. */
void model_logits(const struct model *m, uint32_t i, float *out);
/* Bytes of its workspace. */
size_t model_workspace(const struct model *m);

/* Angles a position: inv_freq[head_dim/2] of RoPE, with Llama-3's scaling if the config has it. */
void model_inv_freq(const struct config *c, float *inv_freq);

#endif
