/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How a token is chosen from its logits. Nothing here depends on other rows. */
#ifndef BACKEND_CPU_SAMPLE_H
#define BACKEND_CPU_SAMPLE_H

#include "backend/cpu/kernels.h"

/* Bytes of memory that cpu_sample_row wants for a vocabulary. */
size_t cpu_sample_bytes(uint32_t vocab);
/* The token; `space` has room as above. vocab >= 1. */
int32_t cpu_sample_row(const struct cpu_kernels *k, const float *logit,
                       const struct ops_sample *how, uint32_t vocab, void *space);
/* Log-probability of a token, at temperature 1. */
float cpu_logprob(const struct cpu_kernels *k, const float *logit, uint32_t vocab, int32_t token);

#endif
