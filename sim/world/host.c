/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a policy may call: views, actions, the plan builder. Every call is checked, never trusted.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/world/internal.h"

/* ------------------------------------------------------------------------------------- views ---
 */

void server_refresh(struct world *w, struct server *s)
{
  uint64_t k = 0;
  lull_time t = s->boundary;
  if (!s->busy) {
    server_at_boundary(s);
    return;
  }
  w->ops->progress(w->dev, s->lane, &k, &t);
  s->v.step = s->step + k;
  s->v.boundary = t;
  s->v.stepping = t < w->now;
  s->v.kv_free = (uint32_t)(server_free(s) - (k ? batch_growth(w, s, k) : 0));
}

/* A chunk's progress up to the last boundary, reported or not. */
static void chunk_refresh(struct world *w, struct req *r)
{
  const struct server *s = req_server(w, r);
  const struct chunk *c = &s->chunk[r->chunk];
  uint64_t k;
  lull_time t;
  w->ops->progress(w->dev, s->lane, &k, &t);
  r->v.prefill_done = r->v.kv0 = c->start + (uint32_t)k * c->tokens;
}

static const struct lull_request *h_request(void *ctx, lull_id id)
{
  struct world *w = ctx;
  struct req *r = req_known(w, id) ? req_at(w, id) : NULL;
  if (!r)
    return NULL;
  if (r->chunk >= 0 && req_server(w, r)->busy)
    chunk_refresh(w, r);
  return &r->v;
}

static struct server *server_at(struct world *w, lull_server_id id)
{
  return id >= 0 && id < (int)w->nservers ? &w->srv[id] : NULL;
}

static const struct lull_server *h_server(void *ctx, lull_server_id id)
{
  struct world *w = ctx;
  struct server *s = server_at(w, id);
  if (!s)
    return NULL;
  if (!s->planning)
    server_refresh(w, s);
  return &s->v;
}

static int list_known(const struct world *w, int list, int cls)
{
  return list >= 0 && list < LULL_FINISHED && cls >= 0 && cls < (int)w->nclasses;
}

static lull_id h_first(void *ctx, lull_server_id id, int list, int cls)
{
  struct world *w = ctx;
  struct server *s = server_at(w, id);
  return s && list_known(w, list, cls) ? s->head[list][cls] : -1;
}

static lull_id h_last(void *ctx, lull_server_id id, int list, int cls)
{
  struct world *w = ctx;
  struct server *s = server_at(w, id);
  return s && list_known(w, list, cls) ? s->tail[list][cls] : -1;
}

/* ----------------------------------------------------------------------------------- actions ---
 */

static void h_timer(void *ctx, lull_time at, uint64_t tag)
{
  struct world *w = ctx;
  log_line(w, -1, WORLD_LOG_TIMER, at, (int64_t)tag, NULL);
  if (w->in_timer && at <= w->now && at > w->timer_at) /* the timer's event is late */
    at = w->now + WORLD_MIN_WAKE;
  if (at < w->now)
    at = w->now;
  if (w->in_timer && at <= w->now) { /* F24: it would never come to rest */
    world_broken(w, "the policy '%s' set a timer for now within a timer event",
                 w->cfg->policy->name);
    return;
  }
  if (w->ntimers == w->cap_timers) {
    uint32_t cap = w->cap_timers ? 2 * w->cap_timers : 16;
    struct timer *p = realloc(w->timer, cap * sizeof *p);
    if (!p) {
      w->failed = 1;
      base_fail_memory(w->err);
      return;
    }
    w->timer = p;
    w->cap_timers = cap;
  }
  uint32_t i = w->ntimers++;
  for (; i && w->timer[i - 1].at > at; i--)
    w->timer[i] = w->timer[i - 1];
  w->timer[i] = (struct timer){.at = at, .seq = w->timer_seq++, .tag = tag};
  due_earlier(w, at);
}

static void h_cancel_timer(void *ctx, uint64_t tag)
{
  struct world *w = ctx;
  uint32_t n = 0;
  for (uint32_t i = 0; i < w->ntimers; i++) {
    if (w->timer[i].tag != tag)
      w->timer[n++] = w->timer[i];
  }
  w->ntimers = n;
  due_later(w);
}

static int h_reject(void *ctx, lull_id id, int why)
{
  struct world *w = ctx;
  struct req *r = req_known(w, id) ? req_at(w, id) : NULL;
  int st = r && r->v.state == LULL_WAITING ? 0 : LULL_NO_STATE;
  log_line(w, r ? r->v.server : -1, WORLD_LOG_REJECT, id, st ? st : why, NULL);
  if (st)
    return st;
  req_end(w, r, WORLD_REJECTED);
  queue_own(w, LULL_EV_FAILED, r->v.server, id, w->now);
  return 0;
}

