/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Finding, loading and checking policies, and their parameters by name. */
#include "sim/policies.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/units.h"

#ifndef PKGPOLICYDIR
#define PKGPOLICYDIR ""
#endif

enum {
  MAX_PARAMS = 256,    /* of one policy; more is a broken descriptor */
  MAX_STATE = 1 << 30, /* bytes of state; likewise */
  MAX_NAME = 64,       /* characters of a name */
  MAX_PATH = 4096
};

extern const struct lull_policy lull_policy_fcfs, lull_policy_priority, lull_policy_dedicated,
    lull_policy_cap;

static const struct lull_policy *const builtin[] = {&lull_policy_fcfs, &lull_policy_priority,
                                                    &lull_policy_dedicated, &lull_policy_cap};
enum { BUILTIN = sizeof builtin / sizeof *builtin };

const struct lull_policy *const *policies_builtin(size_t *n)
{
  *n = BUILTIN;
  return builtin;
}

/* ------------------------------------------------------------------------------- parameters --- */

static enum base_unit unit_of(int kind)
{
  switch (kind) {
  case LULL_PARAM_TIME:
    return BASE_TIME;
  case LULL_PARAM_BYTES:
    return BASE_BYTES;
  case LULL_PARAM_TOKENS:
    return BASE_TOKENS;
  case LULL_PARAM_RATIO:
    return BASE_RATIO;
  default:
    return BASE_COUNT;
  }
}

/* The i-th word of a list separated by spaces, and its length; NULL behind the last. */
static const char *word(const char *list, int64_t i, size_t *len)
{
  for (;; i--) {
    list += strspn(list, " ");
    *len = strcspn(list, " ");
    if (!*len)
      return NULL;
    if (i == 0)
      return list;
    list += *len;
  }
}

static int parse_choice(const struct lull_param *p, const char *text, int64_t *value,
                        struct base_error *e)
{
  size_t len;
  const char *w;
  for (int64_t i = 0; (w = word(p->choices, i, &len)); i++)
    if (len == strlen(text) && !memcmp(w, text, len)) {
      *value = i;
      return 0;
    }
  return base_fail(e, BASE_INPUT, "'%.60s' is none of its choices: %s", text, p->choices);
}

static int parse_value(const struct lull_param *p, const char *text, int64_t *value,
                       struct base_error *e)
{
  int64_t v;
  if (p->kind == LULL_PARAM_CHOICE ? parse_choice(p, text, &v, e)
                                   : base_unit_parse(unit_of(p->kind), text, &v, e))
    return -1;
  if (v < p->min || v > p->max) {
    char low[48], high[48];
    return base_fail(e, BASE_INPUT, "'%.60s' is out of range; it goes from %s to %s", text,
                     policies_format(p, p->min, low, sizeof low),
                     policies_format(p, p->max, high, sizeof high));
  }
  *value = v;
  return 0;
}

/* parse_value, with the names of policy and parameter in front of what was wrong. */
static int set_value(const struct lull_policy *p, uint32_t i, int64_t *params, const char *text,
                     struct base_error *e)
{
  struct base_error why = {0};
  if (!parse_value(&p->params[i], text, &params[i], &why))
    return 0;
  return base_fail(e, why.code, "parameter '%s' of policy '%s': %s", p->params[i].name, p->name,
                   why.text);
}

int policies_defaults(const struct lull_policy *p, int64_t *params, struct base_error *e)
{
  for (uint32_t i = 0; i < p->nparams; i++)
    if (set_value(p, i, params, p->params[i].preset, e))
      return -1;
  return 0;
}

static int fail_param(const struct lull_policy *p, const char *name, struct base_error *e)
{
  const char *names[MAX_PARAMS];
  char list[256] = "";
  size_t used = 0;
  if (!p->nparams)
    return base_fail(e, BASE_INPUT, "policy '%s' has no parameters, so no '%.60s'", p->name, name);
  for (uint32_t i = 0; i < p->nparams && i < MAX_PARAMS; i++) {
    names[i] = p->params[i].name;
    if (used < sizeof list)
      used += (size_t)snprintf(list + used, sizeof list - used, " %s", names[i]);
  }
  const char *near = base_nearest(name, names, p->nparams < MAX_PARAMS ? p->nparams : MAX_PARAMS);
  if (near)
    return base_fail(e, BASE_INPUT, "policy '%s' has no parameter '%.60s'; did you mean '%s'?",
                     p->name, name, near);
  return base_fail(e, BASE_INPUT, "policy '%s' has no parameter '%.60s'; it has:%s", p->name, name,
                   list);
}

