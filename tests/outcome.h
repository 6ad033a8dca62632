/* SPDX-License-Identifier: GPL-3.0-or-later */
/* All that comes out of one run of a world, and the comparison of two, byte by byte. */
#ifndef TESTS_OUTCOME_H
#define TESTS_OUTCOME_H

#include "sim/world/world.h"

struct outcome {
  int rc; /* of world_run */
  struct base_error e; /* where rc is not 0 */
  struct world_result r;
  char *log; /* owned, a line each, no NUL at its end; NULL before */
  size_t size, cap, lines; /* bytes of the log, room for it, its lines */
  uint64_t pieces; /* reports that the fuzzed device made up */
};

/* A world_config.log whose ctx is an outcome. */
void outcome_line(void *outcome, const struct world_log_line *l);
/* Frees log and result. */
void outcome_free(struct outcome *o);
/*
 * 1 and the first difference in `why`, or 0. A run that kept no log has that in common with any. Of
 * runs that both failed the logs may end apart: one
 * may have noticed earlier in the instant. context: the lines of the log before the difference go
 * to stderr.
 */
int outcome_differ(const struct outcome *a, const struct outcome *b,
                   const struct world_config *cfg, int context, char *why, size_t size);

#endif