static int h_route(void *ctx, lull_id id, lull_server_id server)
{
  struct world *w = ctx;
  int st = 0;
  if (id < 0 || id != w->arriving || req_at(w, id)->v.state != LULL_WAITING)
    st = LULL_NO_STATE;
  else if (!route_allowed(w, req_at(w, id), server))
    st = LULL_NO_SERVER;
  log_line(w, -1, WORLD_LOG_ROUTE, id, st ? st : server, NULL);
  if (!st)
    w->routed = server;
  return st;
}

static void h_wake(void *ctx, lull_server_id id)
{
  struct world *w = ctx;
  struct server *s = server_at(w, id);
  if (s)
    want(w, s, LULL_WAKE_ASKED);
}

static void h_abort_step(void *ctx, lull_server_id id)
{
  struct world *w = ctx;
  struct server *s = server_at(w, id);
  log_line(w, id, WORLD_LOG_ABORT, 0, 0, NULL);
  if (!s || !s->busy)
    return;
  server_refresh(w, s);
  if (!s->v.stepping)
    return; /* at a boundary it does nothing, in every mode (F13) */
  w->ops->interrupt(w->dev, s->lane, LULL_AT_SAFEPOINT);
  w->poll = 1;
  look_again(w);
}

static int h_train(void *ctx, lull_job_id job, int run)
{
  struct world *w = ctx;
  int st = job >= 0 && job < (int)w->njobs ? 0 : LULL_NO_STATE;
  log_line(w, -1, WORLD_LOG_TRAIN, job, st ? st : run != 0, NULL);
  if (!st)
    w->job[job].run = run != 0;
  return st;
}

static void h_set_word(void *ctx, lull_id id, uint64_t word)
{
  struct world *w = ctx;
  if (req_known(w, id))
    req_at(w, id)->v.word = word;
}

static void h_log(void *ctx, const char *what, int64_t a, int64_t b)
{
  log_line(ctx, -1, WORLD_LOG_TEXT, a, b, what);
}

/* ----------------------------------------------------------------------------------- builder ---
 */

/* Who r is, before its first work; a failure ends the run. */
static void introduce(struct world *w, const struct server *s, struct req *r)
{
  struct lull_device_request who = {.size = sizeof who,
                                    .lane = s->lane,
                                    .cls = r->v.cls,
                                    .key = (uint64_t)r->v.cls << 32 | r->ordinal,
                                    .prompt = r->v.prompt,
                                    .output = r->output,
                                    .adapter = -1};
  int st = w->ops->request(w->dev, r->v.id, &who);
  r->known = 1;
  if (st)
    world_refused(w, st, "server %d: the device does not take request %d", s->v.id, r->v.id);
}

/* The server under this plan that holds r, or NULL with the refusal in *st. */
static inline struct server *plan_of(struct world *w, const struct lull_plan *p, lull_id id,
                                     struct req **r, int *st)
{
  struct server *s = p ? server_at(w, p->server) : NULL;
  *st = LULL_NO_STATE;
  if (!s || !s->planning || p != &s->plan || !req_known(w, id))
    return NULL;
  *r = req_at(w, id);
  if ((*r)->v.server == s->v.id)
    return s;
  *st = LULL_NO_SERVER;
  return NULL;
}

/* Blocks needed on top of `need` when a request is let in; waived on an empty pool (F11). */
static int64_t watermark(const struct server *s)
{
  return s->fixed_blocks + s->decode_blocks == 0 ? 0 : (int64_t)s->v.watermark_blocks;
}

/* The first `found` blocks of r, just admitted, need not be computed. */
static void note_found(struct world *w, const struct server *s, struct req *r, uint32_t found)
{
  struct world_class_result *c = &w->out->cls[r->v.cls];
  r->v.kv0 = r->v.prefill_done = found << s->block_shift;
  r->rec.cached += r->v.kv0;
  c->looked_up += r->v.prefill_target;
  c->cached += r->v.kv0;
}

static int admit(struct world *w, struct server *s, struct req *r)
{
  int64_t all = server_blocks_for(s, r->v.prefill_target), need = all;
  uint32_t found = 0, idle = 0;
  if (s->plan.seqs_left < 1)
    return LULL_NO_SEQS;
  if (RARE(s->cache)) {
    found = prefix_find(w, s, r, &idle);
    need -= found - idle;
  }
  if (need + watermark(s) > s->plan.blocks_left)
    return LULL_NO_BLOCKS;
  if (RARE(s->cache))
    prefix_take(s, r, found);
  if (RARE(w->telling) && !r->known)
    introduce(w, s, r);
  req_enter(w, r, LULL_PREFILL);
  r->v.blocks = (uint32_t)all;
  s->fixed_blocks += need;
  s->plan.blocks_left -= need;
  s->plan.seqs_left--;
  if (RARE(s->cache))
    note_found(w, s, r, found);
  return 0;
}

