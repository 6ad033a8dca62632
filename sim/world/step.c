/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Steps that ended: a device's report becomes progress of rows and chunks, gaps, and ledger credit.
 *
 * A report of k steps is taken in runs under one law of the cost model, so that nothing depends on
 * how steps were merged: the result of a run of n steps equals that of n reports of one.
 */
#include "sim/world/internal.h"

/* Step i (from 0) of a span: its length. The first began at `start`. */
static lull_time step_length(const struct lull_span *sp, lull_time start, uint64_t i)
{
  return i == 0 ? sp->first_end - start : sp->second_dur + (lull_time)(i - 1) * sp->dur_inc;
}

/* End of the first n >= 1 steps of a span. */
static lull_time span_end(const struct lull_span *sp, uint64_t n)
{
  base_int128 m = (base_int128)n - 1;
  return (lull_time)(sp->first_end + m * sp->second_dur + m * (m - 1) / 2 * sp->dur_inc);
}

/* Gaps of one step that ended at `end` for all rows, those that just joined one by one. */
static void first_gaps(struct world *w, struct server *s, lull_time end)
{
  if (!s->nfresh) {
    for (uint32_t c = 0; s->rows && c < w->nclasses; c++) {
      if (s->v.count[LULL_DECODE][c])
        base_hist_add(&w->out->cls[c].itl, end - s->last_emit, s->v.count[LULL_DECODE][c]);
    }
    return;
  }
  for (uint32_t i = 0; i < s->nfresh; i++) {
    struct req *r = req_at(w, s->fresh[i]);
    base_hist_add(&w->out->cls[r->v.cls].itl, end - r->last_emit, 1);
    r->fresh_pos = 0;
  }
  for (uint32_t c = 0; c < w->nclasses; c++) {
    uint32_t old = s->v.count[LULL_DECODE][c] - s->fresh_of[c];
    if (old)
      base_hist_add(&w->out->cls[c].itl, end - s->last_emit, old);
    s->fresh_of[c] = 0;
  }
  s->nfresh = 0;
}

/* Gaps of n steps of a span from step i on; step 0's differ by row, unless all rows emitted at the
 * last boundary: then it is the first of the series. */
static void gaps(struct world *w, struct server *s, const struct lull_span *sp, uint64_t i,
                 uint64_t n)
{
  lull_time first = i == 0 ? sp->first_end - s->last_emit : step_length(sp, 0, i);
  if (i == 0 && (s->nfresh || n == 1 || first + sp->dur_inc != sp->second_dur)) {
    first_gaps(w, s, sp->first_end);
    first = sp->second_dur;
    n--;
  }
  for (uint32_t c = 0; n && c < w->nclasses; c++) {
    if (s->v.count[LULL_DECODE][c])
      base_hist_series(&w->out->cls[c].itl, first, sp->dur_inc, n, s->v.count[LULL_DECODE][c]);
  }
}

/* The class that keeps what a step's shares leave over: the lowest with a row, else the first
 * chunk's. */
static int residue_class(const struct world *w, const struct server *s)
{
  for (uint32_t c = 0; s->rows && c < w->nclasses; c++) {
    if (s->v.count[LULL_DECODE][c])
      return (int)c;
  }
  return s->chunk[0].req->v.cls;
}

/* The step that comes next. */
static inline const struct cost_shape *shape_now(const struct world *w, struct server *s)
{
  if (s->batch.chunks && s->shape_step != s->step)
    batch_sum_chunks(s);
  s->shape.rows = s->rows;
  s->shape.ctx_q16 = s->ctx_q16;
  if (RARE(s->longest))
    s->shape.ctx_max_q16 = s->rows ? (int64_t)batch_longest(s) << 16 : 0;
  return &s->shape;
}

/*
 * Credits n steps of one law, all at the same rate a tick: `total` together. Shares by world.h;
 * per-row shares stay in the prefix sums until the row leaves (see row_share): u and the slope are
 * a row's ticks a token and a context token.
 */
