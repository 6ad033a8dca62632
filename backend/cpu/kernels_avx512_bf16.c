/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The kernels with AVX-512 and products of pairs of bf16. */
#include "backend/cpu/kernels.h"

#if defined(__x86_64__)
#include <assert.h>
#include <math.h>
#include <string.h>

/* All that follows is compiled for these instructions, whatever the compiler's flags. */
#if defined(__clang__)
#pragma clang attribute push(                                                                      \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")
#endif
#include <immintrin.h>

#define PATH_NAME "avx512-bf16"
#define PATH_TABLE cpu_kernels_avx512_bf16
#include "backend/cpu/vec_avx512.inc"

/* Pairs of bf16 travel as vectors of floats. */
enum { HAVE_DOT = 1 };
#define HAVE_DOT HAVE_DOT

/* sum[i] += x[2i] w[2i] + x[2i+1] w[2i+1] */
static inline v v_dot(v x, v w, v sum)
{
  return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)w);
}
static inline v v_load_pairs(const void *p)
{
  return v_load(p);
}
static inline v v_load_pairs_n(const void *p, size_t n)
{
  const __mmask32 first = n < 2 * V ? (__mmask32)((1ull << n) - 1) : ~(__mmask32)0;
  return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(first, p));
}
/* x is rounded already: the upper halves are all of it. */
static void pack_row(void *to, const float *x, uint32_t n)
{
  for (uint32_t i = 0; i < n; i += V) {
    const __mmask16 first = v_first(n - i);
    const __m512i u = _mm512_maskz_loadu_epi32(first, x + i);
    _mm256_mask_storeu_epi16((uint16_t *)to + i, first,
                             _mm512_cvtepi32_epi16(_mm512_srli_epi32(u, 16)));
  }
}

#include "backend/cpu/path_table.inc"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
