/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The loop of instants. A request's way through the files: deliver.c (arrives, is routed), plan.c
 * and host.c (is admitted and given chunks), step.c (computes, emits, ends), account.c (is
 * charged).
 */
#include "sim/world/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world/internal.h"

int world_broken(struct world *w, const char *fmt, ...)
{
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  w->failed = 1;
  return base_fail(w->err, BASE_INVARIANT, "invariant broken at %.9f s: %s", (double)w->now * 1e-12,
                   text);
}

int world_refused(struct world *w, int status, const char *fmt, ...)
{
  char text[256];
  const char *why = LULL_HAS(w->ops, why) && w->ops->why ? w->ops->why(w->dev) : NULL;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  w->failed = 1;
  return base_fail(w->err, status == LULL_DEV_DIFFERS ? BASE_INPUT : BASE_ENV, "%s (status %d)%s%s",
                   text, status, why ? ": " : "", why ? why : "");
}

/* ------------------------------------------------------------------------------------- set-up ---
 */

int world_open_lane(struct world *w, int gpu, int kind, int owner)
{
  int lane = w->ops->lane_open(w->dev, &gpu, 1, kind);
  if (lane >= LULL_LANES)
    return LULL_DEV_BAD_CALL;
  if (lane < 0)
    return lane;
  w->lane[lane] = (struct lane_use){.kind = (uint8_t)kind, .owner = (int16_t)owner};
  return lane;
}

static int init_server(struct world *w, uint32_t i)
{
  struct server *s = &w->srv[i];
  const struct world_server *c = s->cfg = &w->cfg->server[i];
  s->v = (struct lull_server){.size = sizeof s->v,
                              .id = (lull_server_id)i,
                              .class_mask = c->class_mask,
                              .max_seqs = c->max_seqs,
                              .token_budget = c->token_budget,
                              .row_tokens = c->row_tokens,
                              .block_tokens = c->block_tokens,
                              .kv_blocks = c->kv_blocks,
                              .watermark_blocks = c->watermark_blocks,
                              .layers = c->layers,
                              .kv_free = c->kv_blocks};
  memset(s->head, -1, sizeof s->head);
  memset(s->tail, -1, sizeof s->tail);
  s->block_shift = (uint32_t)__builtin_ctz(c->block_tokens);
  s->step_blocks = (c->row_tokens + c->block_tokens - 1) >> s->block_shift;
  s->chunk = calloc(c->max_seqs, sizeof *s->chunk);
  s->lent = calloc(c->max_seqs, sizeof *s->lent);
  s->heap = calloc(c->max_seqs, sizeof *s->heap);
  s->heap_at = calloc(c->max_seqs, sizeof *s->heap_at);
  if (cost_needs_longest(c->cost)) {
    s->longest = calloc(c->max_seqs, sizeof *s->longest);
    s->longest_at = calloc(c->max_seqs, sizeof *s->longest_at);
    if (!s->longest || !s->longest_at)
      return base_fail_memory(w->err);
  }
  s->slots = calloc(c->max_seqs, sizeof *s->slots);
  s->fresh = calloc(c->max_seqs, sizeof *s->fresh);
  s->residue = calloc(c->block_tokens, sizeof *s->residue);
  if (!s->chunk || !s->lent || !s->heap || !s->heap_at || !s->slots || !s->fresh || !s->residue)
    return base_fail_memory(w->err);
  if (w->telling) {
    s->batch.row = s->row = calloc(c->max_seqs, sizeof *s->row);
    if (!s->row)
      return base_fail_memory(w->err);
  }
  s->batch.row_tokens = c->row_tokens;
  s->batch.chunk = s->lent;
  for (uint32_t k = 0; k < c->max_seqs; k++)
    s->slots[k] = k;
  s->coming = -1;
  s->thorough = c->async || c->prefix_caching;
  if (c->prefix_caching && prefix_open(w, s))
    return -1;
  s->plan.wake_time = LULL_NEVER;
  s->unit = WORLD_CREDIT;
  s->speed = LULL_TICK_PS;
  s->measured = (uint8_t)cost_is_measured(c->cost);
  w->wake_at[i] = LULL_NEVER;
  int lane = world_open_lane(w, c->gpu, LULL_LANE_SERVE, (int)i);
  int copy = world_open_lane(w, c->gpu, LULL_LANE_COPY, (int)i);
  if (lane < 0 || copy < 0)
    return world_refused(w, lane < 0 ? lane : copy,
                         "the device opens no lane on GPU %d for server %u", c->gpu, i);
  s->lane = (lull_lane_id)lane;
  s->copy_lane = (lull_lane_id)copy;
  s->forward = (struct lull_work){.size = sizeof s->forward,
                                  .kind = LULL_WORK_FORWARD,
                                  .lane = s->lane,
                                  .batch = &s->batch,
                                  .tag = i};
  int st = w->ops->reserve(w->dev, c->gpu, (int64_t)c->kv_blocks * c->block_bytes);
  if (st == LULL_DEV_NO_MEMORY)
    return base_fail(w->err, BASE_INPUT,
                     "server %u: a KV pool of %u blocks does not fit the memory of GPU %d", i,
                     c->kv_blocks, c->gpu);
  if (st)
    return world_refused(w, st, "server %u: the device gives no memory of GPU %d", i, c->gpu);
  s->reserved = 1;
  return 0;
}

