/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What priority and cap share: one line a class, in order of importance, and the eviction of
 * latency-tolerant requests for a live one that waits.
 *
 * Importance: interactive classes first, then the others, each in scenario order.
 */
#ifndef POLICIES_RANKED_H
#define POLICIES_RANKED_H

#include "queue.h"

struct ranked {
  int how;        /* enum lull_preempt */
  int evict;      /* a waiting live request may take out running batch */
  uint32_t limit; /* most batch requests in flight on a server; UINT32_MAX: no bound */
};

#define RANKED_PARAM_EVICT                                                                         \
  {                                                                                                \
    .name = "evict", .kind = LULL_PARAM_CHOICE, .preset = "yes", .min = 0, .max = 1,               \
    .choices = "yes no",                                                                           \
    .doc = "may a waiting live request take out running batch requests where that makes room"      \
  }

/* Class of an importance, 0 the highest. */
static inline uint32_t ranked_class(const struct lull_host *h, uint32_t rank)
{
  for (int tolerant = 0; tolerant < 2; tolerant++)
    for (uint32_t c = 0; c < h->classes; c++)
      if ((int)!(h->interactive_mask >> c & 1) == tolerant && rank-- == 0)
        return c;
  return 0;
}

static inline int ranked_is_live(const struct lull_host *h, uint32_t cls)
{
  return h->interactive_mask >> cls & 1;
}

/* Batch requests of the server that have started and not ended, wherever their KV is. */
static inline uint32_t ranked_in_flight(const struct queue *q)
{
  static const int lists[] = {LULL_PREFILL,      LULL_DECODE,  LULL_HELD,
                              LULL_SWAPPING_OUT, LULL_SWAPPED, LULL_SWAPPING_IN};
  uint32_t n = 0;
  for (int i = 0; i < 6; i++)
    n += queue_count(q, lists[i], ~q->h->interactive_mask);
  return n;
}

/* What a live request still lacks; none of it is lacking at <= 0. */
struct ranked_lack {
  int64_t blocks, seqs, tokens;
};

/* Notes what taking r out will give, blocks that are copied out first included. */
static inline void ranked_take(struct ranked_lack *lack, const struct lull_request *r,
                               const struct lull_server *s)
{
  int row = r->state == LULL_DECODE;
  lack->blocks -= row ? queue_next_blocks(r, s) : r->blocks;
  lack->seqs -= r->state != LULL_HELD;
  lack->tokens -= row ? (int64_t)s->row_tokens : 0;
}

static inline int ranked_enough(const struct ranked_lack *lack)
{
  return lack->blocks <= 0 && lack->seqs <= 0 && lack->tokens <= 0;
}

/*
 * Walks the batch requests that hold KV, least important class first, in it HELD before PREFILL
 * before DECODE, last entered first, until nothing lacks; takes them out where `act`. A request
 * that gives nothing of what lacks is passed over.
 */
static inline void ranked_walk(struct queue *q, struct ranked_lack *lack, int act)
{
  static const int lists[] = {LULL_HELD, LULL_PREFILL, LULL_DECODE};
  const struct lull_host *h = q->h;
  for (uint32_t rank = h->classes; rank-- > 0;) {
    uint32_t cls = ranked_class(h, rank);
    if (ranked_is_live(h, cls))
      return;
    for (int i = 0; i < 3; i++) {
      lull_id id = h->last(h->ctx, q->s->id, lists[i], (int)cls);
      while (id >= 0 && !ranked_enough(lack)) {
        const struct lull_request *r = h->request(h->ctx, id);
        lull_id victim = id;
        id = r->prev;
        if (lack->blocks <= 0 && (i == 0 || (i == 1 && lack->seqs <= 0)))
          continue;
        ranked_take(lack, r, q->s);
        if (act)
          queue_preempt(q, victim);
      }
    }
  }
}

/* Blocks that copies under way will set free. */
static inline int64_t ranked_coming(const struct queue *q)
{
  const struct lull_host *h = q->h;
  int64_t n = 0;
  for (uint32_t c = 0; c < h->classes; c++)
    for (lull_id id = h->first(h->ctx, q->s->id, LULL_SWAPPING_OUT, (int)c); id >= 0;) {
      const struct lull_request *r = h->request(h->ctx, id);
      n += r->blocks;
      id = r->next;
    }
  return n;
}

/*
 * Takes out batch requests so that the WAITING live request `id` fits, now or when the copies have
 * ended; none where even all of them would not do, or where waiting for copies already will.
 * Returns whether any was taken out.
 *
 * Tokens lack only where the rows alone use up the budget: then a chunk of a block's tokens is made
 * possible. A budget used up by other chunks comes back by itself.
 */
