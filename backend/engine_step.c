/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A step: the plan is checked and pages are taken, all under the lock; then the pass runs without
 * it; then the sequences change, or nothing does.
 */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "backend/engine_inner.h"

/* Its last token's successor is to be sampled. */
static int reaches_end(const struct entry *t)
{
  return t->start + t->tokens == t->s->known;
}

/* ----------------------------------------------------------------------- what is planned ---- */

/* What the plan asks of a sequence, against what it has. */
static int check_entry(const struct entry *t, struct base_error *e)
{
  const struct sequence *s = t->s;
  if (s->on_host)
    return base_fail(e, BASE_INPUT, "sequence %" PRId32 " is swapped out; swap it in first",
                     s->seq);
  if (t->start != s->kv)
    return base_fail(e, BASE_INPUT,
                     "sequence %" PRId32 ": a chunk from token %" PRIu32
                     " on, but keys and values are there up to token %" PRIu32,
                     s->seq, t->start, s->kv);
  if (!t->tokens || t->tokens > s->known - t->start)
    return base_fail(e, BASE_INPUT,
                     "sequence %" PRId32 ": a chunk of %" PRIu32 " tokens, where %" PRIu32
                     " are to be computed",
                     s->seq, t->tokens, s->known - t->start);
  if (reaches_end(t) && s->known == s->limit)
    return base_fail(e, BASE_INPUT, "sequence %" PRId32 " has all of its %" PRIu32 " tokens",
                     s->seq, s->limit - s->prompt);
  return 0;
}

/* Writes down what is asked of chunk or row `index`. Marks the sequence, so that a second
 * mention of it is found. */
static int plan_entry(struct engine *en, const struct engine_step *st, uint32_t index,
                      struct base_error *e)
{
  struct entry *t = &en->work.entry[index];
  int row = index >= st->chunks;
  int32_t seq = row ? st->row[index - st->chunks] : st->chunk[index].seq;
  struct sequence *s = engine_find(en, seq);
  if (s && s->use == STEPPING)
    return base_fail(e, BASE_INPUT, "sequence %" PRId32 " is twice in the step", seq);
  s = engine_find_idle(en, seq, e);
  if (!s)
    return -1;
  *t = (struct entry){.s = s, .index = index};
  t->start = row ? s->known - 1 : st->chunk[index].start;
  t->tokens = row ? 1 : st->chunk[index].tokens;
  if (check_entry(t, e))
    return -1;
  s->use = STEPPING;
  return 0;
}

static int check_sizes(const struct engine *en, const struct engine_step *st, uint32_t n,
                       struct base_error *e)
{
  uint64_t tokens = 0, sampled = 0;
  for (uint32_t i = 0; i < n; i++) {
    tokens += en->work.entry[i].tokens;
    sampled += st->logits || reaches_end(&en->work.entry[i]);
  }
  if (tokens > en->o.max_tokens)
    return base_fail(e, BASE_INPUT, "a step of %" PRIu64 " tokens; at most %" PRIu32 " fit", tokens,
                     en->o.max_tokens);
  if (sampled > en->o.max_seqs)
    return base_fail(e, BASE_INPUT,
                     "a step that samples %" PRIu64 " tokens; at most %" PRIu32 " fit", sampled,
                     en->o.max_seqs);
  return 0;
}

/* Takes the pages that the step's tokens need, or none. */
static int take_pages(struct engine *en, uint32_t n, struct base_error *e)
{
  uint64_t need = 0;
  for (uint32_t i = 0; i < n; i++) {
    struct entry *t = &en->work.entry[i];
    t->fresh = engine_pages(en, t->start + t->tokens) - t->s->npages;
    need += t->fresh;
  }
  if (!en->device.base)
    return base_fail(e, BASE_INPUT, "the engine sleeps; wake it first");
  if (need > en->device.nfree)
    return base_fail(e, BASE_ENV,
                     "the step needs %" PRIu64 " pages of keys and values; %" PRIu32 " of %" PRIu32
                     " are free",
                     need, en->device.nfree, en->device.pages);
  for (uint32_t i = 0; i < n; i++) {
    struct entry *t = &en->work.entry[i];
    int bad = page_pool_take(&en->device, t->fresh, t->s->page + t->s->npages);
    assert(!bad);
    (void)bad;
    t->s->npages += t->fresh;
  }
  return 0;
}

/* With the lock held. Number of entries or -1, and then nothing is marked nor taken. */
static int64_t plan_step(struct engine *en, const struct engine_step *st, struct base_error *e)
{
  uint64_t n = (uint64_t)st->chunks + st->rows;
  uint32_t marked = 0;
  if (!n || n > en->o.max_tokens)
    return base_fail(e, BASE_INPUT, "a step of %" PRIu64 " sequences; 1 to %" PRIu32 " fit", n,
                     en->o.max_tokens);
  while (marked < n && !plan_entry(en, st, marked, e))
    marked++;
  if (marked == n && !check_sizes(en, st, marked, e) && !take_pages(en, marked, e))
    return (int64_t)n;
  while (marked > 0)
    en->work.entry[--marked].s->use = FREE;
  return -1;
}

