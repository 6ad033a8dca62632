/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A scenario as read: everything checked, every value in its internal unit, every reference
 * resolved. Immutable after scenario_open; owned by one arena.
 */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include <lull/policy.h>
#include <stdint.h>

#include "base/error.h"
#include "models/cost.h"
#include "models/trace.h"
#include "sim/world/world.h"

enum scenario_dist_kind { DIST_CONSTANT, DIST_LOGNORMAL, DIST_UNIFORM, DIST_EXPONENTIAL };
/* Tokens; drawn, rounded to nearest, clamped to [min, max], both >= 1. Lognormal: `mean` is the mean of the variable itself
 * before clamping (zeta = ln(mean) - sigma^2 / 2). */
struct scenario_dist {
  int kind;
  int64_t mean_tokens;
  int64_t sigma_ppm; /* lognormal */
  int64_t min_tokens, max_tokens;
};

enum scenario_arrivals { ARRIVALS_NONE, ARRIVALS_CONSTANT, ARRIVALS_POISSON, ARRIVALS_GAMMA,
                         ARRIVALS_TRACE, ARRIVALS_BACKLOG };

/* A file that a scenario names. */
struct scenario_file {
  const char *name, *path; /* as written; resolved */
  int format;              /* enum trace_format */
  const char *sha256;      /* NULL: not stated */
};

struct scenario_class {
  const char *id;
  int interactive;                 /* kind="live" */
  lull_time slo_ttft, slo_tpot;    /* live */
  int arrivals;                    /* enum scenario_arrivals */
  int64_t rate_uhz;                /* micro-arrivals a second */
  int64_t cv_ppm;                  /* gamma: of inter-arrival times */
  struct scenario_dist prompt, output;
  struct { struct scenario_file file; int64_t speed_ppm; uint64_t limit;
           lull_time start; } trace; /* start: when the first row arrives */
  struct { struct scenario_file file; const struct trace_row *row; uint32_t n; }
      items;                       /* lengths of backlog items, in turn; name NULL: drawn */
  uint32_t backlog_below;          /* R: backlog */
};

/* Settings of one engine; each server has its own copy with its overrides applied. */
struct scenario_engine {
  uint32_t max_seqs, token_budget, block_tokens;
  uint32_t kv_blocks;              /* resolved: given, or from memory */
  int64_t watermark_ppm;
  uint32_t watermark_blocks;
  uint32_t layers, model_limit;
  int64_t block_bytes;
  int64_t host_link_bytes_per_s;
  int async, prefix_caching;       /* see world_server */
  uint32_t draft_depth;
  int64_t accept_ppm;              /* mean chance that a drafted token is accepted */
  int64_t accept_sd_ppm;           /* spread between requests (beta-distributed), 0: none */
  struct cost_settings cost;
  const struct cost_model *model;  /* compiled for these settings */
};

struct scenario_server { const char *id; int gpu; uint32_t class_mask; struct scenario_engine engine; };

/* A candidate is one complete configuration of an arm (an arm without <candidate> has one, with
 * id ""). */
struct scenario_candidate {
  const char *id;
  uint32_t nservers;
  struct scenario_server *server;
  uint32_t nbacklogs;
  struct world_backlog *backlog;
};

/* What a job trains where the device is real: a LoRA adapter of the served model. */
struct scenario_training {
  uint32_t batch, accumulate; /* problems of a micro-step; micro-steps of an optimiser step */
  uint32_t rank;
  double rate;
};

struct scenario_arm {
  const char *id, *title;
  const char *engine;              /* whose scheduling rules its servers follow; NULL: none named */
  const struct lull_policy *policy;
  int64_t *params;
  uint32_t ngpus;
  uint32_t njobs;
  struct world_job *job;
  lull_time *contended_ps;         /* [njobs]: of the job's GPU, see simdev_gpu */
  struct scenario_training *training; /* [njobs] */
  uint32_t ncandidates;
  struct scenario_candidate *candidate;
};

/* metric: see summary_metric_by_name. A gate on `ratio` compares arm with the baseline. */
struct scenario_gate { const char *id, *metric, *arm; int has_min, has_max; double min, max; unsigned line; };

/* A gate of `lull validate` (docs/validate.md): metric and statistic by name, see
 * sim/validate/names.h. What is judged is the statistic's error, relative where it has one. */
struct scenario_validation { const char *id, *metric, *statistic, *arm; int has_min, has_max; double min, max; unsigned line; };

