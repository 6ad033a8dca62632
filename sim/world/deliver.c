/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Phase 1 of an instant: completions, arrivals, timers, time wakes, refills, until quiet (F1, F2).
 */
#include <stdlib.h>
#include <string.h>

#include "sim/world/internal.h"

void write_log(struct world *w, int server, int kind, int64_t a, int64_t b, const char *text)
{
  struct world_log_line l = {.time = w->now,
                             .server = (int16_t)server,
                             .kind = (uint8_t)kind,
                             .a = a,
                             .b = b,
                             .text = text};
  w->cfg->log(w->cfg->log_ctx, &l);
}

/* ------------------------------------------------------------------------------------ events ---
 */

static void send_event(struct world *w, const struct lull_event *ev)
{
  log_line(w, ev->server, WORLD_LOG_EVENT, ev->kind,
           ev->request >= 0 ? ev->request : (int64_t)ev->tag, NULL);
  if (w->cfg->policy->event) {
    w->in_timer = ev->kind == LULL_EV_TIMER; /* and not in the events that it causes */
    w->timer_at = ev->at;
    w->cfg->policy->event(w->state, &w->host, ev);
    w->in_timer = 0;
  }
  if (ev->kind == LULL_EV_FINISHED || ev->kind == LULL_EV_FAILED)
    req_told(w, ev->request);
}

void queue_heard(struct world *w, uint16_t kind, lull_server_id server, lull_id id, lull_time at)
{
  if (w->nown == w->cap_own) {
    uint32_t cap = w->cap_own ? 2 * w->cap_own : 16;
    struct own_event *p = realloc(w->own, cap * sizeof *p);
    if (!p) {
      w->failed = 1;
      base_fail_memory(w->err);
      return;
    }
    w->own = p;
    w->cap_own = cap;
  }
  w->own[w->nown++] = (struct own_event){.kind = kind, .server = server, .id = id, .at = at};
}

void emit_queued(struct world *w)
{
  for (uint32_t i = 0; i < w->nown && !w->failed; i++) {
    struct own_event o = w->own[i];
    struct lull_event ev = {.size = sizeof ev,
                            .kind = o.kind,
                            .server = o.server,
                            .request = o.id,
                            .time = w->now,
                            .at = o.at};
    send_event(w, &ev);
  }
  w->nown = 0;
}

void emit(struct world *w, uint16_t kind, lull_server_id server, lull_id id, lull_time at,
          uint64_t tag)
{
  if (w->quiet_policy) {
    queue_own(w, kind, server, id, at);
    return;
  }
  struct lull_event ev = {.size = sizeof ev,
                          .kind = kind,
                          .server = server,
                          .request = id,
                          .time = w->now,
                          .at = at,
                          .tag = tag};
  send_event(w, &ev);
  emit_own(w);
}

void want(struct world *w, struct server *s, uint32_t reason)
{
  s->pending |= reason;
  w->wanted = 1;
  stop_soon(w, s);
}

void stop_soon(struct world *w, struct server *s)
{
  if (s->busy && !s->stops) {
    w->ops->interrupt(w->dev, s->lane, LULL_AT_BOUNDARY);
    s->stops = 1;
    stop_listening(w, s);
    w->poll = 1;
    look_again(w);
  }
}

/* ---------------------------------------------------------------------------------- watchdog ---
 */

/* Steps that devices have done so far, reported or not: the watchdog's clock must not depend on how
 * steps are merged (F14). */
static uint64_t steps_so_far(struct world *w)
{
  uint64_t sum = 0;
  for (uint32_t i = 0; i < w->nservers; i++) {
    struct server *s = &w->srv[i];
    uint64_t k = 0;
    lull_time t;
    if (s->busy)
      w->ops->progress(w->dev, s->lane, &k, &t);
    sum += s->step + k;
  }
  return sum;
}

int note_idle_event(struct world *w)
{
  uint64_t steps = steps_so_far(w);
  if (steps != w->seen_steps) {
    w->seen_steps = steps;
    note_progress(w);
  }
  if (++w->idle_events <= WORLD_MAX_IDLE_EVENTS)
    return 0;
  return world_broken(w,
                      "%d timers and time wakes without a step, a copy, an arrival or an end: "
                      "the policy '%s' only waits",
                      WORLD_MAX_IDLE_EVENTS, w->cfg->policy->name);
}

