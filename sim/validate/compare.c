/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Two sides of one run, metric by metric. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/validate/stats.h"
#include "sim/validate/validate.h"

static const double percent[VALIDATE_FIGURES] = {
    [VALIDATE_P50] = 0.5, [VALIDATE_P90] = 0.9, [VALIDATE_P95] = 0.95, [VALIDATE_P99] = 0.99};

static const lull_time window = 1000000000000; /* 1 s */

/* The same samples of both sides, paired by index as far as both reach. */
struct samples {
  int64_t *x[VALIDATE_SIDES];
  size_t n[VALIDATE_SIDES];
};

static void samples_free(struct samples *s)
{
  free(s->x[VALIDATE_MEASURED]);
  free(s->x[VALIDATE_SIMULATED]);
}

static int samples_room(struct samples *s, int side, size_t n, struct base_error *e)
{
  s->x[side] = calloc(n + 1, sizeof *s->x[side]);
  return s->x[side] ? 0 : base_fail_memory(e);
}

static void undefined(struct validate_figures *f)
{
  *f = (struct validate_figures){.ks = NAN, .correlation = NAN, .bias = NAN};
  for (int k = 0; k < VALIDATE_FIGURES; k++)
    f->figure[VALIDATE_MEASURED][k] = f->figure[VALIDATE_SIMULATED][k] = NAN;
}

/* All figures of the samples, `unit` of them a unit of the metric; sorts them. */
static void take(struct samples *s, double unit, struct validate_figures *f)
{
  size_t pairs = s->n[0] < s->n[1] ? s->n[0] : s->n[1];
  f->correlation = stats_correlation(s->x[VALIDATE_MEASURED], s->x[VALIDATE_SIMULATED], pairs);
  f->bias = stats_bias(s->x[VALIDATE_MEASURED], s->x[VALIDATE_SIMULATED], pairs);
  for (int side = 0; side < VALIDATE_SIDES; side++) {
    size_t n = s->n[side];
    f->n[side] = n;
    base_sort_int64(s->x[side], n);
    f->figure[side][VALIDATE_MEAN] = stats_mean(s->x[side], n) / unit;
    for (int k = VALIDATE_P50; k < VALIDATE_FIGURES; k++)
      f->figure[side][k] = n ? base_percentile_sorted(s->x[side], n, percent[k]) / unit : NAN;
  }
  f->ks = stats_ks(s->x[VALIDATE_MEASURED], s->n[VALIDATE_MEASURED], s->x[VALIDATE_SIMULATED],
                   s->n[VALIDATE_SIMULATED]);
}

/* ---------------------------------------------------------------------------- by request ---- */

/* A request's sample, ps; -1: it has none. A TPOT is floored to whole ps. */
static int64_t latency(const struct validate_request *q, int metric)
{
  if (metric == VALIDATE_TTFT)
    return q->first - q->arrival;
  if (metric == VALIDATE_E2E)
    return q->last - q->arrival;
  return q->output > 1 ? (q->last - q->first) / (q->output - 1) : -1;
}

static int compare_latency(const struct validate_side *side[VALIDATE_SIDES], uint64_t from,
                           uint64_t to, int metric, struct validate_figures *f,
                           struct base_error *e)
{
  struct samples s = {0};
  int bad = samples_room(&s, 0, to - from, e) || samples_room(&s, 1, to - from, e);
  for (int k = 0; k < VALIDATE_SIDES && !bad; k++)
    for (uint64_t i = from; i < to; i++) {
      int64_t x = latency(&side[k]->request[i], metric);
      if (x >= 0)
        s.x[k][s.n[k]++] = x;
    }
  if (!bad)
    take(&s, 1e12, f);
  samples_free(&s);
  return bad ? -1 : 0;
}

/* ------------------------------------------------------------------------------ over time ---- */

/* End of the last request; the first arrives at 0. */
static lull_time span_of(const struct validate_side *s)
{
  lull_time end = 0;
  for (uint64_t i = 0; i < s->n; i++)
    end = s->request[i].last > end ? s->request[i].last : end;
  return end;
}

/* Tokens of a request before t, when token k comes at first + floor(k (last - first) / (n - 1)). */
static int64_t tokens_before(const struct validate_request *q, lull_time t)
{
  if (t <= q->first)
    return 0;
  if (t > q->last)
    return q->output;
  base_int128 d = q->last - q->first;
  return (int64_t)(((base_int128)(t - q->first) * (q->output - 1) + d - 1) / d);
}

/* Adds a request's tokens to the whole windows, [0, n). */
static void add_tokens(const struct validate_request *q, int64_t *x, size_t n)
{
  for (size_t w = (size_t)(q->first / window); w < n && (lull_time)w * window <= q->last; w++)
    x[w] += tokens_before(q, (lull_time)(w + 1) * window) - tokens_before(q, (lull_time)w * window);
}

