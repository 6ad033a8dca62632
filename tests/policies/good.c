/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A policy outside of the tree: admits whatever fits, one parameter of each kind. */
#include <lull/policy.h>

static const struct lull_param params[] = {
    {.name = "count", .kind = LULL_PARAM_COUNT, .preset = "3", .min = 1, .max = 9, .doc = "n"},
    {.name = "window",
     .kind = LULL_PARAM_TIME,
     .preset = "10ms",
     .min = 1000000,
     .max = 1000000000000,
     .doc = "a time"},
    {.name = "pool",
     .kind = LULL_PARAM_BYTES,
     .preset = "4GiB",
     .min = 0,
     .max = INT64_MAX,
     .doc = "bytes"},
    {.name = "chunk",
     .kind = LULL_PARAM_TOKENS,
     .preset = "200tok",
     .min = 1,
     .max = 8192,
     .doc = "tokens"},
    {.name = "share",
     .kind = LULL_PARAM_RATIO,
     .preset = "50%",
     .min = 0,
     .max = 1000000,
     .doc = "a part"},
    {.name = "mode",
     .kind = LULL_PARAM_CHOICE,
     .preset = "keep",
     .min = 0,
     .max = 2,
     .choices = "drop keep swap",
     .doc = "a choice"},
};

static void plan(void *st, const struct lull_host *h, const struct lull_server *s,
                 struct lull_plan *p)
{
  for (uint32_t c = 0; c < h->classes; c++) {
    lull_id id = h->first(h->ctx, s->id, LULL_PREFILL, (int)c);
    for (; id >= 0; id = h->request(h->ctx, id)->next)
      h->chunk(h->ctx, p, id, 256);
    while ((id = h->first(h->ctx, s->id, LULL_WAITING, (int)c)) >= 0)
      if (h->chunk(h->ctx, p, id, 256) < 0)
        break;
  }
}

LULL_POLICY_EXPORT extern const struct lull_policy LULL_POLICY_SYMBOL(good);
const struct lull_policy LULL_POLICY_SYMBOL(good) = {
    .size = sizeof(struct lull_policy),
    .abi = LULL_POLICY_ABI,
    .name = "good",
    .summary = "admits what fits",
    .params = params,
    .nparams = sizeof params / sizeof *params,
    .plan = plan,
};
