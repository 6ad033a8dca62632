/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The naive world's loop: instants (deliver, plan, submit, let time pass) as the head of
 * sim/world/world.h words them, one step of a server at a time.
 */
#include "tests/naive_world.h"

#include <stdlib.h>
#include <string.h>

#include "tests/naive_inner.h"

enum { MOST_IDLE_EVENTS = 100000, MOST_PREEMPTS = 100000 };

/* ------------------------------------------------------------------------- steps and copies --- */

/* A token (or several at once) of r leaves at now: times and the gap to its last one. */
static void emit(struct naive_world *w, struct naive_request *r, uint32_t tokens)
{
  r->generated += tokens;
  if (r->rec.first_token == LULL_NEVER)
    r->rec.first_token = w->now;
  else
    base_hist_add(&w->out->cls[r->rec.cls].itl, w->now - r->last_emit, 1);
  r->last_emit = w->now;
}

/* Counts a row's tokens of the step that ended now, one by one where they are delivered. */
static void advance_row(struct naive_world *w, struct naive_server *s, struct naive_request *r)
{
  uint32_t due = r->rate + r->phase, tokens = due >> 16, given = 0;
  r->phase = due & 0xffff;
  for (uint32_t i = 0; i < tokens; i++) {
    r->kv++;
    given += r->generated + given < r->a.output;
  }
  naive_hold(w, s, r, lull_blocks_for(&s->v, r->kv));
  naive_name(s, r, r->kv);
  if (given)
    emit(w, r, given);
}

/* What a whole step changes whatever the world then does about it: this much every view shows. */
static void advance_step(struct naive_world *w, struct naive_server *s)
{
  naive_credit_step(w, s);
  cost_count_outside(s->gpu->cost, &s->shape, 0, 1, &w->out->misses);
  s->v.step++;
  s->v.boundary = w->now;
  s->since++;
  w->out->steps++;
  for (size_t i = 0; i < w->n; i++) {
    struct naive_request *r = w->request[i];
    if (r->v.server == s->v.id && r->v.state == LULL_DECODE)
      advance_row(w, s, r);
  }
  for (uint32_t i = 0; i < s->nchunks; i++) {
    struct naive_request *r = naive_find(w, s->chunk[i].id);
    r->v.prefill_done += s->chunk[i].tokens;
    r->v.kv0 = r->v.prefill_done;
    naive_name(s, r, r->v.kv0);
    if (r->rec.first_chunk == LULL_NEVER)
      r->rec.first_chunk = s->start;
  }
}

static void finish(struct naive_world *w, struct naive_server *s, struct naive_request *r)
{
  naive_note_finish(s, r);
  naive_end(w, r, WORLD_DONE);
  naive_notify(w, LULL_EV_FINISHED, s->v.id, r->v.id);
}

/* A prompt is complete: its first (or next) token is out, and it is a row from here on. */
static void complete_prompt(struct naive_world *w, struct naive_server *s, struct naive_request *r)
{
  emit(w, r, 1);
  r->kv = r->v.prefill_target;
  naive_enter(w, r, LULL_DECODE);
  if (r->generated == r->a.output)
    finish(w, s, r);
}

/* Chunks of prompts that are complete are over. */
static void drop_done(struct naive_world *w, struct naive_server *s)
{
  uint32_t kept = 0;
  for (uint32_t i = 0; i < s->nchunks; i++)
    if (naive_find(w, s->chunk[i].id)->v.state == LULL_PREFILL)
      s->chunk[kept++] = s->chunk[i];
  s->nchunks = kept;
}

/* Whole step: rows that end, by id; then chunks, in plan order. */
static void settle_step(struct naive_world *w, struct naive_server *s)
{
  for (size_t i = 0; i < w->n; i++) {
    struct naive_request *r = w->request[i];
    if (r->v.server == s->v.id && r->v.state == LULL_DECODE && r->generated == r->a.output)
      finish(w, s, r);
  }
  for (uint32_t i = 0; i < s->nchunks; i++) {
    struct naive_request *r = naive_find(w, s->chunk[i].id);
    uint32_t left = r->v.prefill_target - r->v.prefill_done;
    if (left ? left < s->chunk[i].tokens : !(s->plan.decline & LULL_WAKE_CHUNK))
      s->reasons |= LULL_WAKE_CHUNK;
    if (!left)
      complete_prompt(w, s, r);
  }
  drop_done(w, s);
}

