/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/ledger/verdict.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

int verdict_worst(int a, int b)
{
  static const int gravest_first[] = {BASE_INVARIANT,  BASE_ENV,  BASE_INPUT,        BASE_USAGE,
                                      BASE_INCOMPLETE, BASE_GATE, BASE_INCONCLUSIVE, BASE_OK};

  for (size_t i = 0; i < sizeof gravest_first / sizeof *gravest_first; i++)
    if (a == gravest_first[i] || b == gravest_first[i])
      return gravest_first[i];
  return BASE_INVARIANT;
}

int verdict_arm(const struct scenario *s, const char *id)
{
  for (uint32_t a = 0; id && a < s->narms; a++)
    if (!strcmp(s->arm[a].id, id))
      return (int)a;
  return -1;
}

/* The run of an arm's candidate in a seed. */
static const struct experiment_run *run_of(const struct experiment *x, uint32_t arm,
                                           uint32_t candidate, uint32_t seed)
{
  return &x->arm[arm].run[(size_t)candidate * x->nseeds + seed];
}

/* Did it run to its end, and does live traffic reach the bound of a baseline? */
static int qualifies(const struct experiment *x, const struct summary *s)
{
  double bound = x->scenario->qualify_attainment;

  if (!s->runs || s->partial)
    return 0;
  return bound <= 0 || summary_value(s, METRIC_ATTAINMENT) >= bound;
}

/* The fastest candidate in a seed, among all that ran or only those that qualify; the first of
 * equals; -1: none. */
static int fastest(const struct experiment *x, uint32_t arm, uint32_t seed, int only_qualified)
{
  int best = -1;
  double most = -1;

  for (uint32_t c = 0; c < x->arm[arm].ncandidates; c++) {
    const struct summary *s = &run_of(x, arm, c, seed)->sum;
    double rate = summary_value(s, METRIC_USEFUL_RATE);

    if (!s->runs || (only_qualified && !qualifies(x, s)))
      continue;
    if (isnan(rate))
      rate = 0;
    if (rate > most) {
      most = rate;
      best = (int)c;
    }
  }
  return best;
}

int verdict_shown(const struct experiment *x, uint32_t arm, uint32_t seed)
{
  int best = x->arm[arm].best[seed];

  return best >= 0 ? best : fastest(x, arm, seed, 0);
}

/* Chooses the arm's candidate by seed and pools the figures of those. */
static int choose(struct experiment *x, uint32_t arm, struct base_error *e)
{
  struct experiment_arm *a = &x->arm[arm];

  a->qualified = 1;
  for (uint32_t k = 0; k < x->nseeds; k++) {
    int shown;

    a->best[k] = fastest(x, arm, k, 1);
    if (a->best[k] < 0 && (int)arm != x->scenario->baseline)
      a->best[k] = fastest(x, arm, k, 0);
    a->qualified &= a->best[k] >= 0;
    shown = verdict_shown(x, arm, k);
    if (shown >= 0 && summary_pool(&a->pooled, &run_of(x, arm, (uint32_t)shown, k)->sum, e))
      return -1;
  }
  return 0;
}

/* Rate over rate, undefined where the baseline did nothing useful. */
static double ratio_of(const struct summary *arm, const struct summary *base)
{
  double a = summary_value(arm, METRIC_USEFUL_RATE), b = summary_value(base, METRIC_USEFUL_RATE);

  return b > 0 ? a / b : NAN;
}

/* The seed's ratio, of complete runs and a qualified baseline only. */
static double seed_ratio(const struct experiment *x, uint32_t arm, uint32_t base, uint32_t seed)
{
  int a = x->arm[arm].best[seed], b = x->arm[base].best[seed];
  const struct summary *sa, *sb;

  if (a < 0 || b < 0)
    return NAN;
  sa = &run_of(x, arm, (uint32_t)a, seed)->sum;
  sb = &run_of(x, base, (uint32_t)b, seed)->sum;
  return sa->partial || sb->partial ? NAN : ratio_of(sa, sb);
}

/* Mean of the seeds' ratios +- t(0.975, n-1) * s / sqrt(n), s with n - 1. */
static void interval(struct experiment_arm *a, uint32_t n)
{
  double mean = 0, squares = 0, half;

  if (n < 2)
    return;
  for (uint32_t k = 0; k < n; k++)
    mean += a->ratio[k] / n;
  if (isnan(mean))
    return;
  for (uint32_t k = 0; k < n; k++)
    squares += (a->ratio[k] - mean) * (a->ratio[k] - mean);
  half = gsl_cdf_tdist_Pinv(0.975, n - 1) * sqrt(squares / (n - 1) / n);
  a->ratio_low = mean - half;
  a->ratio_high = mean + half;
}

/* Is every run that this arm's figures need there and complete? */
static int complete(const struct experiment *x, uint32_t arm)
{
  const struct experiment_arm *a = &x->arm[arm];

  for (uint32_t i = 0; i < a->ncandidates * x->nseeds; i++)
    if (!a->run[i].sum.runs || a->run[i].sum.partial)
      return 0;
  return !a->skipped;
}

/* The arm against the baseline, by seed and pooled. */
static void compare(struct experiment *x, uint32_t arm)
{
  struct experiment_arm *a = &x->arm[arm];
  int base = x->scenario->baseline;

  a->ratio_pooled = a->ratio_low = a->ratio_high = NAN;
  for (uint32_t k = 0; k < x->nseeds; k++)
    a->ratio[k] = NAN;
  if (base < 0 || base == (int)arm || a->skipped || x->arm[base].skipped)
    return;
  for (uint32_t k = 0; k < x->nseeds; k++)
    a->ratio[k] = seed_ratio(x, arm, (uint32_t)base, k);
  if (!x->arm[base].qualified || !a->qualified || !complete(x, arm) || !complete(x, (uint32_t)base))
    return;
  a->ratio_pooled = ratio_of(&a->pooled, &x->arm[base].pooled);
  interval(a, x->nseeds);
}

