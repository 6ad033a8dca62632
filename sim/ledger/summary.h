/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a run amounts to: the figures of one arm and candidate, for one seed or pooled over seeds.
 * Pooling adds counts, sums and samples; it never averages ratios or percentiles.
 */
#ifndef SIM_SUMMARY_H
#define SIM_SUMMARY_H

#include "sim/world/world.h"

struct summary {
  uint32_t runs;                       /* seeds pooled */
  uint32_t ngpus;
  double gpu_seconds;                  /* paid */
  double seconds;                      /* elapsed, drain included */
  uint64_t offered, finished, failed, rejected, cancelled, expired, unfinished; /* all classes */
  uint64_t live_offered, live_met, live_met_half, live_met_double; /* at 0.5x and 2x the targets */
  uint64_t errors;                     /* failed + rejected + expired, all classes */
  uint64_t live_useful_tokens, batch_useful_tokens, useful_tokens;
  uint64_t output_tokens, preempts, discarded_tokens, steps, forced;
  uint64_t looked_up_tokens[LULL_CLASSES]; /* by class: tokens that admissions of servers with
                                              prefix caching wanted computed */
  uint64_t cached_tokens[LULL_CLASSES];    /* of these, found */
  double account[WORLD_ACCOUNTS];      /* GPU-seconds */
  double device_busy, ledger_busy;     /* shares of paid time */
  struct base_sample ttft, tpot, e2e;  /* live, finished; settled */
  struct base_hist itl;                /* live */
  struct cost_misses misses;           /* of the steps */
  int partial;
};

/* Takes each request as it ends: {.cfg = cfg} and summary_collect as world_config.ended. */
struct summary_collector {
  const struct world_config *cfg;
  struct base_sample ttft, tpot, e2e;
  uint64_t met_half, met_double;
  int no_memory;
};
void summary_collect(void *collector, lull_id id, const struct world_record *r);
/* Takes over what was collected in the run of `r`; c is empty afterwards, also on failure. */
int summary_of(struct summary_collector *c, const struct world_result *r, struct summary *out,
               struct base_error *e);
void summary_collector_free(struct summary_collector *c);
/* Adds `more` to `into` (zeroed at first). */
int summary_pool(struct summary *into, const struct summary *more, struct base_error *e);
void summary_free(struct summary *s);

/* Metrics by name, for tables, gates and JSON. NaN where undefined (no completed requests). */
enum summary_metric {
  METRIC_USEFUL_RATE,   /* useful-tokens-per-gpu-hour */
  METRIC_RATIO,         /* ratio (of an arm against the baseline: computed by the verdict) */
  METRIC_ATTAINMENT,    /* attainment */
  METRIC_ATTAINMENT_HALF, METRIC_ATTAINMENT_DOUBLE,
  METRIC_ERRORS,        /* errors */
  METRIC_TTFT_P50, METRIC_TTFT_P95, METRIC_TTFT_P99, /* ttft-p50 ..., seconds */
  METRIC_TPOT_P50, METRIC_TPOT_P95,
  METRIC_E2E_P50, METRIC_E2E_P95,
  METRIC_ITL_P50, METRIC_ITL_P95, METRIC_ITL_P99,
  METRIC_DEVICE_BUSY, METRIC_LEDGER_BUSY, METRIC_GPU_SECONDS,
  METRIC_PREEMPTIONS, METRIC_DISCARDED, METRIC_LIVE_RATE, METRIC_BATCH_RATE, /* useful tokens/s */
  METRIC_OFFERED, METRIC_FINISHED, METRIC_UNFINISHED,
  METRIC_HIT_RATE, /* prefix-hit-rate */
  METRICS
};
struct summary_metric_info { const char *name, *label, *unit, *doc; };
extern const struct summary_metric_info summary_metrics[METRICS];
/* Sum over the classes. */
uint64_t summary_looked_up(const struct summary *s);
uint64_t summary_cached(const struct summary *s);
int summary_metric_by_name(const char *name); /* -1 unknown */
double summary_value(const struct summary *s, int metric); /* NaN for METRIC_RATIO */

#endif
