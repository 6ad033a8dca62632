/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The naive reference world: a second implementation of the page in sim/world/world.h, made to be
 * obviously right instead of fast. It takes one step at a time, asks the cost model for each, walks
 * all requests for every question, counts token by token and keeps no lazy counter, no closed form
 * and no index. It has no device: the GPUs that the simulated device would get are its own.
 *
 * What it must share with the real world is every output: records, accounts, counters, histograms
 * and each line of the decision log.
 */
#ifndef TESTS_NAIVE_WORLD_H
#define TESTS_NAIVE_WORLD_H

#include "models/simdev.h"
#include "sim/world/world.h"

/* Like world_run on simdev_create(gpu, cfg->ngpus, ...); max_repeat and progress are ignored. Free
 * *out with world_result_free. */
int naive_run(const struct world_config *cfg, const struct simdev_gpu *gpu,
              struct world_result *out, struct base_error *e);

#endif
