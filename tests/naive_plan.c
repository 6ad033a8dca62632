/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * When the naive world asks for a plan, and what it does with it: rules F8, F12 and F14.
 */
#include "tests/naive_inner.h"

enum { SHORTEST_WAKE_PS = 1000000, MOST_PLANS = 64, MOST_IDLE_PLANS = 100000, EVERYTHING = 8191 };

/* The plan before the policy's hand is in it: wake by everything. */
void naive_default_plan(struct lull_plan *p, const struct naive_server *s, lull_time now)
{
  *p = (struct lull_plan){.size = sizeof *p,
                          .server = s->v.id,
                          .time = now,
                          .wake = EVERYTHING,
                          .wake_classes = UINT32_MAX,
                          .wake_time = LULL_NEVER};
}

/* ASYNC: who arrived by then is seen from now on. */
void naive_see(struct naive_world *w, struct naive_server *s, lull_time since)
{
  for (size_t i = 0; i < w->n; i++) {
    struct naive_request *r = w->request[i];
    if (!r->unseen || r->v.server != s->v.id || r->v.arrival > since)
      continue;
    r->unseen = 0;
    naive_enter(w, r, LULL_WAITING);
    if ((s->plan.wake & LULL_WAKE_ARRIVAL) && (s->plan.wake_classes >> r->v.cls & 1))
      s->reasons |= LULL_WAKE_ARRIVAL;
  }
}

/* r is about to end, and gives back what it holds: now or, ASYNC, a step later. */
void naive_note_finish(struct naive_server *s, struct naive_request *r)
{
  if (!s->c->async) {
    s->reasons |= LULL_WAKE_FINISH & ~s->plan.decline;
    return;
  }
  s->late_seqs++;
  naive_let_go_later(s, r);
}

/* ASYNC: what finished a boundary ago is free for plans. */
void naive_settle_late(struct naive_server *s)
{
  if (s->late_seqs)
    s->reasons |= LULL_WAKE_FINISH & ~s->plan.decline;
  naive_late_blocks(s);
  s->v.seqs -= s->late_seqs;
  s->late_seqs = 0;
}

/* Blocks that the next step of all rows needs beside those they hold. */
static int64_t growth_of_rows(struct naive_world *w, const struct naive_server *s)
{
  int64_t sum = 0;
  for (size_t i = 0; i < w->n; i++)
    if (w->request[i]->v.server == s->v.id && w->request[i]->v.state == LULL_DECODE)
      sum += naive_growth(s, w->request[i]);
  return sum;
}

static uint32_t rows_of(const struct naive_server *s)
{
  uint32_t rows = 0;
  for (int c = 0; c < LULL_CLASSES; c++)
    rows += s->v.count[LULL_DECODE][c];
  return rows;
}

/* The wake bits that hold at a boundary: what was latched, and the levels. */
uint32_t naive_reasons(struct naive_world *w, const struct naive_server *s)
{
  uint32_t why = s->reasons;
  const struct lull_plan *p = &s->plan;
  if (growth_of_rows(w, s) > s->v.kv_free)
    why |= LULL_WAKE_KV;
  if ((p->wake & LULL_WAKE_KV_LOW) && s->since && s->v.kv_free < p->kv_low_blocks)
    why |= LULL_WAKE_KV_LOW;
  if ((p->wake & LULL_WAKE_STEPS) && p->wake_steps && s->since >= p->wake_steps)
    why |= LULL_WAKE_STEPS;
  return why;
}

/* The last request in `state` by (class descending, list order), or NULL. */
static struct naive_request *last_in(struct naive_world *w, const struct naive_server *s, int state)
{
  for (int c = (int)w->cfg->nclasses - 1; c >= 0; c--) {
    lull_id id = w->host.last(w, s->v.id, state, c);
    if (id >= 0)
      return naive_find(w, id);
  }
  return NULL;
}

/* F12: takes requests out until the next step's blocks are there. */
static void force_room(struct naive_world *w, struct naive_server *s, struct lull_plan *p)
{
  while (p->blocks_left < 0 && !w->failed) {
    struct naive_request *r = last_in(w, s, LULL_PREFILL);
    if (!r)
      r = last_in(w, s, LULL_DECODE);
    if (!r) {
      naive_fail(w, BASE_INVARIANT, "blocks are short and nothing is left to preempt");
      return;
    }
    naive_log(w, s->v.id, WORLD_LOG_FORCED, r->v.id, 0, NULL);
    w->draft = p;
    naive_preempt(w, s, r, LULL_RECOMPUTE);
    w->draft = NULL;
    w->out->forced++;
    naive_notify(w, LULL_EV_EVICTED, s->v.id, r->v.id);
  }
}

static void start_plan(struct naive_world *w, struct naive_server *s, struct lull_plan *p,
                       uint32_t why)
{
  naive_default_plan(p, s, w->now);
  p->why = why;
  p->steps_run = s->since;
  p->tokens_left = (int64_t)s->v.token_budget - (int64_t)rows_of(s) * s->v.row_tokens;
  p->blocks_left = (int64_t)s->v.kv_free - growth_of_rows(w, s);
  p->seqs_left = (int32_t)(s->v.max_seqs - s->v.seqs);
  s->reasons = 0;
  s->since = 0;
  s->nchunks = 0;
  w->out->plans++;
  if (++w->instant_plans > MOST_PLANS + w->cfg->nservers)
    naive_fail(w, BASE_INVARIANT, "too many plans in an instant");
  if (++w->idle_plans > MOST_IDLE_PLANS)
    naive_fail(w, BASE_INVARIANT, "plans without progress");
}

static void plan_once(struct naive_world *w, struct naive_server *s, uint32_t why)
{
  struct lull_plan p;
  start_plan(w, s, &p, why);
  if (w->failed)
    return;
  naive_log(w, s->v.id, WORLD_LOG_PLAN, p.why, (int64_t)p.steps_run, NULL);
  w->planning = s;
  w->draft = &p;
  w->cfg->policy->plan(w->state, &w->host, &s->v, &p);
  w->planning = NULL;
  w->draft = NULL;
  naive_log(w, s->v.id, WORLD_LOG_PLANNED, p.wake, (int64_t)p.wake_steps, NULL);
  s->plan = p;
  s->wake_time = LULL_NEVER;
  if ((p.wake & LULL_WAKE_TIME) && p.wake_time != LULL_NEVER) {
    lull_time soonest = w->now + SHORTEST_WAKE_PS;
    s->wake_time = p.wake_time < soonest ? soonest : p.wake_time;
  }
  force_room(w, s, &p);
  naive_flush(w);
}

/* Plans a server at a boundary; if the plan is empty but wants steps, once more (F14). */
void naive_plan(struct naive_world *w, struct naive_server *s)
{
  plan_once(w, s, naive_reasons(w, s));
  if (!w->failed && !rows_of(s) && !s->nchunks && (s->plan.wake & LULL_WAKE_STEPS) &&
      s->plan.wake_steps)
    plan_once(w, s, LULL_WAKE_EMPTY);
}

/* The first server at a boundary that has a reason. One that is async and has nothing to run knows
 * all by now. */
struct naive_server *naive_next_to_plan(struct naive_world *w)
{
  for (uint32_t i = 0; i < w->cfg->nservers; i++) {
    struct naive_server *s = &w->server[i];
    if (s->stepping)
      continue;
    if (s->c->async && !s->nchunks && !rows_of(s)) {
      naive_settle_late(s);
      naive_see(w, s, w->now);
    }
    if (naive_reasons(w, s))
      return s;
  }
  return NULL;
}
