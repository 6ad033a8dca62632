/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * priority: classes by importance, live before batch; a live request that waits may take out
 * running batch.
 *
 * Importance is scenario order, interactive classes first. A plan, in this order:
 *   1. If the rows' next step lacks KV blocks, requests that run are preempted: the least important
 *      class first, in it the last come first. So batch goes before live.
 *   2. Class by class: prompts under way get what is left of the token budget; then, up to the
 *      first request of any class that does not fit, those that ran before come back and waiting
 *      ones are admitted. While a live request waits no batch is admitted.
 *   3. A live request that does not fit takes out batch requests, last come first, if that makes it
 *      fit; never live ones. In a plan with a preemption no batch joins.
 *
 * An arrival ends the plan only if its class is more important than that of the first who waits.
 *
 * With rules=vllm-v1, those of vLLM V1 with its scheduling policy "priority": rows in the order in
 * which they were admitted, then prompts under way, then, if nobody was preempted, waiting ones by
 * importance. A row that lacks blocks at its turn takes out the least important of all that run,
 * last come first. Where that is the row itself, its turn was the last one: rows behind it are held
 * for a step, and prompts wait.
 */
#include "ranked.h"
#include "walk.h"

struct priority {
  struct ranked own;
  int vllm;
};

static const struct lull_param params[] = {
    QUEUE_PARAM_PREEMPT,
    RANKED_PARAM_EVICT,
    {
        .name = "rules",
        .kind = LULL_PARAM_CHOICE,
        .preset = "own",
        .min = 0,
        .max = 1,
        .choices = "own vllm-v1",
        .doc = "the policy's own rules, or those of vLLM V1 for its policy 'priority'",
    },
};

/* Why a server cannot be scheduled as vLLM does, or NULL. */
static const char *refuse(const struct lull_host *h, const struct ranked *own)
{
  if (own->how == LULL_SWAP)
    return "rules=vllm-v1 with preempt=swap: vLLM V1 computes again what it preempts; write "
           "preempt=recompute";
  if (own->evict)
    return "rules=vllm-v1 with evict=yes: vLLM takes out nobody for one who waits; write evict=no";
  for (uint32_t i = 0; i < h->servers; i++) {
    const struct lull_server *s = h->server(h->ctx, (lull_server_id)i);
    if ((uint64_t)s->max_seqs * s->row_tokens > s->token_budget)
      return "rules=vllm-v1 where max-seqs rows take more than token-budget: the rows that vLLM "
             "would cut are not modelled; lower max-seqs";
  }
  return NULL;
}

static const char *create(void *st, const struct lull_host *h, const int64_t *value)
{
  struct priority *y = st;
  y->own.how = queue_how(value[0]);
  y->own.evict = value[1] == 0;
  y->own.limit = UINT32_MAX;
  y->vllm = value[2] == 1;
  return y->vllm ? refuse(h, &y->own) : NULL;
}

/* Who goes first: of the least important class that runs, the last come. */
static lull_id worst(const struct queue *q)
{
  static const int lists[] = {LULL_PREFILL, LULL_DECODE, LULL_HELD};
  const struct lull_host *h = q->h;
  for (uint32_t rank = h->classes; rank-- > 0;) {
    lull_id last = -1;
    for (int i = 0; i < 3; i++)
      for (lull_id id = h->first(h->ctx, q->s->id, lists[i], (int)ranked_class(h, rank)); id >= 0;
           id = h->request(h->ctx, id)->next)
        last = id > last ? id : last;
    if (last >= 0)
      return last;
  }
  return -1;
}

/* When a row came into the batch. One that was held keeps that in its word. */
static uint64_t place(const struct lull_request *r)
{
  return r->word ? r->word : r->entered;
}

/* The rows still ahead sit this step out. */
static void hold_rest(struct walk *w)
{
  const struct lull_host *h = w->q->h;
  for (lull_id id; (id = walk_next(w)) >= 0;) {
    h->set_word(h->ctx, id, place(h->request(h->ctx, id)));
    h->preempt(h->ctx, w->q->p, id, LULL_HOLD);
  }
}

/* Who was taken out has no place any more. */
static void forget(const struct queue *q, lull_id id)
{
  q->h->set_word(q->h->ctx, id, 0);
}