/* A published figure to print beside ours. */
struct scenario_reference { const char *arm, *metric; double value; const char *source; };

enum scenario_origin { ORIGIN_SET, ORIGIN_FITTED, ORIGIN_INFERRED, ORIGIN_ASSUMED };
/* Where a parameter's value comes from; target is an XPath with prefix s: bound to the namespace,
 * naming one attribute. */
struct scenario_parameter { const char *target, *name, *value, *reason; int origin; unsigned line; };

/* A second table, never gated: the scenario again with an attribute set to each value. */
enum scenario_sweep_kind { SWEEP_RATIO, /* arms against baseline at each value */
                           SWEEP_CURVE, /* also l/b and c of the ratio's formula */
                           SWEEP_BEST };/* best value on each side */
struct scenario_sweep { const char *id, *title, *target; int kind; uint32_t n; const char **value; const char *note; };

/* One change before reading: of an attribute, or of all costs. */
struct scenario_override { const char *target, *value; };

struct scenario {
  const char *file, *id, *campaign, *title, *note;
  lull_time window, drain;         /* drain: LULL_NEVER: to completion */
  uint32_t max_preempts;           /* see world_config */
  uint32_t nseeds; uint64_t *seed;
  const char *gpu, *model, *calibration; /* names; calibration "": analytic */
  const struct calibration *calib; /* NULL: analytic */
  uint32_t nclasses; struct scenario_class *cls;
  uint32_t narms; struct scenario_arm *arm;
  int baseline;                    /* arm index, -1: none */
  double qualify_attainment;       /* a baseline candidate qualifies at or above; else 0 */
  uint32_t ngates; struct scenario_gate *gate;
  uint32_t nvalidations; struct scenario_validation *validation;
  uint32_t nreferences; struct scenario_reference *reference;
  uint32_t nparameters; struct scenario_parameter *parameter;
  uint32_t nsweeps; struct scenario_sweep *sweep;
  uint32_t noverrides; struct scenario_override *override; /* what was changed before reading */
};

struct scenario_options {
  const char *data_dir;            /* of "data:" names; NULL: $LULL_DATA, else the default */
  const struct scenario_override *override; uint32_t noverrides;
  int skip_files;                  /* do not look for or hash trace files */
  const char *calibration;         /* instead of the machine's costs, measured or analytic: a name or a
                                      path; NULL: those */
};

/* path may be the name of an embedded scenario ("c4-live-batch"). NULL on failure, with every error
 * found in *errors. */
struct scenario *scenario_open(const char *path, const struct scenario_options *o,
                               struct base_errors *errors);
/* Like scenario_open, from memory; name for messages; folder NULL: no includes, no trace files. */
struct scenario *scenario_open_memory(const char *name, const char *folder, const char *data,
                                      size_t size, const struct scenario_options *o,
                                      struct base_errors *errors);
void scenario_close(struct scenario *s);

/* The frozen plan of one seed: arrivals and lengths of all rows and backlog items, the same in
 * every arm. */
struct plan;
struct plan *plan_freeze(const struct scenario *s, uint64_t seed, struct base_error *e);
/* A plan of n given requests of one class instead of the scenario's own arrivals: their time
 * (non-decreasing, >= 0), prompt and output; the rest is drawn as ever. row must not be NULL. */
struct plan *plan_of_rows(const struct scenario *s, uint64_t seed, int cls,
                          const struct world_arrival *row, uint64_t n, struct base_error *e);
void plan_free(struct plan *p);
/* A source that walks the plan from its start; several may be open. Its ctx is owned by `cursor`. */
struct plan_cursor { const struct plan *plan; uint64_t next; uint32_t class_mask; struct arrivals *rows; };
/* class_mask: the classes of this arm. */
int plan_open(const struct plan *p, uint32_t class_mask, struct plan_cursor *cursor,
              struct world_source *source, struct base_error *e);
void plan_close(struct plan_cursor *cursor);
const char *plan_digest(const struct plan *p); /* XXH3-128 of all rows, hex */
uint64_t plan_rows(const struct plan *p);

/*
 * Where a public data file is: below data_dir; where that is NULL or "", below $LULL_DATA; else in the
 * first of the default folders that has it. unseen: the first place where it could be will do. 0, or
 * -1 (BASE_ENV) with what was looked through.
 */
int scenario_data_path(const char *data_dir, const char *name, int unseen, char *path, size_t size,
                       struct base_error *e);

#endif