__attribute__((cold)) static void credit_wide(struct world *w, struct server *s,
                                              const struct cost_shape *shape,
                                              const struct cost_step *c, int64_t rate, uint64_t n,
                                              base_int128 total)
{
  int64_t ctx_part = (int64_t)(((base_int128)c->slope * shape->ctx_q16) >> 16);
  int64_t tokens = (int64_t)shape->rows * s->v.row_tokens + shape->chunk_tokens;
  int64_t u = (c->ticks - ctx_part - c->chunk_part) / tokens;
  int64_t v = shape->chunk_work ? c->chunk_part / shape->chunk_work : 0;
  base_int128 m = (base_int128)n, pairs = m * (m - 1) / 2;
  base_int128 flat = (base_int128)rate * u * s->v.row_tokens * m;
  base_int128 grow = (base_int128)rate * c->slope;
  s->sum[0] += (uint64_t)flat;
  s->sum[1] += (uint64_t)(grow * m);
  s->sum[2] += (uint64_t)(grow * (m * s->step + pairs));
  base_int128 left = total;
  for (uint32_t i = 0; i < s->batch.chunks; i++) { /* n == 1: steps with chunks are taken singly */
    const struct chunk *k = &s->chunk[i];
    base_int128 share = rate * ((base_int128)u * k->tokens + (base_int128)v * chunk_pairs(k));
    k->req->pending += (int64_t)share;
    left -= share;
  }
  s->residue_q16[residue_class(w, s)] += ((left - flat * shape->rows) << 16) -
                                         grow * (m * shape->ctx_q16 + pairs * s->ctx_inc_q16);
}

/* The same where no part of `total` passes 62 bits, nor a sum of contexts over the steps. */
static void credit_narrow(struct world *w, struct server *s, const struct cost_shape *shape,
                          const struct cost_step *c, int64_t rate, uint64_t n, int64_t total)
{
  int64_t tokens = (int64_t)shape->rows * s->v.row_tokens + shape->chunk_tokens;
  int64_t other = c->ticks - c->chunk_part, left = total;
  base_int128 rows_q16 = 0;
  if (shape->rows)
    other -= (int64_t)(((base_int128)c->slope * shape->ctx_q16) >> 16);
  int64_t u = other / tokens;
  if (s->batch.chunks) {
    int64_t v = shape->chunk_work ? c->chunk_part / shape->chunk_work : 0;
    for (uint32_t i = 0; i < s->batch.chunks; i++) {
      const struct chunk *k = &s->chunk[i];
      int64_t share = rate * (u * k->tokens + v * chunk_pairs(k));
      k->req->pending += share;
      left -= share;
    }
  }
  if (shape->rows) {
    int64_t m = (int64_t)n, pairs = m * (m - 1) / 2;
    int64_t flat = m * rate * u * s->v.row_tokens, grow = rate * c->slope;
    s->sum[0] += (uint64_t)flat;
    s->sum[1] += (uint64_t)(grow * m);
    s->sum[2] += (uint64_t)grow * ((uint64_t)m * s->step + (uint64_t)pairs);
    left -= flat * shape->rows;
    rows_q16 = (base_int128)grow * (m * shape->ctx_q16 + pairs * s->ctx_inc_q16);
  }
  s->residue_q16[residue_class(w, s)] += ((base_int128)left << 16) - rows_q16;
}

/* May credit_narrow take n steps? A row holds at least a token, so that no product of the slope
 * passes its part of the step. */
static inline int is_narrow(const struct server *s, uint64_t n, lull_time lasted)
{
  return !(n >> 14 | (uint64_t)s->ctx_q16 >> 46 | (uint64_t)s->ctx_inc_q16 >> 34 |
           (uint64_t)lasted >> 58 | (uint64_t)s->earned) &&
         s->ctx_q16 >= (int64_t)s->rows << 16;
}