/* ------------------------------------------------------------------------------- completions ---
 */

static int copy_completed(struct world *w, struct server *s, const struct lull_completion *c)
{
  struct req *r = req_at(w, (lull_id)c->tag);
  if (c->status != LULL_DEV_OK)
    return world_refused(w, c->status, "server %d: the device failed a copy", s->v.id);
  s->copying = 0;
  if (w->closing)
    return 0;
  w->out->swaps++;
  note_progress(w);
  if (c->kind == LULL_WORK_COPY_OUT) {
    server_let_go(w, s, r);
    req_enter(w, r, LULL_SWAPPED);
  } else {
    req_enter(w, r, LULL_HELD);
  }
  if (s->plan.wake & LULL_WAKE_TRANSFER)
    want(w, s, LULL_WAKE_TRANSFER);
  queue_own(w, LULL_EV_TRANSFERRED, s->v.id, r->v.id, c->end);
  return plan_submit_copy(w, s) || w->failed || account_check(w, s) ? -1 : 0;
}

static inline int completed(struct world *w, const struct lull_completion *c)
{
  const struct lane_use *u = c->lane >= 0 && c->lane < LULL_LANES ? &w->lane[c->lane] : NULL;
  if (u && u->owner >= 0) {
    if (u->kind == LULL_LANE_SERVE)
      return step_completed(w, &w->srv[u->owner], c);
    return u->kind == LULL_LANE_COPY ? copy_completed(w, &w->srv[u->owner], c)
                                     : job_completed(w, &w->job[u->owner], c);
  }
  return base_fail(w->err, BASE_ENV, "the device reported lane %d, which was never opened",
                   c->lane);
}

/* Takes in all that the last wait returned before the first event tells of it. */
int deliver_reports(struct world *w, int n)
{
  if (n < 0)
    return world_refused(w, n, "the device failed to wait");
  for (int i = 0; i < n; i++) {
    if (completed(w, &w->comp[i]))
      return -1;
  }
  emit_own(w);
  return w->failed ? -1 : 0;
}

static int poll_device(struct world *w, int *any)
{
  w->poll = 0;
  int n = w->ops->wait(w->dev, w->now, w->comp, w->ncomp_max);
  *any |= n > 0;
  return deliver_completions(w, n);
}

/* ---------------------------------------------------------------------------------- arrivals ---
 */

int fetch_next(struct world *w)
{
  int got = w->cfg->source.next ? w->cfg->source.next(w->cfg->source.ctx, &w->next, w->err) : 0;
  if (got < 0)
    return -1;
  w->has_next = got > 0 && w->next.time < w->window;
  if (w->has_next && w->next.time < w->last_arrival)
    return base_fail(w->err, BASE_INPUT, "arrivals are not in time order at %lld ps",
                     (long long)w->next.time);
  if (w->has_next)
    w->last_arrival = w->next.time;
  else
    w->next.time = LULL_NEVER;
  return 0;
}

/* F11: its last step must fit an empty pool, with what speculation may overshoot. */
static int can_hold(const struct server *s, const struct req *r)
{
  uint64_t all = (uint64_t)r->v.prompt + r->output;
  uint64_t kv = all - 1 + s->v.row_tokens - 1;
  return all <= s->cfg->model_limit && kv <= UINT32_MAX - LULL_Q16_ONE &&
         server_blocks_for(s, kv) <= (int64_t)s->v.kv_blocks;
}

static inline int eligible(const struct world *w, int server, const struct req *r)
{
  const struct server *s = &w->srv[server];
  return (s->cfg->class_mask >> r->v.cls & 1) && can_hold(s, r);
}

/* F17: the eligible server with the fewest unfinished requests, the lowest on a tie; -1: none. */
static inline int default_route(const struct world *w, const struct req *r)
{
  int best = -1;
  for (int i = 0; i < (int)w->nservers; i++) {
    if ((best < 0 || w->srv[i].unfinished < w->srv[best].unfinished) && eligible(w, i, r))
      best = i;
  }
  return best;
}

