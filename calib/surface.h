/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Measured times at points of up to three coordinates, and a simple law that they are near to. A
 * point that was measured has its time. Any other has the law's, times how much the measured
 * points around it exceed the law: along an axis, the ratio lies on the line between the nearest
 * two; beyond the last it stays. So the grid is used where it has the shape, and the law carries
 * over the distance between.
 */
#ifndef CALIB_SURFACE_H
#define CALIB_SURFACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct calibration_residual;
struct fit_thirds;

enum { SURFACE_RANK = 3 };

/* What is left out, to be predicted from the rest. */
enum surface_holding {
  SURFACE_WHOLE,
  SURFACE_POINTS, /* every fifth inner point: measured ones lie before and behind it along an axis
                   */
  SURFACE_LINES   /* every fifth line along the last axis: a shape that the table does not have */
};

struct surface_point {
  int64_t x[SURFACE_RANK], ps; /* coordinates beyond the rank: 0 */
};

/* The law's time at x, ps, above 0. */
typedef double surface_law(const void *law, const int64_t *x);

struct surface {
  uint32_t rank;
  uint32_t plain; /* bit a: along axis a the time itself, not its ratio, lies on the line */
  struct surface_point *point; /* [n] owned; sorted, no two alike */
  size_t n;
  surface_law *law;
  const void *arg;             /* of law, borrowed */
  int held;                    /* enum surface_holding */
  int64_t *axis[SURFACE_RANK]; /* [naxis[a]] owned: the distinct coordinates, ascending */
  size_t naxis[SURFACE_RANK];
  unsigned char *fifth; /* [n] owned: is it every fifth inner point? */
};

/* Is point i left out? */
int surface_held(const struct surface *s, size_t i);
/* Sorts the points and lists the axes; of two alike the quicker is kept. */
int surface_index(struct surface *s, struct base_error *e);
/*
 * The time at x. Where several axes have neighbours, the median of what they say (of two the
 * mean). Where the point is off the grid on several axes, one after the other. -1: nothing near.
 */
int64_t surface_ps(const struct surface *s, const int64_t *x);
/*
 * What `holding` leaves out, from the others; the law must have been fitted without it. Fills r[3],
 * named NAME, "small NAME", "large NAME": all, and the halves by time.
 */
int surface_errors(struct surface *s, enum surface_holding holding, const char *name,
                   struct calibration_residual *r, struct base_error *e);
/* The same, added to errors that have room for s->n more. */
int surface_judge(struct surface *s, enum surface_holding holding, struct fit_thirds *t,
                  struct base_error *e);
void surface_free(struct surface *s);

#endif
