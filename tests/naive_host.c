/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The naive world's side of lull_host: what policies may call, each decided by the letter of
 * include/lull/policy.h and the KV paragraph of sim/world/world.h.
 */
#include "tests/naive_inner.h"

/* A request that a policy may name: its end was not told yet. */
static struct naive_request *known(struct naive_world *w, lull_id id)
{
  struct naive_request *r = naive_find(w, id);
  return r && !r->told ? r : NULL;
}

static const struct lull_request *host_request(void *ctx, lull_id id)
{
  struct naive_request *r = known(ctx, id);
  return r ? &r->v : NULL;
}

static const struct lull_server *host_server(void *ctx, lull_server_id id)
{
  struct naive_world *w = ctx;
  return id >= 0 && (uint32_t)id < w->cfg->nservers ? &w->server[id].v : NULL;
}

/* The end of a list at which the neighbour on that side is missing. */
static lull_id list_end(struct naive_world *w, lull_server_id server, int list, int cls, int last)
{
  for (size_t i = 0; i < w->n; i++) {
    const struct lull_request *v = &w->request[i]->v;
    if (!w->request[i]->unseen && v->server == server && v->state == list && v->cls == cls &&
        (last ? v->next : v->prev) < 0)
      return v->id;
  }
  return -1;
}

static lull_id host_first(void *ctx, lull_server_id server, int list, int cls)
{
  return list_end(ctx, server, list, cls, 0);
}

static lull_id host_last(void *ctx, lull_server_id server, int list, int cls)
{
  return list_end(ctx, server, list, cls, 1);
}

static void host_timer(void *ctx, lull_time at, uint64_t tag)
{
  struct naive_world *w = ctx;
  naive_log(w, -1, WORLD_LOG_TIMER, at, (int64_t)tag, NULL);
  if (at <= w->now && w->in_timer) {
    naive_fail(w, BASE_INVARIANT, "a timer set within a timer event must lie after now");
    return;
  }
  if (w->ntimers == w->captimers) {
    w->timer = naive_grow(w, w->timer, &w->captimers, sizeof *w->timer);
    if (w->failed)
      return;
  }
  w->timer[w->ntimers++] = (struct naive_timer){
      .at = at < w->now ? w->now : at, .tag = tag, .order = w->timers_set++};
}

static void host_cancel_timer(void *ctx, uint64_t tag)
{
  struct naive_world *w = ctx;
  size_t kept = 0;
  for (size_t i = 0; i < w->ntimers; i++)
    if (w->timer[i].tag != tag)
      w->timer[kept++] = w->timer[i];
  w->ntimers = kept;
}

/* Ends a waiting request; its FAILED event follows when the running callback has returned. */
static int host_reject(void *ctx, lull_id id, int why)
{
  struct naive_world *w = ctx;
  struct naive_request *r = known(w, id);
  int legal = r && r->v.state == LULL_WAITING;
  naive_log(w, r ? r->v.server : -1, WORLD_LOG_REJECT, id, legal ? why : LULL_NO_STATE, NULL);
  if (!legal)
    return LULL_NO_STATE;
  naive_end(w, r, WORLD_REJECTED);
  naive_notify(w, LULL_EV_FAILED, r->v.server, id);
  return 0;
}

static int check_route(struct naive_world *w, lull_id id, lull_server_id server)
{
  struct naive_request *r = known(w, id);
  if (!r || w->arriving != id || r->v.state != LULL_WAITING || r->v.server >= 0)
    return LULL_NO_STATE;
  if (!host_server(w, server) || !naive_can_hold(&w->server[server], r))
    return LULL_NO_SERVER;
  return 0;
}

static int host_route(void *ctx, lull_id id, lull_server_id server)
{
  struct naive_world *w = ctx;
  int rc = check_route(w, id, server);
  naive_log(w, -1, WORLD_LOG_ROUTE, id, rc ? rc : server, NULL);
  if (!rc)
    w->named_server = server;
  return rc;
}

static void host_wake(void *ctx, lull_server_id server)
{
  struct naive_world *w = ctx;
  if (host_server(w, server))
    w->server[server].reasons |= LULL_WAKE_ASKED;
}

/*
 * F13: the step under way ends at the first layer boundary floor(T * l / L) ticks at or after the
 * ticks done. The last layer's end is the normal end of the step.
 */
static void host_abort_step(void *ctx, lull_server_id server)
{
  struct naive_world *w = ctx;
  if (!host_server(w, server))
    return;
  struct naive_server *s = &w->server[server];
  naive_log(w, server, WORLD_LOG_ABORT, 0, 0, NULL);
  if (!s->stepping || s->aborted || naive_end_of(&s->pace) <= w->now)
    return;
  struct naive_pace *p = &s->pace;
  lull_ticks done = p->done + (w->now - p->since + p->speed - 1) / p->speed;
  for (uint32_t l = 1; l < s->gpu->layers; l++) {
    lull_ticks safe = (lull_ticks)((base_int128)s->cost.ticks * l / s->gpu->layers);
    if (safe < done)
      continue;
    s->aborted = 1;
    p->goal = safe;
    return;
  }
}

