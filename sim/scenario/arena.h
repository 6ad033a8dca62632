/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Memory that is freed all at once: what a scenario holds. */
#ifndef SIM_SCENARIO_ARENA_H
#define SIM_SCENARIO_ARENA_H

#include <stddef.h>

struct arena_chunk;
struct arena {
  struct arena_chunk *chunk; /* newest first */
  int failed;                /* memory ran out once: what was built is incomplete */
};

/* count * size zeroed bytes, aligned for anything; NULL when out of memory, and `failed` is set. */
void *arena_alloc(struct arena *a, size_t count, size_t size);
/* A copy; "" (and `failed`) when out of memory, so that readers can go on to the end. */
const char *arena_text(struct arena *a, const char *text);
/* Like printf. */
const char *arena_format(struct arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void arena_free(struct arena *a);

#endif
