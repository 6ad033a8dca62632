/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Printing the second tables. */
#include <math.h>
#include <string.h>

#include "sim/ledger/verdict.h"
#include "sim/report/parts.h"
#include "sim/report/report.h"
#include "sim/report/text.h"

/* The part of a target behind its last '/', to head the column of values. */
static const char *short_target(const char *target)
{
  const char *slash = strrchr(target, '/');

  return slash ? slash + 1 : target;
}

/* Rows are values times arms. */
static void points(const struct report_sweep *t, FILE *out)
{
  const struct scenario *s = t->scenario;

  fprintf(out, "%-16.16s%-24s%16s%10s%14s%16s\n", short_target(t->sweep->target), "arm",
          "Mtokens/GPU-h", "ratio", "attainment", "TTFT p95, ms");
  for (uint32_t i = 0; i < t->n; i++) {
    int first = 1;

    for (uint32_t a = 0; a < s->narms; a++) {
      const struct report_sweep_arm *m = &t->point[i].arm[a];
      int base = (int)a == s->baseline;

      if (!m->run)
        continue;
      fprintf(out, "%-15.15s %-23.23s %16s%10s%14s%16s%s\n", first ? t->point[i].value : "",
              s->arm[a].id, text_number(m->rate * 1e-6, 2).s,
              base ? "baseline" : text_number(m->ratio, 4).s, text_number(m->attainment, 4).s,
              text_number(m->ttft_p95 * 1e3, 1).s, base && !m->qualified ? " not qualified" : "");
      first = 0;
    }
  }
}

/* The ratio of the headline arm at a point; NaN where unknown. */
static double ratio_at(const struct report_sweep *t, uint32_t point)
{
  return t->headline < 0 ? NAN : t->point[point].arm[t->headline].ratio;
}

/* GPUs of the baseline over those of the headline arm: 2 in c's formula. */
static double gpus(const struct report_sweep *t)
{
  const struct scenario *s = t->scenario;

  return s->baseline < 0 ? NAN : s->arm[s->baseline].ngpus;
}

/* l/b at which the curve passes `ratio`, linear between neighbouring points; NaN: nowhere. */
static double crossing(const struct report_sweep *t, double ratio)
{
  for (uint32_t i = 0; i + 1 < t->n; i++) {
    double a = ratio_at(t, i), b = ratio_at(t, i + 1);
    double from = t->point[i].share, to = t->point[i + 1].share;

    if ((a - ratio) * (b - ratio) <= 0 && a != b)
      return from + (to - from) * (ratio - a) / (b - a);
  }
  return NAN;
}

/* The reference's point: its totals, and where its ratio lies on our curve. */
static void reference_point(const struct report_sweep *t, FILE *out)
{
  const struct scenario *s = t->scenario;
  double ratio, mine, base, at;
  char line[512];

  if (t->headline < 0 || s->baseline < 0)
    return;
  ratio = parts_reference(s, (uint32_t)t->headline, METRIC_RATIO);
  mine = parts_reference(s, (uint32_t)t->headline, METRIC_USEFUL_RATE);
  base = parts_reference(s, (uint32_t)s->baseline, METRIC_USEFUL_RATE);
  if (isnan(ratio) || isnan(mine) || isnan(base))
    return;
  at = crossing(t, ratio);
  snprintf(line, sizeof line,
           "%s gives l + b = %.0f tokens/s, %.0f tokens/s for a GPU of %s and so a ratio of %.4f, "
           "but not l/b: its point lies anywhere on the line c = %.4f (1 + l/b) of column \"c for "
           "it\". ",
           parts_source(s), base * gpus(t) / 3600, mine / 3600, s->arm[t->headline].id, ratio,
           ratio / gpus(t));
  text_wrap(out, "", 0, line);
  if (isnan(at))
    snprintf(line, sizeof line, "Our curve does not pass that ratio at these values.");
  else
    snprintf(line, sizeof line, "Our curve passes that ratio at l/b = %.3f.", at);
  text_wrap(out, "", 0, line);
}

/* ratio = n c / (1 + l/b), n the baseline's GPUs: its parts at every value. */
static void curve(const struct report_sweep *t, FILE *out)
{
  double n = gpus(t);
  double theirs = t->headline < 0
                      ? NAN
                      : parts_reference(t->scenario, (uint32_t)t->headline, METRIC_RATIO);

  fprintf(out, "\n%-16.16s%14s%14s%10s%10s%12s%14s%12s\n", short_target(t->sweep->target),
          "l, tokens/s", "b, tokens/s", "l/b", "c", "ratio", "formula", "c for it");
  for (uint32_t i = 0; i < t->n; i++) {
    const struct report_sweep_point *p = &t->point[i];

    fprintf(out, "%-15.15s %14s%14s%10s%10s%12s%14s%12s\n", p->value, text_number(p->live, 1).s,
            text_number(p->batch, 1).s, text_number(p->share, 4).s, text_number(p->gain, 4).s,
            text_number(ratio_at(t, i), 4).s, text_number(n * p->gain / (1 + p->share), 4).s,
            text_number(theirs * (1 + p->share) / n, 4).s);
  }
  text_wrap(out, "", 0,
            "l, b: useful live and batch tokens/s of the baseline; c: useful tokens of the shared "
            "arm a GPU-second over b; formula: G c / (1 + l/b) with the baseline's G GPUs.");
  reference_point(t, out);
}

/* Best arm that meets the live gate against the best qualified baseline. */
static void best(const struct report_sweep *t, FILE *out)
{
  const struct scenario *s = t->scenario;

  if (t->best_point < 0)
    fputs("No arm meets the live gate at any value.\n", out);
  else
    fprintf(out, "Best shared arm that meets the live gate: %s at %s, %.2f Mtokens/GPU-hour\n",
            s->arm[t->best_arm].id, t->point[t->best_point].value,
            t->point[t->best_point].arm[t->best_arm].rate * 1e-6);
  if (t->base_point < 0)
    fputs("No baseline qualifies at any value.\n", out);
  else
    fprintf(out, "Best qualified baseline: %s at %s, %.2f Mtokens/GPU-hour\n",
            s->arm[s->baseline].id, t->point[t->base_point].value,
            t->point[t->base_point].arm[s->baseline].rate * 1e-6);
  if (!isnan(t->best_ratio))
    fprintf(out, "Best against best: %.4fx\n", t->best_ratio);
}

int report_sweep_print(const struct report_sweep *t, FILE *out, struct base_error *e)
{
  const struct scenario_sweep *w = t->sweep;

  fputc('\n', out);
  text_wrap(out, "", 0, w->title && *w->title ? w->title : w->id);
  fprintf(out, "(sweep of %s, not gated%s)\n\n", w->target, t->partial ? ", PARTIAL" : "");
  points(t, out);
  if (w->kind == SWEEP_CURVE)
    curve(t, out);
  if (w->kind == SWEEP_BEST)
    best(t, out);
  if (w->note && *w->note)
    text_wrap(out, "", 0, w->note);
  return text_done(out, e);
}