static inline int ranked_make_room(struct queue *q, lull_id id)
{
  const struct lull_host *h = q->h;
  const struct lull_server *s = q->s;
  const struct lull_request *r = h->request(h->ctx, id);
  int64_t rows = (int64_t)queue_count(q, LULL_DECODE, QUEUE_ALL) * s->row_tokens;
  int64_t spare = (int64_t)s->token_budget - rows, need = lull_blocks_for(s, r->prefill_target);
  int64_t least = r->prefill_target < s->block_tokens ? r->prefill_target : s->block_tokens;
  int64_t have = q->p->blocks_left + ranked_coming(q);
  struct ranked_lack lack = {.blocks = need + s->watermark_blocks - have,
                             .seqs = 1 - (int64_t)q->p->seqs_left,
                             .tokens = spare > 0 ? 0 : least - spare};
  if (spare > 0 && q->p->tokens_left <= 0)
    return 0;
  struct ranked_lack left = lack;
  ranked_walk(q, &left, 0);
  /* in a pool with nothing else in it the watermark does not count */
  if (lack.blocks - left.blocks + have == s->kv_blocks && left.blocks <= s->watermark_blocks)
    left.blocks = 0;
  if (!ranked_enough(&left) || ranked_enough(&lack))
    return 0;
  ranked_walk(q, &lack, 1);
  return 1;
}

/* How the line of a class was left. */
enum ranked_left {
  RANKED_SERVED,  /* no one waits */
  RANKED_LIMITED, /* someone waits for the limit on batch alone: takes nothing from those behind */
  RANKED_BLOCKED  /* someone does not fit */
};

/* Serves the line of one class. After a preemption batch does not join in the same plan, and live
 * only where it was batch that lost. */
static inline enum ranked_left ranked_serve_class(struct queue *q, const struct ranked *rules,
                                                  uint32_t cls)
{
  const struct lull_host *h = q->h;
  uint32_t line = 1u << cls;
  int live = ranked_is_live(h, cls);
  if (live ? q->preempted & h->interactive_mask : q->preempted)
    return queue_waits(q, line) ? RANKED_BLOCKED : RANKED_SERVED;
  if (!queue_resume(q, line))
    return RANKED_BLOCKED;
  for (lull_id id; (id = queue_next(q, LULL_WAITING, line, -1)) >= 0;) {
    if (!live && ranked_in_flight(q) >= rules->limit)
      return RANKED_LIMITED;
    if (queue_admit(q, id))
      continue;
    if (!live || !rules->evict || !ranked_make_room(q, id) || !queue_admit(q, id))
      return RANKED_BLOCKED;
  }
  return RANKED_SERVED;
}

/*
 * Serves the classes by importance up to the first that is blocked; the PREFILL requests of those
 * behind it still get what is left of the budget. Behind a class at the limit, those in flight
 * still come back: they count in the limit, so to keep them out could last for ever. Returns the
 * classes more important than the first with someone who waits: all if there is none.
 */
static inline uint32_t ranked_serve(struct queue *q, const struct ranked *rules)
{
  uint32_t above = 0;
  enum ranked_left worst = RANKED_SERVED;
  for (uint32_t rank = 0; rank < q->h->classes; rank++) {
    uint32_t cls = ranked_class(q->h, rank);
    queue_prefill(q, 1u << cls);
    if (worst != RANKED_BLOCKED) {
      enum ranked_left left = ranked_serve_class(q, rules, cls);
      worst = left > worst ? left : worst;
    }
    if (worst == RANKED_SERVED)
      above |= 1u << cls;
  }
  return above;
}

/* Someone who is HELD gives up, the least important first (see queue_give_up). */
static inline int ranked_give_up(struct queue *q)
{
  for (uint32_t rank = q->h->classes; rank-- > 0;)
    if (queue_give_up(q, 1u << ranked_class(q->h, rank)))
      return 1;
  return 0;
}

/* A whole plan, as priority explains it. */
static inline void ranked_plan(struct queue *q, const struct ranked *rules)
{
  for (uint32_t rank = q->h->classes; rank-- > 0;)
    if (queue_relieve(q, 1u << ranked_class(q->h, rank)))
      break;
  uint32_t above = ranked_serve(q, rules);
  while (!q->preempted && ranked_give_up(q))
    above = ranked_serve(q, rules);
  queue_wake(q, above);
}

#endif
