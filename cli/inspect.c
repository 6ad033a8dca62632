/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The commands that look and run nothing: check, policies, trace. */
#include <string.h>

#include "base/units.h"
#include "cli/commands.h"
#include "models/trace.h"
#include "sim/policies.h"

/* ----------------------------------------------------------------------------------- check ---- */

static const char *const arrivals_name[] = {"none",  "constant", "poisson",
                                            "gamma", "trace",    "backlog"};

static void print_class(const struct scenario_class *c)
{
  printf("class %s: %s, arrivals %s", c->id, c->interactive ? "live" : "batch",
         arrivals_name[c->arrivals]);
  if (c->arrivals == ARRIVALS_TRACE)
    printf(" %s (%s)", c->trace.file.name, trace_format_name(c->trace.file.format));
  char ttft[32], tpot[32];
  if (c->interactive)
    printf(", SLO TTFT %s, TPOT %s", base_unit_format(BASE_TIME, c->slo_ttft, ttft, sizeof ttft),
           base_unit_format(BASE_TIME, c->slo_tpot, tpot, sizeof tpot));
  putchar('\n');
}

static void print_server(const struct scenario_server *v)
{
  const struct scenario_engine *g = &v->engine;
  printf("    server %s: KV pool %u blocks of %u tokens = %lld tokens, max %u sequences, budget %u "
         "tokens, draft depth %u\n",
         v->id, g->kv_blocks, g->block_tokens, (long long)g->kv_blocks * g->block_tokens,
         g->max_seqs, g->token_budget, g->draft_depth);
}

/* Contention is printed as it is simulated, in 64ths. */
static void print_job(const struct scenario_arm *arm, uint32_t i)
{
  const struct world_job *j = &arm->job[i];
  char step[32];
  printf("    job %s: GPU %d, micro-steps of %s, contention %.4g, ", j->name, j->gpu,
         base_unit_format(BASE_TIME, j->micro_ticks * LULL_TICK_PS, step, sizeof step),
         (double)arm->contended_ps[i] / LULL_TICK_PS);
  if (j->micro_steps)
    printf("%llu of them", (unsigned long long)j->micro_steps);
  else
    printf("to the run's end");
  const struct scenario_training *t = &arm->training[i];
  printf("%s; on a real device %u problems each, a step after %u, rank %u, rate %g\n",
         j->paused ? ", paused at first" : "", t->batch, t->accumulate, t->rank, t->rate);
}

static void print_arm(const struct scenario *s, uint32_t a)
{
  const struct scenario_arm *arm = &s->arm[a];
  printf("arm %s: %s%s%spolicy %s, %u GPU%s, %u candidate%s%s%s\n", arm->id,
         arm->engine ? "engine " : "", arm->engine ? arm->engine : "", arm->engine ? ", " : "",
         arm->policy->name, arm->ngpus, arm->ngpus == 1 ? "" : "s", arm->ncandidates,
         arm->ncandidates == 1 ? "" : "s", (int)a == s->baseline ? ", baseline" : "",
         arm->policy->needs & LULL_NEED_FORESIGHT ? ", not deployable (foresight)" : "");
  for (uint32_t i = 0; i < arm->ncandidates; i++) {
    if (*arm->candidate[i].id)
      printf("  candidate %s\n", arm->candidate[i].id);
    for (uint32_t k = 0; k < arm->candidate[i].nservers; k++)
      print_server(&arm->candidate[i].server[k]);
    for (uint32_t k = 0; k < arm->njobs; k++)
      print_job(arm, k);
  }
}

/* Freezing the plans also reads the traces to their ends, so their rows are checked too. */
static int print_seeds(const struct scenario *s, struct base_error *e)
{
  for (uint32_t i = 0; i < s->nseeds; i++) {
    struct plan *p = plan_freeze(s, s->seed[i], e);
    if (!p)
      return -1;
    printf("seed %llu: %llu requests, plan %s\n", (unsigned long long)s->seed[i],
           (unsigned long long)plan_rows(p), plan_digest(p));
    plan_free(p);
  }
  return 0;
}

static void print_parameters(const struct scenario *s)
{
  static const char *const origin_name[] = {"set", "fitted", "inferred", "assumed"};
  for (int origin = ORIGIN_SET; origin <= ORIGIN_ASSUMED; origin++) {
    unsigned n = 0;
    for (uint32_t i = 0; i < s->nparameters; i++)
      n += s->parameter[i].origin == origin;
    printf("parameters %s: %u%s", origin_name[origin], n, n ? " (" : "\n");
    const char *comma = "";
    for (uint32_t i = 0; i < s->nparameters; i++) {
      if (s->parameter[i].origin != origin)
        continue;
      printf("%s%s", comma, s->parameter[i].name);
      comma = ", ";
    }
    if (n)
      puts(")");
  }
}