static int check_jobs(const struct world_config *cfg, struct base_error *e)
{
  uint64_t used = 0;
  for (uint32_t i = 0; i < cfg->njobs; i++) {
    const struct world_job *j = &cfg->job[i];
    if (j->gpu < 0 || j->gpu >= (int)cfg->ngpus || (used >> j->gpu & 1) || j->micro_ticks < 1)
      return base_fail(e, BASE_INPUT,
                       "job '%s': GPU %d is unknown or has a job already, or its micro-step has no "
                       "work",
                       j->name, j->gpu);
    used |= UINT64_C(1) << j->gpu;
  }
  return 0;
}

/* One server a GPU, and one job. */
static int check_config(const struct world_config *cfg, struct base_error *e)
{
  uint64_t used = 0;
  if (!cfg->nclasses || cfg->nclasses > LULL_CLASSES || !cfg->nservers ||
      cfg->nservers > LULL_SERVERS || cfg->ngpus != cfg->nservers || cfg->window <= 0)
    return base_fail(e, BASE_INPUT,
                     "an arm needs 1 to %d classes, 1 to %d servers each on a GPU of "
                     "its own, and a window longer than 0",
                     LULL_CLASSES, LULL_SERVERS);
  for (uint32_t i = 0; i < cfg->nservers; i++) {
    const struct world_server *s = &cfg->server[i];
    if (s->gpu < 0 || s->gpu >= (int)cfg->ngpus || (used >> s->gpu & 1))
      return base_fail(e, BASE_INPUT, "server %u: GPU %d is unknown or has a server already", i,
                       s->gpu);
    used |= UINT64_C(1) << s->gpu;
    if (!s->max_seqs || s->token_budget < s->row_tokens || !s->row_tokens || !s->block_tokens ||
        (s->block_tokens & (s->block_tokens - 1)) || !s->kv_blocks || !s->layers || !s->cost)
      return base_fail(e, BASE_INPUT,
                       "server %u: max sequences, blocks and layers are at least 1, a block is a "
                       "power of two of tokens, and a row's tokens fit the token budget",
                       i);
  }
  return check_jobs(cfg, e);
}

static int start_policy(struct world *w)
{
  const struct lull_policy *p = w->cfg->policy;
  w->state = calloc(1, p->state_size ? p->state_size : 1);
  if (!w->state)
    return base_fail_memory(w->err);
  const char *why = p->create ? p->create(w->state, &w->host, w->cfg->params) : NULL;
  if (why)
    return base_fail(w->err, BASE_INPUT, "policy '%s' cannot serve this arm: %s", p->name, why);
  return 0;
}

static int world_init(struct world *w)
{
  const struct world_config *cfg = w->cfg;
  if (check_config(cfg, w->err))
    return -1;
  static const volatile int never = 0;
  w->nservers = cfg->nservers;
  w->nclasses = cfg->nclasses;
  w->nbacklogs = cfg->nbacklogs;
  w->njobs = cfg->njobs;
  w->window = cfg->window;
  w->stop = cfg->stop ? cfg->stop : &never;
  w->telling = LULL_HAS(w->ops, forget) && w->ops->request && w->ops->forget;
  w->arriving = -1;
  w->deadline = cfg->drain > LULL_NEVER - cfg->window ? LULL_NEVER : cfg->window + cfg->drain;
  w->quiet_policy = !cfg->policy->event && !cfg->log;
  w->patient = w->quiet_policy && !cfg->njobs;
  for (uint32_t i = 0; i < cfg->nservers; i++)
    w->patient &= !cfg->server[i].async;
  w->max_repeat = w->ops->max_repeat(w->dev);
  if (cfg->max_repeat && cfg->max_repeat < w->max_repeat)
    w->max_repeat = cfg->max_repeat;
  for (int i = 0; i < LULL_LANES; i++)
    w->lane[i].owner = -1;
  w->idle = cfg->nservers;
  w->srv = calloc(cfg->nservers, sizeof *w->srv);
  w->wake_at = calloc(cfg->nservers, sizeof *w->wake_at);
  w->ncomp_max = 2 * (int)cfg->nservers + (int)cfg->njobs;
  w->comp = calloc((size_t)w->ncomp_max, sizeof *w->comp);
  if (!w->srv || !w->wake_at || !w->comp)
    return base_fail_memory(w->err);
  w->out->nclasses = cfg->nclasses;
  for (uint32_t c = 0; c < cfg->nclasses; c++) {
    if (base_hist_init(&w->out->cls[c].itl))
      return base_fail_memory(w->err);
  }
  for (uint32_t i = 0; i < cfg->nservers; i++) {
    if (init_server(w, i))
      return -1;
  }
  for (uint32_t i = 0; i < cfg->nbacklogs; i++)
    w->srv[cfg->backlog[i].server].refilled = 1;
  if (jobs_init(w))
    return -1;
  host_init(w);
  w->now = w->ops->now(w->dev);
  return start_policy(w) || fetch_next(w) ? -1 : 0;
}

