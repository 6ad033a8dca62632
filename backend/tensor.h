/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A matrix or vector of weights where it lies: in a mapped file, or in memory of its owner.
 * Row-major, little-endian; a vector has one row. Nothing is owned here.
 */
#ifndef BACKEND_TENSOR_H
#define BACKEND_TENSOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum tensor_dtype { TENSOR_F32, TENSOR_BF16 };

struct tensor {
  int dtype;           /* enum tensor_dtype */
  uint32_t rows, cols; /* a linear layer is [out][in] */
  const void *data;    /* NULL: there is none (no bias, no query norm) */
};

static inline size_t tensor_dtype_bytes(int dtype)
{
  return dtype == TENSOR_BF16 ? 2 : 4;
}

static inline size_t tensor_bytes(const struct tensor *t)
{
  return (size_t)t->rows * t->cols * tensor_dtype_bytes(t->dtype);
}

/* bf16 is the upper half of an fp32. Rounds to nearest, ties to even; NaN stays NaN. */
static inline uint16_t bf16_from_f32(float x)
{
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  if ((u & 0x7fffffff) > 0x7f800000)
    return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float bf16_to_f32(uint16_t h)
{
  uint32_t u = (uint32_t)h << 16;
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* Element i, whatever the type. The data may be unaligned: some writers do not pad. */
static inline float tensor_get(const struct tensor *t, size_t i)
{
  const char *at = (const char *)t->data + i * tensor_dtype_bytes(t->dtype);
  if (t->dtype == TENSOR_BF16) {
    uint16_t h;
    memcpy(&h, at, sizeof h);
    return bf16_to_f32(h);
  }
  float x;
  memcpy(&x, at, sizeof x);
  return x;
}

#endif
