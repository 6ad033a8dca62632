/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of the CPU's training operations, and its products. */
#include "backend/cpu/grad.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels.h"

void grad_share(size_t n, size_t unit, unsigned thread, unsigned threads, size_t *from, size_t *to)
{
  size_t units = (n + unit - 1) / unit, last = units * (thread + 1) / threads * unit;
  *from = units * thread / threads * unit;
  *to = last < n ? last : n;
}

/* Multiplications below which waking threads costs more than they do. */
enum { SMALL = 1 << 15 };

void grad_run(struct cpu_grad *g, cpu_pool_fn *fn, void *job, double work)
{
  if (work < SMALL)
    cpu_pool_run_alone(g->pool, fn, job);
  else
    cpu_pool_run(g->pool, fn, job);
}

struct product {
  const struct grad_kernels *k;
  const struct grad_gemm *p;
};

static void product_share(void *job, unsigned thread, unsigned threads)
{
  const struct product *j = job;
  size_t from, to;
  grad_share(grad_gemm_units(j->p), 1, thread, threads, &from, &to);
  j->k->gemm(j->p, (uint32_t)from, (uint32_t)to);
}

void grad_product(struct cpu_grad *g, const struct grad_gemm *p)
{
  grad_run(g, product_share, &(struct product){g->k, p}, (double)p->m * p->n * p->r);
}

static void linear_back(struct grad *base, float *dx, const float *dy, const struct tensor *w,
                        uint32_t T, int add)
{
  grad_product((struct cpu_grad *)base, &(struct grad_gemm){.c = dx,
                                                            .ldc = w->cols,
                                                            .m = T,
                                                            .n = w->cols,
                                                            .r = w->rows,
                                                            .a = dy,
                                                            .am = w->rows,
                                                            .ar = 1,
                                                            .b = w->data,
                                                            .b_dtype = w->dtype,
                                                            .br = w->cols,
                                                            .bn = 1,
                                                            .add = add});
}

/* c[m][n] += a^T b, of a[r][m] and b[r][n]: how all gradients of weights look. */
static void outer_sum(struct cpu_grad *g, float *c, const float *a, const float *b, uint32_t m,
                      uint32_t n, uint32_t r)
{
  grad_product(g, &(struct grad_gemm){.c = c,
                                      .ldc = n,
                                      .m = m,
                                      .n = n,
                                      .r = r,
                                      .a = a,
                                      .am = 1,
                                      .ar = m,
                                      .b = b,
                                      .b_dtype = TENSOR_F32,
                                      .br = n,
                                      .bn = 1,
                                      .add = 1});
}

static void weight_back(struct grad *base, float *dw, float *db, const float *dy, const void *x,
                        uint32_t T, uint32_t in, uint32_t out)
{
  struct cpu_grad *g = (struct cpu_grad *)base;
  outer_sum(g, dw, dy, x, out, in, T);
  for (uint32_t t = 0; db && t < T; t++)
    g->k->axpy(db, dy + (size_t)t * out, 1, out);
}

/* With s = x a^T and u = scale dy b: da += u^T x, db += scale dy^T s, dx += u a. */
static void lora_back(struct grad *base, float *dx, float *da, float *db, const float *dy,
                      const void *x, const struct tensor *a, const struct tensor *b, float scale,
                      uint32_t T)
{
  struct cpu_grad *g = (struct cpu_grad *)base;
  uint32_t rank = a->rows, in = a->cols, out = b->rows;
  assert(rank <= g->most.rank && T <= g->most.tokens);
  grad_product(g, &(struct grad_gemm){.c = g->low_x,
                                      .ldc = rank,
                                      .m = T,
                                      .n = rank,
                                      .r = in,
                                      .a = x,
                                      .am = in,
                                      .ar = 1,
                                      .b = a->data,
                                      .b_dtype = a->dtype,
                                      .br = 1,
                                      .bn = in});
  memset(g->low_y, 0, (size_t)T * rank * sizeof *g->low_y);
  linear_back(base, g->low_y, dy, b, T, 0);
  for (size_t i = 0; i < (size_t)T * rank; i++) {
    g->low_x[i] *= scale;
    g->low_y[i] *= scale;
  }
  outer_sum(g, da, g->low_y, x, rank, in, T);
  outer_sum(g, db, dy, g->low_x, out, rank, T);
  linear_back(base, dx, g->low_y, a, T, 1);
}

static const struct grad_table table = {
    .rotation = grad_rotation,
    .attention = grad_attention,
    .attention_back = grad_attention_back,
    .linear_back = linear_back,
    .weight_back = weight_back,
    .lora_back = lora_back,
    .norm_back = grad_norm_back,
    .norm_rope_back = grad_norm_rope_back,
    .swiglu_back = grad_swiglu_back,
    .embed_back = grad_embed_back,
    .cross_entropy = grad_cross_entropy,
    .zero = grad_zero,
    .add = grad_add,
    .square_sum = grad_square_sum,
    .adamw = grad_adamw_step,
    .publish = grad_publish,
};

static float *floats(size_t n)
{
  return aligned_alloc(64, (n * sizeof(float) + 64) / 64 * 64);
}

struct grad *cpu_grad_create(struct ops *ops, const struct grad_limits *most, struct base_error *e)
{
  struct cpu_grad *g = calloc(1, sizeof *g);
  if (!g) {
    base_fail_memory(e);
    return NULL;
  }
  *g = (struct cpu_grad){.base = {&table, ops},
                         .k = cpu_ops_kernels(ops)->grad,
                         .pool = cpu_ops_pool(ops),
                         .most = *most,
                         .round = ops->dtype == TENSOR_BF16};
  size_t threads = (size_t)cpu_pool_threads(g->pool);
  g->inverse = floats((size_t)most->tokens * (most->width / most->head_dim + 1));
  g->weight = floats(most->width);
  g->low_x = floats((size_t)most->tokens * most->rank);
  g->low_y = floats((size_t)most->tokens * most->rank);
  g->scores = floats(threads * 2 * GRAD_ROWS * most->seq_tokens);
  if (!g->inverse || !g->weight || !g->low_x || !g->low_y || !g->scores) {
    cpu_grad_destroy(&g->base);
    base_fail_memory(e);
    return NULL;
  }
  return &g->base;
}

void cpu_grad_destroy(struct grad *base)
{
  struct cpu_grad *g = (struct cpu_grad *)base;
  if (!g)
    return;
  free(g->inverse);
  free(g->weight);
  free(g->low_x);
  free(g->low_y);
  free(g->scores);
  free(g);
}
