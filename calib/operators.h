/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * LLMServingSim's tables, as its layer-wise profiler writes them: kernels of one layer of a model
 * on one GPU (of one rank of a tensor-parallel group) as vLLM runs them. CSV, plain or gzip; which
 * table a file is, its header tells.
 */
#ifndef CALIB_OPERATORS_H
#define CALIB_OPERATORS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

/* The tables, and what a file may be else. */
enum operators_kind {
  OPERATORS_DENSE,      /* layer, tokens, time_us */
  OPERATORS_SEQUENCE,   /* layer, sequences, time_us */
  OPERATORS_ATTENTION,  /* prefill_chunk, kv_prefill, n_decode, kv_decode, time_us */
  OPERATORS_SKEW,       /* pc, n, kv_mean, kv_big, t_mean_us, t_max_us, t_skew_us */
  OPERATORS_COLLECTIVE, /* AIConfigurator's all-reduce: num_gpus, message_size, latency */
  OPERATORS_KINDS,
  OPERATORS_IGNORED = OPERATORS_KINDS, /* the source's own fit of its skew table */
  OPERATORS_UNKNOWN
};
extern const char *const operators_kind_name[OPERATORS_KINDS];

/* An operator's name and how often it runs. */
struct operators_known {
  const char *name;
  int kind;      /* enum operators_kind: its table */
  int64_t layer; /* times a layer */
  int64_t step;  /* times a step */
  int need;      /* 0: only if the model has query and key norms */
};
extern const struct operators_known operators_known[];
extern const size_t operators_nknown;

struct operator_row {
  int op;        /* index in operators_known */
  int64_t x, ps; /* tokens or sequences; time */
  unsigned line;
};
/* x: chunk tokens, history tokens, decode rows, context tokens of a row; 0: absent. */
struct operators_attention_row {
  int64_t x[4], ps;
  unsigned line;
};
/* A batch of unlike contexts, and even ones of its mean and of its longest. The times are sums over
 * an unstated number of runs; only their ratios are used. */
struct operators_skew_row {
  int64_t chunk, rows, mean_ps, max_ps, skew_ps;
};
struct operators_collective_row {
  int64_t bytes, ps;
  unsigned line;
};

/* Zero before use. Rows are sorted and no grid point occurs twice. */
struct operators {
  const char *path[OPERATORS_KINDS]; /* borrowed; NULL: not given */
  struct operator_row *dense, *sequence;
  struct operators_attention_row *attention;
  struct operators_skew_row *skew; /* in the order of the file */
  struct operators_collective_row *collective;
  size_t ndense, nsequence, nattention, nskew, ncollective;
  char collective_engine[64], collective_kernel[128];
};

/* What a file is, by its header; -1 if it cannot be read. */
int operators_recognise(const char *path, struct base_error *e);
/* Reads files (borrowed as long as t lives), one of each kind; dense, sequence and attention must
 * be among them. Of a collective table rows of tp GPUs, device `device`. */
int operators_load(struct operators *t, const char *const *path, size_t n, uint32_t tp,
                   const char *device, struct base_error *e);
/* An all-reduce table alone, as of operators_load. */
int operators_load_collective(struct operators *t, const char *path, uint32_t tp,
                              const char *device, struct base_error *e);
void operators_free(struct operators *t);
/* Tells of times that fall as work grows, with their rows; talk may be NULL. */
void operators_tell_falls(const struct operators *t, FILE *talk);

#endif
