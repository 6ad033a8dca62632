/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * fcfs: first come, first served, whatever the class. The base line of common serving engines.
 *
 * A plan, in this order:
 *   1. If the rows' next step lacks KV blocks, requests that run are preempted, last come first.
 *   2. Prompts under way get what is left of the token budget, in order of arrival.
 *   3. If nobody was preempted, those that ran before come back and waiting ones are admitted, in
 *      order of arrival, up to the first that does not fit.
 *
 * The plan then stands while it can. An arrival ends it only if nobody waits already.
 *
 * With rules=sarathi, Sarathi-Serve's: row after row, in order of arrival, must find a free block,
 * whether it needs one or not, or the last come is preempted, itself at the end; and waiting
 * requests are admitted in a step that preempted too, who was preempted first. The plan must then
 * be made again wherever a row may find no free block.
 */
#include "walk.h"

struct fcfs {
  int how; /* enum lull_preempt */
  int sarathi;
};

static const struct lull_param params[] = {
    QUEUE_PARAM_PREEMPT,
    {
        .name = "rules",
        .kind = LULL_PARAM_CHOICE,
        .preset = "own",
        .min = 0,
        .max = 1,
        .choices = "own sarathi",
        .doc = "how rows come by blocks: as vLLM V1 decides it too, or as Sarathi-Serve",
    },
};

static const char *create(void *st, const struct lull_host *h, const int64_t *value)
{
  struct fcfs *f = st;
  f->how = queue_how(value[0]);
  f->sarathi = value[1] == 1;
  if (f->sarathi && f->how == LULL_SWAP)
    return "rules=sarathi with preempt=swap: Sarathi-Serve computes again what it preempts; write "
           "preempt=recompute";
  for (uint32_t i = 0; f->sarathi && i < h->servers; i++)
    if (h->server(h->ctx, (lull_server_id)i)->row_tokens > 1)
      return "rules=sarathi with speculation: Sarathi-Serve has none; set depth to 0";
  return NULL;
}

static lull_id last_come(const struct queue *q)
{
  lull_id id = queue_latest(q, LULL_PREFILL, QUEUE_ALL);
  return id >= 0 ? id : queue_latest(q, LULL_DECODE, QUEUE_ALL);
}

/* Every row at its turn finds a free block, or the last come goes. */
static void keep_one_free(struct queue *q)
{
  struct walk w = walk_open(q);
  for (lull_id id; (id = walk_next(&w)) >= 0;)
    for (lull_id victim = -1; victim != id && walk_free(&w) < 1;)
      walk_out(&w, victim = last_come(q));
}

static void plan_as_sarathi(struct queue *q)
{
  if (q->p->blocks_left < 1)
    keep_one_free(q);
  queue_prefill(q, QUEUE_ALL);
  queue_wake(q, queue_serve(q, QUEUE_ALL) ? QUEUE_ALL : 0);
  /* each row takes a block at most, so with one for each all find one */
  q->p->wake |= LULL_WAKE_KV_LOW;
  q->p->kv_low_blocks = queue_count(q, LULL_DECODE, QUEUE_ALL) +
                        queue_count(q, LULL_PREFILL, QUEUE_ALL);
}

static void plan(void *st, const struct lull_host *h, const struct lull_server *s,
                 struct lull_plan *p)
{
  const struct fcfs *f = st;
  struct queue q = queue_open(h, s, p, f->how);
  if (f->sarathi)
    plan_as_sarathi(&q);
  else
    queue_plan_in_order(&q);
}

LULL_POLICY_EXPORT extern const struct lull_policy LULL_POLICY_SYMBOL(fcfs);
const struct lull_policy LULL_POLICY_SYMBOL(fcfs) = {
    .size = sizeof(struct lull_policy),
    .abi = LULL_POLICY_ABI,
    .name = "fcfs",
    .summary = "first come, first served over all classes",
    .params = params,
    .nparams = sizeof params / sizeof *params,
    .state_size = sizeof(struct fcfs),
    .create = create,
    .plan = plan,
};
