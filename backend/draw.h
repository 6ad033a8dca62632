/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Normal random numbers that have the same bits on every machine, and any of which can be had
 * without those before it.
 *
 * Number i of a stream is the sum of the eight 16-bit halves of Philox block i, less its mean,
 * times one factor: integers up to the last step, which is a single rounded product, so neither
 * libm nor contraction of products matters. A sum of eight is normal up to 3 deviations within a
 * few per cent of the density and ends at 4.9 deviations, which is all that weights ask for.
 */
#ifndef BACKEND_DRAW_H
#define BACKEND_DRAW_H

#include "backend/tensor.h"

/* Numbers first to first + n - 1 of the stream (seed, name) as elements of dtype. */
void draw_normal(uint64_t seed, const char *name, uint64_t first, size_t n, double deviation,
                 int dtype, void *to);
/* n times one value. */
void draw_constant(float value, size_t n, int dtype, void *to);

#endif
