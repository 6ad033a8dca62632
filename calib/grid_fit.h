/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From measured points to a full grid. Points may lie on several grids at once (coarse ones over a
 * wide range, fine ones over a part); their union has holes, which are filled by interpolation
 * along one axis after another, so that looking up is plain multilinear interpolation.
 */
#ifndef CALIB_GRID_FIT_H
#define CALIB_GRID_FIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "models/lattice.h"

struct calibration_residual;
struct fit_thirds;

struct grid_point {
  int64_t x[LATTICE_RANK], ps;
};

/*
 * Makes *l (zeroed) of n points, no two alike. order[rank]: axes along which holes are filled, the
 * best first: first only between measured points of a line, over all axes; what is left then takes
 * the value at the near end of its line, or goes on beyond its far end in a straight line.
 */
int grid_make(struct lattice *l, uint32_t rank, const uint32_t *order,
              const struct grid_point *point, size_t n, struct base_error *e);

/* Every fifth inner point (one that has measured points before and behind it along some axis), in
 * the order given, against a grid made of the others: all of them, those quicker than their
 * median, the others. Fills r[3], named NAME, "small NAME", "large NAME". */
int grid_errors(uint32_t rank, const uint32_t *order, const struct grid_point *point, size_t n,
                const char *name, struct calibration_residual *r, struct base_error *e);

/* The same, added to errors that have room for n more. */
int grid_judge(uint32_t rank, const uint32_t *order, const struct grid_point *point, size_t n,
               struct fit_thirds *t, struct base_error *e);

#endif
