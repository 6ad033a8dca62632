/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Timing the steps of a plan, round by round. */
#include "calib/measure.h"

#include <stdlib.h>

#include "base/hist.h"
#include "base/rng.h"

enum { PROBES = 25, PARTS = 6, WARM = 3 };
#define WARM_MOST INT64_C(20000000000) /* ps */

void measure_options_default(struct measure_options *o, int quick)
{
  *o = (struct measure_options){.budget_ns = (quick ? INT64_C(8) : INT64_C(55)) * 1000000000,
                                .least = quick ? 3 : 5,
                                .most = quick ? 50 : 400};
}

/* -------------------------------------------------------------------------------- probe ---- */

static int64_t median(int64_t *x, size_t n)
{
  base_sort_int64(x, n);
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

int measure_probe(const struct bench *b, const struct measure_limits *most, uint32_t times,
                  int64_t *ps, struct base_error *e)
{
  uint32_t rows = most->max_seqs / 2, ctx = (most->max_context - 1) / 2;
  uint32_t tokens = most->token_budget / 2 < ctx ? most->token_budget / 2 : ctx;
  const struct bench_chunk chunk = {0, tokens};
  uint32_t *each = calloc((size_t)rows + 1, sizeof *each);
  int64_t *sample = calloc((size_t)times + 1, sizeof *sample);
  int bad = each && sample ? 0 : base_fail_memory(e);
  for (uint32_t i = 0; !bad && i < rows; i++)
    each[i] = ctx;
  const struct bench_step s = {&chunk, each, tokens != 0, rows};
  for (uint32_t i = 0; !bad && i < times; i++) {
    struct bench_times t;
    bad = b->step(b->ctx, &s, &t, e);
    sample[i] = bad ? 0 : bench_total(&t);
  }
  if (!bad)
    *ps = median(sample, times);
  free(each);
  free(sample);
  return bad ? -1 : 0;
}

double measurement_noise(const struct measurement *m)
{
  int64_t a = m->probe[0], b = m->probe[1], least = a < b ? a : b;
  return least > 0 ? (double)((a < b ? b : a) - least) / (double)least : 0;
}

/* -------------------------------------------------------------------------------- rounds ---- */

static void shuffle(size_t *order, size_t n, gsl_rng *r)
{
  for (size_t i = n; i > 1; i--) {
    size_t j = gsl_rng_uniform_int(r, i), x = order[i - 1];
    order[i - 1] = order[j];
    order[j] = x;
  }
}

static int is_stopped(const struct measure_options *o)
{
  return o->stop && *o->stop;
}

/* In a run a step is one of many alike, so it is run some times before it is timed: after one pass
 * alone a cache that is shared holds less of it than in the long run. What takes long does not fit
 * into caches anyway. */
static int run_point(const struct bench *b, const struct measure_point *p, struct bench_times *out,
                     struct base_error *e)
{
  for (int i = 0; i < WARM; i++) {
    if (b->step(b->ctx, &p->step, out, e))
      return -1;
    if (bench_total(out) > WARM_MOST)
      break;
  }
  return b->step(b->ctx, &p->step, out, e);
}

/* A round's times go to time[round]; the first is to warm up, and is overwritten by the next. */
static int run_round(struct measurement *m, const struct bench *b, const struct measure_options *o,
                     const size_t *order, uint32_t round, struct base_error *e)
{
  for (size_t i = 0; i < m->n; i++) {
    struct measure_point *p = &m->point[order[i]];
    if (is_stopped(o))
      return base_fail(e, BASE_INCOMPLETE, "stopped by a signal; nothing is written");
    if (run_point(b, p, &p->time[round], e))
      return -1;
  }
  return 0;
}

/* How much of the time, or of the rounds, is over. */
static double part_done(const struct measure_options *o, int64_t spent, uint32_t rounds)
{
  double by_time = (double)spent / (double)o->budget_ns, by_rounds = (double)rounds / o->most;
  double least = (double)rounds / o->least;
  double part = by_time > by_rounds ? by_time : by_rounds;
  return part > least ? least : part > 1 ? 1 : part;
}

static int run_rounds(struct measurement *m, const struct bench *b, const struct measure_options *o,
                      size_t *order, gsl_rng *r, struct base_error *e)
{
  int64_t began = b->clock(b->ctx);
  if (run_round(m, b, o, order, 0, e))
    return -1;
  for (uint32_t round = 0; round < o->most; round++) {
    int64_t spent = b->clock(b->ctx) - began;
    if (round >= o->least && spent >= o->budget_ns)
      break;
    if (o->progress)
      o->progress(o->progress_ctx, "measuring steps", part_done(o, spent, round));
    shuffle(order, m->n, r);
    if (run_round(m, b, o, order, round, e))
      return -1;
    m->rounds = round + 1;
  }
  return 0;
}

/* -------------------------------------------------------------------------------- medians ---- */

/* Least and median of one of the numbers of a point's times. */
static void summarise(const struct measure_point *p, uint32_t n, size_t part, int64_t *scratch,
                      int64_t *low, int64_t *mid)
{
  for (uint32_t i = 0; i < n; i++) {
    const struct bench_times *t = &p->time[i];
    const int64_t v[] = {t->host, t->once, t->layers, t->attention, t->head, bench_total(t)};
    scratch[i] = v[part];
  }
  *mid = median(scratch, n);
  *low = scratch[0];
}

static void take_medians(struct measurement *m, int64_t *scratch)
{
  for (size_t i = 0; i < m->n; i++) {
    struct measure_point *p = &m->point[i];
    int64_t *const low[] = {&p->low.host,      &p->low.once, &p->low.layers,
                            &p->low.attention, &p->low.head, &p->total_low};
    int64_t *const mid[] = {&p->mid.host,      &p->mid.once, &p->mid.layers,
                            &p->mid.attention, &p->mid.head, &p->total_mid};
    for (size_t part = 0; part < PARTS; part++)
      summarise(p, m->rounds, part, scratch, low[part], mid[part]);
  }
}

static int make_room(struct measurement *m, const struct measure_options *o, struct base_error *e)
{
  for (size_t i = 0; i < m->n; i++) {
    m->point[i].time = calloc(o->most, sizeof *m->point[i].time);
    if (!m->point[i].time)
      return base_fail_memory(e);
  }
  return 0;
}

int measurement_run(struct measurement *m, const struct bench *b, const struct measure_options *o,
                    struct base_error *e)
{
  size_t *order = calloc(m->n + 1, sizeof *order);
  int64_t *scratch = calloc(o->most + 1, sizeof *scratch);
  gsl_rng *r = base_rng_open(1, "calibrate/order");
  int bad = order && scratch && r ? make_room(m, o, e) : base_fail_memory(e);
  for (size_t i = 0; !bad && i < m->n; i++)
    order[i] = i;
  bad = bad || measure_probe(b, &m->most, PROBES, &m->probe[0], e) ||
        run_rounds(m, b, o, order, r, e) || measure_probe(b, &m->most, PROBES, &m->probe[1], e);
  if (!bad)
    take_medians(m, scratch);
  if (r)
    gsl_rng_free(r);
  free(order);
  free(scratch);
  return bad ? -1 : 0;
}
