/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Host time a step, fitted: whole microseconds, minimising over the first half of the requests by
 * arrival the mean of |error| / measured of E2E and of TPOT, half of each. All requests are
 * simulated each time, since those of the second half share batches with the first.
 *
 * Search: every millisecond from 0 to LAST_MS, then golden section between the neighbours of the
 * best, of equals the smaller. Integers throughout, so the path is the same everywhere.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/report/rerun.h"
#include "sim/validate/stats.h"
#include "sim/validate/validate.h"

enum { LAST_MS = 20, US_PER_MS = 1000 };
static const char target[] = "s:engine/s:host/@step";
static const lull_time ps_per_us = 1000000;

struct search {
  const struct report_source *source;
  struct validation *v;
  struct experiment_options run; /* the source's, without its own progress */
  int64_t best_us;
  double best;
  struct validate_side side; /* of the best */
};

/* The objective: samples of E2E and TPOT of the requests [0, split). */
static int objective(const struct validation *v, const struct validate_side *side, double *value,
                     struct base_error *e)
{
  uint64_t n = v->fit.split, tpots = 0;
  int64_t *x = calloc(4 * n + 1, sizeof *x);
  if (!x)
    return base_fail_memory(e);
  int64_t *y = x + n, *tx = y + n, *ty = tx + n;
  for (uint64_t i = 0; i < n; i++) {
    const struct validate_request *a = &v->side[VALIDATE_MEASURED].request[i];
    const struct validate_request *b = &side->request[i];
    x[i] = a->last - a->arrival;
    y[i] = b->last - b->arrival;
    if (a->output < 2)
      continue;
    tx[tpots] = (a->last - a->first) / (a->output - 1);
    ty[tpots++] = (b->last - b->first) / (b->output - 1);
  }
  double e2e = stats_error(x, y, n), tpot = stats_error(tx, ty, tpots);
  *value = isnan(tpot) ? e2e : (e2e + tpot) / 2;
  free(x);
  return 0;
}

/* Simulates with a value; keeps the side of the best. */
static int attempt(struct search *f, int64_t us, double *value, struct base_error *e)
{
  struct validate_side side = {0};
  struct experiment *x = NULL;
  char text[32];
  snprintf(text, sizeof text, "%lldus", (long long)us);
  struct scenario *s = rerun_scenario(f->source, target, us ? text : "0", e);
  if (!s)
    return -1;
  struct scenario as_run = *s;
  int bad = validate_simulate(&as_run, f->v, &f->run, &x, &side, e) ||
            objective(f->v, &side, value, e);
  experiment_free(x);
  scenario_close(s);
  f->v->fit.runs++;
  if (!bad && (*value < f->best || (*value == f->best && us < f->best_us))) {
    f->best = *value;
    f->best_us = us;
    struct validate_side worse = f->side;
    f->side = side;
    side = worse;
  }
  validate_side_free(&side);
  return bad ? -1 : 0;
}

/* Golden section in [low, high], us; ends when nothing lies between the two probes. */
static int narrow(struct search *f, int64_t low, int64_t high, struct base_error *e)
{
  while (high - low > 2) {
    int64_t step = (high - low) * 382 / 1000; /* 1 or more, and 2 step < high - low */
    int64_t a = low + step, b = high - step;
    double at_a = 0, at_b = 0;
    if (attempt(f, a, &at_a, e) || attempt(f, b, &at_b, e))
      return -1;
    if (at_a <= at_b)
      high = b;
    else
      low = a;
  }
  double ignored = 0;
  return high - low == 2 ? attempt(f, low + 1, &ignored, e) : 0;
}

static int search(struct search *f, struct base_error *e)
{
  double ignored = 0;
  for (int64_t ms = 0; ms <= LAST_MS; ms++)
    if (attempt(f, ms * US_PER_MS, &ignored, e))
      return -1;
  int64_t low = f->best_us - US_PER_MS, high = f->best_us + US_PER_MS;
  return narrow(f, low > 0 ? low : 0, high < LAST_MS * US_PER_MS ? high : LAST_MS * US_PER_MS, e);
}

/* What the scenario's own value amounts to, beside the fitted one. */
static int conclude(struct search *f, struct base_error *e)
{
  struct validation *v = f->v;
  struct validate_fit *fit = &v->fit;
  uint64_t n = v->measured->n;
  fit->host = f->best_us * ps_per_us;
  fit->objective = f->best;
  fit->at_bound = f->best_us == LAST_MS * US_PER_MS;
  return objective(v, &v->side[VALIDATE_SIMULATED], &fit->objective_given, e) ||
                 validate_compare(&v->side[VALIDATE_MEASURED], &v->side[VALIDATE_SIMULATED],
                                  fit->split, n, &fit->second_given, e) ||
                 validate_compare(&v->side[VALIDATE_MEASURED], &f->side, fit->split, n,
                                  &fit->second, e)
             ? -1
             : 0;
}

int validate_fit_host(const struct report_source *source, struct validation *v,
                      struct base_error *e)
{
  const struct scenario_server *server = v->as_run.arm[v->arm].candidate[0].server;
  struct search f = {.source = source, .v = v, .best = INFINITY};
  if (v->measured->n < 2)
    return base_fail_at(e, BASE_INPUT, v->name, v->measured->row[0].line,
                        "a fit needs two requests: one to fit on, one to judge");
  if (source->run)
    f.run = *source->run;
  f.run.progress = NULL;
  v->fit = (struct validate_fit){.given = server[0].engine.cost.host_step,
                                 .split = v->measured->n / 2};
  int bad = search(&f, e) || conclude(&f, e);
  validate_side_free(&f.side);
  v->fit.done = !bad;
  return bad ? -1 : 0;
}
