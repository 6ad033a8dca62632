/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Requests: their pages, their lists by (server, state, class), their beginning and their end. */
#include <stdlib.h>
#include <string.h>

#include "sim/world/internal.h"

static int grow_page(struct world *w)
{
  if (w->npages == w->cap_pages) {
    uint32_t cap = w->cap_pages ? 2 * w->cap_pages : 16;
    struct req_page **p = realloc(w->page, cap * sizeof *p);
    if (!p)
      return base_fail_memory(w->err);
    w->page = p;
    w->cap_pages = cap;
  }
  struct req_page *page = w->spare;
  if (page)
    w->spare = page->next;
  else
    page = malloc(sizeof *page);
  if (!page)
    return base_fail_memory(w->err);
  page->told = 0;
  w->page[w->npages++] = page;
  return 0;
}

void req_page_told(struct world *w, lull_id id)
{
  struct req_page **page = &w->page[id >> REQ_CHUNK_BITS];
  (*page)->next = w->spare;
  w->spare = *page;
  *page = NULL;
}

void req_free_pages(struct world *w)
{
  for (uint64_t id = 0; id < w->nreq; id++) { /* of a run that failed */
    if (!w->page[id >> REQ_CHUNK_BITS])
      id |= REQ_CHUNK - 1;
    else if (req_at(w, (lull_id)id)->chain)
      prefix_drop_chain(req_at(w, (lull_id)id));
  }
  for (uint32_t i = 0; i < w->npages; i++)
    free(w->page[i]);
  free(w->page);
  while (w->spare) {
    struct req_page *next = w->spare->next;
    free(w->spare);
    w->spare = next;
  }
}

static int grow_records(struct world *w)
{
  uint64_t cap = w->cap_records ? 2 * w->cap_records : 1024;
  struct world_record *r = realloc(w->out->record, cap * sizeof *r);
  if (!r)
    return base_fail_memory(w->err);
  w->out->record = r;
  w->cap_records = cap;
  return 0;
}

/* A view and a record as they begin, field by field (see open_plan). */
static inline void begin_view(struct lull_request *v, lull_id id, const struct world_arrival *a)
{
  _Static_assert(sizeof *v == 96 || sizeof(void *) < 8, "a new field needs its value here");
  v->size = sizeof *v;
  v->id = id;
  v->next = v->prev = -1;
  v->server = -1;
  v->cls = a->cls;
  v->state = LULL_WAITING;
  v->prompt = v->prefill_target = a->prompt;
  v->max_tokens = a->output;
  v->preempts = v->prefill_done = v->gen0 = v->kv0 = v->blocks = 0;
  v->rate_q16 = v->phase_q16 = 0;
  v->join_step = v->entered = v->word = 0;
  v->arrival = a->time;
}

static inline void begin_record(struct world_record *rec, const struct world_arrival *a)
{
  _Static_assert(sizeof *rec == 88 || sizeof(void *) < 8, "a new field needs its value here");
  rec->arrival = a->time;
  rec->first_chunk = rec->first_token = rec->last_token = LULL_NEVER;
  rec->prompt = a->prompt;
  rec->output = a->output;
  rec->generated = rec->preempts = 0;
  rec->discarded = 0;
  rec->share = rec->wasted = 0;
  rec->server = -1;
  rec->cls = a->cls;
  rec->fate = WORLD_PENDING;
  rec->met = 0;
  rec->cached = 0;
}

struct req *req_new(struct world *w, const struct world_arrival *a)
{
  if (w->nreq == INT32_MAX) {
    base_fail(w->err, BASE_INPUT, "more than %d requests in one run", INT32_MAX);
    return NULL;
  }
  if (((w->nreq & (REQ_CHUNK - 1)) == 0 && grow_page(w)) ||
      (!w->cfg->drop_records && w->nreq == w->cap_records && grow_records(w)))
    return NULL;
  lull_id id = (lull_id)w->nreq++;
  struct req *r = req_at(w, id);
  begin_view(&r->v, id, a);
  begin_record(&r->rec, a);
  r->output = a->output;
  r->accept_q16 = a->accept_q16;
  r->rate_q16 = 0;
  r->phase_q16 = a->phase_q16;
  r->fresh_pos = 0;
  r->chunk = -1;
  r->last_emit = 0;
  r->pending = 0;
  r->content = a->prefix;
  r->chain = NULL;
  r->ordinal = a->ordinal;
  r->unseen = 0;
  r->known = 0;
  r->told = 0;
  w->out->records = w->nreq;
  if (!w->cfg->drop_records)
    w->out->record[id] = r->rec;
  w->out->cls[a->cls].offered++;
  w->unfinished++;
  return r;
}