static void settle_abort(struct naive_world *w, struct naive_server *s)
{
  naive_credit_lost(w, s);
  s->reasons |= LULL_WAKE_ABORT;
  w->out->aborts++;
}

/* The head of the copy lane has ended; the next one starts at that moment. */
static void settle_copy(struct naive_world *w, struct naive_server *s)
{
  struct naive_request *r = naive_find(w, s->copy[0].id);
  w->out->swaps++;
  s->ncopies--;
  memmove(s->copy, s->copy + 1, s->ncopies * sizeof *s->copy);
  if (s->ncopies)
    s->copy[0].end = w->now + s->copy[0].last;
  if (r->v.state == LULL_SWAPPING_OUT) {
    naive_let_go(s, r);
    naive_enter(w, r, LULL_SWAPPED);
  } else {
    naive_enter(w, r, LULL_HELD);
  }
  if (s->plan.wake & LULL_WAKE_TRANSFER)
    s->reasons |= LULL_WAKE_TRANSFER;
  naive_notify(w, LULL_EV_TRANSFERRED, s->v.id, r->v.id);
}

/* Phase 1. First every server's views come up to now, then what ended is dealt with by lane:
 * a server's step, then its copy; then it is told. Returns whether anything ended. */
static int deliver_completions(struct naive_world *w)
{
  int ended[LULL_SERVERS] = {0}, any = 0;
  for (uint32_t i = 0; i < w->cfg->nservers; i++) {
    struct naive_server *s = &w->server[i];
    if (!s->stepping || naive_end_of(&s->pace) > w->now)
      continue;
    ended[i] = any = 1;
    s->stepping = s->v.stepping = 0;
    if (!s->aborted)
      advance_step(w, s);
  }
  for (uint32_t i = 0; i < w->cfg->nservers; i++) {
    struct naive_server *s = &w->server[i];
    if (ended[i])
      naive_moved(w);
    if (ended[i])
      naive_settle_late(s);
    if (ended[i] && s->aborted)
      settle_abort(w, s);
    else if (ended[i])
      settle_step(w, s);
    if (ended[i])
      naive_see(w, s, s->start);
    if (s->ncopies && s->copy[0].end <= w->now) {
      naive_moved(w);
      settle_copy(w, s);
      any = 1;
    }
  }
  naive_jobs_done(w);
  naive_flush(w);
  return any;
}

/* --------------------------------------------------------------------------------- arrivals --- */

static struct naive_request *new_request(struct naive_world *w, const struct world_arrival *a)
{
  if (w->n == w->cap) {
    w->request = naive_grow(w, w->request, &w->cap, sizeof(struct naive_request *));
    if (w->failed)
      return NULL;
  }
  struct naive_request *r = calloc(1, sizeof *r);
  if (!r) {
    w->failed = 1;
    base_fail_memory(w->e);
    return NULL;
  }
  r->a = *a;
  r->v = (struct lull_request){.size = sizeof r->v,
                               .id = (lull_id)w->n,
                               .next = -1,
                               .prev = -1,
                               .server = -1,
                               .cls = a->cls,
                               .state = LULL_WAITING,
                               .prompt = a->prompt,
                               .max_tokens = a->output,
                               .prefill_target = a->prompt,
                               .arrival = w->now};
  r->rec = (struct world_record){.arrival = w->now,
                                 .first_chunk = LULL_NEVER,
                                 .first_token = LULL_NEVER,
                                 .last_token = LULL_NEVER,
                                 .prompt = a->prompt,
                                 .output = a->output,
                                 .server = -1,
                                 .cls = a->cls};
  w->request[w->n++] = r;
  w->unfinished++;
  naive_moved(w);
  return r;
}

/* The default: of those that can hold it the server with the fewest unfinished requests. */
static int default_server(struct naive_world *w, const struct naive_request *r)
{
  int best = -1;
  for (uint32_t i = 0; i < w->cfg->nservers; i++) {
    const struct naive_server *s = &w->server[i];
    if (naive_can_hold(s, r) && (best < 0 || s->unfinished < w->server[best].unfinished))
      best = (int)i;
  }
  return best;
}

