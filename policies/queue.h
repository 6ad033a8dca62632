/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the queueing policies of this folder share: lines of requests in order of arrival, victims,
 * and the rule that keeps a server from standing still. Header only, so that a policy stays one
 * object that needs nothing but <lull/policy.h>; copy it beside a policy of your own.
 *
 * A LINE is a set of classes (bit mask) served in order of arrival: first those that were running
 * before (HELD, SWAPPED), then WAITING ones. It is served up to the first that does not fit: who is
 * behind waits too, else a large request would wait for ever.
 */
#ifndef POLICIES_QUEUE_H
#define POLICIES_QUEUE_H

#include <lull/policy.h>

#define QUEUE_ALL UINT32_MAX /* line of all classes */

/* What a plan of ours has to remember while it is made. */
struct queue {
  const struct lull_host *h;
  const struct lull_server *s;
  struct lull_plan *p;
  int how;            /* enum lull_preempt for DECODE rows: LULL_RECOMPUTE or LULL_SWAP */
  uint32_t preempted; /* classes that lost a request in this plan for want of room */
  int gave_up;        /* someone HELD gave up its KV in this plan */
  uint32_t parked;    /* requests that were HELD, swapped or being copied when the plan began, */
  uint32_t waiting;   /* that were WAITING then, */
  uint32_t prefilling; /* and in PREFILL */
};

/* The parameter that says how rows are preempted, and its value as enum lull_preempt. */
#define QUEUE_PARAM_PREEMPT                                                                        \
  {                                                                                                \
    .name = "preempt", .kind = LULL_PARAM_CHOICE, .preset = "recompute", .min = 0, .max = 1,       \
    .choices = "recompute swap",                                                                   \
    .doc = "how a running request gives up its KV: dropped and recomputed, or copied to the host"  \
  }
static inline int queue_how(int64_t choice)
{
  return choice ? LULL_SWAP : LULL_RECOMPUTE;
}

/* Blocks that a DECODE row takes from its pool with its next step, its present ones included. */
static inline uint32_t queue_next_blocks(const struct lull_request *r, const struct lull_server *s)
{
  uint64_t grown = (s->step + 1 - r->join_step) * r->rate_q16 + r->phase_q16;
  return lull_blocks_for(s, r->kv0 + (uint32_t)(grown >> 16));
}

/* Requests of a line in a state. */
static inline uint32_t queue_count(const struct queue *q, int list, uint32_t line)
{
  uint32_t n = 0;
  for (uint32_t c = 0; c < q->h->classes; c++)
    if (line >> c & 1)
      n += q->s->count[list][c];
  return n;
}

/* The start of a plan. */
static inline struct queue queue_open(const struct lull_host *h, const struct lull_server *s,
                                      struct lull_plan *p, int how)
{
  struct queue q = {.h = h, .s = s, .p = p, .how = how};
  for (uint32_t c = 0; c < h->classes; c++) {
    q.waiting += s->count[LULL_WAITING][c];
    q.prefilling += s->count[LULL_PREFILL][c];
    q.parked += s->count[LULL_HELD][c] + s->count[LULL_SWAPPING_OUT][c] +
                s->count[LULL_SWAPPED][c] + s->count[LULL_SWAPPING_IN][c];
  }
  return q;
}

/* The one of a line that arrived first, among those with an id above `after`; -1: none. */
static inline lull_id queue_next(const struct queue *q, int list, uint32_t line, lull_id after)
{
  const struct lull_host *h = q->h;
  lull_id best = -1;
  for (uint32_t c = 0; c < h->classes; c++) {
    if (!(line >> c & 1) || !q->s->count[list][c])
      continue;
    lull_id id = h->first(h->ctx, q->s->id, list, (int)c);
    while (id >= 0) {
      if (id > after && (best < 0 || id < best))
        best = id;
      if (list == LULL_WAITING && id > after)
        break; /* this list is in order of arrival, the others by entry */
      id = h->request(h->ctx, id)->next;
    }
  }
  return best;
}

/* The one of a line that entered a state last; -1: none. */
static inline lull_id queue_latest(const struct queue *q, int list, uint32_t line)
{
  const struct lull_host *h = q->h;
  lull_id best = -1;
  uint64_t entered = 0;
  for (uint32_t c = 0; c < h->classes; c++) {
    lull_id id = line >> c & 1 ? h->last(h->ctx, q->s->id, list, (int)c) : -1;
    if (id < 0)
      continue;
    uint64_t e = h->request(h->ctx, id)->entered;
    if (best < 0 || e > entered) {
      best = id;
      entered = e;
    }
  }
  return best;
}

/* The one of a line that arrived last; -1: none. */
static inline lull_id queue_youngest(const struct queue *q, int list, uint32_t line)
{
  lull_id best = -1;
  for (lull_id id = -1; (id = queue_next(q, list, line, id)) >= 0;)
    best = id;
  return best;
}

/* Takes a request out: a PREFILL, and whatever cannot be copied, by recompute. 0 or a refusal. */
static inline int queue_preempt(struct queue *q, lull_id id)
{
  const struct lull_host *h = q->h;
  const struct lull_request *r = h->request(h->ctx, id);
  uint32_t cls = r->cls;
  int rc = LULL_NO_SUPPORT;
  if (q->how == LULL_SWAP && r->state != LULL_PREFILL)
    rc = h->preempt(h->ctx, q->p, id, LULL_SWAP);
  if (rc)
    rc = h->preempt(h->ctx, q->p, id, LULL_RECOMPUTE);
  if (!rc)
    q->preempted |= 1u << cls;
  return rc;
}

/* While the next step of the rows lacks blocks, takes out who of the line came last: a PREFILL
 * before a row, since less is lost. Returns 0 where the line has no one left to give. */
