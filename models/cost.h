/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a step costs, in integer ticks. A cost model is compiled once, from a calibration or from
 * the analytic coefficients of a scenario, for one server's settings; evaluating it is integer
 * arithmetic only, so a step costs the same number of ticks on every machine.
 *
 *   ticks = tokens part + attention
 *
 * The attention of a step without chunks is piecewise linear in the sum of contexts at a fixed
 * number of rows, with an integer number of ticks a token within a piece (contract F22): between
 * knots a run of equal steps is one arithmetic series. If the contexts are uneven, a part comes on
 * top that grows with rows * longest context - sum of contexts: a constant of a run, for all rows
 * grow alike.
 *
 * With chunks it is either the sum of that and a curve over the chunks' attended pairs, or (a
 * calibration whose law is TABLES) one lookup by chunk, its history, rows and their context, as
 * kernels do chunks and rows in one call. Such steps are told one at a time.
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
  int64_t ctx_max_q16;   /* KV tokens before the step of the row that has most, 16 fraction bits;
                            0: not known, all rows are taken as even */
};

/* Its cost. ticks >= 1. */
struct cost_step {
  lull_ticks ticks; /* the whole step */
  lull_ticks slope; /* of these, slope * ctx_q16 >> 16 grow with the rows' contexts (the law, if
                       ctx_max_q16 is 0, or grows by the rows' mean growth as ctx_q16 does) */
  lull_ticks chunk_part; /* of these, attention of the chunks (TABLES: all attention that exceeds
                            what the rows' would be without chunks) */
  lull_ticks host;       /* of these, host time: no kernel runs */
  int64_t ctx_end_q16;   /* the law holds for ctx_q16 below this (INT64_MAX: for ever; TABLES with
                            chunks: for no other ctx_q16) */
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

/* Named parameters of a scenario for what no table holds, all with their reason in the file. A
 * calibration by TABLES holds every kernel: element-wise and draft parameters must then be 0. */
struct cost_settings {
  uint32_t max_rows;         /* rows that the server may hold (max sequences) */
  uint32_t max_tokens;       /* most tokens of a step: token budget + max_rows * row_tokens */
  uint32_t draft_depth;      /* speculative tokens a step, 0: none; row_tokens = 1 + depth */
  lull_time host_step;       /* host time a step that comes on top of its kernels, ps */
  lull_time host_overlapped; /* and that runs beside the kernels of the step before, so that a
                                step's kernels and the wait for it last the longer of the two */
  uint32_t
      graph_tokens;   /* most tokens of a step whose kernels are replayed from a captured graph */
  lull_time launches; /* what launching kernels one by one takes in the others, ps a layer */
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
/*
 * What of a shape was not measured, as bits: beyond the largest measured size (the last interval
 * goes on), or, shifted by COST_BELOW, under the smallest (its time stays: the launch floor).
 */
enum cost_outside {
  COST_TOKENS = 1,    /* tokens of the step */
  COST_POSITIONS = 2, /* sampled positions */
  COST_ROWS = 4,      /* decode rows */
  COST_CONTEXT = 8,   /* their mean context */
  COST_CHUNK = 16,    /* chunk tokens, or (law PAIRS) attended pairs */
  COST_HISTORY = 32,  /* history of the chunk */
  COST_KINDS = 6,
  COST_BELOW = 8,        /* a shift, not a bit */
  COST_SEVERAL = 1 << 16 /* several chunks were looked up as one of their tokens and pairs */
};
/* Can cost_outside() be anything but 0? Not of an analytic cost. */
int cost_is_measured(const struct cost_model *m);
/* 0 if all was measured as it is (an analytic cost: always); pure. */
unsigned cost_outside(const struct cost_model *m, const struct cost_shape *s);

/* "tokens", ... by bit number, for reports. */
extern const char *const cost_outside_name[COST_KINDS];

/* Steps by what of them was not measured. A step counts once in each kind that holds for it. */
struct cost_misses {
  uint64_t beyond[COST_KINDS], below[COST_KINDS]; /* by bit number of enum cost_outside */
  uint64_t several;                               /* with several chunks looked up as one */
  uint64_t steps;                                 /* of any kind but `several` */
};
/* Counts n steps, the first of shape s, from each of which to the next the rows' contexts grow by
 * inc_q16 in all, >= 0, and nothing else changes. Exact: the same as n calls with one step. */
void cost_count_outside(const struct cost_model *m, const struct cost_shape *s, int64_t inc_q16,
                        uint64_t n, struct cost_misses *misses);
void cost_misses_add(struct cost_misses *into, const struct cost_misses *more);
/* Does the cost of a step depend on cost_shape.ctx_max_q16? If not it need not be filled. */
int cost_needs_longest(const struct cost_model *m);
/* 1 if the shape lies within the measured range, 0 if a lookup was extrapolated or clamped. */
int cost_covers(const struct cost_model *m, const struct cost_shape *s);
uint32_t cost_row_tokens(const struct cost_model *m);

#endif
