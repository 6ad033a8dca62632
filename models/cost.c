/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Evaluation of a compiled cost model: integers only. */
#include "models/cost.h"

#include <stdlib.h>

#include "models/cost_model.h"

typedef __int128 wide;

/* Costs saturate here: 2^61 ticks are 4.7 years. */
#define TICKS_MAX (INT64_C(1) << 61)

static inline lull_ticks narrow(wide v)
{
  return v > TICKS_MAX ? TICKS_MAX : (lull_ticks)v;
}

/* a * b of numbers >= 0, saturating. */
static inline lull_ticks times(int64_t a, int64_t b)
{
  int64_t v;
  return __builtin_mul_overflow(a, b, &v) || v > TICKS_MAX ? TICKS_MAX : v;
}

struct cost_model *cost_from_analytic(const struct cost_analytic *a, uint32_t row_tokens,
                                      struct base_error *e)
{
  if (a->base < 0 || a->per_token < 0 || a->per_row < 0 || a->per_ctx < 0 || a->per_pair_q16 < 0 ||
      row_tokens < 1) {
    base_fail(e, BASE_INPUT,
              "coefficients of an analytic cost must not be negative, and a row "
              "takes at least one token");
    return NULL;
  }
  struct cost_model *m = calloc(1, sizeof *m);
  if (!m) {
    base_fail_memory(e);
    return NULL;
  }
  m->analytic = 1;
  m->a = *a;
  m->row_tokens = row_tokens;
  m->small = !((uint64_t)a->base >> 58 | (uint64_t)(a->per_token | a->per_row) >> 20 |
               (uint64_t)(a->per_ctx | a->per_pair_q16) >> 22 | row_tokens >> 8);
  return m;
}

void cost_free(struct cost_model *m)
{
  if (!m)
    return;
  free(m->token_part);
  free(m->head);
  free(m->draft);
  free(m->piece);
  free(m->ctx_limit);
  free(m->prefill_x);
  free(m->prefill_y);
  free(m->skew_q8);
  free(m->skew_ppm);
  lattice_free(&m->prompt);
  lattice_free(&m->mixed);
  free(m);
}

uint32_t cost_row_tokens(const struct cost_model *m)
{
  return m->row_tokens;
}

static int64_t tokens_of(const struct cost_model *m, const struct cost_shape *s)
{
  return (int64_t)s->rows * m->row_tokens + s->chunk_tokens;
}

/* Some engines sample every chunk, whether its prompt ends or not. */
static int64_t positions_of(const struct cost_model *m, const struct cost_shape *s)
{
  return (int64_t)s->rows * m->row_tokens + (m->every_chunk ? s->chunks : s->chunk_ends);
}

/* Entry i of a table whose last index is `last`; beyond it, the last interval goes on (but does
 * not fall). */
static wide look_up(const lull_ticks *table, uint32_t last, int64_t i)
{
  if (i <= last)
    return table[i];
  lull_ticks step = last ? table[last] - table[last - 1] : 0;
  return table[last] + (step > 0 ? (wide)step * (i - last) : 0);
}

/* Attention of the chunks, ticks: a curve over attended pairs, and so much a token. */
static wide chunk_ticks(const struct cost_model *m, const struct cost_shape *s)
{
  if (!s->chunk_tokens)
    return 0;
  uint32_t lo = 0, hi = m->nprefill - 1;
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (m->prefill_x[mid] <= s->chunk_work)
      lo = mid;
    else
      hi = mid;
  }
  wide dx = m->prefill_x[hi] - m->prefill_x[lo], dy = m->prefill_y[hi] - m->prefill_y[lo];
  wide ps = m->prefill_y[lo] + dy * (s->chunk_work - m->prefill_x[lo]) / dx;
  wide token = (wide)m->prefill_token_fs * s->chunk_tokens;
  return (ps * 1000 + token) * m->layers / (1000 * LULL_TICK_PS);
}

/* The piece in which the rows' contexts lie, and where it ends. rows >= 1. */
static const struct cost_piece *find_piece(const struct cost_model *m, uint32_t rows,
                                           int64_t ctx_q16, int64_t *end_q16)
{
  const struct cost_piece *p = m->piece + (size_t)rows * m->npieces;
  uint32_t lo = 0, hi = m->npieces;
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (p[mid].start_q16 <= ctx_q16)
      lo = mid;
    else
      hi = mid;
  }
  *end_q16 = hi < m->npieces ? p[hi].start_q16 : INT64_MAX;
  return &p[lo];
}

/* A step costs at least a tick: where all is 0, it does so until the law itself gives one. */
static inline void finish(lull_ticks ticks, int64_t start_q16, struct cost_step *out)
{
  out->ticks = ticks;
  if (ticks >= 1)
    return;
  out->ticks = 1;
  if (out->slope > 0) {
    int64_t first = start_q16 + (LULL_Q16_ONE + out->slope - 1) / out->slope;
    if (first < out->ctx_end_q16)
      out->ctx_end_q16 = first;
    out->slope = 0;
  }
}