/* Adds the time that a request is in the system, ps, in each whole window. */
static void add_presence(const struct validate_request *q, int64_t *x, size_t n)
{
  for (size_t w = (size_t)(q->arrival / window); w < n && (lull_time)w * window < q->last; w++) {
    lull_time start = (lull_time)w * window, end = start + window;
    x[w] += (q->last < end ? q->last : end) - (q->arrival > start ? q->arrival : start);
  }
}

/* A mean over the run's whole time, exact: tokens a second, or requests in the system. */
static double mean_over_time(const struct validate_side *s, int metric, lull_time span)
{
  base_int128 sum = 0;
  for (uint64_t i = 0; i < s->n; i++) {
    const struct validate_request *q = &s->request[i];
    sum += metric == VALIDATE_THROUGHPUT ? (base_int128)q->output * window : q->last - q->arrival;
  }
  return span > 0 ? (double)sum / (double)span : NAN;
}

static int compare_series(const struct validate_side *side[VALIDATE_SIDES], int metric,
                          struct validate_figures *f, struct base_error *e)
{
  struct samples s = {0};
  double mean[VALIDATE_SIDES];
  int bad = 0;
  for (int k = 0; k < VALIDATE_SIDES && !bad; k++) {
    lull_time span = span_of(side[k]);
    s.n[k] = (size_t)(span / window);
    mean[k] = mean_over_time(side[k], metric, span);
    bad = samples_room(&s, k, s.n[k], e);
    for (uint64_t i = 0; i < side[k]->n && !bad; i++)
      (metric == VALIDATE_THROUGHPUT ? add_tokens : add_presence)(&side[k]->request[i], s.x[k],
                                                                  s.n[k]);
  }
  if (!bad) {
    take(&s, metric == VALIDATE_THROUGHPUT ? 1 : (double)window, f);
    for (int k = 0; k < VALIDATE_SIDES; k++)
      f->figure[k][VALIDATE_MEAN] = mean[k];
  }
  samples_free(&s);
  return bad ? -1 : 0;
}

/* ----------------------------------------------------------------------------------- gaps ---- */

/* Both sides binned alike; gaps have no partner, so neither correlation nor bias. */
static void compare_gaps(const struct validate_side *side[VALIDATE_SIDES],
                         struct validate_figures *f)
{
  for (int k = 0; k < VALIDATE_SIDES; k++) {
    const struct base_hist *h = &side[k]->itl;
    if (!h->bin || !h->n)
      continue;
    f->n[k] = h->n;
    f->figure[k][VALIDATE_MEAN] = (double)h->sum / (double)h->n / 1e12;
    for (int p = VALIDATE_P50; p < VALIDATE_FIGURES; p++)
      f->figure[k][p] = base_hist_percentile(h, percent[p]) / 1e12;
  }
  f->ks = stats_ks_hist(&side[VALIDATE_MEASURED]->itl, &side[VALIDATE_SIMULATED]->itl);
}

int validate_compare(const struct validate_side *measured, const struct validate_side *simulated,
                     uint64_t from, uint64_t to, struct validate_comparison *out,
                     struct base_error *e)
{
  const struct validate_side *side[VALIDATE_SIDES] = {measured, simulated};
  for (int m = 0; m < VALIDATE_METRICS; m++)
    undefined(&out->metric[m]);
  if (compare_latency(side, from, to, VALIDATE_TTFT, &out->metric[VALIDATE_TTFT], e) ||
      compare_latency(side, from, to, VALIDATE_TPOT, &out->metric[VALIDATE_TPOT], e) ||
      compare_latency(side, from, to, VALIDATE_E2E, &out->metric[VALIDATE_E2E], e))
    return -1;
  if (from > 0 || to < measured->n)
    return 0;
  compare_gaps(side, &out->metric[VALIDATE_ITL]);
  return compare_series(side, VALIDATE_THROUGHPUT, &out->metric[VALIDATE_THROUGHPUT], e) ||
                 compare_series(side, VALIDATE_CONCURRENCY, &out->metric[VALIDATE_CONCURRENCY], e)
             ? -1
             : 0;
}

double validate_absolute(const struct validate_figures *f, int figure)
{
  return f->figure[VALIDATE_SIMULATED][figure] - f->figure[VALIDATE_MEASURED][figure];
}

double validate_relative(const struct validate_figures *f, int figure)
{
  double measured = f->figure[VALIDATE_MEASURED][figure];
  return measured > 0 ? f->figure[VALIDATE_SIMULATED][figure] / measured - 1 : NAN;
}