int route_allowed(const struct world *w, const struct req *r, int server)
{
  return server >= 0 && server < (int)w->nservers && eligible(w, server, r);
}

/* server: where a refilled request must go, -1: as the policy says. */
static int arrive(struct world *w, const struct world_arrival *a, int server)
{
  struct req *r = req_new(w, a);
  if (!r)
    return -1;
  lull_id id = r->v.id;
  note_progress(w);
  int route = server >= 0 ? (eligible(w, server, r) ? server : -1) : default_route(w, r);
  if (route < 0) {
    req_end(w, r, WORLD_FATE_FAILED);
    emit(w, LULL_EV_FAILED, -1, id, a->time, 0);
    return w->failed ? -1 : 0;
  }
  if (server >= 0 || w->quiet_policy)
    req_route(w, r, route);
  if (!w->quiet_policy) {
    w->arriving = server >= 0 ? -1 : id;
    w->routed = -1;
    emit(w, LULL_EV_ARRIVED, r->v.server, id, a->time, 0);
    w->arriving = -1;
    if (w->failed || !req_known(w, id)) /* rejected in its own event */
      return w->failed ? -1 : 0;
    if (server < 0) /* the event may have ended others */
      req_route(w, r, w->routed >= 0 ? w->routed : default_route(w, r));
  }
  struct server *s = req_server(w, r);
  if (r->unseen)
    stop_soon(w, s);
  else if ((s->plan.wake & LULL_WAKE_ARRIVAL) && (s->plan.wake_classes >> r->v.cls & 1))
    want(w, s, LULL_WAKE_ARRIVAL);
  return w->failed ? -1 : 0;
}

/* The next one, which is due. */
static inline int deliver_arrival(struct world *w)
{
  struct world_arrival a = w->next;
  return fetch_next(w) || arrive(w, &a, -1) ? -1 : 0;
}

static int deliver_arrivals(struct world *w, int *any)
{
  while (w->next.time <= w->now) {
    *any = 1;
    if (deliver_arrival(w))
      return -1;
  }
  return 0;
}

int deliver_unheard(struct world *w)
{
  while (w->next.time < w->now) {
    if (deliver_arrival(w))
      return -1;
  }
  w->due = next_due(w);
  return 0;
}

static int deliver_drain(struct world *w, int *any)
{
  w->drained = 1;
  *any = 1;
  lull_time deadline = w->cfg->drain == LULL_NEVER ? 0 : w->window + w->cfg->drain;
  emit(w, LULL_EV_DRAIN, -1, -1, w->window, (uint64_t)deadline);
  return w->failed ? -1 : 0;
}

/* More items in a row than any workload has that neither fit nor are wanted. */
enum { REFILL_MAX_LOST = 10000 };

static int refill(struct world *w, const struct world_backlog *b, int *any)
{
  int lost = 0;
  while (w->now < w->window && w->srv[b->server].unfinished < b->below) {
    struct world_arrival a;
    a.prefix = NULL; /* a source need not say */
    int got = w->cfg->source.refill(w->cfg->source.ctx, b->cls, w->released[b->cls], &a, w->err);
    if (got < 0)
      return -1;
    if (!got)
      return 0;
    w->released[b->cls]++;
    w->out->released++;
    a.time = w->now;
    a.cls = b->cls;
    *any = 1;
    uint64_t ended = w->ended;
    if (arrive(w, &a, b->server))
      return -1;
    lost = w->ended > ended ? lost + 1 : 0;
    if (lost > REFILL_MAX_LOST)
      return base_fail(
          w->err, BASE_INPUT,
          "class '%s': %d backlog items in a row ended at their arrival: they do not fit "
          "the KV pool (make it larger or them smaller), or the policy rejects them",
          w->cfg->cls[b->cls].name, lost);
  }
  return 0;
}

/* ----------------------------------------------------------------------- timers, time wakes --- */

/* The first one, which is due. */
static int deliver_timer(struct world *w)
{
  struct timer t = w->timer[0];
  memmove(w->timer, w->timer + 1, --w->ntimers * sizeof t);
  if (note_idle_event(w))
    return -1;
  emit(w, LULL_EV_TIMER, -1, -1, t.at, t.tag);
  return w->failed ? -1 : 0;
}

