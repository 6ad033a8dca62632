/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The table on the user's stream. Columns are arms, rows are metrics; an arm with published figures
 * has them and the difference beside its own. Arms that do not fit side by side follow below.
 */
#include <math.h>
#include <string.h>

#include "sim/ledger/verdict.h"
#include "sim/report/parts.h"
#include "sim/report/report.h"
#include "sim/report/text.h"

/* Widths of columns; that of an arm alone grows with its name; three arms with references and the
 * labels fill 109 columns. */
enum { LABEL = 25, OURS = 10, REFERENCE = 11, DIFFERENCE = 7, ALONE = 15, ALONE_MAX = 34 };

/* A row: a metric in the unit of its label. blank: an empty line goes before it. */
static const struct row {
  int metric;
  const char *label;
  double scale;
  int decimals, blank;
} rows[] = {
    {METRIC_USEFUL_RATE, "Useful Mtokens/GPU-hour", 1e-6, 2, 0},
    {METRIC_RATIO, "Ratio to the baseline", 1, 4, 0},
    {METRIC_ATTAINMENT, "Live SLO attainment", 1, 4, 0},
    {METRIC_ATTAINMENT_HALF, "  at half the targets", 1, 4, 0},
    {METRIC_ATTAINMENT_DOUBLE, "  at twice the targets", 1, 4, 0},
    {METRIC_ERRORS, "Errors", 1, 0, 0},
    {METRIC_TTFT_P50, "Live TTFT p50, ms", 1e3, 1, 1},
    {METRIC_TTFT_P95, "Live TTFT p95, ms", 1e3, 1, 0},
    {METRIC_TTFT_P99, "Live TTFT p99, ms", 1e3, 1, 0},
    {METRIC_TPOT_P50, "Live TPOT p50, ms", 1e3, 2, 0},
    {METRIC_TPOT_P95, "Live TPOT p95, ms", 1e3, 2, 0},
    {METRIC_ITL_P99, "Live token gap p99, ms", 1e3, 2, 0},
    {METRIC_DEVICE_BUSY, "Device-busy, % of paid", 100, 1, 1},
    {METRIC_LEDGER_BUSY, "Ledger-busy, % of paid", 100, 1, 0},
    {METRIC_GPU_SECONDS, "Paid GPU-seconds", 1, 1, 0},
    {METRIC_LIVE_RATE, "Live useful tokens/s", 1, 1, 0},
    {METRIC_BATCH_RATE, "Batch useful tokens/s", 1, 1, 0},
    {METRIC_PREEMPTIONS, "Preemptions", 1, 0, 1},
    {METRIC_DISCARDED, "Discarded KV tokens", 1, 0, 0},
    {METRIC_OFFERED, "Requests offered", 1, 0, 0},
    {METRIC_FINISHED, "Requests finished", 1, 0, 0},
    {METRIC_UNFINISHED, "Requests unfinished", 1, 0, 0},
    {METRIC_HIT_RATE, "Prefix cache hits, %", 100, 1, 0},
};

/* Of the last row nothing is said where no server caches. */
static int is_said(const struct experiment *x, const struct row *r)
{
  for (uint32_t a = 0; a < x->scenario->narms; a++)
    if (r->metric != METRIC_HIT_RATE ||
        (!x->arm[a].skipped && summary_looked_up(&x->arm[a].pooled)))
      return 1;
  return 0;
}

/* Has the arm any published figure? */
static int has_reference(const struct scenario *s, uint32_t arm)
{
  for (uint32_t i = 0; i < s->nreferences; i++)
    if (verdict_arm(s, s->reference[i].arm) == (int)arm)
      return 1;
  return 0;
}

/* Columns an arm takes, the gap before it included. */
static int width_of(const struct scenario *s, uint32_t arm)
{
  int name = (int)strlen(s->arm[arm].id) + 2;

  if (has_reference(s, arm))
    return OURS + REFERENCE + DIFFERENCE;
  return name < ALONE ? ALONE : name < ALONE_MAX ? name : ALONE_MAX;
}

/* The references' name as a column's head, if it fits. */
static const char *column_source(const struct scenario *s)
{
  const char *name = parts_source(s);

  return strlen(name) <= REFERENCE ? name : "reference";
}

/* Arms [from, result) fit side by side. */
static uint32_t block_end(const struct experiment *x, uint32_t from)
{
  int column = LABEL;
  uint32_t a = from;

  while (a < x->scenario->narms) {
    if (!x->arm[a].skipped)
      column += width_of(x->scenario, a);
    if (column > REPORT_WIDTH && a > from)
      break;
    a++;
  }
  return a;
}

/* Names of the arms, and what their columns hold. */
static void heading(const struct experiment *x, uint32_t from, uint32_t to, FILE *out)
{
  const struct scenario *s = x->scenario;
  struct text_line names = {0}, heads = {0};

  text_add(&names, "%-*s", LABEL, "");
  text_add(&heads, "%-*s", LABEL, x->partial ? "PARTIAL" : "");
  for (uint32_t a = from; a < to; a++) {
    if (x->arm[a].skipped)
      continue;
    text_add(&names, "%*.*s", width_of(s, a), width_of(s, a) - 2, s->arm[a].id);
    if (has_reference(s, a))
      text_add(&heads, "%*s%*s%*s", OURS, "lull", REFERENCE, column_source(s), DIFFERENCE, "diff");
    else
      text_add(&heads, "%*s", width_of(s, a), "lull");
  }
  text_end(&names, out);
  text_end(&heads, out);
}

/* One arm's cells of a row. */
static void cells(const struct experiment *x, uint32_t arm, const struct row *r,
                  struct text_line *line)
{
  const struct scenario *s = x->scenario;
  double ours = verdict_value(x, arm, r->metric), theirs = parts_reference(s, arm, r->metric);
  struct text_cell cell = text_number(ours * r->scale, r->decimals);

