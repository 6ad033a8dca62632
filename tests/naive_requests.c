/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Requests of the naive world: states, lists, ends, and what is told about them.
 */
#include <stdlib.h>

#include "tests/naive_inner.h"

/* Notes the first failure; returns -1. The run stops at the next look at w->failed. */
int naive_fail(struct naive_world *w, int code, const char *what)
{
  w->failed = 1;
  return base_fail(w->e, code, "naive world: %s", what);
}

/* A twice as large array; on failure the old one stays and the run has failed. */
void *naive_grow(struct naive_world *w, void *array, size_t *cap, size_t item)
{
  size_t wanted = *cap ? 2 * *cap : 16;
  void *bigger = realloc(array, wanted * item);
  if (!bigger) {
    w->failed = 1;
    base_fail_memory(w->e);
    return array;
  }
  *cap = wanted;
  return bigger;
}

void naive_log(struct naive_world *w, int server, int kind, int64_t a, int64_t b, const char *text)
{
  struct world_log_line line = {.time = w->now,
                                .server = (int16_t)server,
                                .kind = (uint8_t)kind,
                                .a = a,
                                .b = b,
                                .text = text};
  if (w->cfg->log)
    w->cfg->log(w->cfg->log_ctx, &line);
}

/* Logs an event, then calls the policy. */
static void send(struct naive_world *w, int kind, int server, lull_id id, uint64_t tag)
{
  struct lull_event ev = {.size = sizeof ev,
                          .kind = (uint16_t)kind,
                          .server = (lull_server_id)server,
                          .request = id,
                          .time = w->now,
                          .at = w->now,
                          .tag = tag};
  naive_log(w, server, WORLD_LOG_EVENT, kind, id >= 0 ? id : (int64_t)tag, NULL);
  w->in_timer = kind == LULL_EV_TIMER;
  if (w->cfg->policy->event)
    w->cfg->policy->event(w->state, &w->host, &ev);
  w->in_timer = 0;
  if (kind == LULL_EV_FINISHED || kind == LULL_EV_FAILED)
    naive_find(w, id)->told = 1;
}

/* Notes an event that is sent by the next naive_flush. */
void naive_notify(struct naive_world *w, int kind, int server, lull_id id)
{
  if (w->nnotices == w->capnotices) {
    w->notice = naive_grow(w, w->notice, &w->capnotices, sizeof *w->notice);
    if (w->failed)
      return;
  }
  w->notice[w->nnotices++] = (struct naive_notice){.kind = kind, .server = server, .id = id};
}

/* Sends what waits, in the order noted; callbacks may add to it. */
void naive_flush(struct naive_world *w)
{
  while (w->nnotices && !w->failed) {
    struct naive_notice first = w->notice[0];
    w->nnotices--;
    for (size_t i = 0; i < w->nnotices; i++)
      w->notice[i] = w->notice[i + 1];
    send(w, first.kind, first.server, first.id, 0);
  }
}

/* A step, a copy, an arrival or an end: the run is not going round in circles. */
void naive_moved(struct naive_world *w)
{
  w->idle_events = w->idle_plans = 0;
}

/* An event of its own, then those that its callback caused. */
void naive_event(struct naive_world *w, int kind, int server, lull_id id, uint64_t tag)
{
  send(w, kind, server, id, tag);
  naive_flush(w);
}

struct naive_request *naive_find(struct naive_world *w, lull_id id)
{
  return id >= 0 && (size_t)id < w->n ? w->request[id] : NULL;
}

static int same_list(const struct naive_request *x, const struct naive_request *y)
{
  const struct lull_request *a = &x->v, *b = &y->v;
  return !x->unseen && !y->unseen && a->server == b->server && a->state == b->state &&
         a->cls == b->cls;
}

static int before(const struct lull_request *a, const struct lull_request *b)
{
  if (a->state != LULL_WAITING)
    return a->entered < b->entered;
  return a->arrival != b->arrival ? a->arrival < b->arrival : a->id < b->id;
}

/* Finds every request's neighbours anew. */
static void link_lists(struct naive_world *w)
{
  for (size_t i = 0; i < w->n; i++) {
    struct lull_request *v = &w->request[i]->v, *prev = NULL, *next = NULL;
    for (size_t j = 0; j < w->n && v->server >= 0 && !w->request[i]->ended; j++) {
      struct lull_request *o = &w->request[j]->v;
      if (o == v || !same_list(w->request[j], w->request[i]))
        continue;
      if (before(o, v) && (!prev || before(prev, o)))
        prev = o;
      if (before(v, o) && (!next || before(o, next)))
        next = o;
    }
    v->prev = prev ? prev->id : -1;
    v->next = next ? next->id : -1;
  }
}

