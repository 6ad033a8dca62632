/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What one kernel path computes of training. All sums run in an order given by the shapes.
 */
#ifndef BACKEND_CPU_GRAD_KERNELS_H
#define BACKEND_CPU_GRAD_KERNELS_H

#include "backend/grad.h"

/* c[m][n] = or += a b, each element one chain of multiply-adds over r in order, so that it does not
 * depend on how the product is cut. */
struct grad_gemm {
  float *c;
  size_t ldc;
  uint32_t m, n, r;
  const float *a; /* a[i][k] at a + i * am + k * ar */
  size_t am, ar;
  const void *b; /* b[k][j] at element k * br + j * bn */
  int b_dtype;   /* enum tensor_dtype */
  size_t br, bn;
  int add;
};

/* Columns and rows of c that are one unit of work. */
enum { GRAD_PANEL = 48, GRAD_BAND = 96 };

struct grad_kernels {
  /* Units begin .. end - 1 of grad_gemm_units. */
  void (*gemm)(const struct grad_gemm *g, uint32_t begin, uint32_t end);
  float (*dot)(const float *x, const float *y, size_t n);
  float (*max)(const float *x, size_t n); /* n >= 1 */
  /* x = exp(scale * x - shift); returns the sum */
  float (*exp)(float *x, float scale, float shift, size_t n);
  /* y += scale * x */
  void (*axpy)(float *y, const float *x, float scale, size_t n);
  /* ds = p * (ds - delta) * scale */
  void (*softmax_back)(float *ds, const float *p, float delta, float scale, size_t n);
  void (*swiglu_back)(float *dgate, float *dup, const float *dy, const float *gate, const float *up,
                      size_t n);
  void (*adamw)(const struct grad_adamw *s, size_t begin, size_t end);
};

static inline uint32_t grad_gemm_units(const struct grad_gemm *g)
{
  return (g->n + GRAD_PANEL - 1) / GRAD_PANEL * ((g->m + GRAD_BAND - 1) / GRAD_BAND);
}

#endif