static void world_free(struct world *w)
{
  if (w->state && w->cfg->policy->destroy)
    w->cfg->policy->destroy(w->state);
  free(w->state);
  for (uint32_t i = 0; w->srv && i < w->nservers; i++) {
    struct server *s = &w->srv[i];
    if (s->reserved)
      w->ops->release(w->dev, s->cfg->gpu, (int64_t)s->cfg->kv_blocks * s->cfg->block_bytes);
    free(s->chunk);
    free(s->lent);
    free(s->row);
    free(s->heap);
    free(s->heap_at);
    free(s->longest);
    free(s->longest_at);
    free(s->slots);
    free(s->fresh);
    free(s->residue);
    free(s->copyq);
    prefix_close(s);
  }
  req_free_pages(w);
  free(w->srv);
  free(w->job);
  free(w->wake_at);
  free(w->timer);
  free(w->own);
  free(w->comp);
}

/* -------------------------------------------------------------------------------------- loop ---
 */

static int is_over(struct world *w)
{
  if (RARE(*w->stop)) {
    w->out->partial = 1;
    return 1;
  }
  if (RARE(w->now >= w->deadline))
    return 1;
  return !w->unfinished && !w->has_next && w->now >= w->window;
}

static int work_pending(const struct world *w)
{
  for (uint32_t i = 0; i < w->nservers; i++) {
    if (w->srv[i].busy || w->srv[i].copying || job_will_wake(&w->srv[i]))
      return 1;
  }
  return 0;
}

static int stalled(struct world *w)
{
  for (uint32_t i = 0; i < w->nservers; i++) {
    const struct lull_server *v = &w->srv[i].v;
    uint64_t n[LULL_STATES] = {0};
    if (!w->srv[i].unfinished)
      continue;
    for (int st = 0; st < LULL_STATES; st++) {
      for (uint32_t c = 0; c < w->nclasses; c++)
        n[st] += v->count[st][c];
    }
    return world_broken(w,
                        "stalled: server %u has %llu requests waiting, %llu in prefill, %llu held "
                        "and %llu swapped out, %lld of %u KV blocks free, and nothing pending: "
                        "the policy '%s' leaves them",
                        i, (unsigned long long)n[LULL_WAITING], (unsigned long long)n[LULL_PREFILL],
                        (unsigned long long)n[LULL_HELD], (unsigned long long)n[LULL_SWAPPED],
                        (long long)server_free(&w->srv[i]), v->kv_blocks, w->cfg->policy->name);
  }
  return world_broken(w, "stalled with nothing pending");
}

/* Is it at a boundary with nothing to run? */
static int is_empty(const struct server *s)
{
  return !s->busy && !s->rows && !s->batch.chunks;
}

/* Plans the servers at a boundary that have a reason, always the lowest first: back to the first
 * one if a plan, or what was delivered after it, may have given a reason to any. A plan just made
 * is no reason for another. */
static int plan_all(struct world *w)
{
  for (uint32_t i = 0; i < w->nservers; i++) {
    struct server *s = &w->srv[i];
    if (RARE(s->lags) && is_empty(s))
      step_catch_up(w, s);
    uint32_t why = s->busy ? 0 : plan_reasons(w, s);
    if (!why)
      continue;
    w->wanted = 0;
    if (plan_server(w, s, why))
      return -1;
    w->wanted |= s->lags && is_empty(s);
    if (!is_quiet(w)) {
      w->wanted = 1;
      if (deliver_due(w))
        return -1;
    }
    if (w->wanted)
      i = UINT32_MAX;
  }
  return 0;
}

/* One instant: deliver until quiet, plan, submit. */
static int instant(struct world *w, int *over)
{
  w->plans_instant = 0;
  if (deliver(w) || (w->idle && plan_all(w)))
    return -1;
  *over = is_over(w);
  if (*over)
    return 0;
  for (uint32_t i = 0; w->idle && i < w->nservers; i++) {
    struct server *s = &w->srv[i];
    if (!s->busy && (s->rows || s->batch.chunks) && plan_submit(w, s))
      return -1;
  }
  if (RARE(w->njobs) && jobs_submit(w))
    return -1;
  return 0;
}

