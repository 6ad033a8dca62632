/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What operators cost by the data sheet of a GPU and the shapes of a model: the larger of
 * multiplications and bytes at a share of the peaks, and a fixed time a kernel. For parts that no
 * table holds, and for models and GPUs without tables. The shares are rounded from what the
 * published tables reach (docs/holdout.md says how far off the result is); integers only.
 */
#ifndef CALIB_ROOFLINE_H
#define CALIB_ROOFLINE_H

#include <stdint.h>

#include "base/error.h"

struct calibration;
struct gpu;
struct llm;

enum {
  ROOFLINE_GEMM_FLOPS = 80,    /* % of the peak that matrix products reach */
  ROOFLINE_BYTES = 80,         /* % of the memory's peak: matrix products, element-wise kernels */
  ROOFLINE_PREFILL_FLOPS = 55, /* % of the peak: attention of prompts */
  ROOFLINE_DECODE_TILE =
      128, /* KV tokens that a decode row costs at least: one tile of the kernel */
  ROOFLINE_DECODE_BYTES = 85, /* % of the memory's peak: attention of decode rows */
  ROOFLINE_ELEMENTWISE = 5    /* element-wise kernels a layer: two norms, rotation, write of keys
                                 and values, activation */
};
#define ROOFLINE_GEMM_PS 4000000       /* fixed time of a matrix product */
#define ROOFLINE_KERNEL_PS 2500000     /* of an element-wise kernel */
#define ROOFLINE_ATTENTION_PS 12000000 /* of an attention kernel */
#define ROOFLINE_SAMPLER_PS 25000000   /* of the sampler's kernels together */

/* What is costed: the part of a model that one GPU runs (llm_shard). */
struct roofline {
  const struct llm *part;
  const struct gpu *gpu;
  int weight_bytes, kv_bytes; /* of an element: 1 (fp8) or 2 */
};

/* One linear operator: tokens x k times k x n. */
struct roofline_linear {
  int64_t n, k;
};
enum { ROOFLINE_LINEARS = 4 };
/* A layer's, fused as engines run them: q, k and v; output; gate and up; down. */
void roofline_linears(const struct llm *part, struct roofline_linear out[ROOFLINE_LINEARS]);

/* Times in ps; of one layer unless said. */
int64_t roofline_gemm(const struct roofline *r, int element_bytes, int64_t m, int64_t n, int64_t k);
int64_t roofline_elementwise(const struct roofline *r, int64_t tokens);
int64_t roofline_once(const struct roofline *r, int64_t tokens); /* a step: embedding, final norm */
int64_t roofline_head(const struct roofline *r, int64_t positions); /* a step: the LM head, bf16 */
int64_t roofline_sampler(const struct roofline *r, int64_t positions, uint32_t tp); /* a step */
int64_t roofline_prompt(const struct roofline *r, int64_t chunk, int64_t history);
int64_t roofline_decode(const struct roofline *r, int64_t rows, int64_t ctx);

#endif