static int deliver_timers(struct world *w, int *any)
{
  while (w->ntimers && w->timer[0].at <= w->now) {
    *any = 1;
    if (deliver_timer(w))
      return -1;
  }
  return 0;
}

/* Server i's, which is due. */
static int deliver_wake(struct world *w, uint32_t i, int *any)
{
  w->wake_at[i] = LULL_NEVER;
  if (!w->srv[i].unfinished)
    return 0;
  *any = 1;
  if (note_idle_event(w))
    return -1;
  want(w, &w->srv[i], LULL_WAKE_TIME);
  return 0;
}

static int deliver_wakes(struct world *w, int *any)
{
  for (uint32_t i = 0; i < w->nservers; i++) {
    if (w->wake_at[i] <= w->now && deliver_wake(w, i, any))
      return -1;
  }
  return 0;
}

lull_time next_due_other(const struct world *w)
{
  lull_time t = w->drained ? LULL_NEVER : w->window;
  if (w->ntimers && w->timer[0].at < t)
    t = w->timer[0].at;
  for (uint32_t i = 0; i < w->nservers; i++) {
    if (w->wake_at[i] < t)
      t = w->wake_at[i];
  }
  return t;
}

static int pass(struct world *w, int *any)
{
  if ((w->poll && poll_device(w, any)) ||
      (!w->drained && w->now >= w->window && deliver_drain(w, any)) || deliver_arrivals(w, any) ||
      (w->ntimers && deliver_timers(w, any)) || deliver_wakes(w, any))
    return -1;
  for (uint32_t i = 0; i < w->nbacklogs; i++) {
    if (refill(w, &w->cfg->backlog[i], any))
      return -1;
  }
  if (w->due_other <= w->now)
    w->due_other = next_due_other(w);
  w->due = next_due(w);
  for (uint32_t i = 0; *any && i < w->nbacklogs; i++) { /* what ended may have made room */
    const struct world_backlog *b = &w->cfg->backlog[i];
    if (w->srv[b->server].unfinished < b->below && w->now < w->window)
      look_again(w);
  }
  return 0;
}

int deliver_due(struct world *w)
{
  int any = 1;
  while (any) {
    any = 0;
    if (pass(w, &any))
      return -1;
    any = w->poll || (any ? !is_quiet(w) : w->njobs && jobs_changed(w));
  }
  return 0;
}

/* ------------------------------------------------------------------------------------- late ----
 */

/* The server whose time wake comes first. */
static uint32_t first_wake(const struct world *w)
{
  uint32_t first = 0;
  for (uint32_t i = 1; i < w->nservers; i++) {
    if (w->wake_at[i] < w->wake_at[first])
      first = i;
  }
  return first;
}

/* What was due before `to`, by (time, class). */
static int deliver_before(struct world *w, lull_time to)
{
  for (;;) {
    uint32_t first = first_wake(w);
    lull_time drain = w->drained ? LULL_NEVER : w->window, wake = w->wake_at[first];
    lull_time arrival = w->next.time;
    lull_time timer = w->ntimers ? w->timer[0].at : LULL_NEVER;
    lull_time at = drain < arrival ? drain : arrival;
    int any = 0, st;
    at = timer < at ? timer : at;
    at = wake < at ? wake : at;
    if (at >= to)
      return 0;
    if (at == drain)
      st = deliver_drain(w, &any);
    else if (at == arrival)
      st = deliver_arrival(w);
    else if (at == timer)
      st = deliver_timer(w);
    else
      st = deliver_wake(w, first, &any);
    if (st)
      return -1;
  }
}

/* w->due stays before now: there is something to look at. */
int deliver_late(struct world *w, int n)
{
  if (n < 0)
    return deliver_reports(w, n);
  for (int i = 0; i < n; i++) {
    if (deliver_before(w, w->comp[i].end) || completed(w, &w->comp[i]))
      return -1;
    if (i + 1 == n || w->comp[i + 1].end > w->comp[i].end)
      emit_own(w);
  }
  return w->failed || deliver_before(w, w->now) ? -1 : 0;
}
