/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Making calibrations from published measurements.
 *
 *   struct llm m;
 *   struct gpu g;
 *   if (llm_open("qwen3-8b", &m, &e) || gpu_open("h200-sxm", &g, &e) ||
 *       calib_import_aiconfigurator("gemm.csv.gz", "context.csv.gz", "generation.csv.gz", &m, &g,
 *                                   "fp8", "fp8", "h200-sxm-qwen3-8b-fp8.h5", stderr, &e))
 *     fail(&e);
 */
#ifndef CALIB_CALIB_H
#define CALIB_CALIB_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

struct calibration;
struct calibration_residual;
struct gpu;
struct llm;

/*
 * Fits AIConfigurator's kernel tables of one engine on one GPU (CSV, plain or gzip) for the shapes
 * of a model: GEMMs by token count, decode attention by rows and context, prefill attention by
 * attended pairs and tokens. Columns are found by name; rows of other shapes are skipped.
 *
 * weight_dtype: "fp8" (one scale a tensor; rows named fp8_block are never used) or "bfloat16".
 * kv_dtype: "fp8" or "bfloat16". The LM head and the draft layer are bf16 always.
 *
 * The result is sealed; its name is GPU-MODEL-fp8 or -bf16, with -kv-fp8 or -kv-bf16 behind where
 * the KV cache is of another type. talk may be NULL; progress and residuals are told there.
 * NULL on failure: BASE_INPUT with file and line for bad tables, BASE_ENV for I/O and memory.
 */
struct calibration *calib_fit_aiconfigurator(const char *gemm_csv, const char *context_csv,
                                             const char *generation_csv, const struct llm *model,
                                             const struct gpu *gpu, const char *weight_dtype,
                                             const char *kv_dtype, FILE *talk,
                                             struct base_error *e);

/* The same, written to output_h5. Returns 0 or -1. */
int calib_import_aiconfigurator(const char *gemm_csv, const char *context_csv,
                                const char *generation_csv, const struct llm *model,
                                const struct gpu *gpu, const char *weight_dtype,
                                const char *kv_dtype, const char *output_h5, FILE *talk,
                                struct base_error *e);

/* LLMServingSim's tables, of one model on one GPU. */
struct calib_operators {
  const char *const *path; /* files in any order: dense, per_sequence, attention; perhaps skew, and
                              an all-reduce table of AIConfigurator's */
  size_t npaths;
  const struct llm *model;
  const struct gpu *gpu;
  uint32_t tp;        /* GPUs of the tensor-parallel group; the tables are of one of them */
  const char *engine; /* "vLLM 0.19.0"; NULL: what is known of the files, else not stated */
};
/*
 * Makes a calibration by tables of them: operators are summed as often as the model runs them,
 * attention becomes grids, uneven batches a share by rows. Sealed. Weights and KV cache are bf16.
 * talk may be NULL; what is missing, what falls and the held-out errors are told there. NULL on
 * failure: BASE_INPUT with file and line for bad tables, BASE_ENV for I/O and memory.
 */
struct calibration *calib_fit_llmservingsim(const struct calib_operators *in, FILE *talk,
                                            struct base_error *e);
/* The same, written to output_h5. Returns 0 or -1. */
int calib_import_llmservingsim(const struct calib_operators *in, const char *output_h5, FILE *talk,
                               struct base_error *e);

/* What the importers below take. */
struct calib_input {
  const char *const *path; /* files */
  size_t npaths;
  const struct llm *model;
  const struct gpu *gpu;
  const char *weight_dtype, *kv_dtype; /* "fp8" or "bfloat16" */
  uint32_t tp;                         /* GPUs of the tensor-parallel group */
  const char *engine;                  /* "vLLM 0.3.0"; NULL: what the tables say, if anything */
  int derive; /* 1: attention that the tables lack is derived; 0: that is an error */
};

/*
 * Makes a calibration by tables; NULL on failure (BASE_INPUT with file and line for bad tables,
 * BASE_ENV for I/O and memory). What is derived, what falls and the held-out errors are told on
 * talk, which may be NULL. docs/calibration.md says how each works.
 *
 * aiconfigurator  GEMM, context attention, generation attention, in this order; then perhaps
 *                 all-reduce tables (custom, NCCL)
 * vidur           mlp.csv; perhaps attention.csv, all_reduce.csv, send_recv.csv, in any order
 * splitwise       perf_model.csv: whole steps
 * roofline        no file: all is derived from shapes and data sheet
 */
struct calibration *calib_fit_kernels(const struct calib_input *in, FILE *talk,
                                      struct base_error *e);
struct calibration *calib_fit_vidur(const struct calib_input *in, FILE *talk, struct base_error *e);
struct calibration *calib_fit_splitwise(const struct calib_input *in, FILE *talk,
                                        struct base_error *e);
struct calibration *calib_fit_roofline(const struct calib_input *in, FILE *talk,
                                       struct base_error *e);

/*
 * How far `other` is from `measured`, both by tables, at the grid points of the first that were
 * measured, not filled in (calib/measured_points.h): one record a part, named as in lull
 * calibration show, with the number of points and p50, p95 and max of |other - measured| /
 * measured. Fills at most `max` and returns how many; -1: out of memory.
 */
int calib_compare(const struct calibration *measured, const struct calibration *other,
                  struct calibration_residual *r, size_t max, struct base_error *e);

#endif
