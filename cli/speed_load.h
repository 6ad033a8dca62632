/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The workloads of `lull bench`: where their requests come from and what serves them. The bare loop
 * of tests/bench/ draws from the same, so that both do the same work.
 *
 *   const struct speed_spec *spec = speed_find("W1");
 *   struct speed_load load;
 *   if (speed_load_open(&load, spec, NULL, 1000000, &e))
 *     return -1;
 *   ... speed_load_next(&load, &arrival, &e) ...
 *   speed_load_close(&load);
 */
#ifndef CLI_SPEED_LOAD_H
#define CLI_SPEED_LOAD_H

#include <gsl/gsl_rng.h>

#include "models/cost.h"
#include "models/trace.h"
#include "sim/world/world.h"

/* Uniform between two token counts, both included. */
struct speed_tokens {
  uint32_t min, max;
};
struct speed_lengths {
  struct speed_tokens prompt, output;
};

enum speed_flag {
  SPEED_LOG = 1,        /* the decision log is hashed, line by line */
  SPEED_CALIBRATED = 2, /* costs from measured kernel tables, else the analytic formula */
  SPEED_SCENARIO = 4    /* the built-in scenario's shared-priority arm; all else here is unused */
};

struct speed_spec {
  const char *name, *what;
  double rate;                /* Poisson arrivals a second; 0: none */
  const char *trace;          /* data file that gives the lengths, row after row, again and again */
  int trace_times;            /* and the arrivals: end to end */
  struct speed_lengths alone; /* of what arrives by itself, without a trace */
  uint32_t below;             /* a backlog keeps so many requests unfinished; 0: none */
  struct speed_lengths batch; /* of its items */
  uint32_t servers;           /* each on a GPU of its own */
  uint32_t max_seqs, kv_blocks;
  const char *policy;
  unsigned flags; /* enum speed_flag */
};

extern const struct speed_spec speed_table[];
extern const size_t speed_count;
const struct speed_spec *speed_find(const char *name); /* NULL: unknown */

enum { SPEED_TOKEN_BUDGET = 8192, SPEED_BLOCK_TOKENS = 16, SPEED_LAYERS = 36 };
/* What a step costs without SPEED_CALIBRATED, ticks: an 8B model on a fast GPU, roughly. */
extern const struct cost_analytic speed_cost;

/* Requests of a workload, drawn when they are asked for: `n` in all. */
struct speed_load {
  const struct speed_spec *spec;
  uint64_t n, given;
  gsl_rng *gaps, *sizes, *items;
  lull_time last;
  struct trace_row *row; /* [nrows] of the trace */
  uint64_t nrows, room, at;
  lull_time lap, base; /* length of one pass over the trace; where the present one began */
};

/* Is the data file that a workload needs there? data_dir as the option of that name. -1: no. */
int speed_load_check(const struct speed_spec *spec, const char *data_dir, struct base_error *e);
int speed_load_open(struct speed_load *l, const struct speed_spec *spec, const char *data_dir,
                    uint64_t n, struct base_error *e);
void speed_load_close(struct speed_load *l);
/* As struct world_source says; ctx is the load. */
int speed_load_next(void *ctx, struct world_arrival *out, struct base_error *e);
int speed_load_refill(void *ctx, int cls, uint64_t index, struct world_arrival *out,
                      struct base_error *e);
/* Classes: what arrives by itself, then the backlog. */
static inline int speed_has_live(const struct speed_spec *s)
{
  return s->rate > 0 || s->trace_times;
}
static inline uint8_t speed_batch_class(const struct speed_spec *s)
{
  return (uint8_t)speed_has_live(s);
}

/* When everything ended, in one number that does not depend on the order in which it is told:
 * the sum of these over all requests. */
static inline uint64_t speed_mix(uint64_t id, lull_time end)
{
  uint64_t x = ((uint64_t)end + 0x9e3779b97f4a7c15u * (id + 1)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 31) * 0x94d049bb133111ebu;
  return x ^ x >> 29;
}

/* Processor time of this process so far, s. Other programs on the machine do not count in it. */
double speed_cpu_seconds(void);
/* Sorts; *spread: the range as a fraction of the median. */
double speed_median(double *x, int n, double *spread);

#endif
