/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Phases 2 and 3 of an instant: who is planned and why, and what is submitted. */
#include <stdlib.h>
#include <string.h>

#include "sim/world/internal.h"

/* Which wake conditions hold at a boundary (F8). Levels are evaluated here, once all is quiet. */
uint32_t plan_reasons(const struct world *w, const struct server *s)
{
  const struct lull_plan *p = &s->plan;
  uint64_t steps = s->step - s->plan_step;
  uint32_t why = s->pending & (LULL_WAKE_MANDATORY | p->wake);
  if (!s->started)
    why |= LULL_WAKE_START;
  int64_t most = (int64_t)s->rows * s->step_blocks;
  if (most > server_free(s) && batch_growth_next(w, s) > server_free(s))
    why |= LULL_WAKE_KV;
  if ((p->wake & LULL_WAKE_STEPS) && p->wake_steps && steps >= p->wake_steps)
    why |= LULL_WAKE_STEPS;
  if ((p->wake & LULL_WAKE_KV_LOW) && steps && server_free(s) < p->kv_low_blocks)
    why |= LULL_WAKE_KV_LOW;
  return why;
}

static void clear_chunks(struct server *s)
{
  for (uint32_t i = 0; i < s->batch.chunks; i++)
    s->chunk[i].req->chunk = -1;
  s->batch.chunks = 0;
  s->batch.chunk_tokens = 0;
}

/* Field by field: a literal would be zeroed by a string instruction, which costs more than all that
 * follows. */
static void open_plan(struct world *w, struct server *s, uint32_t why)
{
  struct lull_plan *p = &s->plan;
  _Static_assert(sizeof *p == 88 || sizeof(void *) < 8, "a new field needs its value here");
  p->size = sizeof *p;
  p->wake = 8191;
  p->wake_classes = UINT32_MAX;
  p->wake_steps = 0;
  p->wake_time = LULL_NEVER;
  p->kv_low_blocks = 0;
  p->decline = 0;
  p->server = s->v.id;
  p->time = w->now;
  p->why = why;
  p->steps_run = s->step - s->plan_step;
  p->tokens_left = (int64_t)s->v.token_budget - (int64_t)s->rows * s->v.row_tokens;
  p->blocks_left = server_free(s) - batch_growth_next(w, s);
  p->seqs_left = (int32_t)(s->v.max_seqs - s->v.seqs);
  s->plan_step = s->step;
  s->pending = 0;
  s->started = 1;
  if (w->wake_at[s->v.id] != LULL_NEVER) {
    w->wake_at[s->v.id] = LULL_NEVER;
    due_later(w);
  }
}

static void close_plan(struct world *w, struct server *s)
{
  struct lull_plan *p = &s->plan;
  if ((p->wake & LULL_WAKE_TIME) && p->wake_time != LULL_NEVER) {
    lull_time soonest = w->now + WORLD_MIN_WAKE;
    w->wake_at[s->v.id] = p->wake_time < soonest ? soonest : p->wake_time;
    due_earlier(w, w->wake_at[s->v.id]);
  }
}

/* F12: a plan that leaves too few blocks for its rows. The last PREFILL goes first, then rows. */
static void plan_force(struct world *w, struct server *s)
{
  static const int order[] = {LULL_PREFILL, LULL_DECODE};
  for (int k = 0; k < 2; k++) {
    for (int c = (int)w->nclasses - 1; c >= 0; c--) {
      while (s->plan.blocks_left < 0 && s->tail[order[k]][c] >= 0 && !w->failed) {
        struct req *r = req_at(w, s->tail[order[k]][c]);
        take_out(w, s, r, LULL_RECOMPUTE);
        w->out->forced++;
        log_line(w, s->v.id, WORLD_LOG_FORCED, r->v.id, 0, NULL);
        queue_own(w, LULL_EV_EVICTED, s->v.id, r->v.id, w->now);
      }
    }
  }
}

static int plan_once(struct world *w, struct server *s, uint32_t why)
{
  if (++w->plans_instant > WORLD_MAX_PLANS_INSTANT + w->nservers)
    return world_broken(w,
                        "server %d: more than %d plans in one instant; the policy '%s' does not "
                        "come to rest",
                        s->v.id, WORLD_MAX_PLANS_INSTANT, w->cfg->policy->name);
  if (++w->idle_plans > WORLD_MAX_IDLE_EVENTS)
    return world_broken(w,
                        "%d plans without a step, a copy, an arrival or an end: the policy '%s' "
                        "makes no progress",
                        WORLD_MAX_IDLE_EVENTS, w->cfg->policy->name);
  clear_chunks(s);
  open_plan(w, s, why);
  server_at_boundary(s);
  log_line(w, s->v.id, WORLD_LOG_PLAN, why, (int64_t)s->plan.steps_run, NULL);
  w->out->plans++;
  s->planning = 1;
  w->cfg->policy->plan(w->state, &w->host, &s->v, &s->plan);
  s->planning = 0;
  log_line(w, s->v.id, WORLD_LOG_PLANNED, s->plan.wake, (int64_t)s->plan.wake_steps, NULL);
  if (RARE(s->plan.blocks_left < 0))
    plan_force(w, s);
  close_plan(w, s);
  emit_own(w);
  return w->failed ? -1 : 0;
}

/* F14: an empty plan that wanted steps is asked once more. */
int plan_server(struct world *w, struct server *s, uint32_t why)
{
  if (plan_once(w, s, why))
    return -1;
  const struct lull_plan *p = &s->plan;
  if (!s->rows && !s->batch.chunks && (p->wake & LULL_WAKE_STEPS) && p->wake_steps)
    return plan_once(w, s, LULL_WAKE_EMPTY);
  return 0;
}

