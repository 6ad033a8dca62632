/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Compiles a calibration for one server's settings: every curve that a step looks up becomes a
 * table of ticks. Integers only, so the tables are the same on every machine; the intermediate
 * products are exact in 128 bits and floored once, to ps or to ticks.
 */
#include <stdlib.h>
#include <string.h>

#include "models/calibration.h"
#include "models/cost.h"
#include "models/cost_model.h"

typedef __int128 wide;

#define PPM 1000000
#define PS_PER_S INT64_C(1000000000000)
enum { ROWS_MAX = 1 << 16, DEPTH_MAX = 64 };

/* ------------------------------------------------------------------------ checks of settings -- */

static int check_settings(const struct cost_settings *s, struct base_error *e)
{
  if (s->max_rows < 1 || s->max_rows > ROWS_MAX)
    return base_fail(e, BASE_INPUT, "max sequences must be 1 to %d, not %u", ROWS_MAX, s->max_rows);
  if (s->draft_depth > DEPTH_MAX)
    return base_fail(e, BASE_INPUT, "draft depth must be 0 to %d, not %u", DEPTH_MAX,
                     s->draft_depth);
  if (s->host_step < 0 || s->host_overlapped < 0 || s->launches < 0 || s->elementwise_launch < 0 ||
      s->draft_layers_ppm < 0 || s->draft_head < 0)
    return base_fail(e, BASE_INPUT, "times and sizes of a cost model must not be negative");
  if (s->host_step > PS_PER_S || s->host_overlapped > PS_PER_S || s->launches > PS_PER_S ||
      s->elementwise_launch > PS_PER_S || s->draft_head > PS_PER_S ||
      s->draft_layers_ppm > (int64_t)1024 * PPM || s->elementwise_kernels > 1024)
    return base_fail(e, BASE_INPUT,
                     "host, launch and draft times must be at most 1 s, the draft "
                     "head at most 1,024 layers, element-wise kernels at most "
                     "1,024");
  if (s->elementwise_bytes_per_s < 0 || (s->elementwise_kernels && !s->elementwise_bytes_per_s))
    return base_fail(e, BASE_INPUT, "element-wise kernels need a bandwidth above 0");
  return 0;
}

/* Tables hold all kernels of the model, and nothing of a draft head. */
static int check_tables(const struct calibration *c, const struct cost_settings *s,
                        struct base_error *e)
{
  if (s->elementwise_kernels || s->elementwise_launch || s->elementwise_bytes_per_s)
    return base_fail(e, BASE_INPUT,
                     "calibration '%s' holds the element-wise kernels of its model; remove their "
                     "parameters (<elementwise>)",
                     c->name);
  if (s->draft_depth)
    return base_fail(e, BASE_INPUT, "calibration '%s' holds no draft layer; remove the speculation",
                     c->name);
  return 0;
}

static int check_reach(const char *what, int64_t need, int64_t have, const char *lower,
                       const struct calibration *c, struct base_error *e)
{
  char again[64] = "";
  if (need <= have)
    return 0;
  if (c->host_step_ps) /* of lull calibrate: by tables, so it is rows that are not reached */
    snprintf(again, sizeof again, ", or calibrate with --max-seqs %lld", (long long)need);
  return base_fail(e, BASE_INPUT,
                   "calibration '%s' was measured to %lld %s, but these settings allow %lld; "
                   "lower %s%s",
                   c->name, (long long)have, what, (long long)need, lower, again);
}

/* Does the calibration reach the largest shapes that the settings allow? Of tables only the rows
 * must be reached: steps with more tokens are extended, and counted by cost_outside. */
static int check_cover(const struct calibration *c, const struct cost_settings *s,
                       const struct cost_model *m, struct base_error *e)
{
  const struct calibration_curve *d = &c->draft_layer;
  if (c->law == CALIBRATION_TABLES)
    return check_tables(c, s, e) ||
                   check_reach("decode rows", s->max_rows, c->decode.rows[c->decode.nrows - 1],
                               "max sequences", c, e)
               ? -1
               : 0;
  if (check_reach("tokens a step", s->max_tokens, c->body.x[c->body.n - 1],
                  "the token budget or max sequences", c, e) ||
      check_reach("sampled positions", m->max_positions, c->head.x[c->head.n - 1],
                  "max sequences or the draft depth", c, e) ||
      check_reach("decode rows", s->max_rows, c->decode.rows[c->decode.nrows - 1], "max sequences",
                  c, e))
    return -1;
  return s->draft_depth ? check_reach("tokens of a draft pass", s->max_rows, d->x[d->n - 1],
                                      "max sequences", c, e)
                        : 0;
}

