/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/report/parts.h"

#include <math.h>
#include <string.h>

#include "models/calibration.h"
#include "sim/ledger/verdict.h"
#include "sim/report/report.h"
#include "sim/report/text.h"

double parts_reference(const struct scenario *s, uint32_t arm, int metric)
{
  for (uint32_t i = 0; i < s->nreferences; i++)
    if (verdict_arm(s, s->reference[i].arm) == (int)arm &&
        summary_metric_by_name(s->reference[i].metric) == metric)
      return s->reference[i].value;
  return NAN;
}

const char *parts_source(const struct scenario *s)
{
  const char *name = s->nreferences ? s->reference[0].source : NULL;

  for (uint32_t i = 1; name && i < s->nreferences; i++)
    if (!s->reference[i].source || strcmp(name, s->reference[i].source))
      name = NULL;
  return name && *name ? name : "the reference";
}

const char *parts_origin(int origin)
{
  static const char *const name[] = {[ORIGIN_SET] = "set",
                                     [ORIGIN_FITTED] = "fitted",
                                     [ORIGIN_INFERRED] = "inferred",
                                     [ORIGIN_ASSUMED] = "assumed"};

  return name[origin];
}

/* Held-out errors by curve into buf, cut at its size. */
static void residuals(const struct calibration *c, char *buf, size_t size)
{
  size_t used = 0;

  buf[0] = '\0';
  for (uint32_t i = 0; i < c->nresiduals && used < size; i++) {
    const struct calibration_residual *r = &c->residual[i];

    used += (size_t)snprintf(buf + used, size - used, "%s%s %.1f/%.1f/%.1f", i ? ", " : "",
                             r->curve, 100 * r->p50, 100 * r->p95, 100 * r->max);
  }
}

/* Of what was measured here: the worst errors, and whether to trust it. Its table is long. */
static void measured_errors(const struct calibration *c, FILE *out)
{
  const struct calibration_residual *p50, *p95;
  char line[512];

  calibration_worst(c, &p50, &p95);
  if (p50) {
    snprintf(line, sizeof line,
             "relative errors of held-out samples: p50 at most %.1f%% (%s), p95 at most %.1f%% "
             "(%s); 'lull calibration show' lists them",
             100 * p50->p50, p50->curve, 100 * p95->p95, p95->curve);
    text_wrap(out, "", 10, line);
  }
  if (calibration_doubts(c, line, sizeof line))
    text_wrap(out, "Warning", 10, line);
}

/* The calibration, where it comes from and how well it meets what it was not fitted to. */
static void costs(const struct calibration *c, FILE *out)
{
  char line[512], errors[1024];

  snprintf(line, sizeof line,
           c->host_step_ps ? "%s (%s on %s, digest %.12s), measured by %s"
           : strcmp(c->derived, CALIBRATION_ALL)
               ? "%s (%s on %s, digest %.12s), imported measurements of %s, %u source files"
               : "%s (%s on %s, digest %.12s), DERIVED, not measured: %s",
           c->name, c->model, c->gpu, c->digest, c->engine[0] ? c->engine : "an unnamed engine",
           c->nsources);
  text_wrap(out, "Costs", 10, line);
  if (c->law == CALIBRATION_TABLES) {
    snprintf(line, sizeof line, "tensor parallel %u, collectives %s; uneven batches %s", c->tp,
             c->collective_note, c->skew_decode.n ? "measured" : "not measured");
    text_wrap(out, "", 10, line);
  }
  if (c->derived[0]) {
    snprintf(line, sizeof line, "derived, not measured: %s", c->derived);
    text_wrap(out, "", 10, line);
  }
  if (c->host_step_ps) {
    measured_errors(c, out);
    return;
  }
  residuals(c, errors, sizeof errors);
  if (errors[0]) {
    text_wrap(out, "", 10, "relative errors of held-out samples by curve, p50/p95/max %:");
    text_wrap(out, "", 10, errors);
  }
}

/* Parameters by class, and which of them no figure may be called a prediction of. */
static void parameters(const struct scenario *s, int explainable, FILE *out)
{
  unsigned n[4] = {0};
  char line[256];

  if (!s->nparameters)
    return;
  for (uint32_t i = 0; i < s->nparameters; i++)
    n[s->parameter[i].origin]++;
  snprintf(line, sizeof line,
           "%u set, %u fitted on the baseline, %u inferred from another arm, %u assumed%s",
           n[ORIGIN_SET], n[ORIGIN_FITTED], n[ORIGIN_INFERRED], n[ORIGIN_ASSUMED],
           explainable ? "; --explain-fit lists them" : "");
  text_wrap(out, "Values", 10, line);
}