static void put_on(struct naive_world *w, struct naive_request *r, int server)
{
  struct naive_server *s = &w->server[server];
  r->v.server = (lull_server_id)server;
  r->rate = s->v.row_tokens > 1 ? world_rate_q16(r->a.accept_q16, s->v.row_tokens - 1)
                                : LULL_Q16_ONE;
  r->phase = s->v.row_tokens > 1 ? r->a.phase_q16 : 0;
  r->unseen = s->c->async && (s->stepping || (s->v.step && s->v.boundary == w->now));
  naive_enter(w, r, LULL_WAITING);
}

/* A request arrives now; own: the server that it is refilled for, or -1. */
static void arrive(struct naive_world *w, const struct world_arrival *a, int own)
{
  struct naive_request *r = new_request(w, a);
  if (!r)
    return;
  int fits = own >= 0 ? naive_can_hold(&w->server[own], r) : default_server(w, r) >= 0;
  if (!fits) {
    naive_end(w, r, WORLD_FATE_FAILED);
    naive_event(w, LULL_EV_FAILED, -1, r->v.id, 0);
    return;
  }
  if (own >= 0)
    put_on(w, r, own);
  w->arriving = r->v.id;
  w->named_server = -1;
  naive_event(w, LULL_EV_ARRIVED, own, r->v.id, 0);
  w->arriving = -1;
  if (r->ended)
    return;
  if (own < 0)
    put_on(w, r, w->named_server >= 0 ? w->named_server : default_server(w, r));
  struct naive_server *s = &w->server[r->v.server];
  if (!r->unseen && (s->plan.wake & LULL_WAKE_ARRIVAL) && (s->plan.wake_classes >> r->v.cls & 1))
    s->reasons |= LULL_WAKE_ARRIVAL;
}

/* Reads the next row; rows at or after the window's end do not arrive. */
static void look_ahead(struct naive_world *w)
{
  int rc = w->cfg->source.next(w->cfg->source.ctx, &w->ahead, w->e);
  w->has_ahead = rc > 0 && w->ahead.time < w->cfg->window;
  if (rc < 0)
    w->failed = 1;
}

static int deliver_arrivals(struct naive_world *w)
{
  int any = 0;
  while (w->has_ahead && w->ahead.time <= w->now && !w->failed) {
    struct world_arrival a = w->ahead;
    look_ahead(w);
    arrive(w, &a, -1);
    any = 1;
  }
  return any;
}

/* Items in a row that may end at their own arrival. */
enum { MOST_LOST_ITEMS = 10000 };

static int deliver_refills(struct naive_world *w)
{
  int any = 0;
  for (uint32_t i = 0; i < w->cfg->nbacklogs; i++) {
    const struct world_backlog *b = &w->cfg->backlog[i];
    int lost = 0;
    while (w->now < w->cfg->window && w->server[b->server].unfinished < b->below && !w->failed) {
      struct world_arrival a = {0};
      if (w->cfg->source.refill(w->cfg->source.ctx, b->cls, w->released[b->cls]++, &a, w->e) < 0) {
        w->failed = 1;
        return 0;
      }
      a.cls = b->cls;
      w->out->released++;
      size_t before = w->n;
      arrive(w, &a, b->server);
      any = 1;
      int kept = w->n > before && w->request[w->n - 1]->v.state == LULL_WAITING;
      lost = kept ? 0 : lost + 1;
      if (lost > MOST_LOST_ITEMS)
        naive_fail(w, BASE_INPUT, "backlog items that nobody can take");
    }
  }
  return any;
}

/* ------------------------------------------------------------------------ timers and phases --- */

static size_t next_timer(const struct naive_world *w)
{
  size_t best = 0;
  for (size_t i = 1; i < w->ntimers; i++)
    if (w->timer[i].at < w->timer[best].at ||
        (w->timer[i].at == w->timer[best].at && w->timer[i].order < w->timer[best].order))
      best = i;
  return best;
}

static int deliver_timers(struct naive_world *w)
{
  int any = 0;
  while (w->ntimers && !w->failed) {
    size_t i = next_timer(w);
    uint64_t tag = w->timer[i].tag;
    if (w->timer[i].at > w->now)
      break;
    w->timer[i] = w->timer[--w->ntimers];
    w->idle_events++;
    naive_event(w, LULL_EV_TIMER, -1, -1, tag);
    any = 1;
  }
  return any;
}

