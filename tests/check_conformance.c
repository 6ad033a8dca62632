/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Scheduling rules of named engines, decision by decision: each file of tests/data/conformance is a
 * small run with the trace that the engine's own rules give, worked by hand. All steps last equally
 * long, and are the unit of time. Each is run twice: as the file says, and by a scenario whose arm
 * names the engine that the file's name begins with, and states only what is not its default.
 *
 *   policy NAME [PARAMETER=VALUE]...
 *   class live|batch                   one a line, in order; none: one live class
 *   server SETTING=NUMBER...           max-seqs token-budget block kv-blocks watermark async
 * [caching] request TIME CLASS PROMPT OUTPUT [NAME]...   CLASS: 0, 1, ... as above; ids are given
 * in this order. NAME: a number for what a block of the prompt holds trace what follows is the
 * trace, but for lines that begin with # TIME step rows N [ID:START+TOKENS]... TIME preempted ID
 *   TIME finished ID
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/cost.h"
#include "models/simdev.h"
#include "sim/policies.h"
#include "sim/scenario/reader.h"
#include "sim/world/world.h"
#include "tests/suite.h"

enum { STEP_TICKS = 1000, MOST_REQUESTS = 16, MOST_PARAMS = 32, MOST_NAMES = 8, TRACE = 1 << 14 };
static const double step_ps = (double)STEP_TICKS * LULL_TICK_PS;

struct trial {
  const struct lull_policy *policy;
  int64_t params[MOST_PARAMS];
  struct world_class cls[LULL_CLASSES];
  struct world_server server;
  struct world_arrival arrival[MOST_REQUESTS];
  struct world_prefix *prefix[MOST_REQUESTS]; /* owned */
  uint32_t nclasses, narrivals, cursor;
  char want[TRACE], got[TRACE];
};

/* ----------------------------------------------------------------------------------- reading ---
 */

static void read_policy(struct trial *t, char *words)
{
  struct base_error e = {0};
  char *name = strtok(words, " ");
  t->policy = policies_find(name, &e);
  ck_assert_msg(t->policy && !policies_defaults(t->policy, t->params, &e), "%s", e.text);
  for (char *word; (word = strtok(NULL, " "));) {
    char *value = strchr(word, '=');
    ck_assert_msg(value != NULL, "'%s': write PARAMETER=VALUE", word);
    *value++ = 0;
    ck_assert_msg(!policies_set(t->policy, t->params, word, value, &e), "%s", e.text);
  }
}

static void read_server(struct trial *t, char *words)
{
  struct world_server *s = &t->server;
  int async = 0;
  int n = sscanf(
      words, "max-seqs=%u token-budget=%u block=%u kv-blocks=%u watermark=%u async=%d caching=%d",
      &s->max_seqs, &s->token_budget, &s->block_tokens, &s->kv_blocks, &s->watermark_blocks, &async,
      &s->prefix_caching);
  ck_assert_msg(n >= 6, "server '%s': %d of 6 settings", words, n);
  s->async = async;
}

/* What the blocks of the prompt hold, if the rest of the line says so. */
static void read_names(struct trial *t, const char *words)
{
  struct world_prefix *p = malloc(sizeof *p + MOST_NAMES * sizeof *p->id);
  char *end;
  ck_assert_ptr_nonnull(p);
  p->n = 0;
  p->tokens = t->server.block_tokens;
  for (; *words; words = end) {
    ck_assert_uint_lt(p->n, MOST_NAMES);
    p->id[p->n++] = strtoull(words, &end, 10);
    ck_assert_msg(end != words, "'%s' is no number", words);
  }
  t->prefix[t->narrivals - 1] = p;
  t->arrival[t->narrivals - 1].prefix = p;
}

static void read_request(struct trial *t, const char *words)
{
  struct world_arrival *a = &t->arrival[t->narrivals++];
  double at;
  unsigned cls;
  int read = 0;
  ck_assert_uint_le(t->narrivals, MOST_REQUESTS);
  ck_assert_int_eq(sscanf(words, "%lf %u %u %u%n", &at, &cls, &a->prompt, &a->output, &read), 4);
  read_names(t, words + read);
  a->time = (lull_time)(at * step_ps);
  a->cls = (uint8_t)cls;
}

static void read_line(struct trial *t, char *line)
{
  if (!strncmp(line, "policy ", 7))
    read_policy(t, line + 7);
  else if (!strncmp(line, "server ", 7))
    read_server(t, line + 7);
  else if (!strncmp(line, "request ", 8))
    read_request(t, line + 8);
  else if (!strncmp(line, "class ", 6))
    t->cls[t->nclasses++] = (struct world_class){
        .name = "c", .interactive = !strcmp(line + 6, "live"), .slo_ttft = 1, .slo_tpot = 1};
  else
    ck_assert_msg(!*line, "not understood: '%s'", line);
}