/* The live classes' targets. */
static void targets(const struct scenario *s, FILE *out)
{
  for (uint32_t c = 0; c < s->nclasses; c++)
    if (s->cls[c].interactive)
      fprintf(out, "%-10s%s: TTFT %s s, TPOT %s s, both to be met\n", "Targets", s->cls[c].id,
              text_seconds(s->cls[c].slo_ttft).s, text_seconds(s->cls[c].slo_tpot).s);
}

/* Window, drain and seeds. */
static void extent(const struct experiment *x, FILE *out)
{
  const struct scenario *s = x->scenario;

  fprintf(out, "%-10s%s s window, drain %s%s%s, starts warm (no start-up charged)\n", "Run",
          text_seconds(s->window).s, s->drain == LULL_NEVER ? "to completion" : "at most ",
          s->drain == LULL_NEVER ? "" : text_seconds(s->drain).s,
          s->drain == LULL_NEVER ? "" : " s");
  fprintf(out, "%-10s", "Seeds");
  for (uint32_t k = 0; k < x->nseeds; k++)
    fprintf(out, "%s%llu", k ? ", " : "", (unsigned long long)x->seed[k]);
  fprintf(out, "%s%s\n", x->nseeds > 1 ? ", pooled" : "", x->seed_by_hand ? ", given by hand" : "");
}

/* What makes this another run than the scenario as it is written. */
static void changes(const struct scenario *s, FILE *out)
{
  for (uint32_t i = 0; i < s->noverrides; i++)
    fprintf(out,
            "%-10s%s = %s, by hand: classes of parameters and figures beside ours are those of "
            "the unchanged scenario\n",
            "Changed", s->override[i].target, s->override[i].value);
}

/* What ran it, where that is not the simulator alone. */
static void device(const struct experiment_device *d, FILE *out)
{
  char line[512];
  size_t used = (size_t)snprintf(line, sizeof line, "%s", d->name);

  for (uint32_t i = 0; i < d->nfacts && used < sizeof line; i++)
    used += (size_t)snprintf(line + used, sizeof line - used, "%s %s %s", i ? "," : ":",
                             d->fact[i].name, d->fact[i].value);
  text_wrap(out, "Device", 10, line);
}

/* What steps take, and what says so. */
static void steps(const struct experiment *x, int simulated, FILE *out)
{
  const struct scenario *s = x->scenario;

  if (s->calib)
    fprintf(out, "%-10s%s, %s\n", "Machine", s->gpu, s->model);
  if (!simulated)
    fprintf(out, "%-10snone: the steps %s\n", "Costs",
            strcmp(x->device->name, "replay") ? "of the engine take what they take"
                                              : "take what was recorded");
  else if (s->calib)
    costs(s->calib, out);
  else
    fprintf(out, "%-10sanalytic, written in the scenario\n", "Costs");
}

void parts_opening(const struct experiment *x, int validates, FILE *out)
{
  const struct scenario *s = x->scenario;
  int simulated = !x->device || !strcmp(x->device->name, "sim");

  fprintf(out, "%s%s%s%s%s\n", s->id, s->campaign && *s->campaign ? " (campaign " : "",
          s->campaign ? s->campaign : "", s->campaign && *s->campaign ? ")" : "",
          x->partial ? "   PARTIAL" : "");
  if (s->title && *s->title)
    text_wrap(out, "", 0, s->title);
  fputc('\n', out);
  steps(x, simulated || validates, out);
  if (x->device)
    device(x->device, out);
  parameters(s, simulated && !validates, out);
  targets(s, out);
  extent(x, out);
  changes(x->scenario, out);
  if (s->note && *s->note)
    text_wrap(out, "Note", 10, s->note);
}

void parts_misses(const struct cost_misses *m, char *buf, size_t size)
{
  size_t used = 0;

  buf[0] = '\0';
  for (int i = 0; i < 2 * COST_KINDS && used < size; i++) {
    uint64_t n = i < COST_KINDS ? m->beyond[i] : m->below[i - COST_KINDS];

    if (n)
      used += (size_t)snprintf(buf + used, size - used, "%s%s%s %llu", used ? ", " : "",
                               cost_outside_name[i % COST_KINDS], i < COST_KINDS ? "" : " below",
                               (unsigned long long)n);
  }
}

/* Names of the inferred parameters into buf, cut at its size; how many. */
static unsigned inferred(const struct scenario *s, char *buf, size_t size)
{
  unsigned n = 0;
  size_t used = 0;

  buf[0] = '\0';
  for (uint32_t i = 0; i < s->nparameters; i++) {
    if (s->parameter[i].origin != ORIGIN_INFERRED)
      continue;
    if (used < size)
      used += (size_t)snprintf(buf + used, size - used, "%s%s", n ? ", " : "",
                               s->parameter[i].name);
    n++;
  }
  return n;
}

