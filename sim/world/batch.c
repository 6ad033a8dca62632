/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The decode batch of a server, lazily: nothing is touched per token or per row and step.
 *
 * A row's progress follows from the server's step count (F20), its end is a key in a heap, and KV
 * growth is counted by residue: without speculation a row's position in its last block is
 * (kv - 1) mod block = (kv0 - 1 - join_step + step) mod block, so rows with equal (kv0 - 1 -
 * join_step) mod block cross into a new block at the same steps. Speculating rows grow unevenly;
 * there growth is a sum over the rows.
 */
#include <assert.h>

#include "sim/world/internal.h"

/* ------------------------------------------------------------------------------------ heaps --- */

static inline int before(const struct finish *a, const struct finish *b)
{
  return a->step != b->step ? a->step < b->step : a->id < b->id;
}

/* at[slot] says where in the heap a slot's row is. */
static inline void heap_put(struct finish *heap, uint32_t *at, uint32_t i, struct finish f)
{
  heap[i] = f;
  at[f.slot] = i;
}

/* Puts f in where i is free, or where that place moves towards the top. */
static void heap_up(struct finish *heap, uint32_t *at, uint32_t i, struct finish f)
{
  for (; i && before(&f, &heap[(i - 1) / 2]); i = (i - 1) / 2)
    heap_put(heap, at, i, heap[(i - 1) / 2]);
  heap_put(heap, at, i, f);
}

/* Takes out the row at i of n: the last one goes there, or where that place moves to. */
static void heap_remove(struct finish *heap, uint32_t *at, uint32_t i, uint32_t n)
{
  struct finish f = heap[--n];
  if (i == n)
    return;
  for (uint32_t c; (c = 2 * i + 1) < n; i = c) {
    c += c + 1 < n && before(&heap[c + 1], &heap[c]);
    if (!before(&heap[c], &f))
      break;
    heap_put(heap, at, i, heap[c]);
  }
  heap_up(heap, at, i, f);
}

/* --------------------------------------------------------------------------------------- KV --- */

static uint32_t residue_of(const struct server *s, const struct req *r)
{
  return (uint32_t)(r->v.kv0 - 1 - r->v.join_step) & (s->v.block_tokens - 1);
}

static uint64_t kv_after(const struct req *r, uint64_t step)
{
  return r->v.kv0 + (((step - r->v.join_step) * r->rate_q16 + r->v.phase_q16) >> 16);
}

/* Blocks that the next `steps` steps of all rows take beyond those held. */
int64_t batch_growth(const struct world *w, const struct server *s, uint64_t steps)
{
  int64_t sum = 0;
  if (!s->rows)
    return 0;
  if (s->v.row_tokens == 1) {
    /* every row fills steps / block whole blocks; those near the end of theirs open one more */
    uint32_t mask = s->v.block_tokens - 1, rest = (uint32_t)steps & mask;
    uint32_t at = mask - (uint32_t)s->step;
    const uint32_t *residue = s->residue;
    sum = (int64_t)s->rows * (int64_t)(steps >> s->block_shift);
    for (; rest; rest--)
      sum += residue[at-- & mask];
    return sum;
  }
  for (uint32_t c = 0; c < w->nclasses; c++) {
    for (lull_id i = s->head[LULL_DECODE][c]; i >= 0;) {
      const struct req *r = req_at(w, i);
      sum += server_blocks_for(s, kv_after(r, s->step + steps));
      i = r->v.next;
    }
  }
  return sum - s->decode_blocks;
}

/* batch_feasible, where more than a bound has to be looked at. */
uint64_t batch_search(const struct world *w, const struct server *s, uint64_t steps, int64_t blocks)
{
  if (batch_growth(w, s, steps) <= blocks)
    return steps;
  uint64_t lo = 0, hi = steps;
  while (hi - lo > 1) {
    uint64_t mid = lo + (hi - lo) / 2;
    if (batch_growth(w, s, mid) <= blocks)
      lo = mid;
    else
      hi = mid;
  }
  return lo;
}

/* Blocks that one step takes of a row that holds blocks_for(kv), given the phase it would have. */
int64_t batch_next_growth(const struct server *s, const struct req *r, uint32_t kv,
                          uint32_t phase_q16)
{
  uint64_t next = kv + (((uint64_t)r->rate_q16 + phase_q16) >> 16);
  return server_blocks_for(s, next) - server_blocks_for(s, kv);
}

/* ---------------------------------------------------------------------------------- chunks --- */

void batch_sum_chunks(struct server *s)
{
  uint32_t tokens = 0, ends = 0;
  uint64_t steps = UINT64_MAX;
  int64_t work = 0;
  for (uint32_t i = 0; i < s->batch.chunks; i++) {
    const struct chunk *c = &s->chunk[i];
    uint32_t left = c->req->v.prefill_target - c->start;
    uint64_t whole =
        1; /* the step that ends a prompt samples a token: it costs more, so it stands alone */
    if (left > c->tokens)
      whole = left / c->tokens - (left % c->tokens == 0);
    steps = whole < steps ? whole : steps;
    tokens += c->tokens;
    ends += left == c->tokens;
    work += chunk_pairs(c);
  }
  s->chunk_steps = steps;
  s->shape.chunks = s->batch.chunks;
  s->shape.chunk_tokens = tokens;
  s->shape.chunk_ends = ends;
  s->shape.chunk_work = work;
  s->shape_step = s->step;
}

/* ----------------------------------------------------------------------------------- stays --- */

static void make_fresh(struct server *s, struct req *r)
{
  s->fresh[s->nfresh] = r->v.id;
  r->fresh_pos = ++s->nfresh;
  s->fresh_of[r->v.cls]++;
}

