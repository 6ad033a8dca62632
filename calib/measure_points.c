/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which steps are timed. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "calib/measure.h"
#include "calib/rows.h"

enum {
  AXIS = 128,
  SEQS_MAX = 1 << 16,
  CONTEXT_MAX = 1 << 20,
  CHUNKS_MAX = 3,
  FIRST_HISTORY = 16,
  FIRST_CONTEXT = 16
};

struct axis {
  uint32_t n, x[AXIS];
};

/* Appends a value that is larger than the last. */
static void append(struct axis *a, uint32_t x)
{
  if (a->n < AXIS && (!a->n || x > a->x[a->n - 1]))
    a->x[a->n++] = x;
}

/* All up to `whole`, then so many steps an octave, and `last`. */
static struct axis ladder(uint32_t whole, uint32_t steps, uint32_t last)
{
  struct axis a = {0};
  for (uint32_t x = 1; x <= last && x <= whole; x++)
    append(&a, x);
  for (uint32_t octave = whole; octave < last; octave *= 2)
    for (uint32_t i = 1; i <= steps && octave + octave * i / steps < last; i++)
      append(&a, octave + octave * i / steps);
  append(&a, last);
  return a;
}

/* `first`, `first` times `factor`, ..., and `last`; perhaps 0 before them. */
static struct axis powers(int zero, uint32_t first, uint32_t factor, uint32_t last)
{
  struct axis a = {0};
  if (zero)
    append(&a, 0);
  for (uint64_t x = first; x < last; x *= factor)
    append(&a, (uint32_t)x);
  if (last)
    append(&a, last);
  return a;
}

/* -------------------------------------------------------------------------------- points ---- */

/* A further point with room for its step; NULL: out of memory. */
static struct measure_point *add_point(struct measurement *m, int kind, uint32_t chunks,
                                       uint32_t rows, struct base_error *e)
{
  struct measure_point *more = rows_grow(m->point, m->n, sizeof *more, e);
  if (!more)
    return NULL;
  m->point = more;
  struct measure_point *p = &more[m->n];
  *p = (struct measure_point){.kind = kind};
  struct bench_chunk *chunk = calloc((size_t)chunks + 1, sizeof *chunk);
  uint32_t *ctx = calloc((size_t)rows + 1, sizeof *ctx);
  p->step = (struct bench_step){chunk, ctx, chunks, rows};
  m->n++;
  if (chunk && ctx)
    return p;
  base_fail_memory(e);
  return NULL;
}

static void set_chunk(struct measure_point *p, uint32_t i, uint32_t start, uint32_t tokens)
{
  ((struct bench_chunk *)p->step.chunk)[i] = (struct bench_chunk){start, tokens};
}

static void set_row(struct measure_point *p, uint32_t i, uint32_t ctx)
{
  ((uint32_t *)p->step.ctx)[i] = ctx;
}

static void count(struct measure_point *p)
{
  p->tokens = p->step.rows;
  p->positions = p->step.rows + p->step.chunks;
  for (uint32_t i = 0; i < p->step.chunks; i++)
    p->tokens += p->step.chunk[i].tokens;
}

static int add_even(struct measurement *m, uint32_t chunk, uint32_t history, uint32_t rows,
                    uint32_t ctx, struct base_error *e)
{
  int kind = !chunk ? MEASURE_DECODE : rows ? MEASURE_MIXED : MEASURE_PROMPT;
  struct measure_point *p = add_point(m, kind, chunk != 0, rows, e);
  if (!p)
    return -1;
  p->chunk = chunk;
  p->history = history;
  p->rows = rows;
  p->ctx = ctx;
  if (chunk)
    set_chunk(p, 0, history, chunk);
  for (uint32_t i = 0; i < rows; i++)
    set_row(p, i, ctx);
  count(p);
  return 0;
}

/* A decode row is of a sequence that has room for its token, and for the one after it. */
static uint32_t longest_ctx(const struct measure_limits *most)
{
  return most->max_context - 2;
}

/* Attention of many rows gets slower where their keys no longer fit into a cache, so that many
 * contexts are needed between short and long. */
static struct axis contexts(const struct measure_limits *most)
{
  struct axis a = {0};
  append(&a, 1);
  for (uint32_t x = FIRST_CONTEXT; x < longest_ctx(most); x *= most->quick ? 4 : 2)
    append(&a, x);
  append(&a, longest_ctx(most));
  return a;
}

static int add_decode(struct measurement *m, struct base_error *e)
{
  const struct measure_limits *most = &m->most;
  struct axis rows = ladder(4, most->quick ? 1 : 2, most->max_seqs);
  struct axis ctx = contexts(most);
  for (uint32_t i = 0; i < rows.n; i++)
    for (uint32_t j = 0; j < ctx.n; j++)
      if (add_even(m, 0, 0, rows.x[i], ctx.x[j], e))
        return -1;
  return 0;
}

/* A chunk behind as many tokens as the axis has, and, if these end well before it, behind as many
 * as may be: nothing near the end is to be extrapolated from its beginning. */
static int add_histories(struct measurement *m, uint32_t chunk, const struct axis *history,
                         struct base_error *e)
{
  uint32_t most = m->most.max_context - 1 - chunk, last = 0;
  for (uint32_t j = 0; j < history->n && history->x[j] <= most; j++) {
    last = history->x[j];
    if (add_even(m, chunk, last, 0, 0, e))
      return -1;
  }
  return last < most - most / 4 ? add_even(m, chunk, most, 0, 0, e) : 0;
}

/* Without history at every size of a step, which costs little and tells what layers cost; with
 * history at few. */
