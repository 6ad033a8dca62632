/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the headline owes to every parameter: each moved by a tenth down and up, all else equal. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ledger/verdict.h"
#include "sim/report/move.h"
#include "sim/report/parts.h"
#include "sim/report/report.h"
#include "sim/report/rerun.h"
#include "sim/report/text.h"

/* The headline figure of an experiment whose scenario has the arms of t's. */
static double figure_of(const struct report_explain *t, const struct experiment *x)
{
  return t->arm < 0 ? NAN : verdict_value(x, (uint32_t)t->arm, t->metric);
}

/* Attributes that are not quantities: a number there is a name. */
static int is_name(const char *target)
{
  static const char *const names[] = {"@seeds", "@gpu", "@id", "@sha256", "@version"};
  size_t n = strlen(target);

  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t k = strlen(names[i]);

    if (n >= k && !strcmp(target + n - k, names[i]))
      return 1;
  }
  return 0;
}

/* Runs with the parameter at `value`. 0: the move is filled; 1: no valid scenario there, be it that
 * the reader or that the world or a policy refuses it. */
static int try_value(struct rerun *r, struct report_explain *t, const char *target,
                     const char *value, struct report_move *m, struct base_error *e)
{
  struct base_error failure = {0};
  struct rerun_result result;

  if (rerun_open(r, target, value, &result, &failure)) {
    if (failure.code == BASE_INPUT)
      return 1;
    return base_fail_at(e, failure.code, failure.file, failure.line, "with %s = %s: %s", target,
                        value, failure.text);
  }
  t->partial |= result.x->partial;
  m->moved = 1;
  snprintf(m->value, sizeof m->value, "%s", value);
  m->figure = figure_of(t, result.x);
  m->change = t->figure > 0 ? m->figure / t->figure - 1 : NAN;
  rerun_close(&result);
  return 0;
}

/* One move: the exact tenth where the attribute takes it, else the nearest whole number. */
static int move(struct rerun *r, struct report_explain *t, const struct scenario_parameter *p,
                int tenths, struct report_move *m, struct base_error *e)
{
  char exact[64], whole[64];
  int rc;

  *m = (struct report_move){.figure = NAN, .change = NAN};
  if (!p->value || is_name(p->target) || move_exact(p->value, tenths, exact, sizeof exact))
    return 0;
  rc = try_value(r, t, p->target, exact, m, e);
  if (rc != 1)
    return rc;
  if (move_whole(p->value, tenths, whole, sizeof whole) || !strcmp(exact, whole))
    return 0;
  return try_value(r, t, p->target, whole, m, e) < 0 ? -1 : 0;
}

/* The only arm that reruns need, or NULL where the baseline would not come along with it. */
static const char *arm_needed(const struct scenario *s, const struct report_explain *t)
{
  if (t->arm < 0 || s->baseline < 0)
    return t->arm < 0 ? NULL : s->arm[t->arm].id;
  for (uint32_t g = 0; g < s->ngates; g++)
    if (!strcmp(s->gate[g].metric, "ratio") && verdict_arm(s, s->gate[g].arm) == t->arm)
      return s->arm[t->arm].id;
  return NULL;
}

int report_explain(const struct report_source *source, const struct experiment *x,
                   struct report_explain *out, struct base_error *e)
{
  const struct scenario *s = x->scenario;
  struct rerun r = {.source = source, .total = 2 * s->nparameters};

  *out = (struct report_explain){.scenario = s, .arm = report_headline(x)};
  out->metric = s->baseline >= 0 ? METRIC_RATIO : METRIC_USEFUL_RATE;
  out->figure = figure_of(out, x);
  r.only_arm = arm_needed(s, out);
  out->row = calloc(s->nparameters + 1, sizeof *out->row);
  if (!out->row)
    return base_fail_memory(e);
  for (uint32_t i = 0; i < s->nparameters && !out->partial; i++) {
    struct report_explain_row *row = &out->row[i];

    if (rerun_stopped(&r)) {
      out->partial = 1;
      break;
    }
    row->parameter = &s->parameter[i];
    snprintf(r.what, sizeof r.what, "explain %.80s", s->parameter[i].name);
    if (move(&r, out, row->parameter, -1, &row->down, e))
      return -1;
    r.done++;
    if (move(&r, out, row->parameter, 1, &row->up, e))
      return -1;
    r.done++;
    out->n++;
  }
  return 0;
}

/* "+1.3%", with the value where it is not the plain tenth; "-": cannot be moved. */
static void cell(const struct report_move *m, const char *value, int tenths, FILE *out)
{
  char exact[64], text[128];

  if (!m->moved)
    snprintf(text, sizeof text, "-");
  else if (move_exact(value, tenths, exact, sizeof exact) || strcmp(exact, m->value))
    snprintf(text, sizeof text, "(at %s) %s", m->value,
             isnan(m->change) ? "undefined" : text_change(m->change).s);
  else
    snprintf(text, sizeof text, "%s", isnan(m->change) ? "undefined" : text_change(m->change).s);
  fprintf(out, "%20s", text);
}

int report_explain_print(const struct report_explain *t, FILE *out, struct base_error *e)
{
  const struct scenario *s = t->scenario;
  double scale = t->metric == METRIC_RATIO ? 1 : 1e-6;

  fprintf(out, "\nParameters and what they do to %s%s of %s (%s)\n\n",
          t->metric == METRIC_RATIO ? "the ratio" : "the useful Mtokens/GPU-hour",
          t->partial ? " (PARTIAL)" : "", t->arm < 0 ? "no arm" : s->arm[t->arm].id,
          text_number(t->figure * scale, 4).s);
  fprintf(out, "%-36s%-20s%-10s%20s%20s\n", "Parameter", "value", "class", "at -10%", "at +10%");
  for (uint32_t i = 0; i < t->n; i++) {
    const struct report_explain_row *row = &t->row[i];
    const struct scenario_parameter *p = row->parameter;
    const char *value = p->value ? p->value : "";

    fprintf(out, "%-35.35s %-19.19s %-10s", p->name && *p->name ? p->name : p->target, value,
            parts_origin(p->origin));
    cell(&row->down, value, -1, out);
    cell(&row->up, value, 1, out);
    fputc('\n', out);
    if (p->reason && *p->reason)
      text_wrap(out, "", 6, p->reason);
  }
  text_wrap(out, "", 0,
            "set: from the reference; fitted: to the baseline's figures; inferred: from another "
            "arm's result; assumed: for the reason given. Whole numbers move by at least 1; \"-\": "
            "not a quantity, or not valid when moved.");
  return text_done(out, e);
}

void report_explain_free(struct report_explain *t)
{
  free(t->row);
  *t = (struct report_explain){0};
}
