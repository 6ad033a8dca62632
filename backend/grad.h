/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The operations that training needs beside those of backend/ops.h, as a table that a backend
 * fills: attention that keeps what its backward needs, the backward of every operation, the loss,
 * and the optimiser's step.
 *
 * Activations are what the ops table makes of them (act_bytes an element); gradients are fp32 rows,
 * in the backend's memory too (ops alloc). A gradient of a weight is added to what is there; one of
 * an activation is stored or added, as each function says. Roundings to bf16 in the forward pass
 * have derivative 1.
 *
 * DETERMINISM. Each number is a sum in an order that depends on the shapes alone: same bits with
 * any number of threads, on the same kernel path.
 *
 * Functions cannot fail; wrong arguments are bugs (assert).
 */
#ifndef BACKEND_GRAD_H
#define BACKEND_GRAD_H

#include "backend/ops.h"

/* A sequence of a micro-batch: its rows, at positions 0, 1, ... */
struct grad_seq {
  uint32_t first_row, rows;
};

/* Shapes of an attention. */
struct grad_heads {
  uint32_t q_heads, kv_heads, head_dim;
};

/* One tensor's step of AdamW with decoupled weight decay. */
struct grad_adamw {
  float *p, *m, *v;  /* master weights and moments, fp32 [n] */
  const float *grad; /* [n], multiplied by `scale` before all else */
  size_t n;
  float scale, rate, beta1, beta2, eps, decay;
  float correct1, correct2; /* 1 - beta^t of this step */
};

struct grad;

struct grad_table {
  /* ---- forward ---- */
  /* turn[T][head_dim]: cosines of the head_dim/2 angles of a position, then the sines. */
  void (*rotation)(struct grad *, float *turn, const float *inv_freq, const uint32_t *position,
                   uint32_t T, uint32_t head_dim);
  /* y[T][q_heads][head_dim]: causal attention within each sequence, as ops attention computes it;
   * lse[T][q_heads]: log of the sum of exponentials of each row's scores. */
  void (*attention)(struct grad *, void *y, float *lse, const void *q, const void *k, const void *v,
                    const struct grad_seq *seq, uint32_t nseq, struct grad_heads h);

  /* ---- backward; dy is the gradient of what the operation returned ---- */
  /* dq, dk, dv are stored. */
  void (*attention_back)(struct grad *, float *dq, float *dk, float *dv, const float *dy,
                         const void *q, const void *k, const void *v, const void *y,
                         const float *lse, const struct grad_seq *seq, uint32_t nseq,
                         struct grad_heads h);
  /* dx[T][w->cols] = dy[T][w->rows] w, added to dx if `add`. */
  void (*linear_back)(struct grad *, float *dx, const float *dy, const struct tensor *w, uint32_t T,
                      int add);
  /* dw[out][in] += dy^T x; db[out] += column sums of dy where db is not NULL. */
  void (*weight_back)(struct grad *, float *dw, float *db, const float *dy, const void *x,
                      uint32_t T, uint32_t in, uint32_t out);
  /* Of y += scale (x a^T) b^T: da += , db +=, and dx +=. */
  void (*lora_back)(struct grad *, float *dx, float *da, float *db, const float *dy, const void *x,
                    const struct tensor *a, const struct tensor *b, float scale, uint32_t T);
  /* Of the RMS norm of x[T][n] with w: dx is added to, dw[n] (NULL: not wanted) too. */
  void (*norm_back)(struct grad *, float *dx, float *dw, const float *dy, const void *x,
                    const struct tensor *w, float eps, uint32_t T, uint32_t n);
  /* Of ops norm_rope: d[T][heads][head_dim] in place, x what norm_rope was given (not read where
   * w->data is NULL); dw[head_dim] += unless NULL. */
  void (*norm_rope_back)(struct grad *, float *d, float *dw, const void *x, const struct tensor *w,
                         float eps, const float *turn, uint32_t T, uint32_t heads,
                         uint32_t head_dim);
  void (*swiglu_back)(struct grad *, float *dgate, float *dup, const float *dy, const void *gate,
                      const void *up, size_t n);
  /* dtable[token[t]] += dy[t], rows in order. */
  void (*embed_back)(struct grad *, float *dtable, const float *dy, const int32_t *token,
                     uint32_t T, uint32_t hidden);
  /* loss[t] = -log softmax(logits[t])[target[t]] and its gradient; both 0 where target[t] < 0. */
  void (*cross_entropy)(struct grad *, float *loss, float *dlogits, const void *logits,
                        const int32_t *target, uint32_t T, uint32_t vocab);

  /* ---- the step ---- */
  void (*zero)(struct grad *, float *x, size_t n);
  void (*add)(struct grad *, float *to, const float *from, size_t n);
  /* Sum of squares, in a fixed order, of pieces in double. */
  double (*square_sum)(struct grad *, const float *x, size_t n);
  void (*adamw)(struct grad *, const struct grad_adamw *s);
  /* to->data[i] = from[i], rounded to to's type. */
  void (*publish)(struct grad *, const struct tensor *to, const float *from);
};

/* Every backend's struct grad starts with this. */
struct grad {
  const struct grad_table *table;
  struct ops *ops;
};

/* What a struct grad must be able to take. */
struct grad_limits {
  uint32_t tokens;     /* rows of a micro-batch */
  uint32_t width;      /* of the widest activation */
  uint32_t seq_tokens; /* rows of the longest sequence */
  uint32_t head_dim;
  uint32_t rank; /* of LoRA, 0: none */
};

#endif
