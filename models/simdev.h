/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The simulated device: answers the device contract from a cost model and lets time jump.
 *
 * Forward work costs what cost_eval says of each step's shape; a run of steps under one law (no
 * speculation, no chunks, no knot in between) is one arithmetic series, solved in closed form.
 * Copies last bytes / bandwidth, rounded up to a tick. While a serve and a train lane of a GPU are
 * both active, each tick of either lasts contended_ps (F5); copies neither contend nor count.
 */
#ifndef MODELS_SIMDEV_H
#define MODELS_SIMDEV_H

#include <lull/device.h>

#include "base/error.h"

struct cost_model;

struct simdev_gpu {
  int64_t memory_bytes;
  int64_t copy_bytes_per_s;      /* host link, one direction, > 0 */
  const struct cost_model *cost; /* of the server on this GPU; borrowed */
  uint32_t layers;               /* safe points of a step */
  lull_time contended_ps;        /* >= LULL_TICK_PS; 0: the GPU takes no training lane */
};

struct lull_device *simdev_create(const struct simdev_gpu *gpu, int ngpus, struct base_error *e);
void simdev_destroy(struct lull_device *d);
extern const struct lull_device_ops simdev_ops;

#endif
