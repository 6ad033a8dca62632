/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * cap: as priority, with the batch requests in flight on a server kept at or below a limit. The
 * fixed guard that operators set by hand.
 *
 * In flight is whatever has started and not ended: its prompt is being computed, it decodes, or its
 * KV is held, copied or on the host. A request preempted by recompute starts over and counts again
 * when it does. Nobody is taken out to meet the limit; it only holds back
 * admissions, and never the return of a request that is in flight.
 */
#include "ranked.h"

static const struct lull_param params[] = {
    QUEUE_PARAM_PREEMPT,
    RANKED_PARAM_EVICT,
    {
        .name = "limit",
        .kind = LULL_PARAM_COUNT,
        .preset = "32",
        .min = 1,
        .max = 1000000,
        .doc = "most batch requests in flight on a server",
    },
};

static const char *create(void *st, const struct lull_host *h, const int64_t *value)
{
  struct ranked *rules = st;
  rules->how = queue_how(value[0]);
  rules->evict = value[1] == 0;
  rules->limit = (uint32_t)value[2];
  return NULL;
}

static void plan(void *st, const struct lull_host *h, const struct lull_server *s,
                 struct lull_plan *p)
{
  const struct ranked *rules = st;
  struct queue q = queue_open(h, s, p, rules->how);
  ranked_plan(&q, rules);
}

LULL_POLICY_EXPORT extern const struct lull_policy LULL_POLICY_SYMBOL(cap);
const struct lull_policy LULL_POLICY_SYMBOL(cap) = {
    .size = sizeof(struct lull_policy),
    .abi = LULL_POLICY_ABI,
    .name = "cap",
    .summary = "priority with a limit on batch requests in flight",
    .params = params,
    .nparams = sizeof params / sizeof *params,
    .state_size = sizeof(struct ranked),
    .create = create,
    .plan = plan,
};
