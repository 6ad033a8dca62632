/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Attention of steps with chunks, from tables measured with chunks and decode rows in one call.
 *
 * The tables hold one chunk a step. Several are looked up as one of as many tokens T and attended
 * pairs P, so with P / T - (T + 1) / 2 tokens of history: a varlen kernel hands tiles of queries to
 * the processors whatever request they are of, so tiles (T) and the work in them (P) are what its
 * time depends on. Where P is less than even one chunk of T without history has, what of that
 * chunk's time is its pairs' is taken off in proportion; tiles cost theirs whatever they attend.
 */
#include <stdlib.h>
#include <string.h>

#include "models/calibration.h"
#include "models/cost_model.h"

typedef __int128 wide;

#define PPM 1000000

/* ------------------------------------------------------------------------------- looking up --- */

/* The chunks of a step as a point of the table; `short_of` is set if they have fewer pairs than one
 * chunk without history. */
static void chunk_point(const struct cost_shape *s, struct lattice_point p[2], int *short_of)
{
  int64_t own = (int64_t)s->chunk_tokens * ((int64_t)s->chunk_tokens + 1) / 2;
  *short_of = s->chunk_work < own;
  p[0] = (struct lattice_point){s->chunk_tokens, 1};
  p[1] = (struct lattice_point){*short_of ? 0 : s->chunk_work - own, s->chunk_tokens};
}

/*
 * What T tokens without history lose of their time when they attend `missing` pairs fewer. A
 * chunk's time over the launch (`least`) is a part by tokens, which halves with T, and one by
 * pairs, of which two chunks of T / 2 have T * T / 4 fewer: so much is `whole` more than these two
 * cost. Measured at T and T / 2, not between T and the chunks themselves, whose own times may be no
 * work but the wait for a few tiles. It cannot be more than all of the time.
 */
static int64_t less_for(wide whole, wide half, wide least, int64_t tokens, wide missing)
{
  wide own = (wide)tokens * (tokens + 1) / 2, bent = whole - 2 * half + least;
  if (bent <= 0 || whole <= least)
    return 0;
  wide by_bend = bent * 4 * missing / ((wide)tokens * tokens),
       all = (whole - least) * missing / own;
  return (int64_t)(by_bend < all ? by_bend : all);
}

/* Time at p, whose rows and context are set; ps of one layer. */
static int64_t chunks_at(const struct lattice *l, const struct cost_shape *s,
                         struct lattice_point p[LATTICE_RANK])
{
  int short_of;
  chunk_point(s, p, &short_of);
  int64_t whole = lattice_value(l, p);
  if (!short_of)
    return whole;
  p[0] = (struct lattice_point){s->chunk_tokens, 2};
  int64_t half = lattice_value(l, p);
  p[0].num = 0; /* the smallest measured */
  int64_t least = lattice_value(l, p);
  wide own = (wide)s->chunk_tokens * ((wide)s->chunk_tokens + 1) / 2;
  return whole - less_for(whole, half, least, s->chunk_tokens, own - s->chunk_work);
}

lull_ticks cost_table_attention(const struct cost_model *m, const struct cost_shape *s)
{
  struct lattice_point p[LATTICE_RANK] = {{0, 1}, {0, 1}, {s->rows, 1}, {0, 1}};
  uint32_t rows = s->rows <= m->max_rows ? s->rows : m->max_rows;
  wide ps;
  if (!s->rows) {
    ps = chunks_at(&m->prompt, s, p);
  } else {
    p[3] = (struct lattice_point){s->ctx_q16, (int64_t)s->rows << 16};
    ps = chunks_at(&m->mixed, s, p);
    if (m->skew_ppm && m->skew_ppm[rows] && cost_unevenness(s)) {
      p[3] = (struct lattice_point){s->ctx_max_q16, 1 << 16};
      wide longest = chunks_at(&m->mixed, s, p);
      ps += longest > ps ? (longest - ps) * m->skew_ppm[rows] / PPM : 0;
    }
  }
  return (lull_ticks)(ps * m->layers / LULL_TICK_PS);
}

unsigned cost_table_outside(const struct cost_model *m, const struct cost_shape *s)
{
  static const unsigned kind[LATTICE_RANK] = {COST_CHUNK, COST_HISTORY, COST_ROWS, COST_CONTEXT};
  struct lattice_point p[LATTICE_RANK] = {
      {0, 1}, {0, 1}, {s->rows, 1}, {s->ctx_q16, (int64_t)s->rows << 16}};
  const struct lattice *l = s->rows ? &m->mixed : &m->prompt;
  int short_of;
  chunk_point(s, p, &short_of);
  unsigned below = lattice_outside(l, p, 0), beyond = lattice_outside(l, p, 1), bits = 0;
  if (s->rows && m->skew_ppm[s->rows <= m->max_rows ? s->rows : m->max_rows] &&
      cost_unevenness(s)) {
    p[3] = (struct lattice_point){s->ctx_max_q16, 1 << 16}; /* looked up as well */
    beyond |= lattice_outside(l, p, 1);
  }
  for (uint32_t a = 0; a < l->rank; a++) {
    if (beyond >> a & 1)
      bits |= kind[a];
    if (below >> a & 1)
      bits |= kind[a] << COST_BELOW;
  }
  return bits | (s->chunks > 1 ? COST_SEVERAL : 0);
}

/* ---------------------------------------------------------------------------------- compile --- */

/* A share at so many rows: linear between those measured, the nearest outside. One row is even. */
static int64_t share_at(const struct calibration_curve *v, int64_t rows)
{
  if (!v->n || rows < 2)
    return 0;
  uint32_t i = 0;
  while (i < v->n && v->x[i] < rows)
    i++;
  if (i == 0 || i == v->n)
    return v->y[i ? i - 1 : 0];
  int64_t d = v->x[i] - v->x[i - 1];
  return (v->y[i - 1] * (v->x[i] - rows) + v->y[i] * (rows - v->x[i - 1])) / d;
}

/*
 * Ticks that a row's further token costs at so many rows, times 256: the chord of the compiled law
 * from the first to the last measured context. Decode attention is linear in the tokens read but
 * for its start, so that this is its slope wherever the longest row and the mean lie.
 */
static wide chord_q8(const struct cost_model *m, uint32_t rows)
{
  const struct cost_piece *p = m->piece + (size_t)rows * m->npieces;
  const struct cost_piece *a = &p[1], *z = &p[m->npieces - 1];
  if (m->npieces < 3)
    return 0;
  return (wide)(z->start - a->start) * 256 / ((z->start_q16 - a->start_q16) >> 16);
}

int cost_table_compile(const struct calibration *c, struct cost_model *m)
{
  size_t rows = (size_t)m->max_rows + 1;
  m->every_chunk = !c->sampled[0];
  m->skew_q8 = calloc(rows, sizeof *m->skew_q8);
  m->skew_ppm = calloc(rows, sizeof *m->skew_ppm);
  if (!m->skew_q8 || !m->skew_ppm || lattice_copy(&m->prompt, &c->prompt) ||
      lattice_copy(&m->mixed, &c->mixed))
    return -1;
  for (uint32_t r = 1; r <= m->max_rows; r++) {
    m->skew_q8[r] = (int64_t)(chord_q8(m, r) * share_at(&c->skew_decode, r) / PPM);
    m->skew_ppm[r] = share_at(&c->skew_mixed, r);
    m->uneven |= m->skew_q8[r] || m->skew_ppm[r];
  }
  return 0;
}
