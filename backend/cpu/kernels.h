/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What one kernel path computes. Each function does the share of thread `thread` of `threads` of a
 * job, in float arrays; `round` says that results are rounded to bf16. How work is shared out never
 * changes bits.
 */
#ifndef BACKEND_CPU_KERNELS_H
#define BACKEND_CPU_KERNELS_H

#include "backend/cpu/grad_kernels.h"
#include "backend/cpu/pool.h"
#include "backend/ops.h"

/* Bytes that each thread has for what it unpacks. */
enum { CPU_SCRATCH = 4 << 20 };
/* Keys that attention takes at once; their borders are multiples of it. */
enum { CPU_TILE = 32 };
/* The largest head. */
enum { CPU_HEAD_DIM = 512 };
/* The widest row that `linear` reads: as bf16 six of them fit a thread's scratch. */
enum { CPU_WIDTH = CPU_SCRATCH / 2 / 6 };
/* The most query heads of a key head. */
enum { CPU_GROUP = 512 };

struct cpu_linear {
  float *y;
  const float *x;
  const struct tensor *w, *bias; /* bias NULL or without data: none */
  uint32_t rows;
  int round;
  char *scratch; /* thread i's: scratch + i * CPU_SCRATCH */
};

struct cpu_norm {
  float *y, *x;
  const float *add; /* NULL: nothing */
  const struct tensor *w;
  float eps;
  uint32_t rows, n;
  int round;
};

struct cpu_rope {
  float *x;
  const struct tensor *w; /* NULL or without data: no norm */
  float eps;
  const float *inv_freq;
  const uint32_t *position;
  uint32_t rows, heads, head_dim;
  int round;
};

struct cpu_attention {
  float *y;
  const float *q;
  const struct ops_kv *kv;
  uint32_t layer;
  const struct ops_seq *seq;
  uint32_t nseq, q_heads;
  int round;
  char *scratch;
};

struct cpu_swiglu {
  float *y;
  const float *gate, *up;
  size_t n;
  int round;
};

struct cpu_kernels {
  const char *name;
  int bf16_only; /* for ops of dtype TENSOR_BF16 alone */
  cpu_pool_fn *linear, *norm, *rope, *attention, *swiglu;
  /* y = round(y + round(scale * d)) */
  void (*add_scaled)(float *y, const float *d, float scale, size_t n, int round);
  float (*max)(const float *x, size_t n);                 /* n >= 1 */
  double (*exp_sum)(const float *x, float max, size_t n); /* of exp(x - max) */
  const struct grad_kernels *grad;                        /* of training */
};

extern const struct cpu_kernels cpu_kernels_avx512_bf16, cpu_kernels_avx512, cpu_kernels_avx2,
    cpu_kernels_scalar;

/* What an ops of cpu_ops_create runs on. */
struct cpu_pool *cpu_ops_pool(struct ops *ops);
const struct cpu_kernels *cpu_ops_kernels(struct ops *ops);

/* Where rows begin of the share of a thread, of n things in units of `unit`. */
static inline uint32_t cpu_share(uint32_t n, uint32_t unit, unsigned thread, unsigned threads)
{
  uint64_t units = ((uint64_t)n + unit - 1) / unit;
  uint64_t at = units * thread / threads * unit;
  return at < n ? (uint32_t)at : n;
}

/* First of a page's keys (which 0) or values (1) of a layer, in elements from the pages' base. */
static inline size_t cpu_kv_at(const struct ops_kv *kv, int32_t page, uint32_t layer, int which)
{
  return (((size_t)page * kv->layers + layer) * 2 + (size_t)which) * kv->block_tokens *
         kv->kv_heads * kv->head_dim;
}

#endif