/*
 * May the arrivals that are due next be taken in when the device reports, rather than each in an
 * instant of its own? Where nobody hears of them, no server is ASYNC, no GPU is idle, and no lane
 * would be interrupted for one, all that comes of them is a place in a queue, which is the same if
 * it is given before the next completion is looked at.
 */
static inline int arrivals_may_wait(const struct world *w)
{
  return w->patient && !w->idle && !w->listening && w->next.time == w->due;
}

/* Time passes: what was idle is charged, what ended is taken in. */
static int pass_time(struct world *w)
{
  int late = arrivals_may_wait(w);
  lull_time due = late ? w->due_other : w->due;
  lull_time until = due < w->deadline ? due : w->deadline;
  if (RARE(until == LULL_NEVER) && !work_pending(w))
    return stalled(w);
  int n = w->ops->wait(w->dev, until, w->comp, w->ncomp_max);
  lull_time now = w->ops->now(w->dev);
  if (RARE(now < w->now))
    return world_broken(w, "the device's clock went back to %lld ps", (long long)now);
  lull_time before = w->now;
  w->now = now;
  account_time(w, before, now);
  if (RARE(w->njobs))
    jobs_pass_time(w, before, now);
  int in_past = n > 0 && w->comp[0].end < now; /* and some of the arrivals perhaps after it */
  if (late && !in_past && deliver_unheard(w))
    return -1;
  return RARE(w->due < now || in_past) ? deliver_late(w, n) : deliver_completions(w, n);
}

/* All that lives ends unfinished, in the order of ids. */
static void end_unfinished(struct world *w)
{
  for (uint64_t id = 0; id < w->nreq; id++) {
    if (!w->page[id >> REQ_CHUNK_BITS]) {
      id |= REQ_CHUNK - 1;
      continue;
    }
    struct req *r = req_at(w, (lull_id)id);
    if (r->rec.fate != WORLD_PENDING)
      continue;
    if (r->v.state == LULL_DECODE)
      batch_leave(w, req_server(w, r), r);
    req_end(w, r, WORLD_UNFINISHED);
  }
}

/* The run has ended at w->now: lanes are stopped at their next boundary, and what they did after
 * the end is cut off. */
static int close_run(struct world *w)
{
  w->out->end = w->now;
  w->closing = 1;
  for (uint32_t i = 0; i < w->nservers; i++) {
    if (w->srv[i].busy)
      w->ops->interrupt(w->dev, w->srv[i].lane, LULL_AT_BOUNDARY);
  }
  for (uint32_t i = 0; i < w->nservers; i++) {
    while (w->srv[i].busy) {
      int n = w->ops->wait(w->dev, LULL_NEVER, w->comp, w->ncomp_max);
      if (deliver_completions(w, n))
        return -1;
    }
  }
  for (uint32_t i = 0; i < w->nservers; i++) {
    if (w->srv[i].lags)
      step_catch_up(w, &w->srv[i]);
  }
  end_unfinished(w);
  return account_close(w);
}

static int loop(struct world *w)
{
  const uint64_t often = w->telling ? 15 : 4095; /* real devices take their time */
  for (uint64_t i = 0;; i++) {
    int over;
    if (RARE(instant(w, &over) || w->failed))
      return -1;
    if (RARE(over))
      return close_run(w);
    if (RARE(w->cfg->progress) && (i & often) == 0)
      w->cfg->progress(w->cfg->progress_ctx, w->now, w->ended);
    if (RARE(pass_time(w) || w->failed))
      return -1;
  }
}

int world_run(const struct world_config *cfg, struct lull_device *dev,
              const struct lull_device_ops *ops, struct world_result *out, struct base_error *e)
{
  struct base_error none = {0};
  struct world w = {.cfg = cfg, .dev = dev, .ops = ops, .out = out, .err = e ? e : &none};
  memset(out, 0, sizeof *out);
  if (ops->size < offsetof(struct lull_device_ops, request) || ops->abi != LULL_DEVICE_ABI)
    return base_fail(e, BASE_INPUT,
                     "the device speaks another version of the contract (%u, not %d)", ops->abi,
                     LULL_DEVICE_ABI);
  int st = world_init(&w) || loop(&w) ? -1 : 0;
  world_free(&w);
  return st;
}

void world_result_free(struct world_result *r)
{
  free(r->record);
  for (uint32_t c = 0; c < LULL_CLASSES; c++)
    base_hist_free(&r->cls[c].itl);
  memset(r, 0, sizeof *r);
}