static int try_chunk(struct world *w, struct server *s, struct req *r, uint32_t tokens)
{
  if ((r->v.state != LULL_WAITING && r->v.state != LULL_PREFILL) || r->chunk >= 0 || !tokens ||
      r->unseen)
    return LULL_NO_STATE;
  if (s->plan.tokens_left < 1)
    return LULL_NO_TOKENS;
  if (r->v.state == LULL_WAITING) {
    int st = admit(w, s, r);
    if (st)
      return st;
  }
  uint32_t left = r->v.prefill_target - r->v.prefill_done;
  if (tokens > left)
    tokens = left;
  if (tokens > s->plan.tokens_left)
    tokens = (uint32_t)s->plan.tokens_left;
  r->chunk = (int32_t)s->batch.chunks;
  s->chunk[s->batch.chunks++] = (struct chunk){
      .req = r, .start = r->v.prefill_done, .tokens = tokens};
  s->batch.chunk_tokens += tokens;
  s->plan.tokens_left -= tokens;
  return (int)tokens;
}

static int h_chunk(void *ctx, struct lull_plan *p, lull_id id, uint32_t tokens)
{
  struct world *w = ctx;
  struct req *r;
  int st;
  struct server *s = plan_of(w, p, id, &r, &st);
  if (s)
    st = try_chunk(w, s, r, tokens > INT32_MAX ? INT32_MAX : tokens);
  log_line(w, s ? s->v.id : -1, WORLD_LOG_CHUNK, id, st, NULL);
  return st;
}

static void drop_chunk(struct world *w, struct server *s, struct req *r)
{
  if (r->chunk < 0)
    return;
  uint32_t tokens = s->chunk[r->chunk].tokens;
  for (uint32_t i = (uint32_t)r->chunk; i + 1 < s->batch.chunks; i++) {
    s->chunk[i] = s->chunk[i + 1];
    s->chunk[i].req->chunk = (int32_t)i;
  }
  s->batch.chunks--;
  s->batch.chunk_tokens -= tokens;
  s->plan.tokens_left += tokens;
  r->chunk = -1;
}

/* KV is lost: what was earned since is wasted, and the tokens are computed again. */
static void lose_kv(struct world *w, struct server *s, struct req *r)
{
  struct world_record *rec = &r->rec;
  if (r->known)
    w->ops->forget(w->dev, r->v.id, LULL_FORGET_KV);
  rec->discarded += r->v.kv0;
  w->out->cls[r->v.cls].discarded += r->v.kv0;
  rec->wasted += r->pending;
  r->pending = 0;
  s->plan.blocks_left += server_let_go(w, s, r);
  r->v.kv0 = 0;
  r->v.prefill_done = 0;
  r->v.prefill_target = r->v.prompt + r->v.gen0;
  req_enter(w, r, LULL_WAITING);
}

int take_out(struct world *w, struct server *s, struct req *r, int how)
{
  int state = r->v.state;
  if (state == LULL_DECODE) {
    uint64_t q16 = (s->step - r->v.join_step) * r->rate_q16 + r->v.phase_q16;
    uint32_t kv = r->v.kv0 + (uint32_t)(q16 >> 16);
    s->plan.blocks_left += batch_next_growth(s, r, kv, (uint32_t)(q16 & 0xffff));
    s->plan.tokens_left += s->v.row_tokens;
    batch_leave(w, s, r);
  }
  if (state != LULL_HELD)
    s->plan.seqs_left++;
  drop_chunk(w, s, r);
  r->v.preempts++;
  w->out->cls[r->v.cls].preempts++;
  int st = 0;
  if (how == LULL_RECOMPUTE)
    lose_kv(w, s, r);
  else
    req_enter(w, r, how == LULL_HOLD ? LULL_HELD : LULL_SWAPPING_OUT);
  if (how == LULL_SWAP)
    st = queue_copy(w, s, r, LULL_WORK_COPY_OUT);
  uint32_t limit = w->cfg->max_preempts ? w->cfg->max_preempts : 100000;
  if (r->v.preempts > limit)
    st = world_broken(w, "request %d was preempted %u times: the policy '%s' makes no progress",
                      r->v.id, r->v.preempts, w->cfg->policy->name);
  return st;
}

