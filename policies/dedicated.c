/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * dedicated: every server serves one class, first come, first served. The reference that shared
 * servers are measured against: live and batch each on GPUs of their own.
 *
 * The classes of a server are the scenario's; this policy only refuses an arm in which a server
 * would be shared, so that a mistake there cannot pass for the reference.
 */
#include "queue.h"

struct dedicated {
  int how; /* enum lull_preempt */
};

static const struct lull_param params[] = {QUEUE_PARAM_PREEMPT};

static const char *create(void *st, const struct lull_host *h, const int64_t *value)
{
  struct dedicated *d = st;
  d->how = queue_how(value[0]);
  for (uint32_t i = 0; i < h->servers; i++) {
    uint32_t mask = h->server(h->ctx, (lull_server_id)i)->class_mask;
    if (mask & (mask - 1))
      return "a server of this arm serves more than one class; with the policy dedicated give "
             "each server exactly one class, or choose a policy that shares";
  }
  return NULL;
}

static void plan(void *st, const struct lull_host *h, const struct lull_server *s,
                 struct lull_plan *p)
{
  const struct dedicated *d = st;
  struct queue q = queue_open(h, s, p, d->how);
  queue_plan_in_order(&q);
}

LULL_POLICY_EXPORT extern const struct lull_policy LULL_POLICY_SYMBOL(dedicated);
const struct lull_policy LULL_POLICY_SYMBOL(dedicated) = {
    .size = sizeof(struct lull_policy),
    .abi = LULL_POLICY_ABI,
    .name = "dedicated",
    .summary = "one class a server, first come, first served: the unshared reference",
    .params = params,
    .nparams = sizeof params / sizeof *params,
    .state_size = sizeof(struct dedicated),
    .create = create,
    .plan = plan,
};