/* The analytic form, where no product passes 2^62, nor their sum 2^61. */
static inline void eval_small(const struct cost_model *m, const struct cost_shape *s,
                              struct cost_step *out)
{
  const struct cost_analytic *a = &m->a;
  int64_t chunks = a->per_pair_q16 * s->chunk_work >> 16;
  out->slope = a->per_ctx;
  out->host = 0;
  out->chunk_part = chunks;
  out->ctx_end_q16 = INT64_MAX;
  finish(a->base + a->per_token * tokens_of(m, s) + a->per_row * s->rows +
             (a->per_ctx * s->ctx_q16 >> 16) + chunks,
         0, out);
}

static inline int is_small(const struct cost_model *m, const struct cost_shape *s)
{
  return m->small && !((uint64_t)(s->ctx_q16 | s->chunk_work) >> 40);
}

__attribute__((noinline)) static void
eval_analytic(const struct cost_model *m, const struct cost_shape *s, struct cost_step *out)
{
  const struct cost_analytic *a = &m->a;
  /* five parts of at most 2^61 each */
  uint64_t ticks = (uint64_t)narrow(a->base) + (uint64_t)times(a->per_token, tokens_of(m, s)) +
                   (uint64_t)narrow(((wide)a->per_ctx * s->ctx_q16) >> 16);
  if (a->per_row)
    ticks += (uint64_t)times(a->per_row, s->rows);
  out->slope = a->per_ctx;
  out->host = 0;
  out->chunk_part = s->chunk_work ? narrow(((wide)a->per_pair_q16 * s->chunk_work) >> 16) : 0;
  out->ctx_end_q16 = INT64_MAX;
  ticks += (uint64_t)out->chunk_part;
  finish(ticks > TICKS_MAX ? TICKS_MAX : (lull_ticks)ticks, 0, out);
}

/* Attention of the rows of a step without chunks, but for its unevenness: ticks, and the law. */
static wide rows_ticks(const struct cost_model *m, const struct cost_shape *s, int64_t *start_q16,
                       struct cost_step *out)
{
  uint32_t rows = s->rows <= m->max_rows ? s->rows : m->max_rows;
  const struct cost_piece *p = find_piece(m, rows, s->ctx_q16, &out->ctx_end_q16);
  *start_q16 = p->start_q16;
  out->slope = p->slope;
  return p->start + (((wide)p->slope * (s->ctx_q16 - p->start_q16)) >> 16);
}

/* What uneven contexts add to it. Where rows verify drafts they may grow unlike, so that this would
 * be no constant of a run; it is left out there. */
static wide uneven_ticks(const struct cost_model *m, const struct cost_shape *s)
{
  if (!m->skew_q8 || !s->ctx_max_q16 || m->row_tokens != 1)
    return 0;
  uint32_t rows = s->rows <= m->max_rows ? s->rows : m->max_rows;
  return (m->skew_q8[rows] * cost_unevenness(s)) >> 24;
}

/* A step with chunks: one lookup. What is above the rows' own attention is the chunks'. Where the
 * law of the rows alone would give more than their part here, it is lowered to fit. */
static wide table_ticks(const struct cost_model *m, const struct cost_shape *s,
                        struct cost_step *out)
{
  wide all = cost_table_attention(m, s);
  int64_t start_q16;
  wide rows = s->rows ? rows_ticks(m, s, &start_q16, out) : 0;
  if (rows > all)
    rows = all;
  if (s->rows && (wide)out->slope * s->ctx_q16 > rows << 16)
    out->slope = (lull_ticks)((rows << 16) / s->ctx_q16);
  out->chunk_part = narrow(all - rows);
  if (s->rows)
    out->ctx_end_q16 = s->ctx_q16 + 1;
  return all;
}

/* A step whose kernels are over before the host is. How long it waits changes with the contexts, so
 * such steps are told one at a time. */
static void wait_for_host(const struct cost_model *m, const struct cost_shape *s,
                          struct cost_step *out)
{
  out->host += m->floor - out->ticks;
  out->ticks = m->floor;
  out->slope = 0;
  if (s->rows)
    out->ctx_end_q16 = s->ctx_q16 + 1;
}

/* Out of line, as eval_analytic is: what has few registers to save must not pay for it. */
__attribute__((noinline)) static void
eval_calibrated(const struct cost_model *m, const struct cost_shape *s, struct cost_step *out)
{
  int64_t start_q16 = 0;
  wide ticks = look_up(m->token_part, m->max_tokens, tokens_of(m, s)) +
               look_up(m->head, m->max_positions, positions_of(m, s));
  *out = (struct cost_step){.host = m->host, .ctx_end_q16 = INT64_MAX};
  if (s->chunk_tokens && cost_by_tables(m)) {
    ticks += table_ticks(m, s, out);
  } else {
    wide chunks = chunk_ticks(m, s);
    out->chunk_part = narrow(chunks);
    ticks += chunks;
    if (s->rows)
      ticks += rows_ticks(m, s, &start_q16, out) + uneven_ticks(m, s);
  }
  if (s->rows)
    ticks += look_up(m->draft, m->max_rows, s->rows);
  finish(narrow(ticks), start_q16, out);
  if (out->ticks < m->floor)
    wait_for_host(m, s, out);
}

