/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/roofline.h"

#include "models/cost_bytes.h"
#include "models/gpu.h"
#include "models/llm.h"

typedef __int128 wide;

#define PS_PER_S INT64_C(1000000000000)

static int64_t at_rate(wide amount, int64_t per_s, int percent)
{
  return (int64_t)(amount * 100 * PS_PER_S / ((wide)per_s * percent));
}

static int64_t larger(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

void roofline_linears(const struct llm *part, struct roofline_linear out[ROOFLINE_LINEARS])
{
  int64_t h = part->hidden, i = part->intermediate, q = (int64_t)part->q_heads * part->head_dim,
          kv = (int64_t)part->kv_heads * part->head_dim;
  out[0] = (struct roofline_linear){q + 2 * kv, h};
  out[1] = (struct roofline_linear){h, q};
  out[2] = (struct roofline_linear){2 * i, h};
  out[3] = (struct roofline_linear){h, i};
}

int64_t roofline_gemm(const struct roofline *r, int element_bytes, int64_t m, int64_t n, int64_t k)
{
  wide flops = (wide)2 * m * n * k, bytes = (wide)element_bytes * (k * n + k * m) + 2 * m * n;
  int64_t peak = element_bytes == 1 ? r->gpu->fp8_flops : r->gpu->bf16_flops;
  return ROOFLINE_GEMM_PS + larger(at_rate(flops, peak, ROOFLINE_GEMM_FLOPS),
                                   at_rate(bytes, r->gpu->memory_bytes_per_s, ROOFLINE_BYTES));
}

int64_t roofline_elementwise(const struct roofline *r, int64_t tokens)
{
  const struct llm *m = r->part;
  int64_t bytes = cost_elementwise_bytes(m->hidden, (int64_t)m->q_heads * m->head_dim,
                                         (int64_t)m->kv_heads * m->head_dim, m->intermediate);
  return (int64_t)ROOFLINE_ELEMENTWISE * ROOFLINE_KERNEL_PS +
         at_rate((wide)bytes * tokens, r->gpu->memory_bytes_per_s, ROOFLINE_BYTES);
}

/* The embedding reads and writes the hidden state, the norm reads it and its residual and writes
 * one of them. */
int64_t roofline_once(const struct roofline *r, int64_t tokens)
{
  wide bytes = (wide)(2 + 3) * 2 * r->part->hidden * tokens;
  return 2 * INT64_C(1) * ROOFLINE_KERNEL_PS +
         at_rate(bytes, r->gpu->memory_bytes_per_s, ROOFLINE_BYTES);
}

int64_t roofline_head(const struct roofline *r, int64_t positions)
{
  return roofline_gemm(r, 2, positions, r->part->vocab, r->part->hidden);
}

/* One pass over the whole vocabulary's logits in fp32. */
int64_t roofline_sampler(const struct roofline *r, int64_t positions, uint32_t tp)
{
  wide bytes = (wide)4 * r->part->vocab * tp * positions;
  return ROOFLINE_SAMPLER_PS + at_rate(bytes, r->gpu->memory_bytes_per_s, ROOFLINE_BYTES);
}

/* Two products of the queries with the keys and values that they attend; both are bf16 whatever
 * the cache holds. */
int64_t roofline_prompt(const struct roofline *r, int64_t chunk, int64_t history)
{
  const struct llm *m = r->part;
  wide pairs = (wide)chunk * history + (wide)chunk * (chunk + 1) / 2;
  wide flops = 4 * pairs * m->q_heads * m->head_dim;
  wide bytes = (wide)2 * m->kv_heads * m->head_dim * r->kv_bytes * (history + chunk) +
               (wide)4 * m->q_heads * m->head_dim * chunk;
  return ROOFLINE_ATTENTION_PS +
         larger(at_rate(flops, r->gpu->bf16_flops, ROOFLINE_PREFILL_FLOPS),
                at_rate(bytes, r->gpu->memory_bytes_per_s, ROOFLINE_DECODE_BYTES));
}

int64_t roofline_decode(const struct roofline *r, int64_t rows, int64_t ctx)
{
  const struct llm *m = r->part;
  wide bytes = (wide)2 * m->kv_heads * m->head_dim * r->kv_bytes * rows *
               larger(ctx + 1, ROOFLINE_DECODE_TILE);
  return ROOFLINE_ATTENTION_PS + at_rate(bytes, r->gpu->memory_bytes_per_s, ROOFLINE_DECODE_BYTES);
}