/* How the turns of a list ended. */
enum turns {
  TURNS_ALL,   /* all that run had theirs */
  TURNS_ENDED, /* one took out itself: those behind it have none in this step */
  TURNS_AGAIN  /* likewise, and nothing would run: the next step is scheduled at once */
};

/* Does a row run that had its turn? */
static int one_runs(const struct walk *w)
{
  const struct lull_host *h = w->q->h;
  for (uint32_t c = 0; c < h->classes; c++) {
    lull_id id = h->first(h->ctx, w->q->s->id, LULL_DECODE, (int)c);
    if (id >= 0 && h->request(h->ctx, id)->entered < w->entered)
      return 1;
  }
  return 0;
}

/* Rows take the blocks of their next step. */
static enum turns run_rows(struct queue *q)
{
  struct walk w = walk_open(q);
  for (lull_id id; (id = walk_next(&w)) >= 0;)
    while (walk_free(&w) < w.need) {
      lull_id victim = worst(q);
      walk_out(&w, victim);
      forget(q, victim);
      if (victim != id)
        continue;
      if (!one_runs(&w))
        return TURNS_AGAIN;
      hold_rest(&w);
      return TURNS_ENDED;
    }
  return TURNS_ALL;
}

/* Of those held the first that came into the batch, -1: none. */
static lull_id first_held(const struct queue *q)
{
  const struct lull_request *best = NULL;
  const struct lull_host *h = q->h;
  for (uint32_t c = 0; c < h->classes; c++)
    for (lull_id id = h->first(h->ctx, q->s->id, LULL_HELD, (int)c); id >= 0;) {
      const struct lull_request *r = h->request(h->ctx, id);
      best = !best || place(r) < place(best) ? r : best;
      id = r->next;
    }
  return best ? best->id : -1;
}

/* The same for those that sat out the last step; they stand behind all others. */
static enum turns run_held(struct queue *q)
{
  for (lull_id id; (id = first_held(q)) >= 0;)
    while (q->h->resume(q->h->ctx, q->p, id)) {
      lull_id victim = worst(q);
      queue_preempt(q, victim);
      forget(q, victim);
      if (victim == id)
        return queue_count(q, LULL_DECODE, QUEUE_ALL) ? TURNS_ENDED : TURNS_AGAIN;
    }
  return TURNS_ALL;
}

/* Waiting requests by importance, up to the first that does not fit. The classes before its. */
static uint32_t admit(struct queue *q)
{
  uint32_t above = 0;
  for (uint32_t rank = 0; rank < q->h->classes; rank++) {
    uint32_t line = 1u << ranked_class(q->h, rank);
    if (!queue_serve(q, line))
      break;
    above |= line;
  }
  return above;
}

static enum turns run(struct queue *q)
{
  enum turns turns = q->p->blocks_left < 0 ? run_rows(q) : TURNS_ALL;
  return turns == TURNS_ALL ? run_held(q) : turns;
}

static void plan_as_vllm(struct queue *q)
{
  enum turns turns;
  while ((turns = run(q)) == TURNS_AGAIN)
    *q = queue_open(q->h, q->s, q->p, q->how);
  if (turns == TURNS_ALL)
    queue_prefill(q, QUEUE_ALL);
  queue_wake(q, q->preempted ? 0 : admit(q));
}

static void plan(void *st, const struct lull_host *h, const struct lull_server *s,
                 struct lull_plan *p)
{
  const struct priority *y = st;
  struct queue q = queue_open(h, s, p, y->own.how);
  if (y->vllm)
    plan_as_vllm(&q);
  else
    ranked_plan(&q, &y->own);
}

LULL_POLICY_EXPORT extern const struct lull_policy LULL_POLICY_SYMBOL(priority);
const struct lull_policy LULL_POLICY_SYMBOL(priority) = {
    .size = sizeof(struct lull_policy),
    .abi = LULL_POLICY_ABI,
    .name = "priority",
    .summary = "live first; a waiting live request may take out running batch",
    .params = params,
    .nparams = sizeof params / sizeof *params,
    .state_size = sizeof(struct priority),
    .create = create,
    .plan = plan,
};