void cost_eval(const struct cost_model *m, const struct cost_shape *s, struct cost_step *out)
{
  if (is_small(m, s))
    eval_small(m, s, out);
  else if (m->analytic)
    eval_analytic(m, s, out);
  else
    eval_calibrated(m, s, out);
}

/* Rows without chunks: their number and mean context. */
static unsigned outside_rows(const struct cost_model *m, const struct cost_shape *s)
{
  unsigned bits = 0;
  uint32_t rows = s->rows <= m->max_rows ? s->rows : m->max_rows;
  if (!s->rows)
    return 0;
  if (s->rows > m->max_rows)
    bits |= COST_ROWS;
  if ((wide)s->ctx_q16 > (wide)m->ctx_limit[rows] * s->rows * LULL_Q16_ONE)
    bits |= COST_CONTEXT;
  if (cost_by_tables(m) && (wide)s->ctx_q16 < (wide)m->min_context * s->rows * LULL_Q16_ONE)
    bits |= COST_CONTEXT << COST_BELOW;
  return bits;
}

unsigned cost_outside(const struct cost_model *m, const struct cost_shape *s)
{
  unsigned bits = 0;
  if (m->analytic)
    return 0;
  int64_t tokens = tokens_of(m, s);
  if (tokens > m->last_tokens)
    bits |= COST_TOKENS;
  if (tokens && tokens < m->min_tokens)
    bits |= COST_TOKENS << COST_BELOW;
  if (positions_of(m, s) > m->last_positions)
    bits |= COST_POSITIONS;
  if (s->chunk_tokens && cost_by_tables(m))
    return bits | cost_table_outside(m, s);
  if (s->chunk_tokens && s->chunk_work > m->prefill_x[m->nprefill - 1])
    bits |= COST_CHUNK;
  return bits | outside_rows(m, s);
}

int cost_is_measured(const struct cost_model *m)
{
  return !m->analytic;
}

int cost_needs_longest(const struct cost_model *m)
{
  return m->uneven;
}

const char *const cost_outside_name[COST_KINDS] = {"tokens",  "positions", "rows",
                                                   "context", "chunk",     "history"};

void cost_misses_add(struct cost_misses *into, const struct cost_misses *more)
{
  for (int k = 0; k < COST_KINDS; k++) {
    into->beyond[k] += more->beyond[k];
    into->below[k] += more->below[k];
  }
  into->several += more->several;
  into->steps += more->steps;
}

static void count_bits(unsigned bits, uint64_t n, struct cost_misses *misses)
{
  for (int k = 0; k < COST_KINDS; k++) {
    misses->beyond[k] += bits >> k & 1 ? n : 0;
    misses->below[k] += bits >> (k + COST_BELOW) & 1 ? n : 0;
  }
  misses->several += bits & COST_SEVERAL ? n : 0;
  misses->steps += bits & ~(unsigned)COST_SEVERAL ? n : 0;
}

/* Of n steps as of cost_count_outside, how many from the first on are outside as it is. As contexts
 * grow each bit changes at most once, so what once differs from the first step differs to the end.
 */
static uint64_t steps_alike(const struct cost_model *m, const struct cost_shape *s, unsigned bits,
                            int64_t inc_q16, uint64_t n)
{
  if (n == 1 || !inc_q16)
    return n;
  struct cost_shape at = *s;
  uint64_t like = 0, unlike = n - 1;
  at.ctx_q16 = s->ctx_q16 + inc_q16 * (int64_t)unlike;
  if (cost_outside(m, &at) == bits)
    return n;
  while (unlike - like > 1) {
    uint64_t mid = like + (unlike - like) / 2;
    at.ctx_q16 = s->ctx_q16 + inc_q16 * (int64_t)mid;
    if (cost_outside(m, &at) == bits)
      like = mid;
    else
      unlike = mid;
  }
  return unlike;
}

void cost_count_outside(const struct cost_model *m, const struct cost_shape *s, int64_t inc_q16,
                        uint64_t n, struct cost_misses *misses)
{
  struct cost_shape at = *s;
  while (n) {
    unsigned bits = cost_outside(m, &at);
    uint64_t alike = steps_alike(m, &at, bits, inc_q16, n);
    if (bits)
      count_bits(bits, alike, misses);
    at.ctx_q16 += inc_q16 * (int64_t)alike;
    n -= alike;
  }
}

int cost_covers(const struct cost_model *m, const struct cost_shape *s)
{
  return !(cost_outside(m, s) & ~(unsigned)COST_SEVERAL);
}
