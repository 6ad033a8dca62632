/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Running a scenario: every arm, candidate and seed, then the verdict. Reads as the way of a
 * request does: freeze the plan, run the arm, close the ledger, judge.
 */
#ifndef SIM_EXPERIMENT_H
#define SIM_EXPERIMENT_H

#include "models/simdev.h"
#include "sim/ledger/summary.h"
#include "sim/scenario/scenario.h"

/* One run of an experiment; all borrowed, and there until the run's end. */
struct experiment_place {
  const struct scenario *scenario;
  int arm, candidate;
  uint64_t seed;
  const char *plan_digest;           /* of the seed's frozen plan */
  const struct world_config *config;
};

/*
 * Who takes the requests. Runs are told one at a time, seeds outermost, then arms, then candidates,
 * each in the scenario's order: begin, ended for each request at its end (in the order of ends), end.
 * A run that fails has no end. -1, with *e filled, from begin or end stops the experiment; ended has
 * to keep its failures until end.
 */
struct experiment_sink {
  void *ctx;
  int (*begin)(void *ctx, const struct experiment_place *, struct base_error *);
  void (*ended)(void *ctx, lull_id, const struct world_record *); /* the record is gone afterwards */
  int (*end)(void *ctx, const struct world_result *, struct base_error *);
};

/*
 * What runs stand on instead of simulated devices of their own. open gives a device for a run that
 * is about to begin, with the simulated GPUs [config->ngpus] that it would have had; close takes it
 * back: `ended` says whether the run came to its end, and only then may close fail it. Where a
 * device is late, results differ from run to run. The name, and the facts about it, go to reports.
 */
struct experiment_fact { const char *name, *value; };
/* What a job of a run learnt. Names are borrowed. */
struct experiment_training {
  const char *arm, *candidate, *job;
  uint64_t seed;
  uint64_t micro_steps, steps; /* in the adapter; one more micro-step than the world counted, if the
                                  one under way at the end was through before it was stopped */
  double loss_before, loss_after; /* a token, on problems that are not learnt; NaN: not measured */
  char digest[33];                /* of the adapter */
};
struct experiment_device {
  const char *name;
  const struct experiment_fact *fact; /* [nfacts] */
  uint32_t nfacts;
  const struct experiment_training *training; /* [ntrainings] of the runs so far */
  uint32_t ntrainings;
  void *ctx;
  int (*open)(void *ctx, const struct experiment_place *, const struct simdev_gpu *gpu,
              struct lull_device **, const struct lull_device_ops **, struct base_error *);
  int (*close)(void *ctx, struct lull_device *, int ended, struct base_error *);
};

struct experiment_options {
  const char *only_arm;              /* NULL: all; the baseline is still run if a gate needs it */
  int has_seed; uint64_t seed;       /* instead of the scenario's */
  const struct plan *plan;           /* of the one seed that is run, instead of a frozen one; NULL */
  uint64_t max_repeat;               /* see world_config */
  const volatile int *stop;
  const struct experiment_device *device; /* NULL: simulated ones */
  /* Called as work goes on; fraction in [0,1]. May be NULL. */
  void (*progress)(void *, const char *what, double fraction);
  void *progress_ctx;
  const struct experiment_sink *sink; /* takes every request of every run; NULL: nobody does */
  /* Called with each line of each run's decision log. May be NULL. */
  void (*log)(void *, const struct scenario *, int arm, int candidate, uint64_t seed,
              const struct world_log_line *);
  void *log_ctx;
};

struct experiment_run {
  struct summary sum;
  char plan_digest[33], log_digest[33];
  struct world_job_result *job;      /* [njobs of the arm], owned; NULL: none, or not run */
};
struct experiment_arm {
  int skipped;                       /* not asked for */
  uint32_t ncandidates;
  struct experiment_run *run;        /* [ncandidates][nseeds] row-major */
  int *best;                         /* [nseeds]: chosen candidate by seed, -1: none qualifies */
  struct summary pooled;             /* over seeds, each with its best candidate */
  int qualified;                     /* every seed has a best */
  double *ratio;                     /* [nseeds] against the baseline; NaN where undefined */
  double ratio_pooled, ratio_low, ratio_high; /* pooled; Student-t 95% interval over seeds */
};
enum experiment_outcome { OUTCOME_PASS, OUTCOME_FAIL, OUTCOME_INCONCLUSIVE };
struct experiment_gate { double value; int outcome; char why[160]; };

struct experiment {
  const struct scenario *scenario;   /* borrowed */
  uint32_t nseeds; uint64_t *seed;
  int seed_by_hand;                  /* experiment_options.has_seed */
  struct experiment_arm *arm;        /* [narms] */
  struct experiment_gate *gate;      /* [ngates] */
  const struct experiment_device *device; /* as the options had it, borrowed; NULL: simulated */
  int exit_code;                     /* enum base_code, by gates and partial */
  int partial;
};

/* NULL on failure. */
struct experiment *experiment_run(const struct scenario *s, const struct experiment_options *o,
                                  struct base_error *e);
void experiment_free(struct experiment *x);
/* Does this arm run where `only` (NULL: all) is asked for? */
int experiment_runs(const struct scenario *s, const char *only, uint32_t arm);

#endif