double verdict_value(const struct experiment *x, uint32_t arm, int metric)
{
  const struct experiment_arm *a = &x->arm[arm];

  if (a->skipped)
    return NAN;
  return metric == METRIC_RATIO ? a->ratio_pooled : summary_value(&a->pooled, metric);
}

/* Why a ratio cannot be had, into why; 0 if it can. */
static int no_ratio(const struct experiment *x, uint32_t arm, char *why, size_t size)
{
  const struct scenario *s = x->scenario;
  int base = s->baseline;

  if (base < 0 || x->arm[base].skipped)
    return snprintf(why, size, "no baseline arm was run");
  if ((s->arm[arm].policy && s->arm[arm].policy->needs & LULL_NEED_FORESIGHT) ||
      (s->arm[base].policy && s->arm[base].policy->needs & LULL_NEED_FORESIGHT))
    return snprintf(why, size, "an arm that sees the future can be neither winner nor baseline");
  for (uint32_t k = 0; k < x->nseeds; k++)
    if (x->arm[base].best[k] < 0)
      return snprintf(why, size, "seed %llu: no candidate of %.40s reaches attainment %g",
                      (unsigned long long)x->seed[k], s->arm[base].id, s->qualify_attainment);
  if (!(summary_value(&x->arm[base].pooled, METRIC_USEFUL_RATE) > 0))
    return snprintf(why, size, "the baseline completed no useful request");
  return 0;
}

/* Why a gate cannot be decided; 0 if it can. */
static int undecided(const struct experiment *x, int arm, int metric, double value, char *why,
                     size_t size)
{
  int base = x->scenario->baseline;

  if (arm < 0 || metric < 0)
    return snprintf(why, size, "the scenario has no such arm or metric");
  if (x->arm[arm].skipped)
    return snprintf(why, size, "the arm was not run");
  if (!complete(x, (uint32_t)arm))
    return snprintf(why, size, "partial run");
  if (metric == METRIC_RATIO && no_ratio(x, (uint32_t)arm, why, size))
    return 1;
  if (metric == METRIC_RATIO && !complete(x, (uint32_t)base))
    return snprintf(why, size, "partial run of the baseline");
  if (isnan(value))
    return snprintf(why, size, "undefined: no completed requests");
  return 0;
}

/* Does the arm's interval hold a bound of the gate? Said beside the outcome, never deciding it. */
static void say_interval(const struct experiment_arm *a, const struct scenario_gate *g, char *why,
                         size_t size)
{
  size_t n = strlen(why);
  const char *join = n ? "; " : "";

  if (isnan(a->ratio_low))
    return;
  if ((g->has_min && g->min >= a->ratio_low && g->min <= a->ratio_high) ||
      (g->has_max && g->max >= a->ratio_low && g->max <= a->ratio_high))
    snprintf(why + n, size - n, "%sthe seeds' 95%% interval [%.4f, %.4f] contains the bound", join,
             a->ratio_low, a->ratio_high);
}

/* One gate: undecided first, then its bounds, both inclusive. */
static void judge(struct experiment *x, uint32_t index)
{
  const struct scenario_gate *g = &x->scenario->gate[index];
  struct experiment_gate *o = &x->gate[index];
  int arm = verdict_arm(x->scenario, g->arm);
  int metric = g->metric ? summary_metric_by_name(g->metric) : -1;

  *o = (struct experiment_gate){.value = NAN, .outcome = OUTCOME_INCONCLUSIVE};
  if (arm >= 0 && metric >= 0)
    o->value = verdict_value(x, (uint32_t)arm, metric);
  if (undecided(x, arm, metric, o->value, o->why, sizeof o->why))
    return;
  o->outcome = OUTCOME_PASS;
  if (g->has_min && o->value < g->min) {
    o->outcome = OUTCOME_FAIL;
    snprintf(o->why, sizeof o->why, "%.4g below the minimum", g->min - o->value);
  } else if (g->has_max && o->value > g->max) {
    o->outcome = OUTCOME_FAIL;
    snprintf(o->why, sizeof o->why, "%.4g above the maximum", o->value - g->max);
  }
  if (metric == METRIC_RATIO)
    say_interval(&x->arm[arm], g, o->why, sizeof o->why);
}

/* A gate of an arm that was not asked for does not speak. */
static int silent(const struct experiment *x, uint32_t gate)
{
  int arm = verdict_arm(x->scenario, x->scenario->gate[gate].arm);

  return arm >= 0 && x->arm[arm].skipped;
}

int verdict_reach(struct experiment *x, struct base_error *e)
{
  static const int code[] = {[OUTCOME_PASS] = BASE_OK,
                             [OUTCOME_FAIL] = BASE_GATE,
                             [OUTCOME_INCONCLUSIVE] = BASE_INCONCLUSIVE};

  for (uint32_t a = 0; a < x->scenario->narms; a++)
    if (!x->arm[a].skipped && choose(x, a, e))
      return -1;
  for (uint32_t a = 0; a < x->scenario->narms; a++)
    compare(x, a);
  x->exit_code = x->partial ? BASE_INCOMPLETE : BASE_OK;
  for (uint32_t g = 0; g < x->scenario->ngates; g++) {
    judge(x, g);
    if (!silent(x, g))
      x->exit_code = verdict_worst(x->exit_code, code[x->gate[g].outcome]);
  }
  return 0;
}
