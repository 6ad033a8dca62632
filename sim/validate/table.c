/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a user reads of a validation. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "sim/report/parts.h"
#include "sim/report/text.h"
#include "sim/validate/pair.h"

enum { LABEL = 20, COUNT = 10, STATISTIC = 12, VALUE = 14, CHANGE = 10, ERROR = 17 };

/* ---------------------------------------------------------------------------------- input ---- */

static void measured_lines(const struct validation *v, FILE *out)
{
  const struct measured *m = v->measured;
  const struct validate_side *s = &v->side[VALIDATE_MEASURED];
  unsigned long long prompt = 0, output = 0;
  for (uint64_t i = 0; i < m->n; i++) {
    prompt += m->row[i].prompt;
    output += m->row[i].output;
  }
  fprintf(out, "%-*s%s (%s)\n", LABEL / 2, "Measured", v->name, m->format);
  fprintf(out, "%-*s%llu requests that arrive over %s s, %llu prompt and %llu output tokens\n",
          LABEL / 2, "", (unsigned long long)m->n, text_seconds(s->request[m->n - 1].arrival).s,
          prompt, output);
  if (m->failed)
    fprintf(out, "%-*s%llu requests that failed in the measured run are left out\n", LABEL / 2, "",
            (unsigned long long)m->failed);
  if (m->moved)
    fprintf(out, "%-*s%llu rows stood behind a later arrival; they were sorted\n", LABEL / 2, "",
            (unsigned long long)m->moved);
}

static void simulated_lines(const struct validation *v, FILE *out)
{
  const struct scenario_arm *arm = &v->as_run.arm[v->arm];
  const struct scenario_engine *g = &arm->candidate[0].server[0].engine;
  const struct summary *s = &v->x->arm[v->arm].pooled;
  char line[512], kinds[320], host[32], beside[64] = "", time[32];
  if (g->cost.host_overlapped)
    snprintf(beside, sizeof beside, ", and %s beside the kernels",
             base_unit_format(BASE_TIME, g->cost.host_overlapped, time, sizeof time));
  snprintf(line, sizeof line,
           "arm %.60s, %s%s%spolicy %.60s, class %.60s; %u server%s of %u KV blocks of %u "
           "tokens, at most %u requests and %u tokens a step%s; host time a step %s%s",
           arm->id, arm->engine ? "engine " : "", arm->engine ? arm->engine : "",
           arm->engine ? ", " : "", arm->policy->name, v->as_run.cls[v->cls].id,
           arm->candidate[0].nservers, arm->candidate[0].nservers == 1 ? "" : "s, the first",
           g->kv_blocks, g->block_tokens, g->max_seqs, g->token_budget,
           g->async ? ", scheduled a step ahead" : "",
           base_unit_format(BASE_TIME, g->cost.host_step, host, sizeof host), beside);
  text_wrap(out, "Simulated", LABEL / 2, line);
  fprintf(out, "%-*s%llu steps, %llu preemptions\n", LABEL / 2, "", (unsigned long long)s->steps,
          (unsigned long long)s->preempts);
  if (s->misses.steps) {
    parts_misses(&s->misses, kinds, sizeof kinds);
    snprintf(line, sizeof line, "%llu of them were costed outside what was measured (%s)",
             (unsigned long long)s->misses.steps, kinds);
    text_wrap(out, "", LABEL / 2, line);
  }
}

/* ---------------------------------------------------------------------------- comparison ---- */

static void distance_line(const struct validate_figures *f, FILE *out)
{
  struct text_line l = {0};
  text_add(&l, "%-*sKS distance %s", LABEL + COUNT + 2, "", text_number(f->ks, 4).s);
  if (!isnan(f->correlation))
    text_add(&l, ", correlation %s", text_number(f->correlation, 4).s);
  if (!isnan(f->bias))
    text_add(&l, ", bias %s", text_error(f->bias).s);
  text_end(&l, out);
}

/* How many values there are: "120", or "120/121" where the simulated run has not as many. */
static const char *count(const struct validate_figures *f, char *text, size_t size)
{
  unsigned long long n = f->n[VALIDATE_MEASURED], simulated = f->n[VALIDATE_SIMULATED];
  snprintf(text, size, n == simulated ? "%llu" : "%llu/%llu", n, simulated);
  return text;
}