/* ----------------------------------------------------------------------------- the batch ---- */

static uint64_t serial_of(const struct entry *t)
{
  return t->s->adapter ? t->s->adapter->serial : 0;
}

/* Rows with one adapter together; else as the caller has them. */
static int by_adapter(const void *pa, const void *pb)
{
  const struct entry *a = pa, *b = pb;
  uint64_t x = serial_of(a), y = serial_of(b);
  if (x != y)
    return x < y ? -1 : 1;
  return a->index < b->index ? -1 : a->index > b->index;
}

/* Adds a sequence's rows to the group of its adapter, which is the last one or a new one. */
static void add_to_group(struct engine_work *k, struct model_batch *b, const struct entry *t,
                         uint32_t first_row)
{
  if (!t->s->adapter)
    return;
  const struct adapter *a = &t->s->adapter->adapter;
  if (!b->nlora || k->lora[b->nlora - 1].adapter != a)
    k->lora[b->nlora++] = (struct model_lora){first_row, 0, a};
  k->lora[b->nlora - 1].rows += t->tokens;
}

static void add_entry(struct engine_work *k, struct model_batch *b, const struct entry *t,
                      int logits)
{
  const struct sequence *s = t->s;
  add_to_group(k, b, t, b->rows);
  k->seq[b->nseq++] = (struct ops_seq){b->rows, t->tokens, t->start, s->page};
  for (uint32_t i = 0; i < t->tokens; i++) {
    k->token[b->rows] = s->token[t->start + i];
    k->position[b->rows++] = t->start + i;
  }
  if (!logits && !reaches_end(t))
    return;
  k->sampled[b->nsampled] = b->rows - 1;
  k->how[b->nsampled] = s->how;
  k->how[b->nsampled++].position = t->start + t->tokens;
}

static struct model_batch make_batch(struct engine *en, const struct engine_step *st, uint32_t n)
{
  struct engine_work *k = &en->work;
  struct model_batch b = {.token = k->token,
                          .position = k->position,
                          .seq = k->seq,
                          .lora = k->lora,
                          .sampled = k->sampled,
                          .how = k->how,
                          .out = k->out,
                          .logprob = k->logprob,
                          .stop = st->stop};
  qsort(k->entry, n, sizeof *k->entry, by_adapter);
  for (uint32_t i = 0; i < n; i++)
    add_entry(k, &b, &k->entry[i], st->logits != NULL);
  return b;
}

/* --------------------------------------------------------------------------- the outcome ---- */

/* The sequences get what the pass computed. */
static void commit_step(struct engine *en, const struct engine_step *st, uint32_t n)
{
  struct engine_work *k = &en->work;
  uint32_t sampled = 0;
  for (uint32_t i = 0; i < n; i++) {
    struct entry *t = &k->entry[i];
    struct engine_token *out = &st->out[t->index];
    int end = reaches_end(t);
    *out = (struct engine_token){t->s->seq, -1, 0};
    if (end) {
      out->token = k->out[sampled];
      out->logprob = k->logprob[sampled];
    }
    if (st->logits)
      model_logits(en->model, sampled, st->logits + (size_t)t->index * en->w->config.vocab);
    sampled += end || st->logits;
    t->s->kv = t->start + t->tokens;
    if (end)
      t->s->token[t->s->known++] = out->token;
    t->s->use = FREE;
  }
}

static void undo_step(struct engine *en, uint32_t n)
{
  for (uint32_t i = n; i-- > 0;) {
    struct entry *t = &en->work.entry[i];
    t->s->npages -= t->fresh;
    page_pool_give(&en->device, t->fresh, t->s->page + t->s->npages);
    t->s->use = FREE;
  }
}

/* Finite weights may still overflow. A token of such logits would mean nothing. */
static int check_logits(const struct engine_work *k, const struct model_batch *b,
                        struct base_error *e)
{
  for (uint32_t i = 0; i < b->nsampled; i++)
    if (!isfinite(k->logprob[i]))
      return base_fail(e, BASE_INPUT,
                       "the logits of position %" PRIu32 " of a sequence are no finite numbers: "
                       "the weights or the adapter overflow",
                       k->how[i].position - 1);
  return 0;
}

int engine_step(struct engine *en, const struct engine_step *st, struct base_error *e)
{
  engine_lock(en);
  int64_t n = plan_step(en, st, e);
  struct ops_kv kv = {en->device.base,       en->ops->dtype,     en->o.pages,
                      en->w->config.layers,  en->o.block_tokens, en->w->config.kv_heads,
                      en->w->config.head_dim};
  engine_unlock(en);
  if (n < 0)
    return -1;
  struct model_batch b = make_batch(en, st, (uint32_t)n);
  int aborted = model_forward(en->model, &kv, &b);
  int bad = !aborted && check_logits(&en->work, &b, e);
  engine_lock(en);
  if (aborted || bad)
    undo_step(en, (uint32_t)n);
  else
    commit_step(en, st, (uint32_t)n);
  engine_unlock(en);
  return aborted ? ENGINE_ABORTED : bad ? -1 : 0;
}