int cli_check(struct cli_line *line)
{
  struct base_errors errors = {0};
  struct base_error e = {0};
  struct scenario_options o = {.data_dir = line->options.data_dir,
                               .override = line->options.set,
                               .noverrides = line->options.nset};
  struct scenario *s = scenario_open(line->arg[0], &o, &errors);
  int code = BASE_OK;
  if (!s) {
    code = cli_fail_all(&errors);
  } else {
    printf("%s: ok\n", s->id);
    for (uint32_t i = 0; i < s->nclasses; i++)
      print_class(&s->cls[i]);
    for (uint32_t i = 0; i < s->narms; i++)
      print_arm(s, i);
    printf("gates: %u, sweeps: %u\n", s->ngates, s->nsweeps);
    if (s->nvalidations)
      printf("gates of lull validate: %u\n", s->nvalidations);
    print_parameters(s);
    if (print_seeds(s, &e))
      code = cli_fail(&e);
  }
  base_errors_free(&errors);
  scenario_close(s);
  return code;
}

/* -------------------------------------------------------------------------------- policies ---- */

static void print_param(const struct lull_param *p)
{
  static const char *const kind_name[] = {"count", "time", "bytes", "tokens", "ratio", "choice"};
  printf("    %s: %s, default %s", p->name, kind_name[p->kind], p->preset);
  if (p->kind == LULL_PARAM_CHOICE) {
    printf(", one of: %s", p->choices);
  } else {
    char low[48], high[48];
    printf(", from %s", policies_format(p, p->min, low, sizeof low));
    if (p->max != INT64_MAX)
      printf(" to %s", policies_format(p, p->max, high, sizeof high));
  }
  putchar('\n');
  cli_print_filled(stdout, 8, p->doc);
}

static void print_policy(const struct lull_policy *p)
{
  printf("%s\n", p->name);
  cli_print_filled(stdout, 4, p->summary);
  if (p->needs & LULL_NEED_FORESIGHT)
    puts("    needs: foresight (not deployable)");
  if (p->needs & LULL_NEED_PREDICTOR)
    puts("    needs: step-cost predictor");
  for (uint32_t i = 0; i < p->nparams; i++)
    print_param(&p->params[i]);
}

int cli_policies(struct cli_line *line)
{
  struct base_error e = {0};
  size_t n;
  const struct lull_policy *const *builtin = policies_builtin(&n);
  for (size_t i = 0; !line->nargs && i < n; i++)
    print_policy(builtin[i]);
  for (int i = 0; i < line->nargs; i++) {
    const struct lull_policy *p = policies_find(line->arg[i], &e);
    if (!p)
      return cli_fail(&e);
    print_policy(p);
  }
  return BASE_OK;
}

/* ----------------------------------------------------------------------------------- trace ---- */

/* The format that --format names; -1 with the names of all. */
static int trace_format(const char *name, struct base_error *e)
{
  int format = name ? trace_format_by_name(name) : -1;
  if (format >= 0)
    return format;
  char all[128] = "";
  for (int i = 0; i < TRACE_FORMATS; i++) {
    size_t len = strlen(all);
    snprintf(all + len, sizeof all - len, "%s%s", i ? ", " : "", trace_format_names[i]);
  }
  const char *near = name ? base_nearest(name, trace_format_names, TRACE_FORMATS) : NULL;
  if (!name)
    return base_fail(e, BASE_USAGE, "lull trace: give --format, one of %s", all);
  if (near)
    return base_fail(e, BASE_USAGE, "lull trace: unknown format '%s'; did you mean '%s'?", name,
                     near);
  return base_fail(e, BASE_USAGE, "lull trace: unknown format '%s'; known are %s", name, all);
}

int cli_trace(struct cli_line *line)
{
  struct base_error e = {0};
  struct trace_stats stats;
  if (strcmp(line->arg[0], "info")) {
    base_fail(&e, BASE_USAGE, "lull trace: unknown action '%s'; did you mean 'info'?",
              line->arg[0]);
    return cli_fail(&e);
  }
  int format = trace_format(line->options.format, &e);
  if (format < 0 || trace_read_stats(line->arg[1], format, &stats, &e))
    return cli_fail(&e);
  if (trace_print_stats(&stats, stdout)) {
    base_fail(&e, BASE_ENV, "cannot write standard output");
    return cli_fail(&e);
  }
  return BASE_OK;
}