static inline void unlink_req(struct world *w, struct server *s, struct req *r)
{
  struct lull_request *v = &r->v;
  if (v->prev >= 0)
    req_at(w, v->prev)->v.next = v->next;
  else
    s->head[v->state][v->cls] = v->next;
  if (v->next >= 0)
    req_at(w, v->next)->v.prev = v->prev;
  else
    s->tail[v->state][v->cls] = v->prev;
  s->v.count[v->state][v->cls]--;
}

/* Links r behind `after` (-1: first). */
static inline void link_req(struct world *w, struct server *s, struct req *r, lull_id after)
{
  struct lull_request *v = &r->v;
  lull_id next = after >= 0 ? req_at(w, after)->v.next : s->head[v->state][v->cls];
  v->prev = after;
  v->next = next;
  if (after >= 0)
    req_at(w, after)->v.next = v->id;
  else
    s->head[v->state][v->cls] = v->id;
  if (next >= 0)
    req_at(w, next)->v.prev = v->id;
  else
    s->tail[v->state][v->cls] = v->id;
  s->v.count[v->state][v->cls]++;
}

/* Links r behind all others of its list. */
static inline void append_req(struct world *w, struct server *s, struct req *r)
{
  struct lull_request *v = &r->v;
  lull_id *tail = &s->tail[v->state][v->cls];
  v->prev = *tail;
  v->next = -1;
  if (*tail >= 0)
    req_at(w, *tail)->v.next = v->id;
  else
    s->head[v->state][v->cls] = v->id;
  *tail = v->id;
  s->v.count[v->state][v->cls]++;
}

/* Where r belongs in WAITING: ids grow with (arrival, row), so the key is the id. A preempted
 * request is older than most that wait, so the walk starts at the head; a new one is the last. */
static inline lull_id waiting_place(struct world *w, struct server *s, const struct req *r)
{
  lull_id last = s->tail[LULL_WAITING][r->v.cls];
  if (last < r->v.id)
    return last;
  lull_id after = -1;
  for (lull_id i = s->head[LULL_WAITING][r->v.cls]; i >= 0 && i < r->v.id; i = req_at(w, i)->v.next)
    after = i;
  return after;
}

static inline uint32_t takes_slot(int state)
{
  return (1u << LULL_PREFILL | 1u << LULL_DECODE) >> state & 1;
}

void req_enter(struct world *w, struct req *r, int state)
{
  struct server *s = req_server(w, r);
  unlink_req(w, s, r);
  s->v.seqs += takes_slot(state) - takes_slot(r->v.state);
  r->v.state = (uint8_t)state;
  r->v.entered = ++w->entered;
  if (state == LULL_WAITING)
    link_req(w, s, r, waiting_place(w, s, r));
  else
    append_req(w, s, r);
}

/* Does a step of s run, or did one end at this very moment? */
static int is_stepping(const struct world *w, const struct server *s)
{
  return s->busy || (s->step && s->boundary == w->now);
}

static void hide_req(struct world *w, struct server *s, struct req *r)
{
  r->unseen = s->lags = 1;
  r->later = -1;
  if (s->coming >= 0)
    req_at(w, s->coming_last)->later = r->v.id;
  else
    s->coming = r->v.id;
  s->coming_last = r->v.id;
}

/* Takes r out of those that are unseen. */
static void unhide_req(struct world *w, struct server *s, struct req *r)
{
  lull_id before = -1;
  for (lull_id i = s->coming; i != r->v.id; i = req_at(w, i)->later)
    before = i;
  if (before >= 0)
    req_at(w, before)->later = r->later;
  else
    s->coming = r->later;
  if (r->later < 0)
    s->coming_last = before;
  r->unseen = 0;
}

