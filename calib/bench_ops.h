/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Operations of a backend that note when the parts of a step begin and end. They call those they
 * stand before and compute nothing themselves; a layer costs two looks at the clock.
 */
#ifndef CALIB_BENCH_OPS_H
#define CALIB_BENCH_OPS_H

#include "backend/ops.h"

/* Monotonic ns; 0: it did not come to that. */
struct bench_marks {
  int64_t embedded;  /* end of the embedding: layers begin */
  int64_t head;      /* they end, and the head begins */
  int64_t sampled;   /* it ends */
  int64_t attention; /* in all layers together */
};

struct bench_ops {
  struct ops ops; /* for engines */
  struct ops_table table;
  struct ops *inner;
  struct bench_marks marks; /* of the step under way or the last one */
};

/* `inner` is borrowed. */
void bench_ops_open(struct bench_ops *b, struct ops *inner);
int64_t bench_ops_clock(void);

#endif
