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
 */
#include "ranked.h"

static const struct lull_param params[] = {QUEUE_PARAM_PREEMPT, RANKED_PARAM_EVICT};

static const char *create(void *st, const struct lull_host *h, const int64_t *value)
{
  struct ranked *rules = st;
  rules->how = queue_how(value[0]);
  rules->evict = value[1] == 0;
  rules->limit = UINT32_MAX;
  return NULL;
}

static void plan(void *st, const struct lull_host *h, const struct lull_server *s,
                 struct lull_plan *p)
{
  const struct ranked *rules = st;
  struct queue q = queue_open(h, s, p, rules->how);
  ranked_plan(&q, rules);
}

LULL_POLICY_EXPORT extern const struct lull_policy LULL_POLICY_SYMBOL(priority);
const struct lull_policy LULL_POLICY_SYMBOL(priority) = {
    .size = sizeof(struct lull_policy),
    .abi = LULL_POLICY_ABI,
    .name = "priority",
    .summary = "live first; a waiting live request may take out running batch",
    .params = params,
    .nparams = sizeof params / sizeof *params,
    .state_size = sizeof(struct ranked),
    .create = create,
    .plan = plan,
};
