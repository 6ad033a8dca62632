/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What element-wise kernels move: counted from the shapes, for those who have no measurement. */
#ifndef MODELS_COST_BYTES_H
#define MODELS_COST_BYTES_H

#include <stdint.h>

/*
 * Bytes that the element-wise kernels of one layer move for one token, all in bf16 (2 bytes):
 *   two fused additions of the residual with RMS norm: read x and residual, write residual and
 *     the normalised x                                               2 * 4 * hidden * 2
 *   norm of query and key heads, rotation, write of keys and values: read and write
 *     the q, k and v of the token                                    2 * (q + 2 kv) * 2
 *   gated activation: read gate and up, write their product          3 * intermediate * 2
 * where q and kv are heads * head_dim. That is 163,840 B for an 8B model of 36 layers. Weights of
 * the norms, the embedding, the final norm and the sampling are left out: below 1% of these.
 */
static inline int64_t cost_elementwise_bytes(int64_t hidden, int64_t q, int64_t kv,
                                             int64_t intermediate)
{
  return 16 * hidden + 4 * (q + 2 * kv) + 6 * intermediate;
}

#endif
