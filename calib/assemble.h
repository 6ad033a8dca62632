/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Putting together a calibration by tables, for importers whose tables lack a part of it. What is
 * derived instead is noted in the calibration and told.
 */
#ifndef CALIB_ASSEMBLE_H
#define CALIB_ASSEMBLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "calib/roofline.h"

struct calibration;
struct calibration_curve;
struct calibration_residual;
struct calibration_samples;

enum { ASSEMBLE_RESIDUALS = 48, ASSEMBLE_SAMPLES = 24, ASSEMBLE_KNOTS = 512 };

/* What it is a calibration of. */
struct assemble_of {
  const struct llm *model; /* whole */
  const struct gpu *gpu;
  const char *weight_dtype, *kv_dtype; /* "fp8" or "bfloat16" */
  uint32_t tp;
};

/* Types that importers take: "fp8" or "bfloat16". */
int assemble_check_types(const struct assemble_of *of, struct base_error *e);
/* An empty calibration by tables with names, sizes and room for the rest; NULL: out of memory. */
struct calibration *assemble_begin(const struct assemble_of *of, struct base_error *e);
/* Room for n further residuals, of at most ASSEMBLE_RESIDUALS. */
struct calibration_residual *assemble_residuals(struct calibration *c, uint32_t n);
/* A further set of n samples, zeroed; NULL: out of memory, or names longer than there is room. */
struct calibration_samples *assemble_samples(struct calibration *c, const char *name,
                                             const char *columns, uint32_t width, size_t n,
                                             struct base_error *e);
/* Notes that a part is derived. */
void assemble_derived(struct calibration *c, const char *part);
/*
 * No layer can be quicker than its multiplications at the GPU's peak; half as much again is allowed
 * for clocks above those of the data sheet. What is quicker was measured on another GPU, of another
 * model or group, or is in another unit: an error about `path`.
 */
int assemble_check_peak(const struct calibration *c, const struct llm *model, const struct gpu *g,
                        const char *path, struct base_error *e);
/* The same of attention, row by row: its multiplications at the peak, and the keys and values that
 * it reads at the peak of the memory. A row that was not measured (isl 0) is passed over. */
struct attention_row;
int assemble_check_attention(const struct roofline *r, const struct attention_row *row, size_t n,
                             const char *path, struct base_error *e);
/* A curve with these n knots (copied) of zeroes. */
int assemble_curve(struct calibration_curve *v, const int64_t *x, size_t n, struct base_error *e);

/* Times derived for what the tables lack; each notes what it did. */
int assemble_elementwise(struct calibration *c, const struct roofline *r); /* adds to the body */
int assemble_once(struct calibration *c, const struct roofline *r, struct base_error *e);
void assemble_sampler(struct calibration *c, const struct roofline *r); /* adds to the head */
int assemble_head(struct calibration *c, const struct roofline *r, struct base_error *e);
int assemble_attention(struct calibration *c, const struct roofline *r, struct base_error *e);

/*
 * Fills c->mixed with the sum of what chunks and decode rows cost alone, on a grid of the knots of
 * both, thinned where there are many.
 */
int assemble_sum(struct calibration *c, struct base_error *e);
/* The same for tables that have no call with both; it is noted as derived. */
int assemble_mixed(struct calibration *c, struct base_error *e);
/* Seals it and tells what it is. */
void assemble_finish(struct calibration *c, FILE *talk);

#endif
