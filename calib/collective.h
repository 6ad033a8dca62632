/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * All-reduce of a tensor-parallel group: measured by message size, or derived from the link where
 * no table is given. Two run a layer (after attention and after the MLP).
 */
#ifndef CALIB_COLLECTIVE_H
#define CALIB_COLLECTIVE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "calib/operators.h"

struct calibration;
struct calibration_residual;
struct gpu;

/*
 * AIConfigurator's tables of tp GPUs, of a custom kernel and of NCCL, in any order (borrowed
 * paths, n may be 0). What engines do: the custom kernel up to the largest message that it was
 * measured at, NCCL beyond. t is operators_free'd by the caller.
 */
int collective_load(struct operators *t, const char *const *path, size_t n, uint32_t tp,
                    const char *device, struct base_error *e);
/* Fills c->collective and its note of measured rows, sorted by bytes; *r: held-out errors. */
int collective_take(struct calibration *c, const struct operators_collective_row *row, size_t n,
                    struct calibration_residual *r, struct base_error *e);
/*
 * Without measurements: what the GPUs' link lets through at its peak, 2 (tp - 1) / tp times the
 * bytes, and for each of the two phases launch_ps. A bound from below, said so wherever the
 * calibration is used. talk may be NULL. With one GPU there is none.
 */
int collective_derive(struct calibration *c, const struct gpu *g, int64_t launch_ps, FILE *talk,
                      struct base_error *e);

#endif
