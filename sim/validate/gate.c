/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/validate/gate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "sim/ledger/verdict.h"
#include "sim/validate/validate.h"

/* ------------------------------------------------------------------------------- reading ---- */

static int bad_name(const char *text, const char *what, const char *name, const char *near,
                    struct base_error *e)
{
  return base_fail(e, BASE_USAGE, "gate '%.100s': unknown %s '%.40s'%s%s%s", text, what, name,
                   near ? "; did you mean '" : "; see docs/validate.md", near ? near : "",
                   near ? "'?" : "");
}

/* The name in front of the comparison, split at its point. */
static int parse_name(const char *text, const char *start, size_t n, struct validate_gate *g,
                      int *all, struct base_error *e)
{
  char name[64];
  if (n >= sizeof name)
    return base_fail(e, BASE_USAGE, "gate '%.100s': the name is too long", text);
  memcpy(name, start, n);
  name[n] = '\0';
  char *statistic = strchr(name, '.');
  *all = !statistic;
  if (statistic)
    *statistic++ = '\0';
  g->metric = validate_metric_by_name(name);
  if (g->metric < 0)
    return bad_name(text, "metric", name, validate_metric_nearest(name), e);
  g->statistic = statistic ? validate_statistic_by_name(statistic) : VALIDATE_MEAN;
  if (g->statistic < 0)
    return bad_name(text, "statistic", statistic, validate_statistic_nearest(statistic), e);
  return 0;
}

/* Blanks stand wherever a reader would put them. */
static size_t blanks(const char *text)
{
  return strspn(text, " \t");
}

/* A gate that every run would pass, or that means another number than it seems to. */
static int check_sense(const char *text, const struct validate_gate *g, const char *bound,
                       struct base_error *e)
{
  int agreement = g->statistic == VALIDATE_CORRELATION;
  if (g->has_min && !agreement)
    return base_fail(e, BASE_USAGE,
                     "gate '%.100s': an error has no least size, only a largest; write <=", text);
  if (g->has_max && agreement)
    return base_fail(e, BASE_USAGE,
                     "gate '%.100s': the larger a correlation the better; write >=", text);
  if (g->statistic != VALIDATE_KS && !agreement && !strchr(bound, '%'))
    return base_fail(e, BASE_USAGE,
                     "gate '%.100s': a relative error is bounded in percent; write for example 5%%",
                     text);
  return 0;
}

/* The number behind the comparison. */
static int parse_bound(const char *text, const char *bound, struct validate_gate *g,
                       struct base_error *e)
{
  struct base_error inner = {0};
  char copy[64];
  int64_t ppm;
  size_t n = strlen(bound);
  while (n && strchr(" \t", bound[n - 1]))
    n--;
  snprintf(copy, sizeof copy, "%.*s", (int)(n < sizeof copy ? n : sizeof copy), bound);
  if (base_unit_parse(BASE_RATIO, copy, &ppm, &inner))
    return base_fail(e, BASE_USAGE, "gate '%.100s': %.300s", text, inner.text);
  g->min = g->max = (double)ppm / 1e6;
  return check_sense(text, g, copy, e);
}

int validate_gate_parse(const char *text, struct validate_gate out[VALIDATE_FIGURES],
                        struct base_error *e)
{
  struct validate_gate g = {.id = text};
  const char *name = text + blanks(text);
  size_t at = strcspn(name, "<>"), n = at;
  int all = 0;
  while (n && strchr(" \t", name[n - 1]))
    n--;
  if (!n || !name[at] || name[at + 1] != '=')
    return base_fail(e, BASE_USAGE,
                     "gate '%.100s' is not METRIC.STATISTIC<=BOUND; write for example "
                     "'ttft.p95<=5%%'",
                     text);
  g.has_max = name[at] == '<';
  g.has_min = !g.has_max;
  const char *bound = name + at + 2;
  if (parse_name(text, name, n, &g, &all, e) || parse_bound(text, bound + blanks(bound), &g, e))
    return -1;
  int n_figures = all && g.metric < VALIDATE_SINGLE ? VALIDATE_FIGURES : 1;
  for (int i = 0; i < n_figures; i++) {
    out[i] = g;
    out[i].statistic = n_figures > 1 ? i : g.statistic;
  }
  return n_figures;
}

/* ------------------------------------------------------------------------------- judging ---- */

double validate_judged(const struct validate_comparison *c, int metric, int statistic)
{
  const struct validate_figures *f = &c->metric[metric];
  if (statistic < VALIDATE_FIGURES)
    return fabs(validate_relative(f, statistic));
  if (statistic == VALIDATE_KS)
    return f->ks;
  return statistic == VALIDATE_CORRELATION ? f->correlation : fabs(f->bias);
}

/* Appends a gate, judged on the whole run or on the second half. */
static void add(struct validation *v, const struct validate_gate *g, int fitted)
{
  static const int code[] = {[OUTCOME_PASS] = BASE_OK,
                             [OUTCOME_FAIL] = BASE_GATE,
                             [OUTCOME_INCONCLUSIVE] = BASE_INCONCLUSIVE};
  struct validate_gate *to = &v->gate[v->ngates++];
  *to = *g;
  to->fitted = fitted;
  to->value = validate_judged(fitted ? &v->fit.second : &v->all, g->metric, g->statistic);
  to->outcome = OUTCOME_PASS;
  if (isnan(to->value))
    to->outcome = OUTCOME_INCONCLUSIVE;
  else if ((g->has_max && to->value > g->max) || (g->has_min && to->value < g->min))
    to->outcome = OUTCOME_FAIL;
  v->exit_code = verdict_worst(v->exit_code, code[to->outcome]);
}

/* Is the metric one of single requests? The others belong to whole runs. */
static int by_request(int metric)
{
  return metric == VALIDATE_TTFT || metric == VALIDATE_TPOT || metric == VALIDATE_E2E;
}

static struct validate_gate of_scenario(const struct scenario_validation *s)
{
  return (struct validate_gate){.id = s->id,
                                .metric = validate_metric_by_name(s->metric),
                                .statistic = validate_statistic_by_name(s->statistic),
                                .has_min = s->has_min,
                                .has_max = s->has_max,
                                .min = s->min,
                                .max = s->max};
}

int validate_judge(struct validation *v, const struct validate_gate *more, uint32_t n,
                   struct base_error *e)
{
  const struct scenario *s = &v->as_run;
  v->gate = calloc(2 * ((size_t)s->nvalidations + n) + 1, sizeof *v->gate);
  if (!v->gate)
    return base_fail_memory(e);
  v->exit_code = BASE_OK;
  for (int fitted = 0; fitted <= v->fit.done; fitted++) {
    for (uint32_t i = 0; i < s->nvalidations; i++) {
      struct validate_gate g = of_scenario(&s->validation[i]);
      if (!strcmp(s->validation[i].arm, s->arm[v->arm].id) && (!fitted || by_request(g.metric)))
        add(v, &g, fitted);
    }
    for (uint32_t i = 0; i < n; i++)
      if (!fitted || by_request(more[i].metric))
        add(v, &more[i], fitted);
  }
  return 0;
}