/* ------------------------------------------------------------------------------------ curves -- */

/* The curve at x, ps, floored. Below its first knot it is flat; x is not beyond its last. */
static int64_t curve_at(const struct calibration_curve *v, int64_t x)
{
  if (x <= v->x[0])
    return v->y[0];
  uint32_t lo = 0, hi = v->n - 1;
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (v->x[mid] <= x)
      lo = mid;
    else
      hi = mid;
  }
  wide left = (wide)v->y[lo] * (v->x[hi] - x), right = (wide)v->y[hi] * (x - v->x[lo]);
  return (int64_t)((left + right) / (v->x[hi] - v->x[lo]));
}

/* The same with x beyond the last knot, too: there the chord of its upper half goes on (single
 * intervals are noisy), but does not fall. */
static int64_t curve_extended(const struct calibration_curve *v, int64_t x)
{
  int64_t last = v->x[v->n - 1], y = v->y[v->n - 1];
  uint32_t half = v->n - 2;
  if (x <= last)
    return curve_at(v, x);
  while (half > 0 && v->x[half] > last / 2)
    half--;
  if (y <= v->y[half])
    return y;
  return y + (int64_t)((wide)(y - v->y[half]) * (x - last) / (last - v->x[half]));
}

/* All that a step of so many tokens runs once: embedding and final norm; collectives: two
 * all-reduce a layer, of the tokens' hidden states in bf16. ps. */
static wide once_ps(const struct calibration *c, int64_t tokens)
{
  if (c->law != CALIBRATION_TABLES)
    return 0;
  wide ps = curve_extended(&c->once, tokens);
  if (c->tp > 1 && c->collective.n > 1)
    ps += (wide)2 * c->layers * curve_extended(&c->collective, 2 * tokens * c->hidden);
  return ps;
}

/* Element-wise kernels of the model for a step of so many tokens, ps. */
static wide elementwise_ps(const struct calibration *c, const struct cost_settings *s,
                           int64_t tokens)
{
  int64_t bytes = cost_elementwise_bytes(c->hidden, (int64_t)c->q_heads * c->head_dim,
                                         (int64_t)c->kv_heads * c->head_dim, c->intermediate);
  wide ps = (wide)s->elementwise_kernels * s->elementwise_launch;
  if (s->elementwise_bytes_per_s)
    ps += (wide)bytes * tokens * PS_PER_S / s->elementwise_bytes_per_s;
  return ps * c->layers;
}

/* Gaps between kernels of a step that is too large for a captured graph, ps. */
static wide launches_ps(const struct calibration *c, const struct cost_settings *s, uint32_t tokens)
{
  return tokens > s->graph_tokens ? (wide)s->launches * c->layers : 0;
}

static void fill_tables(const struct calibration *c, const struct cost_settings *s,
                        struct cost_model *m)
{
  m->host = s->host_step / LULL_TICK_PS;
  m->floor = s->host_overlapped / LULL_TICK_PS + m->host;
  m->token_part[0] = m->host;
  for (uint32_t t = 1; t <= m->max_tokens; t++) {
    wide ps = (wide)curve_extended(&c->body, t) * c->layers + once_ps(c, t) +
              elementwise_ps(c, s, t) + launches_ps(c, s, t) + s->host_step;
    m->token_part[t] = (lull_ticks)(ps / LULL_TICK_PS);
  }
  for (uint32_t p = 1; p <= m->max_positions; p++)
    m->head[p] = curve_extended(&c->head, p) / LULL_TICK_PS;
  for (uint32_t r = 1; s->draft_depth && r <= m->max_rows; r++) {
    wide pass = (wide)curve_at(&c->draft_layer, r) * s->draft_layers_ppm / PPM + s->draft_head;
    m->draft[r] = (lull_ticks)(pass * s->draft_depth / LULL_TICK_PS);
  }
}