static void metric_rows(const struct validate_comparison *c, int metric, FILE *out)
{
  const struct validate_metric_info *info = &validate_metrics[metric];
  const struct validate_figures *f = &c->metric[metric];
  if (!f->n[VALIDATE_MEASURED] && isnan(f->figure[VALIDATE_MEASURED][VALIDATE_MEAN])) {
    fprintf(out, "%-*s%*s  not in the measured file\n", LABEL, info->label, COUNT, "-");
    return;
  }
  for (int k = 0; k < (metric < VALIDATE_SINGLE ? VALIDATE_FIGURES : 1); k++) {
    struct text_line l = {0};
    double absolute = validate_absolute(f, k) * info->scale;
    char error[40], n[48];
    snprintf(error, sizeof error, isnan(absolute) ? "-" : "%+.*f", info->decimals, absolute);
    if (k == 0)
      text_add(&l, "%s%*s", info->label, LABEL + COUNT - (int)strlen(info->label),
               count(f, n, sizeof n));
    else
      text_add(&l, "%*s", LABEL + COUNT, "");
    text_add(&l, "  %-*s%*s%*s%*s%*s", STATISTIC, validate_statistics[k].name, VALUE,
             text_number(f->figure[VALIDATE_MEASURED][k] * info->scale, info->decimals).s, VALUE,
             text_number(f->figure[VALIDATE_SIMULATED][k] * info->scale, info->decimals).s, VALUE,
             error, CHANGE, text_error(validate_relative(f, k)).s);
    text_end(&l, out);
  }
  if (metric < VALIDATE_SINGLE)
    distance_line(f, out);
}

static void comparison(const struct validation *v, FILE *out)
{
  char line[320];
  if (v->pair) {
    snprintf(line, sizeof line,
             "requests of class %.60s, down to %s; totals of all classes, from %s on; n "
             "real/simulated where they differ",
             v->as_run.cls[v->cls].id, validate_metrics[VALIDATE_SINGLE - 1].label,
             validate_metrics[VALIDATE_SINGLE].label);
    fputc('\n', out);
    text_wrap(out, "Compared", LABEL / 2, line);
  }
  fprintf(out, "\n%-*s%*s  %-*s%*s%*s%*s%*s\n", LABEL, "Metric", COUNT, "n", STATISTIC, "statistic",
          VALUE, v->pair ? "real" : "measured", VALUE, "simulated", VALUE, "error", CHANGE,
          "relative");
  for (int m = 0; m < (v->pair ? VALIDATE_METRICS : VALIDATE_SINGLE); m++)
    metric_rows(&v->all, m, out);
}

/* ------------------------------------------------------------------------------------ fit ---- */

static void fit_opening(const struct validation *v, FILE *out)
{
  const struct validate_fit *f = &v->fit;
  char line[640], given[32], fitted[32];
  snprintf(line, sizeof line,
           "host time a step, one scalar, on the first %llu requests by arrival: mean relative "
           "error of E2E and TPOT there %.4f with %s as the scenario gives it, %.4f with %s "
           "fitted (the least of %u simulations of the whole run%s). The other %llu requests judge "
           "both:",
           (unsigned long long)f->split, f->objective_given,
           base_unit_format(BASE_TIME, f->given, given, sizeof given), f->objective,
           base_unit_format(BASE_TIME, f->host, fitted, sizeof fitted), f->runs,
           f->at_bound ? "; it is the largest value tried, so look for another cause" : "",
           (unsigned long long)(v->measured->n - f->split));
  fputc('\n', out);
  text_wrap(out, "Fit", LABEL / 2, line);
}

