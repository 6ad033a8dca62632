/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The shapes of a decoder-only transformer with grouped-query attention and a gated MLP: all that
 * the costs need to know of a model. Read from a description (models/data/NAME.xml, or a file).
 *
 *   struct llm m;
 *   if (llm_open("qwen3-8b", &m, &e))
 *     return -1;
 */
#ifndef MODELS_LLM_H
#define MODELS_LLM_H

#include <stdint.h>

#include "base/error.h"

struct llm {
  char name[64];
  uint32_t hidden, layers;
  uint32_t q_heads, kv_heads, head_dim; /* head_dim is not hidden / q_heads in general */
  uint32_t intermediate;                /* width of gate and up, each */
  uint32_t vocab;                       /* rows of the embedding, padding included */
  uint32_t max_position;                /* longest sequence, tokens */
  int tied;                             /* head and embedding are one matrix */
  int qk_norm;                          /* RMS norm of each query and key head */
  int qkv_bias;
  int64_t parameters; /* counted from the shapes */
  char source[192];   /* where the shapes come from */
};

/* By name or path; BASE_INPUT if unknown (with the nearest) or wrong. */
int llm_open(const char *name_or_path, struct llm *m, struct base_error *e);
/* The part of a model that one GPU of a tensor-parallel group of tp runs: heads, intermediate and
 * vocabulary are split, KV heads as far as there are so many. BASE_INPUT if they cannot be split.
 */
int llm_shard(const struct llm *m, uint32_t tp, struct llm *part, struct base_error *e);
/* Bytes of weights on a GPU: the linear layers at linear_bytes each, all else in bf16. */
int64_t llm_weight_bytes(const struct llm *m, int linear_bytes);
/* Bytes of keys and values that one token holds, over all layers, at element_bytes an element. */
int64_t llm_kv_bytes_per_token(const struct llm *m, int element_bytes);

#endif