static int add_prompts(struct measurement *m, struct base_error *e)
{
  const struct measure_limits *most = &m->most;
  uint32_t longest = most->max_context - 1;
  uint32_t tokens = most->token_budget < longest ? most->token_budget : longest;
  struct axis fine = ladder(most->quick ? 4 : 16, most->quick ? 2 : 4, tokens);
  struct axis coarse = powers(0, 1, most->quick ? 16 : 4, tokens);
  struct axis history = powers(0, FIRST_HISTORY, 4, longest - 1);
  for (uint32_t i = 0; i < fine.n; i++)
    if (add_even(m, fine.x[i], 0, 0, 0, e))
      return -1;
  for (uint32_t i = 0; i < coarse.n; i++)
    if (add_histories(m, coarse.x[i], &history, e))
      return -1;
  return 0;
}

/* The corners, and a few between: what a step with both costs beyond the two alone. All sizes are
 * ones at which these were timed. */
static int add_mixed(struct measurement *m, struct base_error *e)
{
  const struct measure_limits *most = &m->most;
  uint32_t longest = most->max_context - 1, distant = 0;
  uint32_t tokens = most->token_budget < longest ? most->token_budget : longest;
  struct axis chunk = powers(0, 1, most->quick ? 256 : 16, tokens);
  struct axis rows = powers(0, 1, most->quick ? 16 : 4, most->max_seqs);
  struct axis ctx = powers(0, FIRST_CONTEXT, 16, longest_ctx(most));
  for (uint64_t x = FIRST_HISTORY; x <= longest - tokens; x *= 4)
    distant = (uint32_t)x;
  for (uint32_t i = 0; i < chunk.n; i++)
    for (uint32_t far = 0; far <= (distant > 0); far++)
      for (uint32_t j = 0; j < rows.n; j++)
        for (uint32_t k = 0; k < ctx.n; k++)
          if (add_even(m, chunk.x[i], far * distant, rows.x[j], ctx.x[k], e))
            return -1;
  return 0;
}

/* -------------------------------------------------------------------------------- random ---- */

/* 1 to n, small ones as likely as large ones. */
static uint32_t any_size(gsl_rng *r, uint32_t n)
{
  uint32_t octaves = 0;
  while (n >> octaves > 1)
    octaves++;
  uint32_t most = n >> gsl_rng_uniform_int(r, octaves + 1);
  return 1 + (uint32_t)gsl_rng_uniform_int(r, most);
}

static int add_random(struct measurement *m, gsl_rng *r, struct base_error *e)
{
  const struct measure_limits *most = &m->most;
  uint32_t rows = (uint32_t)gsl_rng_uniform_int(r, most->max_seqs + 1), left = most->token_budget;
  uint32_t chunks = (uint32_t)gsl_rng_uniform_int(r, CHUNKS_MAX + 1);
  left = left > rows ? left - rows : 0;
  if (rows + chunks > most->max_seqs)
    chunks = most->max_seqs - rows;
  if (chunks > left)
    chunks = left;
  if (!rows && !chunks)
    rows = 1;
  struct measure_point *p = add_point(m, MEASURE_RANDOM, chunks, rows, e);
  if (!p)
    return -1;
  for (uint32_t i = 0; i < rows; i++)
    set_row(p, i, any_size(r, longest_ctx(most)));
  for (uint32_t i = 0; i < chunks; i++) {
    uint32_t most_here = left / chunks < most->max_context - 1 ? left / chunks
                                                               : most->max_context - 1;
    uint32_t tokens = any_size(r, most_here);
    uint32_t room = most->max_context - tokens;
    set_chunk(p, i, gsl_rng_uniform_int(r, 2) ? (uint32_t)gsl_rng_uniform_int(r, room) : 0, tokens);
  }
  count(p);
  return 0;
}

static int add_randoms(struct measurement *m, struct base_error *e)
{
  gsl_rng *r = base_rng_open(1, "calibrate/steps");
  int bad = r ? 0 : base_fail_memory(e);
  for (uint32_t i = 0; !bad && i < (m->most.quick ? 12 : 40); i++)
    bad = add_random(m, r, e);
  if (r)
    gsl_rng_free(r);
  return bad;
}

int measurement_plan(struct measurement *m, const struct measure_limits *most, struct base_error *e)
{
  *m = (struct measurement){.most = *most};
  if (most->max_seqs < 2 || most->max_seqs > SEQS_MAX)
    return base_fail(e, BASE_USAGE, "sequences of a step must be 2 to %d, not %u", SEQS_MAX,
                     most->max_seqs);
  if (most->max_context < 8 || most->max_context > CONTEXT_MAX)
    return base_fail(e, BASE_USAGE, "the longest context must be 8 to %d tokens, not %u",
                     CONTEXT_MAX, most->max_context);
  if (most->token_budget < most->max_seqs || most->token_budget > CONTEXT_MAX)
    return base_fail(e, BASE_USAGE,
                     "the tokens of a step must be at least its sequences, %u, and at most %d, "
                     "not %u",
                     most->max_seqs, CONTEXT_MAX, most->token_budget);
  return add_decode(m, e) || add_prompts(m, e) || add_mixed(m, e) || add_randoms(m, e) ? -1 : 0;
}

void measurement_free(struct measurement *m)
{
  for (size_t i = 0; i < m->n; i++) {
    free((void *)m->point[i].step.chunk);
    free((void *)m->point[i].step.ctx);
    free(m->point[i].time);
  }
  free(m->point);
  *m = (struct measurement){0};
}