int policies_set(const struct lull_policy *p, int64_t *params, const char *name, const char *value,
                 struct base_error *e)
{
  for (uint32_t i = 0; i < p->nparams; i++)
    if (!strcmp(p->params[i].name, name))
      return set_value(p, i, params, value, e);
  return fail_param(p, name, e);
}

const char *policies_format(const struct lull_param *param, int64_t value, char *buf, size_t size)
{
  size_t len;
  if (param->kind != LULL_PARAM_CHOICE)
    return base_unit_format(unit_of(param->kind), value, buf, size);
  const char *w = value < 0 ? NULL : word(param->choices, value, &len);
  if (size)
    snprintf(buf, size, "%.*s", w ? (int)len : 1, w ? w : "?");
  return buf;
}

/* ---------------------------------------------------------------------------------- loading --- */

/* Names are written in scenarios and file names: lower case, digits, hyphens. */
static int good_name(const char *name)
{
  if (!name || !*name || strlen(name) > MAX_NAME)
    return 0;
  return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(name);
}

/* What is wrong with parameter i of a table, or NULL. */
static const char *param_fault(const struct lull_param *table, uint32_t i)
{
  const struct lull_param *p = &table[i];
  size_t len;
  int64_t v;
  if (!good_name(p->name))
    return "its name is not of lower case letters, digits and hyphens";
  for (uint32_t j = 0; j < i; j++)
    if (!strcmp(table[j].name, p->name))
      return "its name is there twice";
  if (p->kind > LULL_PARAM_CHOICE)
    return "its kind is unknown";
  if (!p->doc)
    return "it has no doc line";
  if (p->kind == LULL_PARAM_CHOICE && (!p->choices || !word(p->choices, 0, &len)))
    return "it is a choice without choices";
  if (p->min < 0 || p->min > p->max)
    return "its range is empty or negative";
  if (p->kind == LULL_PARAM_CHOICE && !word(p->choices, p->max, &len))
    return "its range goes beyond its choices";
  if (!p->preset || parse_value(p, p->preset, &v, NULL))
    return "its preset is missing, malformed or out of its range";
  return NULL;
}

static int check_params(const struct lull_policy *p, const char *path, struct base_error *e)
{
  if (p->nparams > MAX_PARAMS || (p->nparams && !p->params))
    return base_fail(e, BASE_INPUT, "policy '%s': .nparams is %u, but .params is %s", path,
                     p->nparams, p->params ? "never that long" : "missing");
  for (uint32_t i = 0; i < p->nparams; i++) {
    const char *fault = param_fault(p->params, i);
    if (fault)
      return base_fail(e, BASE_INPUT, "policy '%s': parameter %u (%s): %s", path, i,
                       p->params[i].name ? p->params[i].name : "no name", fault);
  }
  return 0;
}

/* Is a descriptor one that this program can use? The ABI comes first: it says what all else means.
 */
