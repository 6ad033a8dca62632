/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a user reads of an experiment: the table on a stream, the JSON file, the file of requests,
 * the ungated second tables (sweeps) and the sensitivity of every parameter (explain). Reports
 * only read; metrics are those of sim/ledger/summary.h and docs/metrics.md. All text is ASCII but
 * for what the scenario itself says, at most REPORT_WIDTH columns.
 *
 *   struct experiment *x = experiment_run(s, &options, &e);
 *   report_table(x, stdout, &e);
 *   for (uint32_t i = 0; i < s->nsweeps; i++) {
 *     report_sweep(&source, s, i, &sweeps[i], &e);
 *     report_sweep_print(&sweeps[i], stdout, &e);
 *   }
 *   report_json(x, sweeps, s->nsweeps, NULL, "result.json", &e);
 *
 * All functions return 0, or -1 with *e filled: BASE_ENV for a stream or file that takes no more.
 */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include <stdio.h>

#include "sim/experiment.h"

enum { REPORT_WIDTH = 110 };

/* How a scenario was opened and run, to do so again with an attribute changed. Borrowed; options
 * and run may be NULL. sink of run takes nothing of reruns; progress is, with fractions of the
 * whole table, and *stop ends the table early. */
struct report_source {
  const char *path;
  const struct scenario_options *options;
  const struct experiment_options *run;
};

/* The table: figures by arm beside their references, gates, seeds, ledger. */
int report_table(const struct experiment *x, FILE *out, struct base_error *e);

/* The arm that the headline is about: of the first ratio gate, else the first that is not the
 * baseline, else the first that was run; -1: none. */
int report_headline(const struct experiment *x);

/* One arm at one value; pooled over seeds. NaN where undefined. */
struct report_sweep_arm {
  int run;       /* 0: skipped */
  int qualified; /* as experiment_arm */
  double rate;   /* useful tokens a GPU-hour */
  double ratio, attainment;
  double ttft_p95;              /* seconds */
  double tokens_per_gpu_second; /* useful */
};
struct report_sweep_point {
  const char *value;            /* borrowed from the scenario */
  struct report_sweep_arm *arm; /* [narms], owned */
  double live, batch;           /* of the baseline, useful tokens/s: l and b */
  double share;                 /* l/b */
  double gain;                  /* c: the headline arm's useful tokens a GPU-second over b */
};
struct report_sweep {
  const struct scenario *scenario; /* borrowed, as given to report_sweep */
  const struct scenario_sweep *sweep;
  int headline;                     /* arm */
  uint32_t n;                       /* points done */
  struct report_sweep_point *point; /* owned */
  int partial;                      /* ended by *stop */
  int best_point, best_arm;         /* best arm beside the baseline that meets the live gate; -1 */
  int base_point;                   /* best qualified baseline; -1 */
  double best_ratio;                /* of the two; NaN */
};
/* Runs sweep `index` of s. *out is zeroed first; free it also after a failure. */
int report_sweep(const struct report_source *source, const struct scenario *s, uint32_t index,
                 struct report_sweep *out, struct base_error *e);
int report_sweep_print(const struct report_sweep *t, FILE *out, struct base_error *e);
void report_sweep_free(struct report_sweep *t);

struct report_move {
  int moved;      /* 0: not a single number, or no scenario is valid there */
  char value[64]; /* what it was set to */
  double figure;  /* the headline figure there; NaN: undefined */
  double change;  /* relative to the figure of the scenario as it is */
};
struct report_explain_row {
  const struct scenario_parameter *parameter; /* borrowed */
  struct report_move down, up;                /* -10% and +10%; integers at least 1 away */
};
struct report_explain {
  const struct scenario *scenario; /* borrowed */
  int arm;                         /* the headline's */
  int metric;                      /* METRIC_RATIO, or METRIC_USEFUL_RATE without a baseline */
  double figure;                   /* as it is */
  uint32_t n;
  struct report_explain_row *row; /* owned */
  int partial;
};
/* Moves every parameter of x's scenario; all seeds of x. *out is zeroed first; free it also after
 * a failure. */
int report_explain(const struct report_source *source, const struct experiment *x,
                   struct report_explain *out, struct base_error *e);
int report_explain_print(const struct report_explain *t, FILE *out, struct base_error *e);
void report_explain_free(struct report_explain *t);

/* Writes everything (schema: docs/metrics.md), whole or not at all; identical bytes for an
 * identical experiment. sweeps: [nsweeps] or NULL; explain: or NULL. */
int report_json(const struct experiment *x, const struct report_sweep *sweeps, uint32_t nsweeps,
                const struct report_explain *explain, const char *path, struct base_error *e);

/*
 * The file of requests: a row a request of every run, runs in their order, requests by id. It is
 * written while the runs go on, and what waits for an older request that is still under way stands
 * in memory up to a bound, then in a temporary file: memory follows what is unfinished, not the
 * length of the run. A path that ends in .h5 or .hdf5 means HDF5, any other CSV after RFC 4180:
 * docs/results.md.
 */
struct report_requests;
/* Does the path mean HDF5? */
int report_requests_is_hdf5(const char *path);
/* Borrows the scenario until it is closed or abandoned. NULL on failure. */
struct report_requests *report_requests_open(const char *path, const struct scenario *s,
                                             struct base_error *e);
/* The sink for experiment_options; lives as long as `r`. */
const struct experiment_sink *report_requests_sink(struct report_requests *r);
/* Puts the file in place and frees. partial: a signal ended the experiment, as the file then says
 * if it is HDF5. On failure nothing new is left behind. */
int report_requests_close(struct report_requests *r, int partial, struct base_error *e);
/* Leaves nothing behind; NULL is fine. */
void report_requests_abandon(struct report_requests *r);

/* The decision log of every run: one row a line of it, RFC 4180, written as it comes. */
struct report_log;
struct report_log *report_log_open(const char *path, struct base_error *e);
/* The log of experiment_options; ctx: the struct report_log. A write error is told at the close. */
void report_log_line(void *ctx, const struct scenario *s, int arm, int candidate, uint64_t seed,
                     const struct world_log_line *line);
/* Puts the file in place and frees. */
int report_log_close(struct report_log *f, struct base_error *e);
/* Leaves nothing behind; NULL is fine. */
void report_log_abandon(struct report_log *f);

#endif
