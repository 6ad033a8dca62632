/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Which points of an attention grid were measured, by the samples that the calibration keeps: the
 * grid is a full rectangle, the table behind it may have holes, and those were filled.
 */
#ifndef CALIB_MEASURED_POINTS_H
#define CALIB_MEASURED_POINTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "models/lattice.h"

struct calibration;

enum measured_part { MEASURED_DECODE, MEASURED_PROMPT, MEASURED_MIXED, MEASURED_PARTS };

/* Zeroed: nothing is known of any point. */
struct measured_points {
  int known;                  /* do the samples tell one by one what was measured? */
  int64_t (*x)[LATTICE_RANK]; /* [n] owned; sorted, axes as those of the part's grid, then 0 */
  size_t n;
};

/* Fills *m for the part (enum measured_part); where no samples are kept by the grid's axes,
 * m->known is 0. -1: out of memory. */
int measured_points_list(struct measured_points *m, const struct calibration *c, int part,
                         struct base_error *e);
/* Was the grid point p[rank] measured? m->known must be set. */
int measured_points_has(const struct measured_points *m, const struct lattice_point *p,
                        uint32_t rank);
/* Frees what it owns. */
void measured_points_free(struct measured_points *m);

#endif