static int check_policy(const struct lull_policy *p, const char *path, struct base_error *e)
{
  if (p->abi != LULL_POLICY_ABI)
    return base_fail(e, BASE_INPUT,
                     "policy '%s' was built for ABI %u, this program has ABI %u; compile it again "
                     "with the <lull/policy.h> of this program",
                     path, p->abi, (unsigned)LULL_POLICY_ABI);
  if (!LULL_HAS(p, plan))
    return base_fail(e, BASE_INPUT,
                     "policy '%s': the descriptor's .size is %u, less than the %zu of ABI %u; set "
                     "it to sizeof(struct lull_policy)",
                     path, p->size, sizeof *p, p->abi);
  if (!good_name(p->name))
    return base_fail(e, BASE_INPUT,
                     "policy '%s': .name is missing or not of lower case letters, digits and "
                     "hyphens",
                     path);
  if (!p->summary)
    return base_fail(e, BASE_INPUT, "policy '%s' has no .summary; write one line on what it does",
                     path);
  if (!p->plan)
    return base_fail(e, BASE_INPUT, "policy '%s' has no .plan function; a policy must have one",
                     path);
  if (p->needs & ~(uint32_t)(LULL_NEED_FORESIGHT | LULL_NEED_PREDICTOR))
    return base_fail(e, BASE_INPUT,
                     "policy '%s' needs what this program does not know (.needs %#x)", path,
                     p->needs);
  if (p->state_size > MAX_STATE)
    return base_fail(e, BASE_INPUT, "policy '%s' asks for %zu bytes of state, more than %d", path,
                     p->state_size, MAX_STATE);
  return check_params(p, path, e);
}

/* The linker's last message, without the path that ours has already. */
static const char *linker_text(const char *path)
{
  const char *text = dlerror();
  size_t n = strlen(path);
  if (!text)
    return "unknown reason";
  return !strncmp(text, path, n) && !strncmp(text + n, ": ", 2) ? text + n + 2 : text;
}

/* Loads for good: what is usable stays until the process ends. */
static const struct lull_policy *load(const char *path, struct base_error *e)
{
  struct stat st;
  if (stat(path, &st) || !S_ISREG(st.st_mode)) {
    base_fail(e, BASE_INPUT, "cannot load policy '%s': there is no such file", path);
    return NULL;
  }
  void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!so) {
    base_fail(e, BASE_INPUT, "cannot load policy '%s': %s", path, linker_text(path));
    return NULL;
  }
  const struct lull_policy *p = dlsym(so, "lull_policy");
  if (!p)
    base_fail(e, BASE_INPUT,
              "policy '%s' has no symbol lull_policy; name its descriptor with "
              "LULL_POLICY_SYMBOL(name), and compile it without LULL_POLICY_BUILTIN",
              path);
  else if (!check_policy(p, path, e))
    return p;
  dlclose(so);
  return NULL;
}

/* Writes DIR/lull-NAME-policy.so for the first folder of a list that has it. 1: found. */
static int search(const char *folders, const char *name, char path[MAX_PATH])
{
  struct stat st;
  while (*folders) {
    size_t n = strcspn(folders, ":");
    int len = snprintf(path, MAX_PATH, "%.*s/lull-%s-policy.so", (int)n, folders, name);
    if (n && len > 0 && len < MAX_PATH && !stat(path, &st))
      return 1;
    folders += n;
    folders += *folders == ':';
  }
  return 0;
}

static void fail_unknown(const char *name, struct base_error *e)
{
  const char *names[BUILTIN];
  char list[128] = "";
  size_t used = 0;
  for (size_t i = 0; i < BUILTIN; i++) {
    names[i] = builtin[i]->name;
    used += (size_t)snprintf(list + used, sizeof list - used, " %s", names[i]);
  }
  const char *near = base_nearest(name, names, BUILTIN);
  if (near)
    base_fail(e, BASE_INPUT, "unknown policy '%.60s'; did you mean '%s'?", name, near);
  else
    base_fail(e, BASE_INPUT,
              "unknown policy '%.60s'; built in are:%s; others are looked for as "
              "lull-NAME-policy.so in the folders of LULL_POLICY_PATH%s%s, or named by a path "
              "with a '/'",
              name, list, *PKGPOLICYDIR ? " and in " : "", PKGPOLICYDIR);
}

const struct lull_policy *policies_find(const char *name, struct base_error *e)
{
  char path[MAX_PATH];
  if (strchr(name, '/'))
    return load(name, e);
  for (size_t i = 0; i < BUILTIN; i++)
    if (!strcmp(builtin[i]->name, name))
      return builtin[i];
  const char *folders = getenv("LULL_POLICY_PATH");
  if (*name && ((folders && search(folders, name, path)) || search(PKGPOLICYDIR, name, path)))
    return load(path, e);
  fail_unknown(name, e);
  return NULL;
}
