/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Validation: the requests of a measured run are simulated with one arm of a scenario, and the two
 * are compared, metric by metric (docs/validate.md says how each figure is made).
 *
 *   struct validation v = {0};
 *   if (validate_run(&source, s, measured, "requests.jsonl", &v, &e) == 0 &&
 *       validate_judge(&v, gates, ngates, &e) == 0)
 *     validate_table(&v, stdout, &e);
 *   validate_free(&v);
 *
 * Functions return 0, or -1 with *e filled.
 */
#ifndef SIM_VALIDATE_H
#define SIM_VALIDATE_H

#include <stdio.h>

#include "models/measured.h"
#include "sim/report/report.h"
#include "sim/validate/gate.h"
#include "sim/validate/names.h"

/* One request of one side, ps since the first arrival. */
struct validate_request {
  lull_time arrival, first, last; /* arrival, first token, last token */
  uint32_t output;                /* tokens */
};

/* A run as it is compared: measured or simulated. */
struct validate_side {
  struct validate_request *request; /* [n] in order of arrival, owned */
  uint64_t n;
  struct base_hist itl; /* gaps, ps; empty where they are not known */
};
void validate_side_free(struct validate_side *s);

enum { VALIDATE_MEASURED, VALIDATE_SIMULATED, VALIDATE_SIDES };

/* One metric, both sides; in the unit of validate_metrics. NaN where undefined. */
struct validate_figures {
  uint64_t n[VALIDATE_SIDES]; /* samples */
  double figure[VALIDATE_SIDES][VALIDATE_FIGURES];
  double ks, correlation, bias;
};
struct validate_comparison {
  struct validate_figures metric[VALIDATE_METRICS];
};

/* Compares requests [from, to) of both sides, which hold the same requests. Gaps, throughput and
 * concurrency belong to whole runs: undefined unless that is all of them. -1: no memory. */
int validate_compare(const struct validate_side *measured, const struct validate_side *simulated,
                     uint64_t from, uint64_t to, struct validate_comparison *out,
                     struct base_error *e);
/* Simulated less measured, and relative to measured. NaN where undefined. */
double validate_absolute(const struct validate_figures *f, int figure);
double validate_relative(const struct validate_figures *f, int figure);
/* What a gate judges: |relative error| of a figure, ks, correlation, |bias|. */
double validate_judged(const struct validate_comparison *c, int metric, int statistic);

/* Host time a step, the one scalar that may be fitted: on the first half of the requests by
 * arrival, judged on the second. */
struct validate_fit {
  int done;
  lull_time given, host;             /* the scenario's, the fitted one; ps */
  double objective_given, objective; /* of the first half */
  uint64_t split;                    /* requests of the first half */
  uint32_t runs;                     /* simulations it took */
  int at_bound;                      /* the best value is the largest that was tried */
  struct validate_comparison second_given, second; /* of the second half, with either */
};

struct validation {
  const char *name;                /* of the measured file, borrowed */
  const struct measured *measured; /* borrowed */
  struct scenario as_run;          /* the scenario, with the measured requests' window */
  struct experiment *x;            /* of as_run, owned */
  int arm, cls;                    /* that served the requests */
  struct validate_side side[VALIDATE_SIDES];
  struct validate_comparison all;
  struct validate_fit fit;
  struct validate_pair *pair; /* NULL: a measured file; else see pair.h, and measured is NULL */
  uint32_t ngates;
  struct validate_gate *gate; /* [ngates], owned */
  int exit_code;              /* enum base_code, by the gates */
};

/* Simulates and compares. s: source->path as it was opened; must outlive v. Of source->run the arm
 * (NULL: the only one), seed, max_repeat, stop and progress are used. BASE_INPUT: the arm cannot
 * be validated (candidates, backlogs, jobs), or a request does not fit it; BASE_INCOMPLETE:
 * stopped. */
int validate_run(const struct report_source *source, const struct scenario *s,
                 const struct measured *m, const char *name, struct validation *v,
                 struct base_error *e);
/* After validate_run: fits host time a step. BASE_INPUT: the scenario states none. */
int validate_fit_host(const struct report_source *source, struct validation *v,
                      struct base_error *e);
/* Judges the scenario's validation gates of the arm, and `n` more; with a fit, those of metrics by
 * request once more on the second half with the fitted value. Sets gate, ngates and exit_code. */
int validate_judge(struct validation *v, const struct validate_gate *more, uint32_t n,
                   struct base_error *e);
/* The report on a stream, and as JSON (schema: docs/validate.md), whole or not at all. */
int validate_table(const struct validation *v, FILE *out, struct base_error *e);
int validate_json(const struct validation *v, const char *path, struct base_error *e);
/* One row a request, measured and simulated (CSV), whole or not at all. */
int validate_rows(const struct validation *v, const char *path, struct base_error *e);
void validate_free(struct validation *v);

/* Private to sim/validate/: the arm by name, NULL: the only one; -1 with BASE_USAGE. */
int validate_arm(const struct scenario *s, const char *name, struct base_error *e);
/* Likewise: one simulation of the measured requests. *x: owned by the caller. */
int validate_simulate(struct scenario *as_run, const struct validation *v,
                      const struct experiment_options *run, struct experiment **x,
                      struct validate_side *out, struct base_error *e);

#endif
