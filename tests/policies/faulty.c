/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Descriptors with one fault each: compile with -DFAULT=n. Without one the policy is fine. */
#include <lull/policy.h>

#ifndef FAULT
#define FAULT 0
#endif
#define IF(n, bad, fine) (FAULT == (n) ? (bad) : (fine))

enum {
  ABI = 1,
  SIZE,
  NAMELESS,
  NAME,
  PLANLESS,
  NEEDS,
  STATE,
  NO_TABLE,
  LONG_TABLE,
  P_NAME,
  P_TWICE,
  P_KIND,
  P_DOC,
  P_CHOICES,
  P_RANGE,
  P_NEGATIVE,
  P_BEYOND,
  P_PRESET,
  P_OUTSIDE,
  P_UNIT,
  UNDEFINED,
  SUMMARY
};

#if FAULT == 21
void lull_test_is_nowhere(void); /* the loader must find out now, not at the first plan */
#endif

static void plan(void *st, const struct lull_host *h, const struct lull_server *s,
                 struct lull_plan *p)
{
#if FAULT == 21
  lull_test_is_nowhere();
#endif
}

static const struct lull_param params[] = {
    {.name = IF(P_NAME, "Window", "window"),
     .kind = IF(P_KIND, 77, LULL_PARAM_TIME),
     .preset = IF(P_PRESET, NULL, IF(P_OUTSIDE, "2h", IF(P_UNIT, "10", "10ms"))),
     .min = IF(P_NEGATIVE, -1, 0),
     .max = 60000000000000,
     .doc = IF(P_DOC, NULL, "a time")},
    {.name = IF(P_TWICE, "window", "mode"),
     .kind = LULL_PARAM_CHOICE,
     .preset = "a",
     .min = IF(P_RANGE, 2, 0),
     .max = IF(P_BEYOND, 2, 1),
     .choices = IF(P_CHOICES, " ", "a b"),
     .doc = "a choice"},
};

LULL_POLICY_EXPORT extern const struct lull_policy LULL_POLICY_SYMBOL(faulty);
const struct lull_policy LULL_POLICY_SYMBOL(faulty) = {
    .size = IF(SIZE, 8, sizeof(struct lull_policy)),
    .abi = IF(ABI, 999, LULL_POLICY_ABI),
    .name = IF(NAMELESS, NULL, IF(NAME, "Bad Name", "faulty")),
    .summary = IF(SUMMARY, NULL, "faults for the loader"),
    .params = IF(NO_TABLE, NULL, params),
    .nparams = IF(LONG_TABLE, 100000, 2),
    .needs = IF(NEEDS, 64, 0),
    .state_size = IF(STATE, (size_t)1 << 40, 0),
    .plan = IF(PLANLESS, NULL, plan),
};