/* ------------------------------------------------------------------------------------ submit ---
 */

/* Steps until something at which this plan must be looked at again, as if nothing else happened. */
static uint64_t repeat_bound(const struct world *w, const struct server *s)
{
  uint64_t n = w->max_repeat;
  if (s->rows) {
    uint64_t left = s->heap[0].step - s->step;
    n = left < n ? left : n;
  }
  if (s->batch.chunks)
    n = s->chunk_steps < n ? s->chunk_steps : n;
  const struct lull_plan *p = &s->plan;
  if ((p->wake & LULL_WAKE_STEPS) && p->wake_steps && p->wake_steps - (s->step - s->plan_step) < n)
    n = p->wake_steps - (s->step - s->plan_step);
  return n;
}

/* KV for all repeats is granted before submit; a step after which KV_LOW holds is the last. */
static uint64_t repeat_by_kv(const struct world *w, const struct server *s, uint64_t n)
{
  int64_t free = server_free(s);
  n = batch_feasible(w, s, n, free);
  if ((s->plan.wake & LULL_WAKE_KV_LOW) && s->plan.kv_low_blocks) {
    int64_t spare = free - s->plan.kv_low_blocks;
    uint64_t above = spare < 0 ? 0 : batch_feasible(w, s, n, spare);
    if (above < n)
      n = above + 1;
  }
  return n;
}

/* What the device is told of the chunks: as they are now. */
static void lend_chunks(struct server *s)
{
  struct lull_batch *b = &s->batch;
  for (uint32_t i = 0; i < b->chunks; i++) {
    const struct chunk *c = &s->chunk[i];
    s->lent[i] = (struct lull_chunk){
        .request = c->req->v.id, .start = c->start, .tokens = c->tokens};
  }
  batch_sum_chunks(s);
  b->chunk_tokens = s->shape.chunk_tokens;
  b->chunk_ends = s->shape.chunk_ends;
  b->chunk_work = s->shape.chunk_work;
}

/* The rows by name, for a device that reads them: by class, then by entry. */
__attribute__((cold)) static void lend_rows(const struct world *w, struct server *s)
{
  uint32_t n = 0;
  if (s->row_version == s->batch.version)
    return;
  for (uint32_t c = 0; c < w->nclasses; c++) {
    for (lull_id i = s->head[LULL_DECODE][c]; i >= 0; i = req_at(w, i)->v.next)
      s->row[n++] = i;
  }
  s->row_version = s->batch.version;
}

int plan_submit(struct world *w, struct server *s)
{
  struct lull_batch *b = &s->batch;
  b->rows = s->rows;
  b->ctx_q16 = s->ctx_q16;
  b->ctx_inc_q16 = s->ctx_inc_q16;
  if (RARE(s->longest))
    b->ctx_max = s->rows ? batch_longest(s) : 0;
  if (b->chunks || s->shape.chunks)
    lend_chunks(s);
  if (RARE(s->row))
    lend_rows(w, s);
  uint64_t n = 1;
  if (RARE(s->lags)) /* what it holds back may change after every step */
    s->submitted = w->now;
  else
    n = repeat_bound(w, s);
  n = repeat_by_kv(w, s, n);
  if (RARE(account_check(w, s)))
    return -1;
  if (RARE(!n))
    return world_broken(w, "server %d: %u rows have no free KV block for the next step", s->v.id,
                        s->rows);
  s->forward.repeat = n;
  int st = w->ops->submit(w->dev, &s->forward);
  if (RARE(st != LULL_DEV_OK))
    return world_refused(w, st, "server %d: the device refused a step", s->v.id);
  s->busy = 1;
  w->idle--;
  s->stops = n == 1;
  s->listens = n > 1 && (s->plan.wake & LULL_WAKE_ARRIVAL);
  w->listening += s->listens;
  s->step_start = s->mark = w->now;
  s->earned = 0;
  return 0;
}

/* ------------------------------------------------------------------------------------ copies ---
 */

int queue_copy(struct world *w, struct server *s, struct req *r, uint8_t kind)
{
  if (s->copy_n == s->copy_cap) {
    uint32_t cap = s->copy_cap ? 2 * s->copy_cap : 16;
    struct copy *q = malloc(cap * sizeof *q);
    if (!q) {
      w->failed = 1;
      return base_fail_memory(w->err);
    }
    for (uint32_t i = 0; i < s->copy_n; i++)
      q[i] = s->copyq[(s->copy_head + i) % s->copy_cap];
    free(s->copyq);
    s->copyq = q;
    s->copy_head = 0;
    s->copy_cap = cap;
  }
  int64_t blocks = (r->v.kv0 + s->v.block_tokens - 1) / s->v.block_tokens;
  s->copyq[(s->copy_head + s->copy_n++) % s->copy_cap] = (struct copy){
      .id = r->v.id, .kind = kind, .bytes = blocks * s->cfg->block_bytes};
  return plan_submit_copy(w, s);
}

/* The next copy starts as soon as the lane is free: copies are submitted in any phase. */
int plan_submit_copy(struct world *w, struct server *s)
{
  if (s->copying || !s->copy_n)
    return 0;
  struct copy c = s->copyq[s->copy_head];
  struct lull_work work = {.size = sizeof work,
                           .kind = c.kind,
                           .lane = s->copy_lane,
                           .bytes = c.bytes,
                           .tag = (uint64_t)c.id,
                           .request = c.id};
  int st = w->ops->submit(w->dev, &work);
  if (st != LULL_DEV_OK)
    return world_refused(w, st, "server %d: the device refused a copy", s->v.id);
  s->copy_head = (s->copy_head + 1) % s->copy_cap;
  s->copy_n--;
  s->copying = 1;
  return 0;
}
