/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a checkpoint says of its model: Hugging Face config.json of the Qwen3, Qwen2 and Llama
 * families, which differ here by flags only.
 */
#ifndef BACKEND_CONFIG_H
#define BACKEND_CONFIG_H

#include <stdint.h>

#include "backend/tensor.h"
#include "base/error.h"

enum config_family { CONFIG_QWEN3, CONFIG_QWEN2, CONFIG_LLAMA };

enum { CONFIG_EOS = 8 };

struct config {
  int family; /* enum config_family */
  uint32_t hidden, layers;
  uint32_t q_heads, kv_heads, head_dim; /* head_dim is not hidden / q_heads in general */
  uint32_t intermediate, vocab;
  uint32_t max_position; /* longest sequence, tokens */
  double rms_eps, rope_theta;
  /* Llama-3's scaling of RoPE frequencies; factor 0: none. */
  double rope_factor, rope_low_freq, rope_high_freq;
  uint32_t rope_original; /* original_max_position_embeddings */
  int tied;               /* head and embedding are one matrix */
  int qk_norm;            /* RMS norm of each query and key head, before RoPE */
  int qkv_bias;
  int dtype;   /* enum tensor_dtype, of the checkpoint */
  int32_t bos; /* -1: none */
  int32_t eos[CONFIG_EOS];
  uint32_t neos;
};

/* Reads a file. BASE_INPUT with file and what is wrong: unknown architecture, a missing or
 * impossible value, a feature that is not built (sliding window in use, other RoPE scalings, other
 * activations). */
int config_read(const char *path, struct config *c, struct base_error *e);
/* The same of `size` bytes of text; `name` for messages. */
int config_parse(const char *text, size_t size, const char *name, struct config *c,
                 struct base_error *e);
/* Writes a config.json that config_read and transformers read. */
int config_write(const char *path, const struct config *c, struct base_error *e);
/* Number of parameters, the tied head counted once. */
int64_t config_parameters(const struct config *c);
/* Bytes of keys and values of one token over all layers, at element_bytes an element. */
int64_t config_kv_bytes(const struct config *c, size_t element_bytes);

#endif