/* Is some parameter fitted on the baseline? */
static int any_fitted(const struct scenario *s)
{
  for (uint32_t i = 0; i < s->nparameters; i++)
    if (s->parameter[i].origin == ORIGIN_FITTED)
      return 1;
  return 0;
}

void parts_headline(const struct experiment *x, FILE *out)
{
  const struct scenario *s = x->scenario;
  int arm = report_headline(x);
  double ours = arm < 0 ? NAN : verdict_value(x, (uint32_t)arm, METRIC_RATIO);
  double theirs = arm < 0 ? NAN : parts_reference(s, (uint32_t)arm, METRIC_RATIO);
  char names[320], line[640];

  if (isnan(ours) || isnan(theirs))
    return;
  fputc('\n', out);
  if (inferred(s, names, sizeof names))
    snprintf(line, sizeof line,
             "%.4fx, %s %.4fx of %s (%s); not a prediction of it: inferred from another "
             "arm's result, and so deciding the ratio: %s",
             ours, fabs(ours / theirs - 1) <= 0.1 ? "consistent with" : "not consistent with",
             theirs, parts_source(s), text_difference(ours, theirs).s, names);
  else
    snprintf(line, sizeof line, "%.4fx, predicted; %.4fx in %s (%s)", ours, theirs, parts_source(s),
             text_difference(ours, theirs).s);
  text_wrap(out, "Headline", 10, line);
  if (any_fitted(s))
    text_wrap(out, "", 10,
              "Parameters were fitted to the baseline's figures: those agree by construction.");
}

/* "ratio >= 1.5" and the like. */
static void requirement(const struct scenario_gate *g, char *buf, size_t size)
{
  if (g->has_min && g->has_max && g->min == g->max)
    snprintf(buf, size, "%s = %.10g", g->metric, g->min);
  else if (g->has_min && g->has_max)
    snprintf(buf, size, "%.10g <= %s <= %.10g", g->min, g->metric, g->max);
  else if (g->has_min)
    snprintf(buf, size, "%s >= %.10g", g->metric, g->min);
  else
    snprintf(buf, size, "%s <= %.10g", g->metric, g->has_max ? g->max : INFINITY);
}

void parts_gates(const struct experiment *x, FILE *out)
{
  static const char *const name[] = {
      [OUTCOME_PASS] = "PASS", [OUTCOME_FAIL] = "FAIL", [OUTCOME_INCONCLUSIVE] = "INCONCLUSIVE"};
  const struct scenario *s = x->scenario;

  if (!s->ngates)
    return;
  fprintf(out, "\n%-16s%-20s%-36s%14s  %s\n", "Gate", "arm", "requirement", "measured", "outcome");
  for (uint32_t g = 0; g < s->ngates; g++) {
    int arm = verdict_arm(s, s->gate[g].arm);
    int skipped = arm >= 0 && x->arm[arm].skipped;
    char text[96], measured[32];

    requirement(&s->gate[g], text, sizeof text);
    snprintf(measured, sizeof measured, isnan(x->gate[g].value) ? "-" : "%.6g", x->gate[g].value);
    fprintf(out, "%-15.15s %-19.19s %-35.35s %14s  %s\n", s->gate[g].id, s->gate[g].arm, text,
            measured, skipped ? "not run" : name[x->gate[g].outcome]);
    if (x->gate[g].why[0] && !skipped)
      text_wrap(out, "", 16, x->gate[g].why);
  }
}

/* One arm in one seed. */
static void seed_row(const struct experiment *x, uint32_t arm, uint32_t k, FILE *out)
{
  const struct scenario *s = x->scenario;
  const struct experiment_arm *a = &x->arm[arm];
  int shown = verdict_shown(x, arm, k);
  const struct summary *m;
  const char *id;

  if (shown < 0) {
    fprintf(out, "%-7llu %-17.17s not run\n", (unsigned long long)x->seed[k], s->arm[arm].id);
    return;
  }
  m = &a->run[(size_t)shown * x->nseeds + k].sum;
  id = s->arm[arm].candidate[shown].id;
  fprintf(out, "%-7llu %-17.17s %-8.8s %9s %8s %10s %7s %9s %8s %10s%s\n",
          (unsigned long long)x->seed[k], s->arm[arm].id, id && *id ? id : "-",
          text_number(summary_value(m, METRIC_USEFUL_RATE) * 1e-6, 2).s,
          (int)arm == s->baseline ? "base" : text_number(a->ratio[k], 4).s,
          text_number(summary_value(m, METRIC_ATTAINMENT), 4).s,
          text_number(summary_value(m, METRIC_ERRORS), 0).s,
          text_number(summary_value(m, METRIC_TTFT_P95) * 1e3, 1).s,
          text_number(summary_value(m, METRIC_DEVICE_BUSY) * 1e2, 1).s,
          text_number(m->gpu_seconds, 1).s, m->partial ? " PARTIAL" : "");
}