static inline int queue_relieve(struct queue *q, uint32_t line)
{
  while (q->p->blocks_left < 0) {
    lull_id id = queue_latest(q, LULL_PREFILL, line);
    if (id < 0)
      id = queue_latest(q, LULL_DECODE, line);
    if (id < 0 || queue_preempt(q, id))
      return 0;
  }
  return 1;
}

/* What is left of the token budget goes to the line's PREFILL requests, in order of arrival. */
static inline void queue_prefill(struct queue *q, uint32_t line)
{
  const struct lull_host *h = q->h;
  lull_id id = -1;
  if (!q->prefilling)
    return;
  while (q->p->tokens_left > 0 && (id = queue_next(q, LULL_PREFILL, line, id)) >= 0)
    h->chunk(h->ctx, q->p, id, (uint32_t)q->p->tokens_left);
}

/* Those of the line that ran before come back, in order of arrival. 0: one did not fit. */
static inline int queue_resume(struct queue *q, uint32_t line)
{
  static const int lists[] = {LULL_HELD, LULL_SWAPPED};
  if (!q->parked)
    return 1;
  for (int i = 0; i < 2; i++)
    for (lull_id id; (id = queue_next(q, lists[i], line, -1)) >= 0;)
      if (q->h->resume(q->h->ctx, q->p, id))
        return 0;
  return 1;
}

/* Admits one WAITING request with as long a first chunk as the budget allows. 0: does not fit. */
static inline int queue_admit(struct queue *q, lull_id id)
{
  if (q->p->tokens_left <= 0 || q->p->seqs_left <= 0)
    return 0;
  return q->h->chunk(q->h->ctx, q->p, id, (uint32_t)q->p->tokens_left) > 0;
}

/* Is anyone of the line outside the batch, so that it could be served? */
static inline int queue_waits(const struct queue *q, uint32_t line)
{
  return queue_count(q, LULL_WAITING, line) || queue_count(q, LULL_HELD, line) ||
         queue_count(q, LULL_SWAPPED, line);
}

/* Does nobody wait, and does every prompt under way get all its tokens? Then rows that end and
 * prompts that complete leave nothing to decide. */
static inline int queue_at_rest(const struct queue *q)
{
  return !q->parked && !q->preempted && q->p->tokens_left > 0 &&
         (!q->waiting || !queue_count(q, LULL_WAITING, QUEUE_ALL));
}

/* Is a copy of this server under way? Its end wakes us, and may free blocks. */
static inline int queue_copies(const struct queue *q)
{
  if (!q->parked && !q->preempted)
    return 0;
  return queue_count(q, LULL_SWAPPING_OUT, QUEUE_ALL) ||
         queue_count(q, LULL_SWAPPING_IN, QUEUE_ALL);
}

/*
 * Would the server stand still with this plan, with no copy to wait for, because requests that are
 * HELD keep each other from the blocks of their next step? Then the one of the line that arrived
 * last gives up its KV and 1 is returned: serve again. Whoever is accepted fits an empty pool, so
 * this ends with someone running.
 */
static inline int queue_give_up(struct queue *q, uint32_t line)
{
  if (!q->parked)
    return 0;
  if (queue_count(q, LULL_DECODE, QUEUE_ALL) || queue_count(q, LULL_PREFILL, QUEUE_ALL) ||
      queue_copies(q))
    return 0;
  lull_id id = queue_youngest(q, LULL_HELD, line);
  if (id < 0 || q->h->preempt(q->h->ctx, q->p, id, LULL_RECOMPUTE))
    return 0;
  q->gave_up = 1;
  return 1;
}

/*
 * When to be asked again, beside the mandatory wakes (of which those that free something are
 * declined while nobody could use it): when someone of `arrivals` comes (a blocked
 * line makes its own arrivals meaningless: they queue behind, and what can unblock it, a finish, a
 * prompt's end or a copy, wakes by itself); when a copy ends; and after one step if this plan
 * preempted, for then it admitted less than could fit. The last also holds where nothing is left to
 * run: the host then asks again at once (EMPTY).
 */
static inline void queue_wake(struct queue *q, uint32_t arrivals)
{
  struct lull_plan *p = q->p;
  p->decline = queue_at_rest(q) ? LULL_WAKE_DECLINABLE : 0;
  uint32_t known = (1u << q->h->classes) - 1;
  p->wake_classes = arrivals & known;
  p->wake = p->wake_classes ? LULL_WAKE_ARRIVAL : 0;
  if (queue_copies(q))
    p->wake |= LULL_WAKE_TRANSFER;
  if ((q->preempted || q->gave_up) && queue_waits(q, QUEUE_ALL)) {
    p->wake |= LULL_WAKE_STEPS;
    p->wake_steps = 1;
  }
}

/* Serves a whole line, first come first served. 0: someone waits. */
static inline int queue_serve(struct queue *q, uint32_t line)
{
  if (!queue_resume(q, line))
    return 0;
  if (!q->waiting && !q->gave_up && !q->preempted)
    return 1;
  for (lull_id id; (id = queue_next(q, LULL_WAITING, line, -1)) >= 0;)
    if (!queue_admit(q, id))
      return 0;
  return 1;
}

/* A plan with one line of all classes, as fcfs explains it. */
static inline void queue_plan_in_order(struct queue *q)
{
  int all = 0;
  queue_relieve(q, QUEUE_ALL);
  queue_prefill(q, QUEUE_ALL);
  if (!q->preempted) {
    all = queue_serve(q, QUEUE_ALL);
    while (!all && queue_give_up(q, QUEUE_ALL))
      all = queue_serve(q, QUEUE_ALL);
  }
  queue_wake(q, all ? QUEUE_ALL : 0);
}

#endif
