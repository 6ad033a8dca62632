/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a validation compares, by name: metrics, and the statistics of each. */
#ifndef SIM_VALIDATE_NAMES_H
#define SIM_VALIDATE_NAMES_H

enum validate_metric {
  VALIDATE_TTFT,
  VALIDATE_TPOT,
  VALIDATE_ITL,
  VALIDATE_E2E,
  VALIDATE_THROUGHPUT,
  VALIDATE_CONCURRENCY,
  /* Of these a whole run has one figure, its mean; known where both sides were run here. */
  VALIDATE_USEFUL,
  VALIDATE_OUTPUT,
  VALIDATE_RATE,
  VALIDATE_BUSY,
  VALIDATE_MAKESPAN,
  VALIDATE_STEPS,
  VALIDATE_PREEMPTIONS,
  VALIDATE_FINISHED,
  VALIDATE_METRICS
};
enum { VALIDATE_SINGLE = VALIDATE_USEFUL };

/* The first VALIDATE_FIGURES are figures that both sides have; the others compare the sides. */
enum validate_statistic {
  VALIDATE_MEAN,
  VALIDATE_P50,
  VALIDATE_P90,
  VALIDATE_P95,
  VALIDATE_P99,
  VALIDATE_FIGURES,
  VALIDATE_KS = VALIDATE_FIGURES,
  VALIDATE_CORRELATION,
  VALIDATE_BIAS,
  VALIDATE_STATISTICS
};

/* unit: of JSON; label, scale and decimals: of tables. */
struct validate_metric_info {
  const char *name, *unit, *label;
  double scale; /* from the unit to the label's */
  int decimals;
  const char *doc;
};
struct validate_statistic_info {
  const char *name, *doc;
};
extern const struct validate_metric_info validate_metrics[VALIDATE_METRICS];
extern const struct validate_statistic_info validate_statistics[VALIDATE_STATISTICS];

/* -1: unknown. */
int validate_metric_by_name(const char *name);
int validate_statistic_by_name(const char *name);
/* The nearest name, or NULL. */
const char *validate_metric_nearest(const char *name);
const char *validate_statistic_nearest(const char *name);

#endif
