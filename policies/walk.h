/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A walk over the rows of a server in the order in which they came into the batch, as engines
 * schedule: each row in its turn takes the blocks of its next step, and where they are not free
 * others give up theirs. Rows that were walked have taken theirs; those ahead have not.
 *
 *   struct walk w = walk_open(q);
 *   for (lull_id id; (id = walk_next(&w)) >= 0;)
 *     ... walk_free(&w), w.need, walk_out(&w, victim) ...
 */
#ifndef POLICIES_WALK_H
#define POLICIES_WALK_H

#include "queue.h"

struct walk {
  struct queue *q;
  lull_id at[LULL_CLASSES]; /* by class: the first row ahead, -1: none */
  uint64_t entered;         /* of the row that is at its turn */
  int64_t need;             /* blocks that it takes with its next step */
  int64_t ahead;            /* and those ahead of it */
};

static inline int64_t walk_growth(const struct queue *q, const struct lull_request *r)
{
  return (int64_t)queue_next_blocks(r, q->s) - lull_kv_blocks(r, q->s);
}

static inline struct walk walk_open(struct queue *q)
{
  const struct lull_host *h = q->h;
  struct walk w = {.q = q};
  for (uint32_t c = 0; c < h->classes; c++) {
    lull_id id = w.at[c] = h->first(h->ctx, q->s->id, LULL_DECODE, (int)c);
    while (id >= 0) {
      const struct lull_request *r = h->request(h->ctx, id);
      w.ahead += walk_growth(q, r);
      id = r->next;
    }
  }
  return w;
}

/* The turn of the next row; -1: all were walked. */
static inline lull_id walk_next(struct walk *w)
{
  const struct lull_host *h = w->q->h;
  const struct lull_request *best = NULL;
  for (uint32_t c = 0; c < h->classes; c++) {
    const struct lull_request *r = w->at[c] >= 0 ? h->request(h->ctx, w->at[c]) : NULL;
    if (r && (!best || r->entered < best->entered))
      best = r;
  }
  if (!best)
    return -1;
  w->at[best->cls] = best->next;
  w->entered = best->entered;
  w->need = walk_growth(w->q, best);
  w->ahead -= w->need;
  return best->id;
}

/* Blocks that are free at the turn of a row, before it takes its own. */
static inline int64_t walk_free(const struct walk *w)
{
  return w->q->p->blocks_left + w->ahead + w->need;
}

/* Takes a request out by recompute: a row, that at its turn too, one HELD or in PREFILL. */
static inline void walk_out(struct walk *w, lull_id id)
{
  const struct lull_request *r = w->q->h->request(w->q->h->ctx, id);
  if (r->state == LULL_DECODE && r->entered > w->entered)
    w->ahead -= walk_growth(w->q, r);
  else if (r->state == LULL_DECODE && r->entered == w->entered)
    w->need = 0;
  if (w->at[r->cls] == id)
    w->at[r->cls] = r->next;
  queue_preempt(w->q, id);
}

#endif