static void drop_fresh(struct world *w, struct server *s, struct req *r)
{
  if (!r->fresh_pos)
    return;
  lull_id last = s->fresh[--s->nfresh];
  s->fresh[r->fresh_pos - 1] = last;
  req_at(w, last)->fresh_pos = r->fresh_pos;
  r->fresh_pos = 0;
  s->fresh_of[r->v.cls]--;
}

/* r has KV of kv0 tokens and v.blocks blocks, and output left to generate. */
void batch_join(struct world *w, struct server *s, struct req *r)
{
  uint64_t left = (uint64_t)(r->output - r->v.gen0) << 16;
  assert(r->output > r->v.gen0);
  req_enter(w, r, LULL_DECODE);
  r->v.join_step = s->step;
  r->v.rate_q16 = r->rate_q16;
  r->v.phase_q16 = r->phase_q16;
  s->fixed_blocks -= r->v.blocks;
  r->v.blocks = 0;
  s->decode_blocks += server_blocks_for(s, r->v.kv0);
  s->residue[residue_of(s, r)]++;
  s->ctx_q16 += ((int64_t)r->v.kv0 << 16) + r->phase_q16;
  s->ctx_inc_q16 += r->rate_q16;
  for (int i = 0; i < 3; i++)
    r->at_join[i] = s->sum[i];
  if (r->last_emit != s->last_emit)
    make_fresh(s, r);
  uint64_t steps = r->rate_q16 == LULL_Q16_ONE
                       ? (left - r->phase_q16 + LULL_Q16_ONE - 1) >> 16
                       : (left - r->phase_q16 + r->rate_q16 - 1) / r->rate_q16;
  r->slot = s->slots[s->rows];
  struct finish f = {.step = s->step + steps, .id = r->v.id, .slot = r->slot};
  heap_up(s->heap, s->heap_at, s->rows, f);
  if (RARE(s->longest)) {
    f.step = UINT32_MAX + s->step - r->v.kv0;
    heap_up(s->longest, s->longest_at, s->rows, f);
  }
  s->rows++;
  s->batch.version++;
}

/*
 * What a row's stay has earned so far, in 1/12 ps (see world.h): the prefix sums are, over steps k
 * of the server with rate and slope of that step, S0 = sum of rate * u * row_tokens, S1 = sum of
 * rate * slope, S2 = sum of rate * slope * k. They are kept modulo 2^64: of S0, S1 and S2 less
 * join_step times S1 no stay's part is larger than its share, which 63 bits hold.
 */
static inline int64_t row_share(const struct server *s, const struct req *r,
                                base_int128 *fraction_q16)
{
  uint64_t flat = s->sum[0] - r->at_join[0], grow = s->sum[1] - r->at_join[1];
  uint64_t since = s->sum[2] - r->at_join[2] - r->v.join_step * grow;
  uint64_t ctx0 = ((uint64_t)r->v.kv0 << 16) + r->v.phase_q16;
  base_int128 q16 = ((base_int128)flat << 16) + (base_int128)ctx0 * grow +
                    (base_int128)r->rate_q16 * since;
  *fraction_q16 = q16 & 0xffff;
  return (int64_t)(q16 >> 16);
}

/* What leaving changes of the server's sums: `q16` tokens were made since the join. */
static inline void leave_sums(struct server *s, struct req *r, uint64_t q16)
{
  base_int128 fraction;
  r->pending += row_share(s, r, &fraction);
  s->residue_q16[r->v.cls] += fraction;
  s->ctx_q16 -= (int64_t)(((uint64_t)r->v.kv0 << 16) + q16);
  s->ctx_inc_q16 -= r->rate_q16;
  s->residue[residue_of(s, r)]--;
  s->batch.version++;
}

static inline void leave_heaps(struct server *s, const struct req *r)
{
  heap_remove(s->heap, s->heap_at, s->heap_at[r->slot], s->rows);
  if (RARE(s->longest))
    heap_remove(s->longest, s->longest_at, s->longest_at[r->slot], s->rows);
  s->slots[--s->rows] = r->slot;
}

/* Makes its lazy counters concrete and takes it out of the batch; its blocks become fixed ones. The
 * caller enters it into another list. */
void batch_leave(struct world *w, struct server *s, struct req *r)
{
  uint64_t q16 = (s->step - r->v.join_step) * r->rate_q16 + r->v.phase_q16;
  leave_sums(s, r, q16);
  if (r->fresh_pos)
    drop_fresh(w, s, r);
  else
    r->last_emit = s->last_emit;
  leave_heaps(s, r);
  uint32_t tokens = (uint32_t)(q16 >> 16);
  r->v.kv0 += tokens;
  r->v.gen0 = r->output - r->v.gen0 < tokens ? r->output : r->v.gen0 + tokens;
  r->phase_q16 = (uint32_t)(q16 & 0xffff);
  r->v.phase_q16 = r->v.rate_q16 = 0;
  r->v.blocks = (uint32_t)server_blocks_for(s, r->v.kv0);
  s->decode_blocks -= r->v.blocks;
  s->fixed_blocks += r->v.blocks;
}

/* The same for the top of the heap, whose output is complete: nothing of it is wanted again. It has
 * stepped, so it is not fresh. */
void batch_finish(struct server *s, struct req *r)
{
  uint64_t q16 = (s->step - r->v.join_step) * r->rate_q16 + r->v.phase_q16;
  leave_sums(s, r, q16);
  leave_heaps(s, r);
  s->decode_blocks -= server_blocks_for(s, r->v.kv0 + (uint32_t)(q16 >> 16));
  r->v.gen0 = r->output;
  r->v.phase_q16 = r->v.rate_q16 = 0;
}
