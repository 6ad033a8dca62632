/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Measuring something whose steps can be timed into a calibration by tables.
 *
 *   const struct measure_limits most = {.max_seqs = 16, .token_budget = 256, .max_context = 512};
 *   struct measurement m;
 *   if (measurement_plan(&m, &most, &e) == 0 && measurement_run(&m, bench, &options, &e) == 0)
 *     c = measurement_fit(&m, &subject, stderr, &e);
 *   measurement_free(&m);
 *
 * Which steps are timed, and what is made of them, is told in docs/calibration.md.
 */
#ifndef CALIB_MEASURE_H
#define CALIB_MEASURE_H

#include <stddef.h>
#include <stdio.h>

#include "calib/bench.h"
#include "models/gpu.h"
#include "models/llm.h"

struct calibration;

/* The largest step. */
struct measure_limits {
  uint32_t max_seqs, token_budget, max_context;
  int quick; /* coarser grids */
};

enum measure_kind {
  MEASURE_DECODE, /* rows of one context */
  MEASURE_PROMPT, /* one chunk */
  MEASURE_MIXED,  /* both */
  MEASURE_RANDOM, /* any make-up; no table is fitted to it, it judges them */
  MEASURE_KINDS
};

/* A step that is timed once a round. */
struct measure_point {
  int kind;                           /* enum measure_kind */
  uint32_t chunk, history, rows, ctx; /* RANDOM: 0 */
  struct bench_step step;             /* its arrays are owned */
  uint32_t tokens, positions;         /* of the step */
  struct bench_times *time;           /* [rounds] owned */
  struct bench_times low, mid;        /* least and median of each part */
  int64_t total_low, total_mid;       /* of the sum */
};

struct measurement {
  struct measure_limits most;
  struct measure_point *point; /* [n] owned */
  size_t n;
  uint32_t rounds;  /* that are done */
  int64_t world_ps; /* what the world takes between two steps, of which a bench knows nothing; set
                       by the caller, else 0 */
  int64_t probe[2]; /* ps: the same step before and after all others, medians */
};

struct measure_options {
  int64_t budget_ns;        /* no further round begins after so long */
  uint32_t least, most;     /* rounds at least, however long they take, and at most */
  const volatile int *stop; /* set by a signal; NULL: never */
  void (*progress)(void *, const char *what, double fraction); /* may be NULL */
  void *progress_ctx;
};
/* What is usual, by `quick`. */
void measure_options_default(struct measure_options *o, int quick);

/* Limits that a step can have, no larger than 2^16 sequences; BASE_USAGE. */
int measurement_plan(struct measurement *m, const struct measure_limits *most,
                     struct base_error *e);
/* All points once a round, in another order each. BASE_INCOMPLETE: stopped. */
int measurement_run(struct measurement *m, const struct bench *b, const struct measure_options *o,
                    struct base_error *e);
/* (larger - smaller) / smaller of the probe. */
double measurement_noise(const struct measurement *m);
void measurement_free(struct measurement *m);

/* Time of one step of `rows` rows of ctx tokens and a chunk: the median of `times` of them, ps. A
 * machine whose probes differ is not quiet. */
int measure_probe(const struct bench *b, const struct measure_limits *most, uint32_t times,
                  int64_t *ps, struct base_error *e);

/* What was measured. */
struct measure_subject {
  const struct llm *model;
  const struct gpu *gpu;
  const char *dtype; /* of weights and KV: "bfloat16" or "float32" */
  int64_t weight_bytes, kv_bytes_per_token;
  const char *engine; /* name, version, threads, processor */
  const char *source; /* the file that names the weights, of which SHA-256 is kept */
  const char *kernel; /* kernels, and digest of the weights */
};

/* The calibration, sealed; NULL on failure. talk may be NULL: held-out errors and noise are told
 * there. */
struct calibration *measurement_fit(const struct measurement *m, const struct measure_subject *s,
                                    FILE *talk, struct base_error *e);

#endif
