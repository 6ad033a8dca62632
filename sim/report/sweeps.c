/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Running the second tables: the scenario again at each value of one attribute. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ledger/verdict.h"
#include "sim/report/report.h"
#include "sim/report/rerun.h"

/* Useful tokens of an arm a paid GPU-second. */
static double speed(const struct experiment *x, uint32_t arm)
{
  return verdict_value(x, arm, METRIC_USEFUL_RATE) / 3600;
}

/* One arm's figures at one value. */
static struct report_sweep_arm arm_of(const struct experiment *x, uint32_t arm)
{
  return (struct report_sweep_arm){.run = !x->arm[arm].skipped,
                                   .qualified = x->arm[arm].qualified,
                                   .rate = verdict_value(x, arm, METRIC_USEFUL_RATE),
                                   .ratio = verdict_value(x, arm, METRIC_RATIO),
                                   .attainment = verdict_value(x, arm, METRIC_ATTAINMENT),
                                   .ttft_p95 = verdict_value(x, arm, METRIC_TTFT_P95),
                                   .tokens_per_gpu_second = speed(x, arm)};
}

/* l, b, l/b of the baseline, and c of the headline arm. */
static void split(struct report_sweep_point *p, const struct experiment *x, int headline)
{
  int base = x->scenario->baseline;

  p->live = p->batch = p->share = p->gain = NAN;
  if (base < 0 || x->arm[base].skipped)
    return;
  p->live = verdict_value(x, (uint32_t)base, METRIC_LIVE_RATE);
  p->batch = verdict_value(x, (uint32_t)base, METRIC_BATCH_RATE);
  if (!(p->batch > 0))
    return;
  p->share = p->live / p->batch;
  if (headline >= 0 && headline != base)
    p->gain = speed(x, (uint32_t)headline) / p->batch;
}

/* Runs one value and notes what it gave. */
static int run_point(struct rerun *r, struct report_sweep *t, const char *value,
                     struct base_error *e)
{
  struct report_sweep_point *p = &t->point[t->n];
  struct base_error failure = {0};
  struct rerun_result result;
  uint32_t narms = t->scenario->narms;

  if (rerun_open(r, t->sweep->target, value, &result, &failure))
    return base_fail_at(e, failure.code, failure.file, failure.line, "sweep %s at %s: %s",
                        t->sweep->id, value, failure.text);
  p->value = value;
  p->arm = calloc(narms + 1, sizeof *p->arm);
  if (!p->arm) {
    rerun_close(&result);
    return base_fail_memory(e);
  }
  t->headline = report_headline(result.x);
  t->partial |= result.x->partial;
  for (uint32_t a = 0; a < narms && a < result.scenario->narms; a++)
    p->arm[a] = arm_of(result.x, a);
  split(p, result.x, t->headline);
  rerun_close(&result);
  t->n++;
  return 0;
}

/* The least live attainment with which an arm may win: its own gate's, else the baseline's bound.
 */
static double bound_of(const struct scenario *s, uint32_t arm)
{
  for (uint32_t g = 0; g < s->ngates; g++)
    if (verdict_arm(s, s->gate[g].arm) == (int)arm && !strcmp(s->gate[g].metric, "attainment") &&
        s->gate[g].has_min)
      return s->gate[g].min;
  return s->qualify_attainment;
}

/* May this arm win at this point? An arm that sees the future never does. */
static int may_win(const struct report_sweep *t, const struct report_sweep_arm *a, uint32_t arm)
{
  const struct scenario *s = t->scenario;
  double bound = bound_of(s, arm);

  if (!a->run || isnan(a->rate))
    return 0;
  if (s->arm[arm].policy && s->arm[arm].policy->needs & LULL_NEED_FORESIGHT)
    return 0;
  return a->qualified && (bound <= 0 || a->attainment >= bound);
}

/* Best qualified baseline and best other arm over all values. */
static void find_best(struct report_sweep *t)
{
  double shared = -1, base = -1;

  t->best_point = t->best_arm = t->base_point = -1;
  t->best_ratio = NAN;
  for (uint32_t i = 0; i < t->n; i++) {
    for (uint32_t a = 0; a < t->scenario->narms; a++) {
      const struct report_sweep_arm *arm = &t->point[i].arm[a];

      if (!may_win(t, arm, a))
        continue;
      if ((int)a == t->scenario->baseline && arm->rate > base) {
        base = arm->rate;
        t->base_point = (int)i;
      } else if ((int)a != t->scenario->baseline && arm->rate > shared) {
        shared = arm->rate;
        t->best_point = (int)i;
        t->best_arm = (int)a;
      }
    }
  }
  if (shared >= 0 && base > 0)
    t->best_ratio = shared / base;
}

int report_sweep(const struct report_source *source, const struct scenario *s, uint32_t index,
                 struct report_sweep *out, struct base_error *e)
{
  const struct scenario_sweep *sweep = &s->sweep[index];
  struct rerun r = {.source = source, .total = sweep->n};

  *out = (struct report_sweep){.scenario = s, .sweep = sweep, .headline = -1};
  if (source->run)
    r.only_arm = source->run->only_arm;
  out->point = calloc(sweep->n + 1, sizeof *out->point);
  if (!out->point)
    return base_fail_memory(e);
  for (uint32_t i = 0; i < sweep->n && !out->partial; i++) {
    if (rerun_stopped(&r)) {
      out->partial = 1;
      break;
    }
    snprintf(r.what, sizeof r.what, "sweep %.40s at %.40s", sweep->id, sweep->value[i]);
    if (run_point(&r, out, sweep->value[i], e))
      return -1;
    r.done++;
  }
  find_best(out);
  return 0;
}

void report_sweep_free(struct report_sweep *t)
{
  for (uint32_t i = 0; t->point && i <= t->sweep->n; i++)
    free(t->point[i].arm);
  free(t->point);
  *t = (struct report_sweep){0};
}
