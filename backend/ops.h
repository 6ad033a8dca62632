/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The operations that a forward pass is made of, as a table that a backend fills. model.c calls
 * nothing else, so that another kind of device needs these functions and no more.
 *
 * Activations are rows of `act_bytes` an element in the backend's memory (alloc); the caller
 * computes addresses but never reads them except through `read`. Shapes are in brackets, T is a
 * number of rows.
 *
 * ROUNDING. With dtype TENSOR_BF16 every result is rounded to bf16 where transformers' bf16 model
 * rounds: after each operation, and in the norms once more between normalising and weighting.
 * Statistics, softmax, rotations and sums are fp32; attention is one operation, whose scores and
 * weights stay fp32 (transformers' kinds of attention round them at places of their own). With
 * TENSOR_F32 nothing is rounded.
 *
 * BATCH INVARIANCE. What is computed for a row depends on that row (and, in attention, its
 * sequence's keys and values) alone: not on T, on its place among the rows, on threads, on how a
 * prompt was cut into chunks, or on which pages hold its keys. Same bits on the same kernel path
 * (`path`).
 *
 * Functions cannot fail; wrong arguments are bugs (assert). One caller at a time for one struct
 * ops.
 */
#ifndef BACKEND_OPS_H
#define BACKEND_OPS_H

#include "backend/config.h"
#include "backend/tensor.h"

struct ops;

/* Sequences whose rows stand one after another: rows of the batch from first_row on, at positions
 * start, start+1, ... */
struct ops_seq {
  uint32_t first_row, rows;
  uint32_t start;      /* position of the first row; keys 0 .. position are attended */
  const int32_t *page; /* page numbers of the sequence's blocks */
};

/* The pages of keys and values: page-major, [page][layer][K,V][block_tokens][kv_heads][head_dim].
 */
struct ops_kv {
  void *base; /* backend memory */
  int dtype;  /* enum tensor_dtype */
  uint32_t pages, layers, block_tokens, kv_heads, head_dim;
};

/* How a row's token is chosen. temperature 0: the largest logit, the lowest id of equals. Else by
 * Gumbel noise from Philox keyed by (seed, key, position) alone, over what top_k (0: all) and top_p
 * (1: all) leave. */
struct ops_sample {
  float temperature, top_p;
  uint32_t top_k;
  uint64_t seed, key;
  uint32_t position; /* of the token that is chosen, in its sequence */
};

/* Rows first_row .. first_row + rows - 1 of a batch, all with one adapter. */
struct ops_lora {
  uint32_t first_row, rows;
  const struct tensor *a, *b; /* [rank][in], [out][rank] */
  float scale;
};

struct ops_table {
  const char *name; /* "cpu" */
  size_t act_bytes; /* of an activation */

  /* These two and `copy` may be called from another thread than all else: adapters are loaded and
   * pages swapped beside steps. */
  void *(*alloc)(struct ops *, size_t bytes); /* aligned to 64; NULL when there is none */
  void (*free)(struct ops *, void *);
  void (*read)(struct ops *, const void *act, size_t n, float *out); /* n elements to the host */
  void (*write)(struct ops *, void *act, size_t n, const float *in);
  /* Raw bytes, from and to the host and the backend's memory. */
  void (*copy)(struct ops *, void *to, const void *from, size_t bytes);

  /* y[T][hidden] = table[token[t]] */
  void (*embed)(struct ops *, void *y, const struct tensor *table, const int32_t *token,
                uint32_t T);
  /* y[T][n] = x / sqrt(mean(x^2) + eps) * w; with d[T][n] not NULL first x += d, written back. */
  void (*rms_norm)(struct ops *, void *y, void *x, const void *d, const struct tensor *w, float eps,
                   uint32_t T, uint32_t n);
  /* y[T][w->rows] = x[T][w->cols] w^T + bias (bias->data may be NULL) */
  void (*linear)(struct ops *, void *y, const void *x, const struct tensor *w,
                 const struct tensor *bias, uint32_t T);
  /* y += scale (x a^T) b^T for the rows of each of n groups; of `in` and `out` columns. The
   * rounding is transformers' and PEFT's: both products rounded, then the scaled sum. */
  void (*lora)(struct ops *, void *y, const void *x, const struct ops_lora *group, uint32_t n,
               uint32_t in, uint32_t out);
  /* x[T][heads][head_dim] in place: RMS norm of each head by w (w->data NULL: none), then RoPE in
   * the half-split form at position[t]; inv_freq[head_dim/2] on the host. */
  void (*norm_rope)(struct ops *, void *x, const struct tensor *w, float eps, const float *inv_freq,
                    const uint32_t *position, uint32_t T, uint32_t heads, uint32_t head_dim);
  /* Rows of k, v [T][kv_heads][head_dim] go to their places in the pages of a layer. */
  void (*kv_write)(struct ops *, const struct ops_kv *kv, uint32_t layer, const void *k,
                   const void *v, const struct ops_seq *seq, uint32_t nseq);
  /* y[T][q_heads][head_dim]: causal attention of q's rows to their sequence's pages, scaled by
   * 1/sqrt(head_dim); query head h reads kv head h / (q_heads / kv_heads). */
  void (*attention)(struct ops *, void *y, const void *q, const struct ops_kv *kv, uint32_t layer,
                    const struct ops_seq *seq, uint32_t nseq, uint32_t q_heads);
  /* y[n] = silu(gate) * up */
  void (*swiglu)(struct ops *, void *y, const void *gate, const void *up, size_t n);
  /* y[i] = x[row[i]], rows of n elements */
  void (*gather)(struct ops *, void *y, const void *x, const uint32_t *row, uint32_t rows,
                 uint32_t n);
  /* token[t] of logits[T][vocab], and, where logprob is not NULL, its log-probability (temperature
   * 1, nothing cut) */
  void (*sample)(struct ops *, const void *logits, const struct ops_sample *how, uint32_t T,
                 uint32_t vocab, int32_t *token, float *logprob);
  /* logprob[t] of target[t] */
  void (*logprobs)(struct ops *, const void *logits, const int32_t *target, uint32_t T,
                   uint32_t vocab, float *logprob);
  /* Are a model's shapes such that the operations take them? 0, or -1 with BASE_INPUT. NULL: all
   * are. */
  int (*check)(struct ops *, const struct config *, struct base_error *e);
};

/* Every backend's struct ops starts with this. */
struct ops {
  const struct ops_table *table;
  int dtype;        /* enum tensor_dtype: of results, and of what linear multiplies */
  const char *path; /* kernels in use: "avx512-bf16", "avx512", "avx2", "scalar" */
};

#endif
