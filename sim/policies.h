/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Finding policies: built in, or a shared object by path (it has a '/') or by name from
 * $LULL_POLICY_PATH (colon-separated) and the installed policy directory, as
 * lull-NAME-policy.so. Parameters by name, checked against the policy's own table.
 */
#ifndef SIM_POLICIES_H
#define SIM_POLICIES_H

#include <lull/policy.h>

#include "base/error.h"

/* Built-in policies in a fixed order; *n: how many. */
const struct lull_policy *const *policies_builtin(size_t *n);

/* The policy, valid until the process ends. NULL: unknown (with the nearest name), not loadable,
 * another ABI, a missing symbol, an incomplete descriptor; code BASE_INPUT, says which and what to
 * do. */
const struct lull_policy *policies_find(const char *name, struct base_error *e);

/* Defaults into params[p->nparams]. */
int policies_defaults(const struct lull_policy *p, int64_t *params, struct base_error *e);
/* Sets one parameter by name from text with unit; range-checked; unknown: the nearest name. */
int policies_set(const struct lull_policy *p, int64_t *params, const char *name, const char *value,
                 struct base_error *e);
/* Writes a parameter's value as a scenario would; returns buf. */
const char *policies_format(const struct lull_param *param, int64_t value, char *buf, size_t size);

#endif
