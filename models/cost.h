/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a step costs, in integer ticks. A cost model is compiled once, from a calibration or from
 * the analytic coefficients of a scenario, for one server's settings; evaluating it is integer
 * arithmetic only, so a step costs the same number of ticks on every machine.
 *
 *   ticks = tokens part + attention of the decode rows + attention of the chunks
 *
 * The decode attention is piecewise linear in the sum of contexts at a fixed number of rows, with
 * an integer number of ticks a token within a piece (contract F22): between knots a run of equal
 * steps is one arithmetic series.
 */
#ifndef MODELS_COST_H
#define MODELS_COST_H

#include <lull/types.h>
#include <stdint.h>

#include "base/error.h"

struct lull_batch;
struct calibration;

/* One step's composition. */
struct cost_shape {
  uint32_t rows;         /* decode rows, each computing row_tokens of the model */
  int64_t ctx_q16;       /* sum of their KV tokens before the step, 16 fraction bits */
  uint32_t chunk_tokens; /* prompt tokens of all chunks */
  uint32_t chunks;       /* how many chunks */
  uint32_t chunk_ends;   /* chunks that complete their prompt: each samples one token */
  int64_t chunk_work;    /* attended pairs: sum of tokens * start + tokens * (tokens + 1) / 2 */
};

/* Its cost. ticks >= 1. */
struct cost_step {
  lull_ticks ticks; /* the whole step */
  lull_ticks slope; /* of these, slope * ctx_q16 >> 16 grow with the rows' contexts (the law) */
  lull_ticks chunk_part; /* of these, attention of the chunks */
  lull_ticks host;       /* of these, host time: no kernel runs */
  int64_t ctx_end_q16;   /* the law holds for ctx_q16 below this (INT64_MAX: for ever) */
};

struct cost_model; /* opaque, immutable: may be shared by servers and threads */

/*
 * ticks = base + per_token * tokens + per_row * rows + (per_ctx * ctx_q16 >> 16)
 *         + per_pair_q16 * chunk_work >> 16, at least 1; tokens = rows * row_tokens + chunk_tokens.
 * All coefficients in ticks, >= 0. NULL when out of memory.
 */
struct cost_analytic {
  lull_ticks base, per_token, per_row, per_ctx, per_pair_q16;
};
struct cost_model *cost_from_analytic(const struct cost_analytic *a, uint32_t row_tokens,
                                      struct base_error *e);

/* Named parameters of a scenario for what no table holds, all with their reason in the file. */
struct cost_settings {
  uint32_t max_rows;               /* rows that the server may hold (max sequences) */
  uint32_t max_tokens;             /* most tokens of a step: token budget + max_rows * row_tokens */
  uint32_t draft_depth;            /* speculative tokens a step, 0: none; row_tokens = 1 + depth */
  lull_time host_step;             /* host time a step, ps */
  uint32_t elementwise_kernels;    /* element-wise kernels a layer */
  lull_time elementwise_launch;    /* of one, ps */
  int64_t elementwise_bytes_per_s; /* their bandwidth; bytes moved are stated in cost.c */
  int64_t draft_layers_ppm; /* size of the draft head in layers of the model, parts a million */
  lull_time draft_head;     /* its vocabulary head, ps a pass */
};
/* Compiles a calibration. Fails (BASE_INPUT) if it does not cover the shapes that the settings
 * allow. The calibration may be freed afterwards. */
struct cost_model *cost_from_calibration(const struct calibration *c, const struct cost_settings *s,
                                         struct base_error *e);
void cost_free(struct cost_model *m);

/* Evaluates; pure. rows and tokens within what it was compiled for (beyond: the last interval is
 * extended and counted by the caller through cost_covers). */
void cost_eval(const struct cost_model *m, const struct cost_shape *s, struct cost_step *out);
/* 1 if the shape lies within the measured range, 0 if a lookup was extrapolated. */
int cost_covers(const struct cost_model *m, const struct cost_shape *s);
uint32_t cost_row_tokens(const struct cost_model *m);

#endif