/* -------------------------------------------------------------------------- decode attention -- */

/* Where a row count lies between those measured: weights of rows i and i + 1, of their sum d. */
struct between {
  uint32_t i, next;
  int64_t w0, w1, d;
};

static struct between find_rows(const struct calibration_grid *g, uint32_t rows)
{
  uint32_t i = 0;
  while (i + 1 < g->nrows && g->rows[i + 1] <= rows)
    i++;
  struct between b = {i, i, 1, 0, 1};
  if (i + 1 < g->nrows && rows > g->rows[i]) {
    b.next = i + 1;
    b.d = g->rows[i + 1] - g->rows[i];
    b.w1 = rows - g->rows[i];
    b.w0 = b.d - b.w1;
  }
  return b;
}

/* All layers' decode attention at context knot j, in ticks, floored. */
static lull_ticks grid_ticks(const struct calibration *c, const struct between *b, uint32_t j)
{
  const struct calibration_grid *g = &c->decode;
  wide y = (wide)g->y[(size_t)b->i * g->nctx + j] * b->w0 +
           (wide)g->y[(size_t)b->next * g->nctx + j] * b->w1;
  return (lull_ticks)(y * c->layers / ((wide)b->d * LULL_TICK_PS));
}

/*
 * The slope of a piece that starts at `start` ticks and `from` tokens and is to reach `target` at
 * `to` tokens, in whole ticks a token: rounded to nearest, not negative, and no more than
 * (start + rest) / from, which keeps the part that grows with contexts below the whole step, of
 * which `rest` is there besides (only a curve that grows much faster than in proportion is cut).
 * The next piece starts where this one ends, so the
 * curve is continuous and an error of rounding, at most half a tick a token of this piece, does
 * not add up.
 */
static lull_ticks piece_slope(lull_ticks start, int64_t from, lull_ticks target, int64_t to,
                              lull_ticks rest)
{
  int64_t d = to - from;
  if (target <= start)
    return 0;
  lull_ticks slope = (lull_ticks)(((wide)(target - start) * 2 + d) / (2 * (wide)d));
  return from && slope > (start + rest) / from ? (start + rest) / from : slope;
}

/*
 * The pieces at one row count, over the sum of contexts (rows times the grid's contexts): a flat
 * one to the first knot, one between each two knots, and the last one's slope for ever.
 */
static void fill_pieces(const struct calibration *c, uint32_t rows, lull_ticks rest,
                        struct cost_piece *p)
{
  const struct calibration_grid *g = &c->decode;
  struct between b = find_rows(g, rows);
  lull_ticks start = grid_ticks(c, &b, 0), slope = 0;
  p[0] = (struct cost_piece){0, start, 0};
  for (uint32_t j = 0; j + 1 < g->nctx; j++) {
    int64_t from = g->ctx[j] * rows, to = g->ctx[j + 1] * rows;
    slope = piece_slope(start, from, grid_ticks(c, &b, j + 1), to, rest);
    p[j + 1] = (struct cost_piece){from << 16, start, slope};
    start += slope * (to - from);
  }
  p[g->nctx] = (struct cost_piece){(g->ctx[g->nctx - 1] * rows) << 16, start, slope};
}

/* Ticks that every step with so many rows has besides attention. By PAIRS the pieces stand in steps
 * with chunks, too, whose GEMMs may be quicker than those of fewer tokens: there nothing is sure.
 */
static lull_ticks rest_of(const struct calibration *c, const struct cost_model *m, uint32_t rows)
{
  if (c->law != CALIBRATION_TABLES || rows > m->max_tokens)
    return 0;
  return m->token_part[rows] + m->head[rows <= m->max_positions ? rows : m->max_positions];
}

static void fill_decode(const struct calibration *c, struct cost_model *m)
{
  const struct calibration_grid *g = &c->decode;
  for (uint32_t r = 1; r <= m->max_rows; r++) {
    struct between b = find_rows(g, r);
    int64_t a = g->ctx_measured[b.i], z = g->ctx_measured[b.next];
    m->ctx_limit[r] = r < g->rows[0] ? 0 : a < z ? a : z;
    fill_pieces(c, r, rest_of(c, m, r), m->piece + (size_t)r * m->npieces);
  }
}

