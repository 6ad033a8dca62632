/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Records come as requests end and leave by id, in pages of ORDER_PAGE. A page leaves once all of
 * it has ended and all before it have left. Of pages that are whole but wait for an older one a few
 * stay in memory and the others go to a temporary file, so memory grows with the number of pages in
 * which something is unfinished.
 */
#ifndef SIM_REPORT_ORDER_H
#define SIM_REPORT_ORDER_H

#include "sim/world/world.h"

enum {
  ORDER_PAGE = 4096, /* records, 300 KiB */
  ORDER_WAITING = 32 /* whole pages that may wait in memory */
};

/* Takes records first ... first + n - 1, gone afterwards. n is ORDER_PAGE but for the last of a
 * run. */
typedef int order_take(void *ctx, uint64_t first, const struct world_record *record, size_t n,
                       struct base_error *e);

struct order;
/* NULL: out of memory. */
struct order *order_new(order_take *take, void *ctx);
/* The record of a request that ended; each id once. -1 with *e filled if memory or the temporary
 * file has no room, or if `take` failed; then nothing more may be put before order_finish. */
int order_put(struct order *o, lull_id id, const struct world_record *r, struct base_error *e);
/* Lets all `total` records of a run leave, and is ready for the next run. `failed`: drop them. */
int order_finish(struct order *o, uint64_t total, int failed, struct base_error *e);
void order_free(struct order *o); /* NULL is fine */

#endif
