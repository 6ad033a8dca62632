/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/nasty_policy.h"

enum { PREEMPTS_ENOUGH = 12 };

struct nasty {
  uint64_t word;
  lull_time grid; /* its times lie on it */
  lull_time tie;  /* and some are just this one */
  uint32_t servers, classes;
};

static uint64_t mix(uint64_t x)
{
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static void fold(struct nasty *n, uint64_t x)
{
  n->word = mix(n->word ^ x);
}

/* 0 .. of-1 */
static uint32_t draw(struct nasty *n, uint32_t of)
{
  fold(n, of);
  return (uint32_t)((n->word >> 32) * of >> 32);
}

static int chance(struct nasty *n, uint32_t one_in)
{
  return !draw(n, one_in);
}

static const char *create(void *st, const struct lull_host *h, const int64_t *params)
{
  struct nasty *n = st;
  n->word = mix((uint64_t)params[0]);
  n->grid = params[1];
  n->tie = params[2];
  n->servers = h->servers;
  n->classes = h->classes;
  return NULL;
}

/* Everything a view says about a request on s, by the inline readers. */
static void fold_request(struct nasty *n, const struct lull_request *r, const struct lull_server *s)
{
  fold(n, (uint64_t)r->id << 32 | (uint64_t)r->state << 8 | r->cls);
  fold(n, (uint64_t)r->prompt << 32 | r->max_tokens);
  fold(n, (uint64_t)r->prefill_target << 32 | r->prefill_done);
  fold(n, (uint64_t)lull_generated(r, s) << 32 | lull_kv_tokens(r, s));
  fold(n, (uint64_t)lull_kv_blocks(r, s) << 32 | r->preempts);
  fold(n, (uint64_t)r->arrival);
  fold(n, r->word);
}

static void fold_lists(struct nasty *n, const struct lull_host *h, const struct lull_server *s)
{
  for (int state = LULL_WAITING; state < LULL_FINISHED; state++)
    for (uint32_t c = 0; c < n->classes; c++) {
      lull_id last = -1;
      fold(n, s->count[state][c]);
      for (lull_id id = h->first(h->ctx, s->id, state, (int)c); id >= 0;) {
        const struct lull_request *r = h->request(h->ctx, id);
        fold_request(n, r, s);
        last = id;
        id = r->next;
      }
      fold(n, (uint64_t)(last == h->last(h->ctx, s->id, state, (int)c)));
    }
}

/* All that may be read outside plan(): the last boundary of every server (F9). */
static void fold_servers(struct nasty *n, const struct lull_host *h)
{
  for (uint32_t i = 0; i < n->servers; i++) {
    const struct lull_server *s = h->server(h->ctx, (lull_server_id)i);
    fold(n, s->step);
    fold(n, (uint64_t)s->boundary);
    fold(n, (uint64_t)s->kv_free << 32 | s->seqs);
    fold(n, s->stepping);
    fold_lists(n, h, s);
  }
}

static void fold_plan(struct nasty *n, const struct lull_plan *p)
{
  fold(n, (uint64_t)p->time);
  fold(n, p->why);
  fold(n, p->steps_run);
  fold(n, (uint64_t)p->tokens_left);
  fold(n, (uint64_t)p->blocks_left);
  fold(n, (uint64_t)p->seqs_left);
}

/* ------------------------------------------------------------------------------- the random one */

typedef void visit_fn(struct nasty *n, const struct lull_host *h, struct lull_plan *p,
                      const struct lull_request *r);

/* Visits a list of all classes, in a drawn order of classes; the successor is read before. */
static void visit(struct nasty *n, const struct lull_host *h, struct lull_plan *p, int state,
                  visit_fn *fn)
{
  uint32_t first = draw(n, n->classes);
  for (uint32_t i = 0; i < n->classes; i++) {
    int c = (int)((first + i) % n->classes);
    for (lull_id id = h->first(h->ctx, p->server, state, c); id >= 0;) {
      const struct lull_request *r = h->request(h->ctx, id);
      id = r->next;
      fn(n, h, p, r);
    }
  }
}

static void maybe_preempt(struct nasty *n, const struct lull_host *h, struct lull_plan *p,
                          const struct lull_request *r)
{
  if (r->preempts < PREEMPTS_ENOUGH && chance(n, 10))
    h->preempt(h->ctx, p, r->id, (int)draw(n, 3));
}

static void maybe_resume(struct nasty *n, const struct lull_host *h, struct lull_plan *p,
                         const struct lull_request *r)
{
  if (chance(n, 2))
    h->resume(h->ctx, p, r->id);
}

static void maybe_chunk(struct nasty *n, const struct lull_host *h, struct lull_plan *p,
                        const struct lull_request *r)
{
  if (!chance(n, 4))
    h->chunk(h->ctx, p, r->id, draw(n, 12) ? 1 + draw(n, 24) : draw(n, 3));
}

static void make_room(struct nasty *n, const struct lull_host *h, struct lull_plan *p)
{
  static const uint8_t from[] = {LULL_PREFILL, LULL_DECODE, LULL_HELD};
  for (int tries = 0; tries < 8 && p->blocks_left < 0; tries++) {
    lull_id id = h->last(h->ctx, p->server, from[draw(n, 3)], (int)draw(n, n->classes));
    if (id >= 0)
      h->preempt(h->ctx, p, id, (int)draw(n, 3));
  }
}

static uint32_t in_state(const struct lull_server *s, int state)
{
  uint32_t sum = 0;
  for (int c = 0; c < LULL_CLASSES; c++)
    sum += s->count[state][c];
  return sum;
}

static lull_id first_of(const struct nasty *n, const struct lull_host *h, lull_server_id s,
                        int state)
{
  for (uint32_t c = 0; c < n->classes; c++) {
    lull_id id = h->first(h->ctx, s, state, (int)c);
    if (id >= 0)
      return id;
  }
  return -1;
}

/* Something to run, if anything can: else the run would stall for no better reason than luck. */
static void insist(struct nasty *n, const struct lull_host *h, struct lull_plan *p)
{
  static const uint8_t order[] = {LULL_PREFILL, LULL_HELD, LULL_SWAPPED, LULL_WAITING};
  for (unsigned i = 0; i < sizeof order; i++) {
    lull_id id = first_of(n, h, p->server, order[i]);
    if (id < 0)
      continue;
    int rc = order[i] == LULL_PREFILL || order[i] == LULL_WAITING ? h->chunk(h->ctx, p, id, 16)
                                                                  : h->resume(h->ctx, p, id);
    if (rc >= 0)
      return;
    if (order[i] == LULL_HELD || order[i] == LULL_PREFILL)
      h->preempt(h->ctx, p, id, LULL_RECOMPUTE);
  }
}

static void draw_wakes(struct nasty *n, const struct lull_host *h, const struct lull_server *s,
                       struct lull_plan *p)
{
  if (chance(n, 2))
    p->wake = draw(n, 8192);
  if (chance(n, 2))
    p->wake_classes = draw(n, 256);
  if (chance(n, 2))
    p->wake_steps = draw(n, 6);
  if (chance(n, 3))
    p->wake_time = p->time + (lull_time)draw(n, 5000) * n->grid;
  if (chance(n, 3))
    p->kv_low_blocks = draw(n, s->kv_blocks + 1);
  if (chance(n, 8) && p->wake_time != LULL_NEVER) { /* someone may wait: then it wakes by time */
    p->decline = draw(n, 8);
    p->wake |= LULL_WAKE_TIME;
  }
  if (!in_state(s, LULL_DECODE) && p->tokens_left == (int64_t)s->token_budget) {
    p->wake |= LULL_WAKE_ARRIVAL | LULL_WAKE_TRANSFER | LULL_WAKE_TIME;
    p->wake_classes = UINT32_MAX;
    p->wake_time = p->time + 3000 * n->grid;
  }
  if (chance(n, 60))
    h->wake(h->ctx, s->id);
}

/* What is legal in any callback. */
static void meddle(struct nasty *n, const struct lull_host *h, lull_time now, int in_timer)
{
  lull_server_id s = (lull_server_id)draw(n, n->servers);
  if (chance(n, 16))
    h->timer(h->ctx, now + (lull_time)(in_timer + draw(n, 2000)) * n->grid, draw(n, 4));
  if (chance(n, 100))
    h->timer(h->ctx, now + (in_timer ? 1 + (lull_time)draw(n, 63) : -5), 7);
  if (now < n->tie && chance(n, 60))
    h->timer(h->ctx, n->tie, draw(n, 4));
  if (chance(n, 40))
    h->cancel_timer(h->ctx, draw(n, 4));
  if (chance(n, 24))
    h->wake(h->ctx, s);
  if (chance(n, 12))
    h->abort_step(h->ctx, s);
  if (chance(n, 12))
    h->train(h->ctx, (lull_job_id)(draw(n, n->servers + 1) - chance(n, 8)), chance(n, 2));
  if (chance(n, 30)) {
    lull_id id = first_of(n, h, s, LULL_WAITING);
    if (id >= 0 && chance(n, 4))
      h->reject(h->ctx, id, (int)draw(n, 9));
    else if (id >= 0)
      h->set_word(h->ctx, id, n->word);
  }
}

static void random_event(void *st, const struct lull_host *h, const struct lull_event *ev)
{
  struct nasty *n = st;
  fold(n, (uint64_t)ev->kind << 32 | (uint32_t)ev->request);
  fold(n, (uint64_t)ev->time ^ (uint64_t)ev->at << 1);
  fold(n, ev->tag ^ (uint64_t)(ev->server + 1) << 48);
  fold_servers(n, h);
  h->log(h->ctx, "seen", (int64_t)(n->word >> 1), ev->request);
  if (ev->kind == LULL_EV_ARRIVED && ev->server < 0 && chance(n, 3))
    h->route(h->ctx, ev->request, (lull_server_id)draw(n, n->servers));
  else if (ev->kind == LULL_EV_ARRIVED && chance(n, 40))
    h->reject(h->ctx, ev->request, 1);
  meddle(n, h, ev->time, ev->kind == LULL_EV_TIMER);
}

static void random_plan(void *st, const struct lull_host *h, const struct lull_server *s,
                        struct lull_plan *p)
{
  struct nasty *n = st;
  fold(n, s->step);
  fold(n, (uint64_t)s->boundary);
  fold_plan(n, p);
  fold_lists(n, h, s);
  h->log(h->ctx, "planning", p->blocks_left, p->tokens_left);
  int64_t full = (int64_t)s->token_budget;
  if (p->blocks_left < 0 && !chance(n, 4))
    make_room(n, h, p);
  visit(n, h, p, LULL_DECODE, maybe_preempt);
  visit(n, h, p, LULL_HELD, chance(n, 3) ? maybe_preempt : maybe_resume);
  visit(n, h, p, LULL_PREFILL, chance(n, 10) ? maybe_preempt : maybe_chunk);
  visit(n, h, p, LULL_SWAPPED, maybe_resume);
  visit(n, h, p, LULL_WAITING, maybe_chunk);
  if (chance(n, 8))
    h->chunk(h->ctx, p, (lull_id)draw(n, 60), 1 + draw(n, 4));
  if (!in_state(s, LULL_DECODE) && p->tokens_left == full)
    insist(n, h, p);
  meddle(n, h, p->time, 0);
  fold_plan(n, p);
  fold_lists(n, h, s);
  h->log(h->ctx, "planned", (int64_t)(n->word >> 1), p->tokens_left);
  draw_wakes(n, h, s, p);
}

/* ------------------------------------------------------------------------------ the other three */

static void admit_all(const struct nasty *n, const struct lull_host *h, struct lull_plan *p)
{
  static const uint8_t from[] = {LULL_PREFILL, LULL_WAITING};
  for (int i = 0; i < 2; i++)
    for (uint32_t c = 0; c < n->classes; c++)
      for (lull_id id = h->first(h->ctx, p->server, from[i], (int)c); id >= 0;) {
        const struct lull_request *r = h->request(h->ctx, id);
        id = r->next;
        if (h->chunk(h->ctx, p, r->id, UINT32_MAX) == LULL_NO_TOKENS)
          return;
      }
}

static void greedy_plan(void *st, const struct lull_host *h, const struct lull_server *s,
                        struct lull_plan *p)
{
  admit_all(st, h, p);
}

static int live_here(const struct lull_host *h, const struct lull_server *s)
{
  for (int state = LULL_WAITING; state < LULL_FINISHED; state++)
    for (int c = 0; c < LULL_CLASSES; c++)
      if ((h->interactive_mask >> c & 1) && s->count[state][c])
        return 1;
  return 0;
}

/* Jobs run while nobody is live. */
static void train_all(const struct lull_host *h, int run)
{
  for (lull_job_id j = 0; h->train(h->ctx, j, run) == 0;)
    j++;
}

static void harvest_event(void *st, const struct lull_host *h, const struct lull_event *ev)
{
  if (ev->kind != LULL_EV_ARRIVED)
    return;
  const struct lull_request *r = h->request(h->ctx, ev->request);
  if (!(h->interactive_mask >> r->cls & 1))
    return;
  train_all(h, 0);
  for (uint32_t i = 0; i < h->servers; i++) {
    const struct lull_server *s = h->server(h->ctx, (lull_server_id)i);
    if (!live_here(h, s))
      h->abort_step(h->ctx, s->id);
  }
}

/* HOLD or resume all requests of the batch classes. */
static void batch_rows(const struct nasty *n, const struct lull_host *h, struct lull_plan *p,
                       int hold)
{
  for (uint32_t c = 0; c < n->classes; c++) {
    if (h->interactive_mask >> c & 1)
      continue;
    for (lull_id id = h->first(h->ctx, p->server, hold ? LULL_DECODE : LULL_HELD, (int)c);
         id >= 0;) {
      const struct lull_request *r = h->request(h->ctx, id);
      id = r->next;
      if (hold)
        h->preempt(h->ctx, p, r->id, LULL_HOLD);
      else
        h->resume(h->ctx, p, r->id);
    }
  }
}

static void harvest_plan(void *st, const struct lull_host *h, const struct lull_server *s,
                         struct lull_plan *p)
{
  struct nasty *n = st;
  if (p->blocks_left < 0)
    make_room(n, h, p);
  batch_rows(n, h, p, live_here(h, s));
  if (!live_here(h, s))
    train_all(h, 1);
  admit_all(n, h, p);
  if (!in_state(s, LULL_DECODE) && p->tokens_left == (int64_t)s->token_budget)
    insist(n, h, p);
  p->wake_steps = live_here(h, s) ? 1 : 0;
}

static void swapper_plan(void *st, const struct lull_host *h, const struct lull_server *s,
                         struct lull_plan *p)
{
  struct nasty *n = st;
  lull_id out = first_of(n, h, s->id, LULL_DECODE), in = first_of(n, h, s->id, LULL_SWAPPED);
  lull_id held = first_of(n, h, s->id, LULL_HELD);
  if (out >= 0 && h->request(h->ctx, out)->preempts < PREEMPTS_ENOUGH)
    h->preempt(h->ctx, p, out, LULL_SWAP);
  if (held >= 0)
    h->resume(h->ctx, p, held);
  if (in >= 0)
    h->resume(h->ctx, p, in);
  admit_all(n, h, p);
  if (!in_state(s, LULL_DECODE) && p->tokens_left == (int64_t)s->token_budget)
    insist(n, h, p);
  p->wake_steps = 2;
}

static const struct lull_param params[] = {{.name = "seed",
                                            .kind = LULL_PARAM_COUNT,
                                            .preset = "1",
                                            .min = 0,
                                            .max = INT64_MAX,
                                            .doc = "of its decisions"},
                                           {.name = "grid",
                                            .kind = LULL_PARAM_TIME,
                                            .preset = "640ps",
                                            .min = 1,
                                            .max = 1000000000,
                                            .doc = "what its times are multiples of"},
                                           {.name = "tie",
                                            .kind = LULL_PARAM_TIME,
                                            .preset = "1ns",
                                            .min = 1,
                                            .max = INT64_MAX,
                                            .doc = "a moment at which timers are due"}};

const struct lull_policy nasty_random = {.size = sizeof(struct lull_policy),
                                         .abi = LULL_POLICY_ABI,
                                         .name = "nasty-random",
                                         .summary = "anything that is legal",
                                         .params = params,
                                         .nparams = 3,
                                         .state_size = sizeof(struct nasty),
                                         .create = create,
                                         .event = random_event,
                                         .plan = random_plan};
const struct lull_policy nasty_greedy = {.size = sizeof(struct lull_policy),
                                         .abi = LULL_POLICY_ABI,
                                         .name = "nasty-greedy",
                                         .summary = "never makes room",
                                         .params = params,
                                         .nparams = 3,
                                         .state_size = sizeof(struct nasty),
                                         .create = create,
                                         .plan = greedy_plan};
const struct lull_policy nasty_harvest = {.size = sizeof(struct lull_policy),
                                          .abi = LULL_POLICY_ABI,
                                          .name = "nasty-harvest",
                                          .summary = "aborts and holds for live requests",
                                          .params = params,
                                          .nparams = 3,
                                          .state_size = sizeof(struct nasty),
                                          .create = create,
                                          .event = harvest_event,
                                          .plan = harvest_plan};
const struct lull_policy nasty_swapper = {.size = sizeof(struct lull_policy),
                                          .abi = LULL_POLICY_ABI,
                                          .name = "nasty-swapper",
                                          .summary = "swaps for swapping's sake",
                                          .params = params,
                                          .nparams = 3,
                                          .state_size = sizeof(struct nasty),
                                          .create = create,
                                          .plan = swapper_plan};