/* One statistic of the second half, with either value. */
static void fit_row(const struct validate_fit *fit, int metric, int k, FILE *out)
{
  const struct validate_metric_info *info = &validate_metrics[metric];
  const struct validate_figures *a = &fit->second_given.metric[metric];
  const struct validate_figures *b = &fit->second.metric[metric];
  struct text_line l = {0};
  text_add(&l, "%-*s%-*s%*s", LABEL, k ? "" : info->label, STATISTIC, validate_statistics[k].name,
           VALUE, text_number(a->figure[VALIDATE_MEASURED][k] * info->scale, info->decimals).s);
  text_add(&l, "%*s%*s%*s%*s", VALUE,
           text_number(a->figure[VALIDATE_SIMULATED][k] * info->scale, info->decimals).s, CHANGE,
           text_error(validate_relative(a, k)).s, VALUE,
           text_number(b->figure[VALIDATE_SIMULATED][k] * info->scale, info->decimals).s, CHANGE,
           text_error(validate_relative(b, k)).s);
  text_end(&l, out);
}

/* The distances of the second half, with either value. */
static void fit_distances(const struct validate_fit *fit, int metric, FILE *out)
{
  const struct validate_figures *a = &fit->second_given.metric[metric];
  const struct validate_figures *b = &fit->second.metric[metric];
  const struct {
    const char *name;
    double given, fitted;
  } row[] = {{"KS distance", a->ks, b->ks}, {"correlation", a->correlation, b->correlation}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    fprintf(out, "%-*s%-*s%*s%*s%*s\n", LABEL, "", STATISTIC, row[i].name, 2 * VALUE,
            text_number(row[i].given, 4).s, CHANGE, "", VALUE, text_number(row[i].fitted, 4).s);
  fprintf(out, "%-*s%-*s%*s%*s\n", LABEL, "", STATISTIC, "bias", 2 * VALUE + CHANGE,
          text_error(a->bias).s, VALUE + CHANGE, text_error(b->bias).s);
}

static void fit_part(const struct validation *v, FILE *out)
{
  static const int metrics[] = {VALIDATE_TTFT, VALIDATE_TPOT, VALIDATE_E2E};
  if (!v->fit.done)
    return;
  fit_opening(v, out);
  fprintf(out, "\n%-*s%-*s%*s%*s%*s%*s%*s\n", LABEL, "Second half", STATISTIC, "statistic", VALUE,
          "measured", VALUE, "as given", CHANGE, "relative", VALUE, "fitted", CHANGE, "relative");
  for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
    for (int k = 0; k < VALIDATE_FIGURES; k++)
      fit_row(&v->fit, metrics[i], k, out);
    fit_distances(&v->fit, metrics[i], out);
  }
}

/* ---------------------------------------------------------------------------------- gates ---- */

/* "|error of ttft.p95| <= 5%" and the like. */
static void requirement(const struct validate_gate *g, char *buf, size_t size)
{
  const char *metric = validate_metrics[g->metric].name;
  const char *statistic = validate_statistics[g->statistic].name;
  int figure = g->statistic < VALIDATE_FIGURES || g->statistic == VALIDATE_BIAS;
  char low[32] = "", high[32] = "";
  if (g->has_min)
    snprintf(low, sizeof low, "%g%s <= ", g->min * (figure ? 100 : 1), figure ? "%" : "");
  if (g->has_max)
    snprintf(high, sizeof high, " <= %g%s", g->max * (figure ? 100 : 1), figure ? "%" : "");
  snprintf(buf, size, "%s%s%s.%s%s%s", low, figure ? "|error of " : "", metric, statistic,
           figure ? "|" : "", high);
}

static void gates(const struct validation *v, FILE *out)
{
  static const char *const name[] = {
      [OUTCOME_PASS] = "PASS", [OUTCOME_FAIL] = "FAIL", [OUTCOME_INCONCLUSIVE] = "INCONCLUSIVE"};
  if (!v->ngates)
    return;
  fprintf(out, "\n%-26s%-22s%-38s%10s  %s\n", "Gate", "on", "requirement", "judged", "outcome");
  for (uint32_t i = 0; i < v->ngates; i++) {
    const struct validate_gate *g = &v->gate[i];
    int figure = g->statistic < VALIDATE_FIGURES || g->statistic == VALIDATE_BIAS;
    char text[96], value[32];
    requirement(g, text, sizeof text);
    snprintf(value, sizeof value,
             isnan(g->value) ? "-"
             : figure        ? "%.2f%%"
                             : "%.4f",
             g->value * (figure ? 100 : 1));
    fprintf(out, "%-25.25s %-21s %-37.37s %10s  %s\n", g->id,
            g->fitted ? "second half, fitted" : "all requests", text, value, name[g->outcome]);
  }
}