/* Moves the plan's chunks on by one step; a first chunk marks when its step began. */
static void advance_chunks(struct world *w, struct server *s, lull_time start)
{
  for (uint32_t i = 0; i < s->batch.chunks; i++) {
    struct chunk *c = &s->chunk[i];
    struct req *r = c->req;
    struct world_record *rec = &r->rec;
    if (rec->first_chunk == LULL_NEVER)
      rec->first_chunk = start;
    c->start += c->tokens;
    r->v.prefill_done = c->start; /* a view may have run ahead of the reports */
    r->v.kv0 = r->v.prefill_done;
    if (RARE(s->cache))
      prefix_name(w, s, r);
  }
}

/* Picoseconds a tick of a step, 0 if that is no integer. It rarely changes. */
static inline lull_time whole_speed(struct server *s, lull_time wall, lull_ticks ticks)
{
  lull_time t;
  if (!__builtin_mul_overflow(s->speed, ticks, &t) && t == wall)
    return s->speed;
  if (wall % ticks)
    return 0;
  return s->speed = wall / ticks;
}

/*
 * The longest run of steps from here on, at most `left`, that one credit() call may take: no chunk,
 * within one piece of the cost model, every step as long as its ticks times the same integer, under
 * one active set of its GPU.
 */
static uint64_t run_length(const struct server *s, const struct cost_shape *shape,
                           const struct cost_step *c, const struct lull_span *sp, lull_time wall,
                           lull_time speed, uint64_t i, uint64_t left)
{
  if (s->batch.chunks || s->mark > s->step_start || s->ctx_inc_q16 % LULL_Q16_ONE)
    return 1;
  lull_time grows = speed * c->slope * (s->ctx_inc_q16 / LULL_Q16_ONE);
  if (!speed || sp->dur_inc != grows || step_length(sp, 0, i + 1) != wall + grows)
    return 1;
  if (c->ctx_end_q16 != INT64_MAX && s->ctx_inc_q16) {
    uint64_t fit = (uint64_t)((c->ctx_end_q16 - shape->ctx_q16 + s->ctx_inc_q16 - 1) /
                              s->ctx_inc_q16);
    if (fit < left)
      left = fit ? fit : 1;
  }
  return left;
}

/* Credits the m steps up to `to` of a span, of which step i is the first and lasted `wall`; it may
 * have begun under another active set. The rate of a step is its credit by its ticks, floored. */
static void credit(struct world *w, struct server *s, const struct cost_shape *shape,
                   const struct cost_step *c, uint64_t m, lull_time wall, lull_time speed,
                   lull_time to)
{
  lull_time lasted = to - s->mark;
  if (speed && is_narrow(s, m, lasted)) {
    credit_narrow(w, s, shape, c, s->unit * speed, m, s->unit * lasted);
    return;
  }
  base_int128 all = s->earned + (base_int128)s->unit * lasted;
  base_int128 one = m == 1 ? all : (base_int128)s->unit * wall;
  credit_wide(w, s, shape, c, (int64_t)(one / c->ticks), m, all);
}

static int take_steps(struct world *w, struct server *s, const struct lull_span *sp, uint64_t n)
{
  lull_time start = s->step_start;
  for (uint64_t i = 0; i < n;) {
    struct cost_step c;
    const struct cost_shape *shape = shape_now(w, s);
    cost_eval(s->cfg->cost, shape, &c);
    lull_time wall = step_length(sp, start, i), speed = whole_speed(s, wall, c.ticks);
    uint64_t m = n - i == 1 ? 1 : run_length(s, shape, &c, sp, wall, speed, i, n - i);
    if (s->measured)
      cost_count_outside(s->cfg->cost, shape, s->ctx_inc_q16, m, &w->out->misses);
    lull_time to = i + m == sp->steps ? sp->last_end : span_end(sp, i + m);
    if (RARE(to <= s->step_start))
      return world_broken(w, "server %d: a step ends at %lld ps, not after its start", s->v.id,
                          (long long)to);
    credit(w, s, shape, &c, m, wall, speed, to);
    gaps(w, s, sp, i, m);
    if (s->batch.chunks)
      advance_chunks(w, s, s->step_start);
    batch_advance(w, s, m, to);
    s->last_emit = s->step_start = s->mark = to;
    s->earned = 0;
    i += m;
  }
  w->out->steps += n;
  note_progress(w);
  return 0;
}

