/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/speed_load.h"

#include <gsl/gsl_randist.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "sim/scenario/scenario.h"

#define CONV "traces/azure-llm-2023-conv.csv.gz"
#define CODE "traces/azure-llm-2023-code.csv.gz"

/* Blocks of a pool that never binds. */
enum { WIDE = 1 << 22 };

enum { PATH_SIZE = 4096 };

/* Who serves, and W1's requests. */
#define SERVED(n, seqs, blocks, by)                                                                \
  .servers = (n), .max_seqs = (seqs), .kv_blocks = (blocks), .policy = (by)
#define ONE_SERVER SERVED(1, 256, WIDE, "fcfs")
#define POISSON(a_second, prompt, output)                                                          \
  .rate = (a_second), .alone = {{(prompt), (prompt)}, {(output), (output)}}
#define BACKLOG(n, least, most) .below = (n), .batch = {{128, 128}, {(least), (most)}}

const struct speed_spec speed_table[] = {
    {.name = "W1", .what = "Poisson 6.45/s, 512+512", POISSON(6.45, 512, 512), ONE_SERVER},
    {.name = "W2", .what = "Azure conversation lengths", .rate = 6.45, .trace = CONV, ONE_SERVER},
    {.name = "W3",
     .what = "Azure code trace, its times",
     .trace = CODE,
     .trace_times = 1,
     ONE_SERVER},
    {.name = "W4", .what = "saturated, 256 running", BACKLOG(320, 8, 24), ONE_SERVER},
    {.name = "W5",
     .what = "four replicas, 25.8/s",
     POISSON(4 * 6.45, 512, 512),
     SERVED(4, 256, WIDE, "fcfs")},
    {.name = "W6",
     .what = "priority, backlog, tight KV",
     .rate = 8,
     .alone = {{128, 384}, {64, 192}},
     .below = 64,
     .batch = {{256, 768}, {128, 384}},
     SERVED(1, 256, 2400, "priority")},
    {.name = "W7", .what = "c4-live-batch, speculation", .flags = SPEED_SCENARIO},
    {.name = "W1-log",
     .what = "W1, decision log hashed",
     POISSON(6.45, 512, 512),
     ONE_SERVER,
     .flags = SPEED_LOG},
    {.name = "W1-tables",
     .what = "W1, costs from tables",
     POISSON(6.45, 512, 512),
     ONE_SERVER,
     .flags = SPEED_CALIBRATED},
    {.name = "out-10", .what = "W1 with 10 output tokens", POISSON(6.45, 512, 10), ONE_SERVER},
    {.name = "out-1000",
     .what = "W1 with 1,000 output tokens",
     POISSON(6.45, 512, 1000),
     ONE_SERVER},
    {.name = "run-8",
     .what = "saturated, 8 running",
     BACKLOG(16, 64, 192),
     SERVED(1, 8, WIDE, "fcfs")},
    {.name = "run-256", .what = "saturated, 256 running", BACKLOG(512, 64, 192), ONE_SERVER},
};
const size_t speed_count = sizeof speed_table / sizeof speed_table[0];

/* 3 ms a step, 20 us a token, 18 ns a token of context, 1.5 ns an attended pair of a prompt. */
const struct cost_analytic speed_cost = {
    .base = 46875000, .per_token = 312500, .per_ctx = 288, .per_pair_q16 = 1536000};

const struct speed_spec *speed_find(const char *name)
{
  for (size_t i = 0; i < speed_count; i++)
    if (!strcmp(speed_table[i].name, name))
      return &speed_table[i];
  return NULL;
}

/* ---- data files ---- */

int speed_load_check(const struct speed_spec *spec, const char *data_dir, struct base_error *e)
{
  char path[PATH_SIZE];
  return spec->trace ? scenario_data_path(data_dir, spec->trace, 0, path, sizeof path, e) : 0;
}

static int push_row(struct speed_load *l, const struct trace_row *row, struct base_error *e)
{
  if (l->nrows == l->room) {
    uint64_t room = l->room ? 2 * l->room : 4096;
    struct trace_row *more = realloc(l->row, room * sizeof *more);
    if (!more)
      return base_fail_memory(e);
    l->row = more;
    l->room = room;
  }
  l->row[l->nrows++] = *row;
  return 0;
}

/* One pass lasts as long as the trace and one mean gap, so that the seam is as dense as the rest.
 */
