/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A LoRA adapter as PEFT writes it: adapter_config.json and adapter_model.safetensors. A linear
 * layer with one computes y = x W^T + scale * (x A^T) B^T, with A [rank][in], B [out][rank].
 */
#ifndef BACKEND_ADAPTER_H
#define BACKEND_ADAPTER_H

#include "backend/config.h"

/* The linear layers of a transformer layer that may have one. */
enum adapter_target { LORA_Q, LORA_K, LORA_V, LORA_O, LORA_GATE, LORA_UP, LORA_DOWN, LORA_TARGETS };

enum { ADAPTER_RANK_MAX = 4096 };

struct adapter_pair {
  struct tensor a, b; /* data NULL: this layer has none */
};

struct adapter {
  uint32_t rank, layers;
  float scale;               /* lora_alpha / rank, or / sqrt(rank) with use_rslora */
  struct adapter_pair *pair; /* [layers][LORA_TARGETS] row-major */
  void *owned;
};

/* What adapter_config.json says. */
struct adapter_config {
  uint32_t rank;
  float scale;      /* as in struct adapter */
  unsigned targets; /* bits of 1 << LORA_x */
};
/* Reads the text of one; `name` for messages. BASE_INPUT: a missing or impossible value, a feature
 * that is not built. */
int adapter_config_parse(const char *text, size_t size, const char *name, struct adapter_config *c,
                         struct base_error *e);

/* BASE_INPUT if it is not of a model of this shape: another base, rank or shape is named with both
 * values; features that are not built (dora, bias, modules to save) are refused. */
struct adapter *adapter_open(const char *folder, const struct config *base, struct base_error *e);
/* A ~ normal of mean 0 and deviation 1/rank by Philox, B zero: as a fresh one starts; `targets`:
 * bits of 1 << LORA_x. In memory that may be written to. */
struct adapter *adapter_random(const struct config *base, uint32_t rank, float alpha,
                               unsigned targets, uint64_t seed, int dtype, struct base_error *e);
/* Makes the folder if it is missing; each file whole or not at all. Every layer must have the same
 * targets: PEFT cannot say anything else. */
int adapter_write(const struct adapter *a, const char *folder, struct base_error *e);
void adapter_free(struct adapter *a);
/* Input and output width of a target. */
void adapter_shape(const struct config *c, int target, uint32_t *in, uint32_t *out);

#endif
