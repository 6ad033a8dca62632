/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The CPU's training operations: what their files share. */
#ifndef BACKEND_CPU_GRAD_H
#define BACKEND_CPU_GRAD_H

#include "backend/cpu/grad_kernels.h"
#include "backend/cpu/pool.h"

/* Rows of queries whose scores are held at once. */
enum { GRAD_ROWS = 64 };
/* Pieces that a long sum is cut into, whatever the number of threads. */
enum { GRAD_PIECES = 256 };

struct cpu_grad {
  struct grad base;
  const struct grad_kernels *k;
  struct cpu_pool *pool;
  struct grad_limits most;
  int round;                 /* results of the forward pass are rounded to bf16 */
  float *inverse;            /* 1 / rms of each row or head of a norm */
  float *weight;             /* [width], of a norm, widened */
  float *low_x, *low_y;      /* [tokens][rank] */
  float *scores;             /* a thread's: 2 [GRAD_ROWS][seq_tokens] */
  double piece[GRAD_PIECES]; /* sums */
};

/* Has all threads do their shares of a job; of one with little work (multiplications, or what takes
 * as long), the caller does it alone: bits are the same. */
void grad_run(struct cpu_grad *g, cpu_pool_fn *fn, void *job, double work);
/* c = a b by all threads. */
void grad_product(struct cpu_grad *g, const struct grad_gemm *p);
/* A thread's share [*from, *to) of n things in units of `unit`. */
void grad_share(size_t n, size_t unit, unsigned thread, unsigned threads, size_t *from, size_t *to);

void grad_attention(struct grad *, void *y, float *lse, const void *q, const void *k, const void *v,
                    const struct grad_seq *seq, uint32_t nseq, struct grad_heads h);
void grad_attention_back(struct grad *, float *dq, float *dk, float *dv, const float *dy,
                         const void *q, const void *k, const void *v, const void *y,
                         const float *lse, const struct grad_seq *seq, uint32_t nseq,
                         struct grad_heads h);
void grad_rotation(struct grad *, float *turn, const float *inv_freq, const uint32_t *position,
                   uint32_t T, uint32_t head_dim);
void grad_norm_back(struct grad *, float *dx, float *dw, const float *dy, const void *x,
                    const struct tensor *w, float eps, uint32_t T, uint32_t n);
void grad_norm_rope_back(struct grad *, float *d, float *dw, const void *x, const struct tensor *w,
                         float eps, const float *turn, uint32_t T, uint32_t heads,
                         uint32_t head_dim);
void grad_swiglu_back(struct grad *, float *dgate, float *dup, const float *dy, const void *gate,
                      const void *up, size_t n);
void grad_embed_back(struct grad *, float *dtable, const float *dy, const int32_t *token,
                     uint32_t T, uint32_t hidden);
void grad_cross_entropy(struct grad *, float *loss, float *dlogits, const void *logits,
                        const int32_t *target, uint32_t T, uint32_t vocab);
void grad_zero(struct grad *, float *x, size_t n);
void grad_add(struct grad *, float *to, const float *from, size_t n);
double grad_square_sum(struct grad *, const float *x, size_t n);
void grad_adamw_step(struct grad *, const struct grad_adamw *s);
void grad_publish(struct grad *, const struct tensor *to, const float *from);

#endif