static int host_train(void *ctx, lull_job_id job, int run)
{
  struct naive_world *w = ctx;
  int known_job = job >= 0 && (uint32_t)job < w->cfg->njobs;
  naive_log(w, -1, WORLD_LOG_TRAIN, job, known_job ? run != 0 : LULL_NO_STATE, NULL);
  if (!known_job)
    return LULL_NO_STATE;
  w->job[job].run = run != 0;
  return 0;
}

static void host_set_word(void *ctx, lull_id id, uint64_t word)
{
  struct naive_request *r = known(ctx, id);
  if (r)
    r->v.word = word;
}

static void host_log(void *ctx, const char *what, int64_t a, int64_t b)
{
  naive_log(ctx, -1, WORLD_LOG_TEXT, a, b, what);
}

/* Does `need` more fit, keeping the watermark unless nothing else holds a block? */
static int fits(const struct naive_server *s, const struct lull_plan *p, uint32_t need)
{
  int alone = s->v.kv_free == s->v.kv_blocks;
  return (int64_t)need + (alone ? 0 : s->v.watermark_blocks) <= p->blocks_left;
}

/* The checks that all builder calls share; 0 or a refusal. */
static int check_call(struct naive_world *w, struct lull_plan *p, struct naive_request *r)
{
  if (!w->planning || p != w->draft || !r)
    return LULL_NO_STATE;
  if (r->v.server != w->planning->v.id)
    return LULL_NO_SERVER;
  return 0;
}

/* The server that a builder call's line names: none where the call has no business here. */
static int line_server(struct naive_world *w, struct lull_plan *p, lull_id id)
{
  return check_call(w, p, known(w, id)) ? -1 : p->server;
}

static int admit(struct naive_world *w, struct lull_plan *p, struct naive_request *r)
{
  struct naive_server *s = w->planning;
  uint32_t all = lull_blocks_for(&s->v, r->v.prefill_target), found, idle;
  naive_find_prefix(s, r, &found, &idle);
  uint32_t need = all - found + idle;
  if (p->seqs_left <= 0)
    return LULL_NO_SEQS;
  if (!fits(s, p, need))
    return LULL_NO_BLOCKS;
  naive_take_prefix(w, s, r, found);
  naive_hold(w, s, r, all);
  r->v.blocks = all;
  p->blocks_left -= need;
  p->seqs_left--;
  naive_enter(w, r, LULL_PREFILL);
  return 0;
}

static int has_chunk(const struct naive_server *s, lull_id id)
{
  for (uint32_t i = 0; i < s->nchunks; i++)
    if (s->chunk[i].id == id)
      return 1;
  return 0;
}

static int build_chunk(struct naive_world *w, struct lull_plan *p, lull_id id, uint32_t tokens)
{
  struct naive_request *r = known(w, id);
  int rc = check_call(w, p, r);
  if (rc)
    return rc;
  if (r->v.state != LULL_WAITING && r->v.state != LULL_PREFILL)
    return LULL_NO_STATE;
  if (!tokens || r->unseen || has_chunk(w->planning, id))
    return LULL_NO_STATE;
  if (p->tokens_left <= 0)
    return LULL_NO_TOKENS;
  if (r->v.state == LULL_WAITING && (rc = admit(w, p, r)))
    return rc;
  struct naive_server *s = w->planning;
  uint32_t left = r->v.prefill_target - r->v.prefill_done;
  uint32_t n = tokens < left ? tokens : left;
  if (n > p->tokens_left)
    n = (uint32_t)p->tokens_left;
  s->chunk[s->nchunks++] = (struct naive_chunk){.id = id, .tokens = n};
  p->tokens_left -= n;
  return (int)n;
}

static int host_chunk(void *ctx, struct lull_plan *p, lull_id id, uint32_t tokens)
{
  int rc = build_chunk(ctx, p, id, tokens);
  naive_log(ctx, line_server(ctx, p, id), WORLD_LOG_CHUNK, id, rc, NULL);
  return rc;
}

static void drop_chunk(struct naive_server *s, lull_id id)
{
  uint32_t kept = 0;
  for (uint32_t i = 0; i < s->nchunks; i++)
    if (s->chunk[i].id != id)
      s->chunk[kept++] = s->chunk[i];
  s->nchunks = kept;
}

static void drop_kv(struct naive_world *w, struct naive_server *s, struct naive_request *r)
{
  uint32_t kv = r->v.state == LULL_PREFILL ? r->v.prefill_done : r->kv;
  r->rec.discarded += kv;
  int64_t free_before = s->v.kv_free;
  naive_let_go(s, r);
  w->draft->blocks_left += s->v.kv_free - free_before;
  r->kv = r->v.kv0 = 0;
  r->v.prefill_done = 0;
  r->v.prefill_target = r->v.prompt + r->generated;
  r->rec.wasted += r->pending;
  r->pending = 0;
  drop_chunk(s, r->v.id);
  naive_enter(w, r, LULL_WAITING);
}

