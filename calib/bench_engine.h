/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Steps of the engine, timed as a run has them: submitted to a device, computed by its lane on the
 * engine's own operations, told at a wait. Keys and values are taken as computed, not computed.
 */
#ifndef CALIB_BENCH_ENGINE_H
#define CALIB_BENCH_ENGINE_H

#include "backend/ops.h"
#include "backend/weights.h"
#include "calib/bench.h"

struct bench_engine;

/* Sizes of the largest step: `max_rows` decode rows and chunks, `max_tokens` tokens in all,
 * sequences of `max_context` tokens. Weights and ops are borrowed. NULL with BASE_INPUT (longer
 * than the model takes) or BASE_ENV. */
struct bench_engine *bench_engine_create(const struct weights *w, struct ops *ops,
                                         uint32_t max_rows, uint32_t max_tokens,
                                         uint32_t max_context, struct base_error *e);
void bench_engine_destroy(struct bench_engine *b);
/* Lives as long as it. */
const struct bench *bench_engine_bench(const struct bench_engine *b);

#endif
