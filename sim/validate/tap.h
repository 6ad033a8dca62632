/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A device that passes every call on, and notes of each step how long it took beside what it should
 * cost, and of each request who it is.
 *
 *   tap_begin(&tap, &config, inner, inner_ops);
 *   world_run(&config, tap_device(&tap), &tap_ops, &result, &e);
 */
#ifndef SIM_VALIDATE_TAP_H
#define SIM_VALIDATE_TAP_H

#include "sim/world/world.h"

/* A step that was whole. Told ones follow each other without a gap: then it begins with the end of
 * the one before, so that what the host does between the two is in it. */
struct tap_step {
  uint32_t rows, chunk_tokens;
  int64_t ps, cost_ps;
};

/* A request that was told of, by its id. */
struct tap_request {
  lull_id id;
  uint64_t key; /* of struct lull_device_request: the same in every run of a plan */
};

struct tap_lane {
  int kind, gpu;
  struct cost_shape shape; /* of the step under way */
  lull_time began, last_end, last_told;
};

struct tap {
  const struct world_config *config;
  struct lull_device *inner;
  const struct lull_device_ops *ops;
  int nlanes;
  struct tap_lane lane[LULL_LANES];
  struct tap_step *step; /* [nsteps] owned */
  size_t nsteps;
  struct tap_request *request; /* [nrequests] owned, in the order in which they were told of */
  size_t nrequests;
  int no_memory;
};

/* *t zeroed; all else is borrowed. */
void tap_begin(struct tap *t, const struct world_config *config, struct lull_device *inner,
               const struct lull_device_ops *ops);
struct lull_device *tap_device(struct tap *t);
extern const struct lull_device_ops tap_ops;
void tap_free(struct tap *t);

#endif