void req_see(struct world *w, struct server *s, lull_time since)
{
  while (s->coming >= 0 && req_at(w, s->coming)->v.arrival <= since) {
    struct req *r = req_at(w, s->coming);
    unhide_req(w, s, r);
    r->v.entered = ++w->entered;
    link_req(w, s, r, waiting_place(w, s, r));
    if ((s->plan.wake & LULL_WAKE_ARRIVAL) && (s->plan.wake_classes >> r->v.cls & 1))
      s->pending |= LULL_WAKE_ARRIVAL;
  }
}

void req_route(struct world *w, struct req *r, int server)
{
  struct server *s = &w->srv[server];
  uint32_t depth = s->v.row_tokens - 1;
  r->v.server = (lull_server_id)server;
  r->rate_q16 = world_rate_q16(r->accept_q16, depth);
  if (!depth)
    r->phase_q16 = 0;
  r->v.entered = ++w->entered;
  s->unfinished++;
  r->rec.server = (int16_t)server;
  if (RARE(s->cfg->async) && is_stepping(w, s))
    hide_req(w, s, r);
  else
    link_req(w, s, r, waiting_place(w, s, r));
}

/* Its share since the KV was last lost becomes useful or late. */
static inline void settle_done(struct world *w, struct req *r)
{
  struct world_record *rec = &r->rec;
  const struct world_class *c = &w->cfg->cls[r->v.cls];
  struct world_class_result *res = &w->out->cls[r->v.cls];
  rec->share += r->pending;
  res->finished++;
  if (!c->interactive) {
    res->useful_tokens += rec->output;
    return;
  }
  lull_time stream = rec->last_token - rec->first_token;
  rec->met = rec->first_token - rec->arrival <= c->slo_ttft &&
             (base_int128)stream <= (base_int128)c->slo_tpot * (rec->output - 1);
  if (rec->met) {
    res->useful_tokens += rec->output;
    res->met++;
  }
}

static uint64_t *fate_counter(struct world_class_result *c, int fate)
{
  switch (fate) {
  case WORLD_FATE_FAILED:
    return &c->failed;
  case WORLD_REJECTED:
    return &c->rejected;
  case WORLD_CANCELLED:
    return &c->cancelled;
  case WORLD_EXPIRED:
    return &c->expired;
  default:
    return &c->unfinished;
  }
}

void req_end(struct world *w, struct req *r, int fate)
{
  struct world_record *rec = &r->rec;
  if (RARE(rec->fate != WORLD_PENDING)) {
    world_broken(w, "request %d ends twice", r->v.id);
    return;
  }
  rec->fate = (uint8_t)fate;
  rec->generated = r->v.gen0;
  rec->preempts = r->v.preempts;
  w->out->cls[r->v.cls].output_tokens += rec->generated;
  if (RARE(fate != WORLD_DONE)) { /* what it earned is wasted */
    rec->wasted += r->pending;
    ++*fate_counter(&w->out->cls[r->v.cls], fate);
  } else {
    settle_done(w, r);
  }
  r->pending = 0;
  if (r->v.server >= 0) {
    struct server *s = req_server(w, r);
    if (RARE(r->unseen))
      unhide_req(w, s, r);
    else
      unlink_req(w, s, r);
    r->v.next = r->v.prev = -1;
    s->v.seqs -= takes_slot(r->v.state);
    server_let_go(w, s, r);
    s->unfinished--;
    if (s->refilled)
      look_again(w);
  }
  if (RARE(r->chain))
    prefix_drop_chain(r);
  if (RARE(r->known))
    w->ops->forget(w->dev, r->v.id, fate == WORLD_DONE ? LULL_FORGET_FINISHED : LULL_FORGET_FAILED);
  r->v.kv0 = 0;
  r->v.state = fate == WORLD_DONE ? LULL_FINISHED : LULL_FAILED;
  w->unfinished--;
  w->ended++;
  note_progress(w);
  account_request(w, r);
  if (!w->cfg->drop_records)
    w->out->record[r->v.id] = *rec;
  if (w->cfg->ended)
    w->cfg->ended(w->cfg->ended_ctx, r->v.id, rec);
}