/* Takes a request out by any means; legality is the caller's. Keeps the plan's *_left. */
void naive_preempt(struct naive_world *w, struct naive_server *s, struct naive_request *r, int how)
{
  struct lull_plan *p = w->draft;
  if (r->v.state == LULL_DECODE) {
    p->tokens_left += s->v.row_tokens;
    p->blocks_left += naive_growth(s, r);
    naive_close_stay(w, r);
    r->v.gen0 = r->generated;
    r->v.kv0 = r->kv;
    r->v.blocks = r->held;
  }
  for (uint32_t i = 0; i < s->nchunks; i++)
    if (s->chunk[i].id == r->v.id)
      p->tokens_left += s->chunk[i].tokens;
  if (r->v.state == LULL_DECODE || r->v.state == LULL_PREFILL)
    p->seqs_left++;
  r->v.preempts++;
  if (how == LULL_RECOMPUTE) {
    drop_kv(w, s, r);
  } else if (how == LULL_HOLD) {
    naive_enter(w, r, LULL_HELD);
  } else {
    naive_enter(w, r, LULL_SWAPPING_OUT);
    naive_queue_copy(w, s, r);
  }
}

static int build_preempt(struct naive_world *w, struct lull_plan *p, lull_id id, int how)
{
  struct naive_request *r = known(w, id);
  int rc = check_call(w, p, r);
  if (rc)
    return rc;
  int state = r->v.state;
  int legal = (how == LULL_RECOMPUTE &&
               (state == LULL_PREFILL || state == LULL_DECODE || state == LULL_HELD)) ||
              (how == LULL_SWAP && (state == LULL_DECODE || state == LULL_HELD)) ||
              (how == LULL_HOLD && state == LULL_DECODE);
  if (!legal)
    return LULL_NO_STATE;
  naive_preempt(w, w->planning, r, how);
  return 0;
}

static int host_preempt(void *ctx, struct lull_plan *p, lull_id id, int how)
{
  int rc = build_preempt(ctx, p, id, how);
  naive_log(ctx, line_server(ctx, p, id), WORLD_LOG_PREEMPT, id, rc ? rc : how, NULL);
  return rc;
}

/* HELD -> DECODE: it joins the batch and must have the blocks of its next step. */
static int join(struct naive_world *w, struct lull_plan *p, struct naive_request *r)
{
  struct naive_server *s = w->planning;
  uint32_t now = lull_blocks_for(&s->v, r->kv);
  int64_t need = (int64_t)lull_blocks_for(&s->v, r->kv + naive_step_tokens(r)) - (int64_t)r->held;
  if (p->tokens_left < s->v.row_tokens)
    return LULL_NO_TOKENS;
  if (p->seqs_left <= 0)
    return LULL_NO_SEQS;
  if (need > p->blocks_left)
    return LULL_NO_BLOCKS;
  p->blocks_left -= need;
  p->seqs_left--;
  p->tokens_left -= s->v.row_tokens;
  naive_hold(w, s, r, now);
  r->v.blocks = now;
  naive_enter(w, r, LULL_DECODE);
  return 0;
}

static int swap_in(struct naive_world *w, struct lull_plan *p, struct naive_request *r)
{
  struct naive_server *s = w->planning;
  uint32_t need = lull_blocks_for(&s->v, r->kv + naive_step_tokens(r));
  if (!fits(s, p, need))
    return LULL_NO_BLOCKS;
  naive_hold(w, s, r, need);
  r->v.blocks = need;
  p->blocks_left -= need;
  r->hidden = 1;
  naive_enter(w, r, LULL_SWAPPING_IN);
  naive_queue_copy(w, s, r);
  return 0;
}

static int build_resume(struct naive_world *w, struct lull_plan *p, lull_id id)
{
  struct naive_request *r = known(w, id);
  int rc = check_call(w, p, r);
  if (rc)
    return rc;
  if (r->v.state != LULL_HELD && r->v.state != LULL_SWAPPED)
    return LULL_NO_STATE;
  return r->v.state == LULL_HELD ? join(w, p, r) : swap_in(w, p, r);
}

static int host_resume(void *ctx, struct lull_plan *p, lull_id id)
{
  int rc = build_resume(ctx, p, id);
  naive_log(ctx, line_server(ctx, p, id), WORLD_LOG_RESUME, id, rc, NULL);
  return rc;
}

void naive_host_init(struct naive_world *w)
{
  w->host = (struct lull_host){.size = sizeof w->host,
                               .abi = LULL_POLICY_ABI,
                               .ctx = w,
                               .classes = w->cfg->nclasses,
                               .servers = w->cfg->nservers,
                               .request = host_request,
                               .server = host_server,
                               .first = host_first,
                               .last = host_last,
                               .timer = host_timer,
                               .cancel_timer = host_cancel_timer,
                               .reject = host_reject,
                               .route = host_route,
                               .wake = host_wake,
                               .abort_step = host_abort_step,
                               .set_word = host_set_word,
                               .log = host_log,
                               .chunk = host_chunk,
                               .preempt = host_preempt,
                               .resume = host_resume,
                               .train = host_train};
  for (uint32_t c = 0; c < w->cfg->nclasses; c++)
    if (w->cfg->cls[c].interactive)
      w->host.interactive_mask |= 1u << c;
}