static int read_trace(struct speed_load *l, const char *data_dir, struct base_error *e)
{
  char path[PATH_SIZE];
  struct trace_row row;
  int got = -1;
  if (scenario_data_path(data_dir, l->spec->trace, 0, path, sizeof path, e))
    return -1;
  struct trace *t = trace_open(path, TRACE_AZURE, NULL, e);
  while (t && (got = trace_next(t, &row, e)) == 1) {
    if (push_row(l, &row, e)) {
      got = -1;
      break;
    }
  }
  trace_close(t);
  if (got < 0)
    return -1;
  lull_time span = 1000 * (l->row[l->nrows - 1].t_ns - l->row[0].t_ns);
  l->lap = span + (l->nrows > 1 ? span / (lull_time)(l->nrows - 1) : 1);
  return 0;
}

/* ---- the stream ---- */

int speed_load_open(struct speed_load *l, const struct speed_spec *spec, const char *data_dir,
                    uint64_t n, struct base_error *e)
{
  enum { SEED = 1 };
  *l = (struct speed_load){.spec = spec, .n = n};
  if (spec->trace && read_trace(l, data_dir, e)) {
    speed_load_close(l);
    return -1;
  }
  l->gaps = base_rng_open(SEED, "bench/gaps");
  l->sizes = base_rng_open(SEED, "bench/sizes");
  l->items = base_rng_open(SEED, "bench/items");
  if (l->gaps && l->sizes && l->items)
    return 0;
  speed_load_close(l);
  return base_fail_memory(e);
}

void speed_load_close(struct speed_load *l)
{
  if (l->gaps)
    gsl_rng_free(l->gaps);
  if (l->sizes)
    gsl_rng_free(l->sizes);
  if (l->items)
    gsl_rng_free(l->items);
  free(l->row);
  *l = (struct speed_load){0};
}

static uint32_t draw_tokens(const struct speed_tokens *t, gsl_rng *r)
{
  if (t->min == t->max)
    return t->min;
  return t->min + (uint32_t)(gsl_rng_get(r) % (t->max - t->min + 1));
}

static void draw_lengths(const struct speed_lengths *d, gsl_rng *r, struct world_arrival *out)
{
  out->prompt = draw_tokens(&d->prompt, r);
  out->output = draw_tokens(&d->output, r);
}

int speed_load_next(void *ctx, struct world_arrival *out, struct base_error *e)
{
  enum { LAST_DAY = 100 }; /* a time holds 106 */
  static const lull_time last = (lull_time)LAST_DAY * 86400 * 1000000000000;
  struct speed_load *l = ctx;
  if (l->given == l->n || !speed_has_live(l->spec))
    return 0;
  *out = (struct world_arrival){0};
  if (l->spec->trace_times)
    out->time = l->base + 1000 * (l->row[l->at].t_ns - l->row[0].t_ns);
  else
    out->time = l->last + (lull_time)rint(gsl_ran_exponential(l->gaps, 1e12 / l->spec->rate));
  if (out->time > last)
    return base_fail(e, BASE_USAGE,
                     "%s: so many requests last longer than %d days, more than a time can hold",
                     l->spec->name, LAST_DAY);
  if (l->nrows) {
    out->prompt = l->row[l->at].prompt;
    out->output = l->row[l->at].output;
    if (++l->at == l->nrows) {
      l->at = 0;
      l->base += l->lap;
    }
  } else {
    draw_lengths(&l->spec->alone, l->sizes, out);
  }
  l->last = out->time;
  l->given++;
  return 1;
}

int speed_load_refill(void *ctx, int cls, uint64_t index, struct world_arrival *out,
                      struct base_error *e)
{
  struct speed_load *l = ctx;
  (void)cls, (void)index, (void)e;
  if (l->given == l->n)
    return 0;
  *out = (struct world_arrival){0};
  draw_lengths(&l->spec->batch, l->items, out);
  l->given++;
  return 1;
}

/* ---- figures ---- */

double speed_cpu_seconds(void)
{
  struct timespec t;
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t))
    return 0;
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double speed_median(double *x, int n, double *spread)
{
  qsort(x, (size_t)n, sizeof *x, by_value);
  double median = n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
  *spread = median > 0 ? (x[n - 1] - x[0]) / median : 0;
  return median;
}
