/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Attention of prompts from a table of batches of equal prompts: measured where the table has the
 * shape, else near the law of fit_prefill (a curve over attended pairs, and so much a token).
 */
#ifndef CALIB_CHUNK_FIT_H
#define CALIB_CHUNK_FIT_H

#include "calib/tables.h"
#include "models/lattice.h"

struct calibration_residual;
struct fit_thirds;

/*
 * *l (zeroed): time of one chunk over (chunk, history), ps. History that was not measured is
 * carried over by pairs, at the chunk's own ratio to the law. r[3]: errors of every fifth inner
 * prompt from the others, "prefill attention" and its halves by time.
 */
int chunk_fit(const struct attention_table *t, struct lattice *l, struct calibration_residual *r,
              struct base_error *e);

/* Those errors, added to ones that have room for t->n more. */
int chunk_judge(const struct attention_table *t, struct fit_thirds *errors, struct base_error *e);

#endif
