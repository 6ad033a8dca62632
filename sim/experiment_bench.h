/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The bench on which one run stands: the world's configuration, the GPUs to simulate and a cursor on
 * the frozen plan, all made from one candidate of a scenario's arm; and the digest of its decision
 * log.
 */
#ifndef SIM_EXPERIMENT_BENCH_H
#define SIM_EXPERIMENT_BENCH_H

#include "models/simdev.h"
#include "sim/scenario/scenario.h"

struct bench {
  struct world_config config; /* log goes to the digest; max_repeat, stop, progress: caller's */
  struct lull_device *device; /* NULL before bench_simulate */
  struct world_class *cls; /* owned, as all below */
  struct world_server *server;
  struct simdev_gpu *gpu;
  struct plan_cursor cursor;
  int cursor_open;
  struct bench_digest *digest;
};

/* Borrows all it is given until bench_close. On failure nothing is left open. */
int bench_open(struct bench *b, const struct scenario *s, const struct scenario_arm *arm,
               const struct scenario_candidate *candidate, const struct plan *plan,
               struct base_error *e);
/* The simulated device of these GPUs, which the bench keeps. */
int bench_simulate(struct bench *b, struct base_error *e);
/* XXH3-128 over the decision log so far, lower-case hex. A line is written as time (8 bytes, as
 * all integers little-endian), server (2), kind (1), a (8), b (8), length of the text or
 * 0xffffffff for none (4), text. */
void bench_digest(const struct bench *b, char hex[33]);
void bench_close(struct bench *b);

#endif
