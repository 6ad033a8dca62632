/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What is claimed: gates, and published figures. */
#include <string.h>

#include "base/units.h"
#include "sim/ledger/summary.h"
#include "sim/scenario/reader.h"
#include "sim/validate/names.h"

/* The metric's index; unknown: an error with the nearest name. */
static int find_metric(struct reader *r, const xmlNode *node, const char *name)
{
  const char *names[METRICS];
  int metric = summary_metric_by_name(name);
  if (metric >= 0)
    return metric;
  for (int i = 0; i < METRICS; i++)
    names[i] = summary_metrics[i].name;
  const char *near = base_nearest(name, names, METRICS);
  return node_fail(r, node, "<%s> unknown metric '%.60s'; %s%s%s", (const char *)node->name, name,
                   near ? "did you mean '" : "the page docs/metrics.md lists them",
                   near ? near : "", near ? "'?" : "");
}

static int find_arm(struct reader *r, const xmlNode *node, const char *id)
{
  const struct scenario *s = &r->whole->s;
  const char *names[LIMIT_ARMS];
  int arm = arm_by_id(s, id);
  if (arm >= 0)
    return arm;
  for (uint32_t i = 0; i < s->narms; i++)
    names[i] = s->arm[i].id;
  const char *near = base_nearest(id, names, s->narms);
  return node_fail(r, node, "<%s> unknown arm '%.60s'%s%s%s", (const char *)node->name, id,
                   near ? "; did you mean '" : "; no such arm in this scenario", near ? near : "",
                   near ? "'?" : "");
}

/* A value in the metric's unit: times with a unit (to seconds), others plain or in percent. */
static int metric_value(struct reader *r, const xmlNode *node, int metric, const char *name,
                        const char *text, double *value)
{
  struct base_error e = {0};
  int64_t v = 0;
  int seconds = metric >= 0 && !strcmp(summary_metrics[metric].unit, "s");
  if (base_unit_parse(seconds ? BASE_TIME : BASE_RATIO, text, &v, &e))
    return node_fail_with(r, node, name, &e);
  *value = (double)v / (seconds ? 1e12 : 1e6);
  return 0;
}

static void check_ratio(struct reader *r, const xmlNode *node, int arm)
{
  const struct scenario *s = &r->whole->s;
  if (s->baseline < 0)
    node_fail(r, node, "<%s> ratio: no arm is the baseline; write baseline=\"yes\" on one",
              (const char *)node->name);
  else if (arm == s->baseline)
    node_fail(r, node, "<%s> ratio: '%s' is the baseline itself; its ratio is always 1",
              (const char *)node->name, s->arm[arm].id);
}

/* Gates of both kinds have names of their own. */
static void check_gate_id(struct reader *r, const xmlNode *node, const char *id)
{
  const struct scenario *s = &r->whole->s;
  int twice = 0;
  for (uint32_t i = 0; i < s->ngates; i++)
    twice |= s->gate[i].id && !strcmp(s->gate[i].id, id);
  for (uint32_t i = 0; i < s->nvalidations; i++)
    twice |= s->validation[i].id && !strcmp(s->validation[i].id, id);
  if (twice)
    node_fail(r, node, "two gates are named '%s'; rename one", id);
}

/* A name that validations do not know: an error with the nearest one. */
static void unknown(struct reader *r, const xmlNode *node, const char *what, const char *name,
                    const char *near)
{
  node_fail(r, node, "<gate> unknown %s '%.60s' of a validation; %s%s%s", what, name,
            near ? "did you mean '" : "the page docs/validate.md lists them", near ? near : "",
            near ? "'?" : "");
}

/* A gate with a statistic: bounds of an error, plain or in percent, whatever the metric's unit. */
static void read_validation(struct reader *r, const xmlNode *node, const struct raw_gate *raw)
{
  struct scenario *s = &r->whole->s;
  struct scenario_validation *v = &s->validation[s->nvalidations];
  *v = (struct scenario_validation){.id = raw->id,
                                    .metric = raw->metric,
                                    .statistic = raw->statistic,
                                    .arm = raw->arm,
                                    .line = node_line(node)};
  find_arm(r, node, raw->arm);
  if (validate_metric_by_name(raw->metric) < 0)
    unknown(r, node, "metric", raw->metric, validate_metric_nearest(raw->metric));
  if (validate_statistic_by_name(raw->statistic) < 0)
    unknown(r, node, "statistic", raw->statistic, validate_statistic_nearest(raw->statistic));
  if (!raw->min && !raw->max)
    node_fail(r, node, "<gate> '%s' needs min or max", raw->id);
  v->has_min = raw->min && !metric_value(r, node, -1, "min", raw->min, &v->min);
  v->has_max = raw->max && !metric_value(r, node, -1, "max", raw->max, &v->max);
  if (v->has_min && v->has_max && v->min > v->max)
    node_fail(r, node, "<gate> '%s': min is above max; nothing passes", raw->id);
  s->nvalidations++;
}

static void read_run_gate(struct reader *r, const xmlNode *node, const struct raw_gate *raw)
{
  struct scenario *s = &r->whole->s;
  struct scenario_gate *g = &s->gate[s->ngates];
  *g = (struct scenario_gate){
      .id = raw->id, .metric = raw->metric, .arm = raw->arm, .line = node_line(node)};
  int arm = find_arm(r, node, raw->arm), metric = find_metric(r, node, raw->metric);
  if (metric == METRIC_RATIO && arm >= 0)
    check_ratio(r, node, arm);
  if (!raw->min && !raw->max)
    node_fail(r, node, "<gate> '%s' needs min or max", raw->id);
  g->has_min = raw->min && !metric_value(r, node, metric, "min", raw->min, &g->min);
  g->has_max = raw->max && !metric_value(r, node, metric, "max", raw->max, &g->max);
  if (g->has_min && g->has_max && g->min > g->max)
    node_fail(r, node, "<gate> '%s': min is above max; nothing passes", raw->id);
  s->ngates++;
}

static void read_gate(struct reader *r, const xmlNode *node)
{
  struct raw_gate raw = {0};
  if (attributes_read(r, node, &raw))
    return;
  check_gate_id(r, node, raw.id);
  if (raw.statistic)
    read_validation(r, node, &raw);
  else
    read_run_gate(r, node, &raw);
}

static void read_reference(struct reader *r, const xmlNode *node, struct scenario_reference *f)
{
  struct raw_reference raw = {0};
  if (attributes_read(r, node, &raw))
    return;
  find_arm(r, node, raw.arm);
  int metric = find_metric(r, node, raw.metric);
  f->arm = raw.arm;
  f->metric = raw.metric;
  f->source = raw.source;
  metric_value(r, node, metric, "value", raw.value, &f->value);
}

void read_claims(struct reader *r, const xmlNode *root)
{
  struct scenario *s = &r->whole->s;
  size_t n = child_count(r, root, "gate", LIMIT_GATES);
  s->gate = arena_alloc(r->arena, n + 1, sizeof *s->gate);
  s->validation = arena_alloc(r->arena, n + 1, sizeof *s->validation);
  const xmlNode *c = s->gate && s->validation ? child_first(root, "gate") : NULL;
  for (; c && s->ngates + s->nvalidations < n; c = child_next(c))
    read_gate(r, c);
  n = child_count(r, root, "reference", LIMIT_REFERENCES);
  s->reference = arena_alloc(r->arena, n + 1, sizeof *s->reference);
  c = s->reference ? child_first(root, "reference") : NULL;
  for (; c && s->nreferences < n; c = child_next(c), s->nreferences++)
    read_reference(r, c, &s->reference[s->nreferences]);
}
