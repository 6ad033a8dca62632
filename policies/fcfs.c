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
 */
#include "queue.h"

struct fcfs {
  int how; /* enum lull_preempt */
};

static const struct lull_param params[] = {QUEUE_PARAM_PREEMPT};

static const char *create(void *st, const struct lull_host *h, const int64_t *value)
{
  struct fcfs *f = st;
  f->how = queue_how(value[0]);
  return NULL;
}

static void plan(void *st, const struct lull_host *h, const struct lull_server *s,
                 struct lull_plan *p)
{
  const struct fcfs *f = st;
  struct queue q = queue_open(h, s, p, f->how);
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