/* A time wake of a server without a request passes unseen (F14). */
static int deliver_wakes(struct naive_world *w)
{
  int any = 0;
  for (uint32_t i = 0; i < w->cfg->nservers; i++) {
    struct naive_server *s = &w->server[i];
    if (s->wake_time > w->now)
      continue;
    s->wake_time = LULL_NEVER;
    if (!s->unfinished)
      continue;
    s->reasons |= LULL_WAKE_TIME;
    w->idle_events++;
    any = 1;
  }
  return any;
}

static int deliver_drain(struct naive_world *w)
{
  if (w->drained || w->now < w->cfg->window)
    return 0;
  w->drained = 1;
  uint64_t tag = w->cfg->drain == LULL_NEVER ? 0 : (uint64_t)(w->cfg->window + w->cfg->drain);
  naive_event(w, LULL_EV_DRAIN, -1, -1, tag);
  return 1;
}

static void deliver(struct naive_world *w)
{
  int any = 1;
  while (any && !w->failed) {
    any = 0;
    while (deliver_completions(w)) /* again: a step may be aborted at a safe point that is now */
      any = 1;
    any |= deliver_drain(w);
    any |= deliver_arrivals(w);
    any |= deliver_timers(w);
    any |= deliver_wakes(w);
    any |= deliver_refills(w);
  }
  naive_jobs_told(w);
}

/* ------------------------------------------------------------------------------- plan, submit ---
 */

/* The shape of a server's next step: all its rows, and its chunks where they stand. */
static void shape_step(struct naive_world *w, struct naive_server *s)
{
  s->shape = (struct cost_shape){.chunks = s->nchunks};
  for (size_t i = 0; i < w->n; i++) {
    const struct naive_request *r = w->request[i];
    if (r->v.server != s->v.id || r->v.state != LULL_DECODE)
      continue;
    s->shape.rows++;
    s->shape.ctx_q16 += ((int64_t)r->kv << 16) + r->phase;
    if (cost_needs_longest(s->gpu->cost) && (int64_t)r->kv << 16 > s->shape.ctx_max_q16)
      s->shape.ctx_max_q16 = (int64_t)r->kv << 16;
  }
  for (uint32_t i = 0; i < s->nchunks; i++) {
    const struct naive_request *r = naive_find(w, s->chunk[i].id);
    int64_t n = s->chunk[i].tokens, start = r->v.prefill_done;
    s->shape.chunk_tokens += s->chunk[i].tokens;
    s->shape.chunk_ends += start + n == r->v.prefill_target;
    s->shape.chunk_work += n * start + n * (n + 1) / 2;
  }
}

static void submit(struct naive_world *w)
{
  for (uint32_t i = 0; i < w->cfg->nservers; i++) {
    struct naive_server *s = &w->server[i];
    if (s->stepping)
      continue;
    shape_step(w, s);
    if (!s->shape.rows && !s->shape.chunks)
      continue;
    cost_eval(s->gpu->cost, &s->shape, &s->cost);
    s->stepping = s->v.stepping = 1;
    s->aborted = 0;
    s->start = w->now;
    s->earned = 0;
    naive_start(w, s, &s->pace, s->cost.ticks);
  }
  naive_jobs_submit(w);
}

/* ----------------------------------------------------------------------------- ends of a run ---
 */

/* At the end of an instant: 1 the run is over, 0 it goes on, -1 it failed. */
static int over(struct naive_world *w)
{
  uint32_t most = w->cfg->max_preempts ? w->cfg->max_preempts : MOST_PREEMPTS;
  for (size_t i = 0; i < w->n; i++)
    if (w->request[i]->v.preempts > most)
      return naive_fail(w, BASE_INVARIANT, "a request is preempted over and over");
  if (w->idle_events > MOST_IDLE_EVENTS)
    return naive_fail(w, BASE_INVARIANT, "events without progress");
  if (w->cfg->stop && *w->cfg->stop)
    return w->out->partial = 1;
  if (w->now < w->cfg->window || w->has_ahead)
    return 0;
  return !w->unfinished ||
         (w->cfg->drain != LULL_NEVER && w->now >= w->cfg->window + w->cfg->drain);
}

static void sooner(lull_time *t, lull_time other)
{
  if (other < *t)
    *t = other;
}