/* Counts everything of a server's view that is a count. */
static void count_server(struct naive_world *w, struct naive_server *s)
{
  s->v.seqs = s->late_seqs;
  s->unfinished = 0;
  for (int state = 0; state < LULL_STATES; state++)
    for (int c = 0; c < LULL_CLASSES; c++)
      s->v.count[state][c] = 0;
  for (size_t i = 0; i < w->n; i++) {
    const struct naive_request *r = w->request[i];
    if (r->v.server != s->v.id)
      continue;
    s->v.count[r->v.state][r->v.cls] += !r->unseen;
    s->v.seqs += r->v.state == LULL_PREFILL || r->v.state == LULL_DECODE;
    s->unfinished += !r->ended;
  }
}

/* Goes to a state (also the one it is in, as when it is routed). */
void naive_enter(struct naive_world *w, struct naive_request *r, int state)
{
  struct naive_server *s = r->v.server >= 0 ? &w->server[r->v.server] : NULL;
  r->v.state = (uint8_t)state;
  r->v.entered = w->entries++;
  if (state == LULL_DECODE) {
    r->v.join_step = s->v.step;
    r->v.gen0 = r->generated;
    r->v.kv0 = r->kv;
    r->v.rate_q16 = r->rate;
    r->v.phase_q16 = r->phase;
  }
  link_lists(w);
  if (s)
    count_server(w, s);
}

/* May this server ever run the request? (F11; the watermark is waived on an empty pool.) */
int naive_can_hold(const struct naive_server *s, const struct naive_request *r)
{
  uint64_t tokens = (uint64_t)r->a.prompt + r->a.output;
  uint64_t span = tokens - 1 + s->v.row_tokens - 1;
  if (!(s->v.class_mask >> r->a.cls & 1) || tokens > s->c->model_limit)
    return 0;
  return (span + s->v.row_tokens - 1 + s->v.block_tokens - 1) / s->v.block_tokens <= s->v.kv_blocks;
}

/* Tokens that its next step would add, were there no end. */
uint32_t naive_step_tokens(const struct naive_request *r)
{
  return (r->rate + r->phase) >> 16;
}

/* Blocks that its next step needs beside those it holds. */
uint32_t naive_growth(const struct naive_server *s, const struct naive_request *r)
{
  return lull_blocks_for(&s->v, r->kv + naive_step_tokens(r)) - r->held;
}

/* Both targets, inclusive; one token has no TPOT. */
static int slo_met(const struct world_class *c, const struct world_record *rec)
{
  if (!c->interactive)
    return 0;
  return rec->first_token - rec->arrival <= c->slo_ttft &&
         rec->last_token - rec->first_token <= (base_int128)c->slo_tpot * (rec->output - 1);
}

/* The end of a request, whatever its fate; what it earned is decided here. */
void naive_end(struct naive_world *w, struct naive_request *r, int fate)
{
  if (r->v.state == LULL_DECODE)
    naive_close_stay(w, r);
  if (r->v.server >= 0)
    naive_let_go(&w->server[r->v.server], r);
  r->kv = r->v.kv0 = 0;
  r->v.gen0 = r->generated;
  r->rec.fate = (uint8_t)fate;
  if (fate == WORLD_DONE) {
    r->rec.last_token = r->last_emit;
    r->rec.met = (uint8_t)slo_met(&w->cfg->cls[r->rec.cls], &r->rec);
    r->rec.share = r->pending;
  } else {
    r->rec.wasted += r->pending;
  }
  r->pending = 0;
  r->ended = 1;
  r->unseen = 0;
  w->unfinished--;
  naive_moved(w);
  naive_enter(w, r, fate == WORLD_DONE ? LULL_FINISHED : LULL_FAILED);
}

/* Appends the copy of r's KV to the server's copy lane: whole blocks that hold tokens, at the
 * link's speed, rounded up to a tick. */
void naive_queue_copy(struct naive_world *w, struct naive_server *s, struct naive_request *r)
{
  if (s->ncopies == s->capcopies) {
    s->copy = naive_grow(w, s->copy, &s->capcopies, sizeof *s->copy);
    if (w->failed)
      return;
  }
  int64_t blocks = (r->kv + s->v.block_tokens - 1) / s->v.block_tokens;
  base_int128 bytes = (base_int128)blocks * s->c->block_bytes;
  base_int128 per_tick = (base_int128)s->gpu->copy_bytes_per_s * LULL_TICK_PS;
  base_int128 ticks = (bytes * 1000000000000 + per_tick - 1) / per_tick;
  if (ticks < 1)
    ticks = 1;
  lull_time last = (lull_time)ticks * LULL_TICK_PS;
  s->copy[s->ncopies] = (struct naive_copy){
      .id = r->v.id, .last = last, .end = s->ncopies ? LULL_NEVER : w->now + last};
  s->ncopies++;
}
