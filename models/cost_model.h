/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A compiled cost model: integer tables. Private to models/cost*.c.
 */
#ifndef MODELS_COST_MODEL_H
#define MODELS_COST_MODEL_H

#include "models/cost.h"
#include "models/cost_bytes.h"
#include "models/lattice.h"

/*
 * One piece of the decode attention at a fixed number of rows: from the sum of contexts start_q16
 * (a whole number of tokens) to that of the next piece,
 *   ticks = start + (slope * (ctx_q16 - start_q16) >> 16),
 * with slope * start_q16 >> 16 <= start (law TABLES: <= start and all else of a step with these
 * rows and no chunk), so that slope * ctx_q16 >> 16 never exceeds the step's ticks.
 */
struct cost_piece {
  int64_t start_q16;
  lull_ticks start, slope;
};

struct cost_model {
  int analytic;
  int small; /* analytic, and no coefficient is so large that products need care: see cost.c */
  uint32_t row_tokens;
  struct cost_analytic a; /* analytic only; all below: calibrated only */
  uint32_t layers;
  uint32_t max_rows, max_tokens, max_positions;
  lull_ticks host;        /* a step's, which comes on top */
  lull_ticks floor;       /* shortest step: that, and what of the host runs beside the kernels */
  lull_ticks *token_part; /* [max_tokens + 1]: all but attention, head and draft; host */
  lull_ticks *head;       /* [max_positions + 1] */
  lull_ticks *draft;      /* [max_rows + 1] */
  uint32_t npieces;
  struct cost_piece *piece; /* [(max_rows + 1) * npieces], of each row count ascending */
  int64_t *ctx_limit;       /* [max_rows + 1]: largest measured mean context, tokens */
  uint32_t nprefill;
  int64_t *prefill_x, *prefill_y;  /* [nprefill]: pairs, ps of one layer */
  int64_t prefill_token_fs;        /* of one layer */
  int64_t min_tokens, last_tokens; /* fewest and most measured */
  int64_t last_positions;          /* most measured */
  int64_t min_context;             /* shortest measured mean context */
  /* Law TABLES; else rank 0 and NULL. ps of one layer: */
  struct lattice prompt; /* chunk, history */
  struct lattice mixed;  /* chunk, history, rows, context */
  int64_t *skew_q8;      /* [max_rows + 1]: ticks for each token that a row lacks to the longest, 8
                            fraction bits; steps without chunks */
  int64_t *skew_ppm; /* [max_rows + 1]: share of the way to the time of the longest; with chunks */
  int uneven;        /* some share of either is not 0: uneven batches cost more */
  int every_chunk;   /* every chunk is sampled, not only those that end their prompt */
};

/* Attention of a step with chunks by tables: ticks, all layers. */
lull_ticks cost_table_attention(const struct cost_model *m, const struct cost_shape *s);
/* The bits of enum cost_outside for it. */
unsigned cost_table_outside(const struct cost_model *m, const struct cost_shape *s);
/* Fills the part of law TABLES, all else being set. -1: out of memory. */
struct calibration;
int cost_table_compile(const struct calibration *c, struct cost_model *m);

static inline int cost_by_tables(const struct cost_model *m)
{
  return m->mixed.rank != 0;
}

/* What rows * longest context exceeds the sum of contexts by, 16 fraction bits; 0: even. */
static inline __int128 cost_unevenness(const struct cost_shape *s)
{
  __int128 d = (__int128)s->ctx_max_q16 * s->rows - s->ctx_q16;
  return d > 0 ? d : 0;
}

#endif