  if (r->metric == METRIC_RATIO && (int)arm == s->baseline)
    cell = (struct text_cell){"baseline"};
  if (!has_reference(s, arm))
    text_add(line, " %*s", width_of(s, arm) - 1, cell.s);
  else if (isnan(theirs))
    text_add(line, " %*s%*s", OURS - 1, cell.s, REFERENCE + DIFFERENCE, "");
  else
    text_add(line, " %*s %*s %*s", OURS - 1, cell.s, REFERENCE - 1,
             text_number(theirs * r->scale, r->decimals).s, DIFFERENCE - 1,
             text_difference(ours, theirs).s);
}

/* How many requests stand behind the percentiles of TTFT or, tpot, of TPOT. */
static void samples(const struct experiment *x, uint32_t from, uint32_t to, int tpot, FILE *out)
{
  struct text_line line = {0};

  text_add(&line, "%-*s", LABEL, tpot ? "Live requests with TPOT" : "Live requests with TTFT");
  for (uint32_t a = from; a < to; a++) {
    const struct summary *p = &x->arm[a].pooled;

    if (x->arm[a].skipped)
      continue;
    if (has_reference(x->scenario, a))
      text_add(&line, " %*zu%*s", OURS - 1, (size_t)(tpot ? p->tpot.n : p->ttft.n),
               REFERENCE + DIFFERENCE, "");
    else
      text_add(&line, " %*zu", width_of(x->scenario, a) - 1,
               (size_t)(tpot ? p->tpot.n : p->ttft.n));
  }
  text_end(&line, out);
}

/* Metrics of the arms that fit side by side. */
static void block(const struct experiment *x, uint32_t from, uint32_t to, FILE *out)
{
  fputc('\n', out);
  heading(x, from, to, out);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct text_line line = {0};

    if (!is_said(x, &rows[i]))
      continue;
    if (rows[i].blank)
      fputc('\n', out);
    text_add(&line, "%-*s", LABEL, rows[i].label);
    for (uint32_t a = from; a < to; a++)
      if (!x->arm[a].skipped)
        cells(x, a, &rows[i], &line);
    text_end(&line, out);
  }
  samples(x, from, to, 0, out);
  samples(x, from, to, 1, out);
}

/* Has the scenario a class that somebody waits for? */
static int has_live(const struct scenario *s)
{
  for (uint32_t c = 0; c < s->nclasses; c++)
    if (s->cls[c].interactive)
      return 1;
  return 0;
}

/* Costs of an arm's steps that nobody measured. */
static void misses(const char *arm, const struct summary *s, FILE *out)
{
  char kinds[320], line[512];

  if (!s->misses.steps)
    return;
  parts_misses(&s->misses, kinds, sizeof kinds);
  snprintf(line, sizeof line, "%s: %llu of %llu steps were costed outside what was measured (%s).",
           arm, (unsigned long long)s->misses.steps, (unsigned long long)s->steps, kinds);
  text_wrap(out, "", 0, line);
}

/* What a reader must know of an arm before its figures. */
static void remarks(const struct experiment *x, FILE *out)
{
  const struct scenario *s = x->scenario;

  for (uint32_t a = 0; a < s->narms; a++) {
    const struct summary *p = &x->arm[a].pooled;

    if (x->arm[a].skipped)
      continue;
    if (s->arm[a].policy && s->arm[a].policy->needs & LULL_NEED_FORESIGHT)
      fprintf(out, "%s: sees the future, not deployable; an upper bound only.\n", s->arm[a].id);
    if (!p->finished)
      fprintf(out, "%s: no completed requests.\n", s->arm[a].id);
    else if (!base_sample_is_exact(&p->ttft))
      fprintf(out, "%s: percentiles of more than %d requests are binned, within 0.1%%.\n",
              s->arm[a].id, BASE_SAMPLE_EXACT);
    else if (has_live(s) && !p->ttft.n)
      fprintf(out, "%s: no completed live requests (%llu offered).\n", s->arm[a].id,
              (unsigned long long)p->live_offered);
    misses(s->arm[a].id, p, out);
    if ((int)a == s->baseline && !x->arm[a].qualified && !p->partial && p->runs)
      fprintf(out, "%s: not qualified as a baseline in every seed (live attainment below %g).\n",
              s->arm[a].id, s->qualify_attainment);
  }
}

int report_headline(const struct experiment *x)
{
  const struct scenario *s = x->scenario;
  int first = -1;

  for (uint32_t g = 0; g < s->ngates; g++) {
    int a = verdict_arm(s, s->gate[g].arm);

    if (a >= 0 && !x->arm[a].skipped && !strcmp(s->gate[g].metric, "ratio"))
      return a;
  }
  for (uint32_t a = 0; a < s->narms; a++) {
    if (x->arm[a].skipped)
      continue;
    if ((int)a != s->baseline)
      return (int)a;
    if (first < 0)
      first = (int)a;
  }
  return first;
}

int report_table(const struct experiment *x, FILE *out, struct base_error *e)
{
  uint32_t from = 0, narms = x->scenario->narms;

  parts_opening(x, 0, out);
  while (from < narms) {
    uint32_t to = block_end(x, from);

    block(x, from, to, out);
    from = to;
  }
  remarks(x, out);
  parts_headline(x, out);
  parts_gates(x, out);
  parts_seeds(x, out);
  parts_jobs(x, out);
  parts_accounts(x, out);
  if (x->partial)
    fputs("\nPARTIAL: the run was stopped; figures cover what was done until then.\n", out);
  return text_done(out, e);
}
