/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Calibrations: what the operations of one model cost on one GPU with one engine, how well that
 * meets measurements, and where these come from. One HDF5 file each (layout in
 * docs/calibration.md), readable by h5py; written by calib/, read here. The default ones are
 * embedded in the program and found by name.
 */
#ifndef MODELS_CALIBRATION_H
#define MODELS_CALIBRATION_H

#include <lull/types.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "models/lattice.h"

/* A curve of y (integer ps) over x (integer), x strictly ascending; linear between the knots. */
struct calibration_curve {
  uint32_t n;
  int64_t *x, *y; /* [n], owned */
};

/*
 * Time of one layer's decode attention over (rows, mean KV tokens of a row before the step):
 * y[i * nctx + j] in ps, never falling with the context. Beyond ctx_measured[i] the values of row
 * count i are extended, not measured.
 */
struct calibration_grid {
  uint32_t nrows, nctx;
  int64_t *rows, *ctx, *y; /* [nrows], [nctx], [nrows * nctx], owned */
  int64_t *ctx_measured;   /* [nrows], owned: one of ctx */
};

/*
 * How the attention of steps with chunks is told. Also the version of the file.
 *   PAIRS   a curve over attended pairs and so much a token, to which the decode grid is added;
 *           body holds GEMMs only, element-wise kernels are the scenario's
 *   TABLES  grids measured with chunk and decode rows in one call; body, once and head hold every
 *           kernel of the model
 */
#define CALIBRATION_ALL "everything"
#define CALIBRATION_HISTORY "history of chunks"
#define CALIBRATION_ENDS "ends"
enum calibration_law { CALIBRATION_PAIRS = 1, CALIBRATION_TABLES = 2 };

/* Measured values as they were read: a matrix, one row a sample. */
struct calibration_samples {
  char name[48];     /* which table, which operator */
  char columns[256]; /* names of the columns with commas between; times end in _ps */
  uint32_t n, width; /* rows, columns */
  int64_t *v;        /* [n * width], owned */
};

/* How well a fitted curve meets the samples it was made from and those held out of it. */
struct calibration_residual {
  char curve[48];
  uint32_t samples, heldout;
  double p50, p95, max; /* absolute relative error of the held-out samples */
};

struct calibration_source {
  char file[128], sha256[65], engine[64], kernel[128], licence[64], url[192];
};

struct calibration {
  char name[64], model[64], gpu[64], weight_dtype[32], kv_dtype[32], engine[64];
  char digest[65]; /* SHA-256 over the content, lower-case hex */
  uint32_t layers, hidden, intermediate, vocab, q_heads, kv_heads, head_dim;
  int64_t weight_bytes, kv_bytes_per_token, gpu_memory_bytes;
  int law;     /* enum calibration_law */
  uint32_t tp; /* GPUs of the tensor-parallel group; all below is of one of them. PAIRS: 1 */
  struct calibration_curve body; /* one layer's GEMMs (TABLES: all its kernels but attention
                                    and collectives) over tokens */
  struct calibration_curve head; /* LM head (TABLES: and sampler) over sampled positions */
  /* PAIRS only: */
  struct calibration_curve draft_layer; /* GEMMs of one bf16 layer over tokens (draft head) */
  struct calibration_curve prefill;     /* prefill attention of one layer: over attended pairs */
  int64_t prefill_token_fs;             /* and so many femtoseconds for each token of the chunks */
  /* TABLES only: */
  struct calibration_curve once;       /* kernels that run once a step, over tokens */
  struct calibration_curve collective; /* one all-reduce over its bytes; two run a layer. Empty:
                                          not measured (tp > 1) or not needed */
  char collective_note[96];            /* where its times come from, or that they are missing */
  char derived[192]; /* parts that are worked out from shapes and data sheets, not measured, with
                        commas between; "" if there are none, CALIBRATION_ALL if it is all */
  char sampled[16];  /* chunks that get logits and a token: CALIBRATION_ENDS, those that end their
                        prompt; "": every chunk */
  int64_t host_step_ps; /* host time of a step, where whole steps were measured: it counts where the
                           scenario says none. 0: it is the scenario's */
  struct lattice prompt; /* attention of one layer, no decode rows: chunk, history tokens */
  struct lattice mixed;  /* with decode rows: chunk, history, rows, context tokens of a row */
  /*
   * Uneven batches: t = t_mean + share * (t_max - t_mean), where t_mean and t_max are the times if
   * all rows had the mean, or the longest context; y is the share, parts a million, over rows.
   * Empty: not measured, taken as 0.
   */
  struct calibration_curve skew_decode, skew_mixed; /* steps without and with chunks */
  struct calibration_samples *sample;
  uint32_t nsamples; /* owned */
  /* Both: */
  struct calibration_grid decode; /* attention of one layer of steps without chunks */
  struct calibration_residual *residual;
  uint32_t nresiduals; /* owned */
  struct calibration_source *source;
  uint32_t nsources; /* owned */
};

/* A curve and the decode grid as lattices that share their arrays; an empty curve has rank 0. */
static inline struct lattice calibration_curve_lattice(const struct calibration_curve *v)
{
  return (struct lattice){.rank = v->n ? 1 : 0, .n = {v->n}, .x = {v->x}, .y = v->y};
}

static inline struct lattice calibration_grid_lattice(const struct calibration_grid *g)
{
  return (struct lattice){.rank = 2, .n = {g->nrows, g->nctx}, .x = {g->rows, g->ctx}, .y = g->y};
}

/* By path (it has a '/' or ends in .h5) or by the name of an embedded one. NULL on failure; an
 * unknown name is answered with the nearest. Checks structure, ranges, monotonicity and digest. */
struct calibration *calibration_open(const char *name_or_path, struct base_error *e);
/* Writes byte-identical files for equal content, which must be sealed. The file is whole or not
 * there. */
int calibration_write(const struct calibration *c, const char *path, struct base_error *e);
/* SHA-256 over all content but the digest itself, in a fixed order; fills c->digest. */
void calibration_seal(struct calibration *c);
void calibration_free(struct calibration *c);

/* The residual that tells how much longer one step took once, before or after all others, and
 * beyond which share of that, and which p95 of whole steps, times are not to be trusted. */
#define CALIBRATION_NOISE "noise: one step, before and after"
#define CALIBRATION_NOISY 0.10
#define CALIBRATION_COARSE 0.25
/* 1, and the reasons in text (at most 300 bytes), where a calibration of steps that were measured
 * here is not to be trusted; else 0 and "". */
int calibration_doubts(const struct calibration *c, char *text, size_t size);
/* The residuals with the largest p50 and p95, noise left out; NULL: there are none. */
void calibration_worst(const struct calibration *c, const struct calibration_residual **p50,
                       const struct calibration_residual **p95);

#endif
