/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Named engines: their defaults, their policies, and what contradicts them. */
#include <string.h>

#include "sim/policies.h"
#include "sim/scenario/reader.h"

struct named_engine {
  const char *name, *policies;              /* the first policy is the default */
  int64_t async, prefix_caching, watermark; /* defaults */
  int options;                              /* may the first two be switched, and rows speculate? */
  int cuts_rows;                            /* where they are more than the token budget */
};

/* In the order of the attribute's choices. */
static const struct named_engine engines[] = {
    {"vllm-v1", "fcfs priority", 1, 1, 0, 1, 1},
    {"sarathi", "fcfs", 0, 0, 10000, 0, 0},
};

/* What an engine decides of its policy's parameters. */
static const struct {
  const char *engine, *policy, *param, *value;
} decided[] = {
    {"vllm-v1", "fcfs", "rules", "own"},         {"vllm-v1", "fcfs", "preempt", "recompute"},
    {"vllm-v1", "priority", "rules", "vllm-v1"}, {"vllm-v1", "priority", "preempt", "recompute"},
    {"vllm-v1", "priority", "evict", "no"},      {"sarathi", "fcfs", "rules", "sarathi"},
    {"sarathi", "fcfs", "preempt", "recompute"},
};
enum { DECIDED = sizeof decided / sizeof *decided };

const struct named_engine *engines_find(int64_t choice)
{
  return choice == FIELD_UNSET ? NULL : &engines[choice];
}

const char *engines_name(const struct named_engine *n)
{
  return n ? n->name : NULL;
}

const char *engines_policy(struct reader *r, const xmlNode *arm, const struct named_engine *n,
                          const char *policy)
{
  char word[4][WORD_SIZE];
  int count = n ? split_words(n->policies, word, 4) : 0;
  if (!n && !policy)
    node_fail(r, arm,
              "<arm> has neither a policy nor an engine whose rules it follows; write "
              "policy=\"fcfs\", say");
  if (!n || !policy)
    return n ? arena_text(r->arena, word[0]) : policy;
  for (int i = 0; i < count; i++)
    if (!strcmp(word[i], policy))
      return policy;
  node_fail(r, arm, "<arm> engine '%s' has no policy '%.60s', but: %s; write that, or no engine",
            n->name, policy, n->policies);
  return policy;
}

/* What the engine decides of a parameter, or NULL. */
static const char *decision(const struct named_engine *n, const struct lull_policy *p,
                            const char *param)
{
  for (int i = 0; n && i < DECIDED; i++)
    if (!strcmp(decided[i].engine, n->name) && !strcmp(decided[i].policy, p->name) &&
        !strcmp(decided[i].param, param))
      return decided[i].value;
  return NULL;
}

int engines_params(const struct named_engine *n, struct scenario_arm *arm, struct base_error *e)
{
  const struct lull_policy *p = arm->policy;
  for (uint32_t i = 0; i < p->nparams; i++) {
    const char *value = decision(n, p, p->params[i].name);
    if (value && policies_set(p, arm->params, p->params[i].name, value, e))
      return -1;
  }
  return 0;
}

int engines_param_stated(struct reader *r, const xmlNode *param, const struct named_engine *n,
                        const struct lull_policy *p, const struct raw_param *stated)
{
  const char *value = decision(n, p, stated->name);
  if (!value || !strcmp(value, stated->value))
    return 0;
  return node_fail(r, param, "<param> engine '%s' has %s=%s; remove the parameter, or the engine",
                   n->name, stated->name, value);
}

void engines_note(struct reader *r, const xmlNode *engine)
{
  r->states_async = xmlHasProp((xmlNode *)engine, BAD_CAST "async-scheduling") != NULL;
  r->states_caching = xmlHasProp((xmlNode *)engine, BAD_CAST "prefix-caching") != NULL;
  r->states_watermark = xmlHasProp((xmlNode *)engine, BAD_CAST "watermark") != NULL;
}

void engines_defaults(const struct reader *r, const struct named_engine *n, struct raw_engine *raw)
{
  if (!n)
    return;
  if (!r->states_async)
    raw->async = n->async;
  if (!r->states_caching)
    raw->prefix_caching = n->prefix_caching;
  if (!r->states_watermark)
    raw->watermark = n->watermark;
}

/* An engine without options has them off. */
static int check_options(struct reader *r, const xmlNode *node, const struct named_engine *n,
                         const struct raw_engine *raw)
{
  const struct {
    const char *attribute;
    int64_t value;
  } option[] = {{"async-scheduling", raw->async},
                {"prefix-caching", raw->prefix_caching},
                {"depth", raw->depth}};
  int bad = 0;
  for (int i = 0; i < 3 && !n->options; i++)
    if (option[i].value > 0)
      bad |= node_fail_once(
          r, node, "engine '%s' has no %s; remove it here or on <engine>, or name no engine",
          n->name, option[i].attribute);
  return bad;
}

int engines_check(struct reader *r, const xmlNode *node, const struct named_engine *n,
                 const struct raw_engine *raw)
{
  if (!n)
    return 0;
  int bad = check_options(r, node, n, raw);
  if (raw->watermark != FIELD_UNSET && raw->watermark != n->watermark)
    bad |= node_fail_once(r, node,
                          "engine '%s' has a watermark of %g%% of the KV pool; remove the "
                          "attribute here or on <engine>, or name no engine",
                          n->name, (double)n->watermark / 1e4);
  if (n->cuts_rows && raw->max_seqs > 0 && raw->token_budget > 0 && raw->depth >= 0 &&
      raw->max_seqs * (1 + raw->depth) > raw->token_budget)
    bad |= node_fail_once(r, node,
                          "engine '%s' with max-seqs rows of %lld tokens, more than token-budget: "
                          "rows that are cut are not modelled; lower max-seqs, or raise "
                          "token-budget",
                          n->name, (long long)raw->depth + 1);
  return bad;
}