static void read_trial(struct trial *t, const char *name)
{
  char path[512], line[256];
  int in_trace = 0;
  const char *dir = getenv("srcdir");
  snprintf(path, sizeof path, "%s/tests/data/conformance/%s.txt", dir ? dir : ".", name);
  FILE *f = fopen(path, "r");
  ck_assert_msg(f != NULL, "cannot read '%s'", path);
  while (fgets(line, sizeof line, f)) {
    if (line[0] == '#')
      continue;
    if (in_trace) {
      ck_assert_uint_lt(strlen(t->want) + strlen(line), TRACE);
      strcat(t->want, line);
      continue;
    }
    line[strcspn(line, "\n")] = 0;
    if (!(in_trace = !strcmp(line, "trace")))
      read_line(t, line);
  }
  fclose(f);
  if (!t->nclasses)
    read_line(t, strcpy(line, "class live"));
}

/* ----------------------------------------------------------------------------------- tracing ---
 */

static struct trial *traced; /* whose device is spied on */

static void add(struct trial *t, lull_time at, const char *text)
{
  size_t used = strlen(t->got);
  snprintf(t->got + used, TRACE - used, "%g %s\n", (double)at / step_ps, text);
}

static void on_log(void *ctx, const struct world_log_line *l)
{
  char text[64];
  if (l->kind == WORLD_LOG_PREEMPT && l->b >= 0)
    snprintf(text, sizeof text, "%s %d", l->b == LULL_HOLD ? "held" : "preempted", (int)l->a);
  else if (l->kind == WORLD_LOG_FORCED)
    snprintf(text, sizeof text, "forced out %d", (int)l->a);
  else if (l->kind == WORLD_LOG_EVENT && l->a == LULL_EV_FINISHED)
    snprintf(text, sizeof text, "finished %d", (int)l->b);
  else
    return;
  add(ctx, l->time, text);
}

/* Every step is a ticket of its own here. */
static int spy_submit(struct lull_device *d, const struct lull_work *w)
{
  const struct lull_batch *b = w->batch;
  char text[256];
  size_t n = (size_t)snprintf(text, sizeof text, "step rows %u", b->rows);
  for (uint32_t i = 0; i < b->chunks && n < sizeof text; i++)
    n += (size_t)snprintf(text + n, sizeof text - n, " %d:%u+%u", (int)b->chunk[i].request,
                          b->chunk[i].start, b->chunk[i].tokens);
  add(traced, simdev_ops.now(d), text);
  return simdev_ops.submit(d, w);
}

static int next_request(void *ctx, struct world_arrival *out, struct base_error *e)
{
  struct trial *t = ctx;
  (void)e;
  if (t->cursor == t->narrivals)
    return 0;
  *out = t->arrival[t->cursor++];
  return 1;
}

static void run_trial(struct trial *t)
{
  struct base_error e = {0};
  struct cost_model *cost = cost_from_analytic(&(struct cost_analytic){.base = STEP_TICKS}, 1, &e);
  ck_assert_ptr_nonnull(cost);
  struct world_server *s = &t->server;
  s->class_mask = UINT32_MAX;
  s->row_tokens = s->layers = 1;
  s->model_limit = 100000;
  s->block_bytes = 1;
  s->cost = cost;
  struct simdev_gpu gpu = {
      .memory_bytes = 1 << 30, .copy_bytes_per_s = 1000000000, .cost = cost, .layers = 1};
  struct lull_device *dev = simdev_create(&gpu, 1, &e);
  ck_assert_ptr_nonnull(dev);
  struct lull_device_ops spy = simdev_ops;
  spy.submit = spy_submit;
  traced = t;
  struct world_config cfg = {.nclasses = t->nclasses,
                             .nservers = 1,
                             .ngpus = 1,
                             .cls = t->cls,
                             .server = s,
                             .policy = t->policy,
                             .params = t->params,
                             .source = {.ctx = t, .next = next_request},
                             .window = (lull_time)(100 * step_ps),
                             .drain = LULL_NEVER,
                             .max_repeat = 1,
                             .log = on_log,
                             .log_ctx = t};
  struct world_result r;
  ck_assert_msg(!world_run(&cfg, dev, &spy, &r, &e), "%s", e.text);
  world_result_free(&r);
  simdev_destroy(dev);
  cost_free(cost);
}

/* ------------------------------------------------------------------------------- by its name ---
 */

static const char *on_off(int on)
{
  return on ? "yes" : "no";
}