/* The next moment at which something happens, LULL_NEVER if nothing can: a stall. */
static lull_time next_time(struct naive_world *w)
{
  lull_time t = LULL_NEVER;
  if (w->has_ahead)
    sooner(&t, w->ahead.time);
  if (w->ntimers)
    sooner(&t, w->timer[next_timer(w)].at);
  for (uint32_t i = 0; i < w->cfg->nservers; i++) {
    const struct naive_server *s = &w->server[i];
    sooner(&t, s->wake_time);
    if (s->stepping)
      sooner(&t, naive_end_of(&s->pace));
    if (s->ncopies)
      sooner(&t, s->copy[0].end);
  }
  if (w->now < w->cfg->window)
    sooner(&t, w->cfg->window);
  if (w->now >= w->cfg->window && w->cfg->drain != LULL_NEVER)
    sooner(&t, w->cfg->window + w->cfg->drain);
  naive_jobs_next(w, &t);
  return t;
}

/* One instant; what over() says. */
static int instant(struct naive_world *w)
{
  struct naive_server *s;
  w->instant_plans = 0;
  deliver(w);
  while (!w->failed && (s = naive_next_to_plan(w))) {
    naive_plan(w, s);
    deliver(w);
  }
  if (w->failed)
    return -1;
  int rc = over(w);
  if (!rc)
    submit(w);
  return rc;
}

static int run(struct naive_world *w)
{
  int rc;
  while (!(rc = instant(w))) {
    naive_share(w);
    lull_time t = next_time(w);
    if (t == LULL_NEVER)
      return naive_fail(w, BASE_INVARIANT, "stalled: requests are left and nothing can happen");
    naive_pass(w, t);
    w->now = t;
  }
  return rc;
}

static int set_up_server(struct naive_world *w, uint32_t i, const struct simdev_gpu *gpu)
{
  struct naive_server *s = &w->server[i];
  const struct world_server *c = &w->cfg->server[i];
  s->c = c;
  s->gpu = &gpu[c->gpu];
  s->wake_time = LULL_NEVER;
  s->reasons = LULL_WAKE_START;
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
  s->chunk = calloc(c->max_seqs ? c->max_seqs : 1, sizeof *s->chunk);
  return s->chunk ? naive_set_up_blocks(w, s) : base_fail_memory(w->e);
}

static int set_up(struct naive_world *w, const struct simdev_gpu *gpu)
{
  const struct lull_policy *policy = w->cfg->policy;
  w->arriving = w->named_server = -1;
  w->out->nclasses = w->cfg->nclasses;
  for (uint32_t c = 0; c < w->cfg->nclasses; c++)
    if (base_hist_init(&w->out->cls[c].itl))
      return base_fail_memory(w->e);
  for (uint32_t i = 0; i < w->cfg->nservers; i++)
    if (set_up_server(w, i, gpu))
      return -1;
  naive_set_up_jobs(w);
  naive_host_init(w);
  w->state = calloc(1, policy->state_size ? policy->state_size : 1);
  if (!w->state)
    return base_fail_memory(w->e);
  look_ahead(w);
  const char *why = policy->create ? policy->create(w->state, &w->host, w->cfg->params) : NULL;
  if (why)
    return naive_fail(w, BASE_INPUT, why);
  return w->failed ? -1 : 0;
}

static void tear_down(struct naive_world *w)
{
  if (w->state && w->cfg->policy->destroy)
    w->cfg->policy->destroy(w->state);
  free(w->state);
  for (size_t i = 0; i < w->n; i++)
    naive_free_request(w->request[i]);
  free(w->request);
  free(w->timer);
  free(w->notice);
  for (uint32_t i = 0; i < w->cfg->nservers; i++) {
    free(w->server[i].chunk);
    free(w->server[i].copy);
    free(w->server[i].block);
    free(w->server[i].queue);
    free(w->server[i].late);
  }
  free(w);
}

int naive_run(const struct world_config *cfg, const struct simdev_gpu *gpu,
              struct world_result *out, struct base_error *e)
{
  struct naive_world *w = calloc(1, sizeof *w);
  memset(out, 0, sizeof *out);
  if (!w)
    return base_fail_memory(e);
  w->cfg = cfg;
  w->out = out;
  w->e = e;
  int rc = set_up(w, gpu);
  if (!rc)
    rc = run(w) < 0 ? -1 : naive_results(w);
  tear_down(w);
  return rc;
}