static int may_take_out(const struct req *r, int how)
{
  switch (r->v.state) {
  case LULL_DECODE:
    return how == LULL_RECOMPUTE || how == LULL_SWAP || how == LULL_HOLD;
  case LULL_PREFILL:
    return how == LULL_RECOMPUTE;
  case LULL_HELD:
    return how == LULL_RECOMPUTE || how == LULL_SWAP;
  default:
    return 0;
  }
}

static int h_preempt(void *ctx, struct lull_plan *p, lull_id id, int how)
{
  struct world *w = ctx;
  struct req *r;
  int st;
  struct server *s = plan_of(w, p, id, &r, &st);
  if (s)
    st = may_take_out(r, how) ? 0 : LULL_NO_STATE;
  if (!st)
    take_out(w, s, r, how);
  log_line(w, s ? s->v.id : -1, WORLD_LOG_PREEMPT, id, st ? st : how, NULL);
  return st;
}

static int resume_held(struct world *w, struct server *s, struct req *r)
{
  int64_t now = lull_blocks_for(&s->v, r->v.kv0);
  int64_t need = now + batch_next_growth(s, r, r->v.kv0, r->phase_q16) - r->v.blocks;
  if (s->plan.tokens_left < s->v.row_tokens)
    return LULL_NO_TOKENS;
  if (s->plan.seqs_left < 1)
    return LULL_NO_SEQS;
  if (need > s->plan.blocks_left)
    return LULL_NO_BLOCKS;
  s->plan.blocks_left -= need;
  s->plan.tokens_left -= s->v.row_tokens;
  s->plan.seqs_left--;
  if (s->cache && r->v.blocks > now)
    prefix_put_spare(w, s, r->v.blocks - (uint32_t)now);
  batch_join(w, s, r);
  return 0;
}

/* A swapped-in row must be able to take its next step, so that much is granted (F11). */
static int resume_swapped(struct world *w, struct server *s, struct req *r)
{
  int64_t need = lull_blocks_for(&s->v, r->v.kv0) + batch_next_growth(s, r, r->v.kv0, r->phase_q16);
  if (need + watermark(s) > s->plan.blocks_left)
    return LULL_NO_BLOCKS;
  s->plan.blocks_left -= need;
  s->fixed_blocks += need;
  r->v.blocks = (uint32_t)need;
  if (RARE(s->cache))
    prefix_hide(r);
  req_enter(w, r, LULL_SWAPPING_IN);
  return queue_copy(w, s, r, LULL_WORK_COPY_IN) ? LULL_NO_SUPPORT : 0;
}

static int h_resume(void *ctx, struct lull_plan *p, lull_id id)
{
  struct world *w = ctx;
  struct req *r;
  int st;
  struct server *s = plan_of(w, p, id, &r, &st);
  if (s) {
    st = LULL_NO_STATE;
    if (r->v.state == LULL_HELD)
      st = resume_held(w, s, r);
    else if (r->v.state == LULL_SWAPPED)
      st = resume_swapped(w, s, r);
  }
  log_line(w, s ? s->v.id : -1, WORLD_LOG_RESUME, id, st, NULL);
  return st;
}

/* ------------------------------------------------------------------- not on this device (yet) ---
 */

static int h_sleep(void *ctx, lull_server_id server, int level)
{
  (void)ctx, (void)server, (void)level;
  return LULL_NO_SUPPORT;
}

static int h_adapter(void *ctx, lull_server_id server, uint64_t version, int slot)
{
  (void)ctx, (void)server, (void)version, (void)slot;
  return LULL_NO_SUPPORT;
}

static int h_set_ceiling(void *ctx, int cls, uint32_t max_inflight)
{
  (void)ctx, (void)cls, (void)max_inflight;
  return LULL_NO_SUPPORT;
}

void host_init(struct world *w)
{
  w->host = (struct lull_host){.size = sizeof w->host,
                               .abi = LULL_POLICY_ABI,
                               .ctx = w,
                               .classes = w->nclasses,
                               .servers = w->nservers,
                               .request = h_request,
                               .server = h_server,
                               .first = h_first,
                               .last = h_last,
                               .timer = h_timer,
                               .cancel_timer = h_cancel_timer,
                               .reject = h_reject,
                               .route = h_route,
                               .wake = h_wake,
                               .abort_step = h_abort_step,
                               .set_word = h_set_word,
                               .log = h_log,
                               .chunk = h_chunk,
                               .preempt = h_preempt,
                               .resume = h_resume,
                               .train = h_train,
                               .sleep = h_sleep,
                               .adapter = h_adapter,
                               .set_ceiling = h_set_ceiling};
  for (uint32_t c = 0; c < w->nclasses; c++)
    w->host.interactive_mask |= (uint32_t)(w->cfg->cls[c].interactive != 0) << c;
}