/* How many steps of a span ended by `cut`, which comes before its end. */
__attribute__((cold)) static uint64_t steps_until(const struct lull_span *sp, lull_time cut)
{
  uint64_t lo = 0, hi = sp->steps;
  while (hi - lo > 1) {
    uint64_t mid = lo + (hi - lo) / 2;
    if (span_end(sp, mid) <= cut)
      lo = mid;
    else
      hi = mid;
  }
  return lo;
}

/* A reason to plan, unless the plan in force declines it. */
static inline void give_reason(struct server *s, uint32_t reason)
{
  s->pending |= reason & ~s->plan.decline;
}

/* ASYNC: what finished a boundary ago may be given away. */
__attribute__((noinline)) static void settle_late(struct world *w, struct server *s)
{
  if (s->late_seqs)
    give_reason(s, LULL_WAKE_FINISH);
  s->v.seqs -= s->late_seqs;
  s->fixed_blocks -= s->cache ? prefix_release_late(w, s) : s->late_blocks;
  s->late_seqs = s->late_blocks = 0;
  s->lags = 0;
}

/* ASYNC: who arrived at or before `since` is known to the server. */
__attribute__((noinline)) static void settle_coming(struct world *w, struct server *s,
                                                    lull_time since)
{
  req_see(w, s, since);
  s->lags = s->late_seqs || s->coming >= 0;
}

void step_catch_up(struct world *w, struct server *s)
{
  settle_late(w, s);
  settle_coming(w, s, LULL_NEVER);
}

/* r, which has its last blocks, is done: its server may give away what it held, now or a step
 * later. */
static void note_finish(struct world *w, struct server *s, struct req *r)
{
  if (!RARE(s->cfg->async)) {
    give_reason(s, LULL_WAKE_FINISH);
    return;
  }
  s->lags = 1;
  s->late_seqs++;
  s->late_blocks += r->v.blocks;
  s->v.seqs++;
  if (s->cache)
    prefix_finish_late(w, s, r);
  else
    s->fixed_blocks += r->v.blocks;
}

static void finish_row(struct world *w, struct server *s, struct req *r, lull_time at)
{
  if (RARE(s->thorough))
    batch_leave(w, s, r);
  else
    batch_finish(s, r);
  note_finish(w, s, r);
  r->rec.last_token = at;
  req_end(w, r, WORLD_DONE);
  queue_own(w, LULL_EV_FINISHED, s->v.id, r->v.id, at);
}

/* Its last prompt token was computed: one token is out, and it joins the batch or is done. */
static void prompt_done(struct world *w, struct server *s, struct req *r, lull_time at)
{
  struct world_record *rec = &r->rec;
  if (rec->first_token == LULL_NEVER)
    rec->first_token = at;
  else
    base_hist_add(&w->out->cls[r->v.cls].itl, at - r->last_emit, 1);
  r->last_emit = at;
  r->v.gen0++;
  give_reason(s, LULL_WAKE_CHUNK);
  if (r->v.gen0 < r->output) {
    batch_join(w, s, r);
    return;
  }
  rec->last_token = at;
  note_finish(w, s, r);
  req_end(w, r, WORLD_DONE);
  queue_own(w, LULL_EV_FINISHED, s->v.id, r->v.id, at);
}

/* The lane is free at a boundary: rows and prompts that ended, chunks that run out (F8). All states
 * change before the first event tells of it. */
static void settle_boundary(struct world *w, struct server *s, lull_time at)
{
  while (s->rows && s->heap[0].step == s->step)
    finish_row(w, s, req_at(w, s->heap[0].id), at);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < s->batch.chunks; i++) {
    const struct chunk *c = &s->chunk[i];
    struct req *r = c->req;
    uint32_t left = r->v.prefill_target - r->v.prefill_done;
    r->chunk = -1;
    if (!left) {
      prompt_done(w, s, r, at);
      continue;
    }
    if (left < c->tokens)
      s->pending |= LULL_WAKE_CHUNK;
    r->chunk = (int32_t)kept;
    if (i != kept)
      s->chunk[kept] = *c;
    kept++;
  }
  if (kept != s->batch.chunks) {
    s->batch.chunks = kept;
    s->batch.chunk_tokens = 0;
    for (uint32_t i = 0; i < kept; i++)
      s->batch.chunk_tokens += s->chunk[i].tokens;
  }
}

