/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A policy outside of the tree: swaps out all of the second class as soon as it runs, and never
 * brings it back. */
#include <lull/policy.h>

static void serve(const struct lull_host *h, lull_server_id s, struct lull_plan *p, int list, int c)
{
  for (lull_id id = h->first(h->ctx, s, list, c), next; id >= 0; id = next) {
    next = h->request(h->ctx, id)->next;
    if (h->chunk(h->ctx, p, id, UINT32_MAX) < 0)
      return;
  }
}

static void plan(void *state, const struct lull_host *h, const struct lull_server *s,
                 struct lull_plan *p)
{
  (void)state;
  for (lull_id id = h->first(h->ctx, s->id, LULL_DECODE, 1), next; id >= 0; id = next) {
    next = h->request(h->ctx, id)->next;
    h->preempt(h->ctx, p, id, LULL_SWAP);
  }
  for (int c = 0; c < (int)h->classes; c++) {
    serve(h, s->id, p, LULL_PREFILL, c);
    serve(h, s->id, p, LULL_WAITING, c);
  }
}

LULL_POLICY_EXPORT extern const struct lull_policy LULL_POLICY_SYMBOL(swapper);
const struct lull_policy LULL_POLICY_SYMBOL(swapper) = {
    .size = sizeof(struct lull_policy),
    .abi = LULL_POLICY_ABI,
    .name = "swapper",
    .summary = "swaps out all of the second class",
    .plan = plan,
};