static size_t write_classes(const struct trial *t, char *to, size_t size)
{
  size_t n = 0;
  for (uint32_t c = 0; c < t->nclasses; c++)
    n += (size_t)snprintf(
        to + n, size - n,
        "<class id='c%u' kind='%s'><arrivals process='poisson' rate='1/s'/>"
        "<prompt dist='constant' mean='1tok'/><output dist='constant' mean='1tok'/>%s</class>",
        c, t->cls[c].interactive ? "live" : "batch",
        t->cls[c].interactive ? "<slo ttft='1s' tpot='1s'/>" : "");
  return n;
}

/* A scenario of the trial's classes and server. An option of vLLM is on where nothing is said. */
static void write_scenario(const struct trial *t, const char *engine, char *to, size_t size)
{
  const struct world_server *s = &t->server;
  size_t n = (size_t)snprintf(
      to, size,
      "<scenario xmlns='" SCENARIO_NAMESPACE "' version='1' id='trial'><title>A trial</title>"
      "<run window='1s' seeds='1'/><machine><analytic base='1ms'/></machine>"
      "<engine max-seqs='%u' token-budget='%utok' block='%utok' kv-blocks='%u' host-link='1GB/s' "
      "max-context='100000tok'",
      s->max_seqs, s->token_budget, s->block_tokens, s->kv_blocks);
  if (!strcmp(engine, "vllm-v1") && !s->async)
    n += (size_t)snprintf(to + n, size - n, " async-scheduling='%s'", on_off(s->async));
  if (!strcmp(engine, "vllm-v1") && !s->prefix_caching)
    n += (size_t)snprintf(to + n, size - n, " prefix-caching='%s'", on_off(s->prefix_caching));
  n += (size_t)snprintf(to + n, size - n, "/>");
  n += write_classes(t, to + n, size - n);
  n += (size_t)snprintf(to + n, size - n, "<arm id='arm' engine='%s'", engine);
  if (strcmp(t->policy->name, "fcfs"))
    n += (size_t)snprintf(to + n, size - n, " policy='%s'", t->policy->name);
  n += (size_t)snprintf(to + n, size - n,
                        "><server id='s' gpu='0' classes='%.*s'/></arm></scenario>",
                        (int)(3 * t->nclasses - 1), "c0 c1 c2");
  ck_assert_uint_lt(n, size);
}

/* Puts what the scenario says of policy and server in the place of what the file says. */
static void name_engine(struct trial *t, const char *engine)
{
  char text[4096];
  struct base_errors errors = {0};
  write_scenario(t, engine, text, sizeof text);
  struct scenario *s = scenario_open_memory("trial.xml", NULL, text, strlen(text), NULL, &errors);
  ck_assert_msg(s != NULL, "%s: %s", text, errors.n ? errors.item[0].text : "");
  const struct scenario_arm *arm = &s->arm[0];
  const struct scenario_engine *g = &arm->candidate[0].server[0].engine;
  ck_assert_str_eq(arm->engine, engine);
  ck_assert_ptr_eq(arm->policy, t->policy);
  for (uint32_t i = 0; i < t->policy->nparams; i++)
    ck_assert_int_eq(arm->params[i], t->params[i]);
  ck_assert_int_eq(g->async, t->server.async);
  ck_assert_int_eq(g->prefix_caching, t->server.prefix_caching);
  t->server.watermark_blocks = g->watermark_blocks;
  scenario_close(s);
  base_errors_free(&errors);
}

/* ---------------------------------------------------------------------------------- the suite ---
 */

static const char *const trials[] = {
    "vllm-budget",    "vllm-misfit",         "vllm-preempt",  "vllm-itself",
    "vllm-slots",     "vllm-async",          "vllm-async-kv", "vllm-priority",
    "vllm-prefix",    "vllm-prefix-shared",  "vllm-defaults", "vllm-running-first",
    "vllm-sits-out",  "vllm-sits-out-twice", "vllm-one-step", "vllm-takes-back",
    "sarathi-chunks", "sarathi-preempt",     "sarathi-full",  "sarathi-last-block",
    "sarathi-itself", "sarathi-watermark"};
enum { TRIALS = sizeof trials / sizeof *trials };

START_TEST(test_trace)
{
  struct trial t = {0};
  const char *name = trials[_i / 2];
  read_trial(&t, name);
  ck_assert_msg(t.policy && t.narrivals && t.want[0], "%s: no policy, request or trace", name);
  if (_i % 2)
    name_engine(&t, !strncmp(name, "vllm-", 5) ? "vllm-v1" : "sarathi");
  run_trial(&t);
  for (uint32_t i = 0; i < t.narrivals; i++)
    free(t.prefix[i]);
  ck_assert_msg(!strcmp(t.got, t.want), "%s%s: expected\n%sbut got\n%s", name,
                _i % 2 ? " by its engine's name" : "", t.want, t.got);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("conformance");
  TCase *c = tcase_create("traces");
  tcase_add_loop_test(c, test_trace, 0, 2 * TRIALS);
  suite_add_tcase(suite, c);
  return suite_run(suite);
}
