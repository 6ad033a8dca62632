/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Measured times on a rectangular grid of up to four axes, looked up by multilinear interpolation:
 * never in the logarithm, for kernels grow in proportion to their work between two grid points.
 *
 * Outside the grid: below an axis' first knot the value there stays (a kernel costs its launch,
 * however small its work); beyond the last one the line through the last two goes on, but does not
 * fall. Integers only; each axis is folded by one division, rounded down.
 */
#ifndef MODELS_LATTICE_H
#define MODELS_LATTICE_H

#include <stddef.h>
#include <stdint.h>

enum { LATTICE_RANK = 4 };

/* Zeroed: empty. */
struct lattice {
  uint32_t rank;
  uint32_t n[LATTICE_RANK];
  int64_t *x[LATTICE_RANK]; /* [n[a]] strictly ascending, 0 to 2^24; owned */
  int64_t *y;               /* [n[0] * ... * n[rank - 1]], last axis fastest; owned; 0 to 2^53 */
};

/* A coordinate num / den, for means that are no whole numbers. 0 <= num, 1 <= den <= 2^32. */
struct lattice_point {
  int64_t num, den;
};

/* How many values y has. */
size_t lattice_cells(const struct lattice *l);
/* The grid point of a cell. */
void lattice_cell_point(const struct lattice *l, size_t cell, struct lattice_point *p);
/* The value at p[rank]. The lattice must not be empty. */
int64_t lattice_value(const struct lattice *l, const struct lattice_point *p);
/* Bit a is set if p[a] is below the axis a (`beyond` 0) or beyond it (1). */
unsigned lattice_outside(const struct lattice *l, const struct lattice_point *p, int beyond);
/* A copy that the caller owns; -1 when out of memory, with nothing left to free. */
int lattice_copy(struct lattice *to, const struct lattice *from);
/* Frees what it owns and makes it empty. */
void lattice_free(struct lattice *l);

#endif