/* The partial step's time is lost (F13, or the run's end): charged, on the step's first class. */
__attribute__((cold)) static void waste_partial(struct world *w, struct server *s, lull_time to)
{
  base_int128 credit_lost = s->earned + (base_int128)s->unit * (to - s->mark);
  int cls = residue_class(w, s);
  int account = w->cfg->cls[cls].interactive ? WORLD_LIVE_WASTED : WORLD_BATCH_WASTED;
  account_charge(w, s, account, credit_lost);
}

lull_time step_kernels(const struct world *w, struct server *s, lull_time cut, lull_time end)
{
  struct cost_step c;
  cost_eval(s->cfg->cost, shape_now(w, s), &c);
  lull_time kernels = s->step_start + c.host * LULL_TICK_PS;
  lull_time from = cut > kernels ? cut : kernels;
  return from < end ? end - from : 0;
}

/* A report's kernels, of which those up to the last change of the active set were counted with it.
 * Beside a micro-step it is the job that keeps the GPU busy (jobs_pass_time). */
static void count_busy(struct world *w, struct server *s, const struct lull_completion *c,
                       lull_time end)
{
  lull_time kernels = c->busy - s->counted;
  if (RARE(end < c->end))
    kernels -= step_kernels(w, s, end, c->end);
  if (s->unit == WORLD_CREDIT && kernels > 0) /* those of a device may be fewer than the model's */
    w->out->gpu_busy[s->cfg->gpu] += kernels;
  s->counted = 0;
}

/* LATE: the lane was free since `from`, and nobody knew. */
__attribute__((noinline)) static void charge_late(struct world *w, const struct server *s,
                                                  lull_time from)
{
  lull_time to = w->closing ? w->out->end : w->now;
  if (from >= to)
    return;
  if (s->unit == WORLD_CREDIT)
    account_idle(w, s, from, to);
  else
    account_charge(w, s, WORLD_TRAINING, (base_int128)(WORLD_CREDIT - s->unit) * (to - from));
}

int step_completed(struct world *w, struct server *s, const struct lull_completion *c)
{
  const struct lull_span *sp = &c->span;
  lull_time cut = RARE(w->closing) ? w->out->end : LULL_NEVER;
  uint64_t n = RARE(sp->last_end > cut) ? steps_until(sp, cut) : sp->steps;
  if (RARE(c->status != LULL_DEV_OK))
    return world_refused(w, c->status, "server %d: the device failed a step", s->v.id);
  if (n && RARE(take_steps(w, s, sp, n)))
    return -1;
  lull_time busy_end = c->end < cut ? c->end : cut;
  if (sp->steps || c->aborted)
    count_busy(w, s, c, busy_end);
  int partial = n < sp->steps || c->aborted || (w->closing && c->end > cut);
  if (RARE(partial) && busy_end > s->step_start)
    waste_partial(w, s, busy_end);
  if (partial || c->final) {
    s->step_start = s->mark = busy_end;
    s->earned = 0;
  }
  if (RARE(!c->final))
    return 0;
  if (RARE(c->end < w->now))
    charge_late(w, s, c->end);
  s->busy = 0;
  w->idle++;
  stop_listening(w, s);
  if (RARE(w->closing))
    return 0;
  if (RARE(c->aborted)) {
    w->out->aborts++;
    s->pending |= LULL_WAKE_ABORT;
  }
  int lags = s->lags;
  if (RARE(lags))
    settle_late(w, s);
  settle_boundary(w, s, c->end);
  if (RARE(lags))
    settle_coming(w, s, s->submitted);
  return RARE(w->failed) ? -1 : 0;
}