/* The sum of contexts must fit in 47 bits (and 16 of fraction). */
static int check_grid_reach(const struct calibration *c, uint32_t max_rows, struct base_error *e)
{
  const struct calibration_grid *g = &c->decode;
  if (g->ctx[g->nctx - 1] <= (INT64_C(1) << 46) / max_rows)
    return 0;
  return base_fail(e, BASE_INPUT, "calibration '%s': its decode contexts are too long for %u rows",
                   c->name, max_rows);
}

/* ----------------------------------------------------------------------------------- compile -- */

static int allocate(const struct calibration *c, struct cost_model *m)
{
  size_t rows = (size_t)m->max_rows + 1, nprefill = c->prefill.n + 1; /* TABLES: none */
  m->token_part = calloc((size_t)m->max_tokens + 1, sizeof *m->token_part);
  m->head = calloc((size_t)m->max_positions + 1, sizeof *m->head);
  m->draft = calloc(rows, sizeof *m->draft);
  m->piece = calloc(rows * m->npieces, sizeof *m->piece);
  m->ctx_limit = calloc(rows, sizeof *m->ctx_limit);
  m->prefill_x = calloc(nprefill, sizeof *m->prefill_x);
  m->prefill_y = calloc(nprefill, sizeof *m->prefill_y);
  return m->token_part && m->head && m->draft && m->piece && m->ctx_limit && m->prefill_x &&
                 m->prefill_y
             ? 0
             : -1;
}

static void set_sizes(const struct calibration *c, const struct cost_settings *s,
                      struct cost_model *m)
{
  uint64_t positions = (uint64_t)s->max_rows * (2 + s->draft_depth); /* rows, and as many ends */
  m->row_tokens = 1 + s->draft_depth;
  m->layers = c->layers;
  m->max_rows = s->max_rows;
  m->max_tokens = s->max_tokens;
  m->max_positions = positions < s->max_tokens ? (uint32_t)positions : s->max_tokens;
  m->npieces = c->decode.nctx + 1;
  m->nprefill = c->prefill.n;
  m->prefill_token_fs = c->prefill_token_fs;
  m->min_tokens = c->body.x[0];
  m->last_tokens = c->law == CALIBRATION_TABLES ? c->body.x[c->body.n - 1] : m->max_tokens;
  m->last_positions = c->law == CALIBRATION_TABLES ? c->head.x[c->head.n - 1] : m->max_positions;
  m->min_context = c->decode.ctx[0];
}

struct cost_model *cost_from_calibration(const struct calibration *c, const struct cost_settings *s,
                                         struct base_error *e)
{
  if (check_settings(s, e))
    return NULL;
  if (s->max_tokens < (uint64_t)s->max_rows * (1 + s->draft_depth)) {
    base_fail(e, BASE_INPUT,
              "a step must hold all %u rows of %u tokens each: %u tokens are too few", s->max_rows,
              1 + s->draft_depth, s->max_tokens);
    return NULL;
  }
  struct cost_model *m = calloc(1, sizeof *m);
  if (!m) {
    base_fail_memory(e);
    return NULL;
  }
  set_sizes(c, s, m);
  if (check_cover(c, s, m, e) || check_grid_reach(c, s->max_rows, e)) {
    cost_free(m);
    return NULL;
  }
  if (allocate(c, m)) {
    base_fail_memory(e);
    cost_free(m);
    return NULL;
  }
  fill_tables(c, s, m);
  fill_decode(c, m);
  if (c->law == CALIBRATION_TABLES) {
    if (!cost_table_compile(c, m))
      return m;
    base_fail_memory(e);
    cost_free(m);
    return NULL;
  }
  memcpy(m->prefill_x, c->prefill.x, c->prefill.n * sizeof *m->prefill_x);
  memcpy(m->prefill_y, c->prefill.y, c->prefill.n * sizeof *m->prefill_y);
  return m;
}