/* ---------------------------------------------------------------------------- two devices ---- */

static void step_errors(const struct validate_pair *p, FILE *out)
{
  fprintf(out, "\n%-*s%*s%*s%*s%*s%*s%*s\n", LABEL, "Steps of the real run", COUNT, "n", VALUE,
          "real, s", VALUE, "predicted, s", ERROR, "mean relative e", CHANGE + 1, "|e| p50",
          CHANGE + 1, "|e| p95");
  for (int k = 0; k < STEPS_KINDS; k++) {
    const struct validate_step_errors *s = &p->steps[k];
    if (s->n)
      fprintf(out, "%-*s%*llu%*.3f%*.3f%*s%*s%*s\n", LABEL, validate_steps_name[k], COUNT + 1,
              (unsigned long long)s->n, VALUE, s->seconds, VALUE, s->predicted, ERROR,
              text_error(s->bias).s, CHANGE + 1, text_error(s->p50).s, CHANGE + 1,
              text_error(s->p95).s);
  }
}

static void decision_lines(const struct validation *v, FILE *out)
{
  const struct decisions_compared *d = &v->pair->decisions;
  char line[512], real[160], simulated[160];
  snprintf(
      line, sizeof line,
      "%llu real, %llu simulated; the first %llu agree; of the rest %llu are in both, in another "
      "order, %llu in the real run alone, %llu in the simulated one alone",
      (unsigned long long)d->n[0], (unsigned long long)d->n[1], (unsigned long long)d->agreed,
      (unsigned long long)d->moved, (unsigned long long)d->alone[0],
      (unsigned long long)d->alone[1]);
  fputc('\n', out);
  text_wrap(out, "Decisions", LABEL / 2, line);
  if (!d->differ)
    return;
  decision_text(&d->first[0], &v->as_run, real, sizeof real);
  decision_text(&d->first[1], &v->as_run, simulated, sizeof simulated);
  snprintf(line, sizeof line,
           "the first that differ: real '%s' (at %.6f s), simulated '%s' (at %.6f s)", real,
           (double)d->first[0].time * 1e-12, simulated, (double)d->first[1].time * 1e-12);
  text_wrap(out, "", LABEL / 2, line);
}

static void noise_line(const struct validate_pair *p, FILE *out)
{
  char line[256];
  if (isnan(p->noise))
    return;
  snprintf(line, sizeof line,
           "the same step took %.1f%% longer once, before and after the real run%s", 100 * p->noise,
           p->noise > VALIDATE_NOISY
               ? ": times say nothing of the simulation, and no gate is judged"
               : "");
  text_wrap(out, "Noise", LABEL / 2, line);
}

static void pair_lines(const struct validation *v, FILE *out)
{
  const struct validate_pair *p = v->pair;
  const struct summary *s = &p->real->arm[v->arm].pooled;
  fprintf(out, "%-*s%s, seed %llu: %llu steps, %llu preemptions\n", LABEL / 2, "Real", v->name,
          (unsigned long long)p->real->seed[0], (unsigned long long)s->steps,
          (unsigned long long)s->preempts);
  if (p->left_out)
    fprintf(out, "%-*s%llu requests did not end well in both runs and are left out\n", LABEL / 2,
            "", (unsigned long long)p->left_out);
}

int validate_table(const struct validation *v, FILE *out, struct base_error *e)
{
  parts_opening(v->pair ? v->pair->real : v->x, 1, out);
  if (v->pair)
    pair_lines(v, out);
  else
    measured_lines(v, out);
  simulated_lines(v, out);
  comparison(v, out);
  if (v->pair) {
    step_errors(v->pair, out);
    decision_lines(v, out);
    noise_line(v->pair, out);
  }
  fit_part(v, out);
  gates(v, out);
  return text_done(out, e);
}