void parts_seeds(const struct experiment *x, FILE *out)
{
  const struct scenario *s = x->scenario;

  fprintf(out, "\n%-8s%-18s%-9s%9s%9s%11s%8s%10s%9s%11s\n", "Seed", "arm", "candidate", "M/GPU-h",
          "ratio", "attainment", "errors", "TTFT95 ms", "busy %", "GPU-s");
  for (uint32_t k = 0; k < x->nseeds; k++)
    for (uint32_t a = 0; a < s->narms; a++)
      if (!x->arm[a].skipped)
        seed_row(x, a, k, out);
  for (uint32_t a = 0; a < s->narms; a++) {
    const struct experiment_arm *arm = &x->arm[a];

    if (!isnan(arm->ratio_low) && !isnan(arm->ratio_pooled) && !arm->skipped)
      fprintf(out,
              "%s: ratio pooled %.4f; over %u seeds mean %.4f, Student-t 95%% interval [%.4f, "
              "%.4f]\n",
              s->arm[a].id, arm->ratio_pooled, x->nseeds, (arm->ratio_low + arm->ratio_high) / 2,
              arm->ratio_low, arm->ratio_high);
  }
}

/* One job of an arm over all seeds, in the candidates that stand for the arm. */
static void job_row(const struct experiment *x, uint32_t arm, uint32_t job, FILE *out)
{
  const struct experiment_arm *a = &x->arm[arm];
  const struct world_job *j = &x->scenario->arm[arm].job[job];
  uint64_t micro_steps = 0;
  double busy = 0;

  for (uint32_t k = 0; k < x->nseeds; k++) {
    int shown = verdict_shown(x, arm, k);
    const struct experiment_run *r = shown < 0 ? NULL : &a->run[(size_t)shown * x->nseeds + k];

    if (!r || !r->job)
      continue;
    micro_steps += r->job[job].micro_steps;
    busy += (double)r->job[job].busy / 1e12;
  }
  fprintf(out, "%-18.18s%-18.18s%4d%16llu%14s\n", j->name, x->scenario->arm[arm].id, j->gpu,
          (unsigned long long)micro_steps, text_number(busy, 2).s);
}

void parts_jobs(const struct experiment *x, FILE *out)
{
  const struct scenario *s = x->scenario;
  int any = 0;

  for (uint32_t a = 0; a < s->narms; a++)
    for (uint32_t j = 0; !x->arm[a].skipped && j < s->arm[a].njobs; j++) {
      if (!any++)
        fprintf(out, "\n%-18s%-18s%4s%16s%14s%s\n", "Job", "arm", "GPU", "micro-steps", "seconds",
                x->nseeds > 1 ? "  (sums over the seeds)" : "");
      job_row(x, a, j, out);
    }
}

/* Accounts of the arms [from, to). */
static void account_block(const struct experiment *x, uint32_t from, uint32_t to, FILE *out)
{
  const struct scenario *s = x->scenario;

  fprintf(out, "\n%-22s", "Ledger, GPU-seconds");
  for (uint32_t a = from; a < to; a++)
    if (!x->arm[a].skipped)
      fprintf(out, " %20.20s", s->arm[a].id);
  for (int c = 0; c < WORLD_ACCOUNTS; c++) {
    fprintf(out, "\n%-22s", world_account_name[c]);
    for (uint32_t a = from; a < to; a++) {
      const struct summary *p = &x->arm[a].pooled;

      if (x->arm[a].skipped)
        continue;
      fprintf(out, " %12s", text_number(p->account[c], 2).s);
      if (p->gpu_seconds > 0)
        fprintf(out, "%7.2f%%", 100 * p->account[c] / p->gpu_seconds);
      else
        fprintf(out, "%8s", "-");
    }
  }
  fprintf(out, "\n%-22s", "paid");
  for (uint32_t a = from; a < to; a++)
    if (!x->arm[a].skipped)
      fprintf(out, " %12s%8s", text_number(x->arm[a].pooled.gpu_seconds, 2).s,
              x->arm[a].pooled.gpu_seconds > 0 ? "100.00%" : "-");
  fputc('\n', out);
}

void parts_accounts(const struct experiment *x, FILE *out)
{
  enum { BY = 4 }; /* arms side by side: 22 + 4 * 21 columns */
  uint32_t narms = x->scenario->narms;

  for (uint32_t from = 0; from < narms; from += BY)
    account_block(x, from, from + BY < narms ? from + BY : narms, out);
}
