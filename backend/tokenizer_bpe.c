/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Byte-pair merges of one word: its symbols are a doubly linked list, and every pair of neighbours
 * that can be merged is in a heap by rank, then position. An entry whose pair has changed since is
 * known by what the pair becomes: as in `tokenizers`, one that becomes the same token by another
 * merge still counts.
 */
#include <stdlib.h>

#include "backend/tokenizer_inner.h"

static const uint32_t none = UINT32_MAX;

void bpe_free(struct bpe *b)
{
  free(b->symbol);
  free(b->heap);
  *b = (struct bpe){0};
}

int64_t bpe_rank(const struct tokenizer *t, int32_t left, int32_t right)
{
  const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
  uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & t->merge_mask;
  for (; t->merge[at].left >= 0; at = (at + 1) & t->merge_mask)
    if (t->merge[at].left == left && t->merge[at].right == right)
      return t->merge[at].rank;
  return -1;
}

/* Puts x where it belongs below the hole at i. */
static void sink(struct bpe *b, size_t i, uint64_t x)
{
  for (size_t child; (child = 2 * i + 1) < b->n; i = child) {
    child += child + 1 < b->n && b->heap[child + 1] < b->heap[child];
    if (x <= b->heap[child])
      break;
    b->heap[i] = b->heap[child];
    b->work++;
  }
  b->heap[i] = x;
}

static void push(struct bpe *b, uint64_t x)
{
  size_t i = b->n++;
  for (; i && x < b->heap[(i - 1) / 2]; i = (i - 1) / 2) {
    b->heap[i] = b->heap[(i - 1) / 2];
    b->work++;
  }
  b->heap[i] = x;
  b->work++;
}

static uint64_t pop(struct bpe *b)
{
  const uint64_t top = b->heap[0];
  b->work++;
  if (--b->n)
    sink(b, 0, b->heap[b->n]);
  return top;
}

static int64_t rank_at(const struct tokenizer *t, const struct bpe *b, uint32_t at)
{
  const struct bpe_symbol *s = &b->symbol[at];
  return bpe_rank(t, s->id, b->symbol[s->next].id);
}

/* The pair that starts at `at` is new. */
static void offer(const struct tokenizer *t, struct bpe *b, uint32_t at)
{
  if (at == none || b->symbol[at].next == none)
    return;
  const int64_t rank = rank_at(t, b, at);
  if (rank >= 0)
    push(b, (uint64_t)rank << 32 | at);
}

static void begin(const struct tokenizer *t, struct bpe *b, const uint8_t *word, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    b->symbol[i] = (struct bpe_symbol){
        .id = t->byte_id[word[i]], .prev = i ? i - 1 : none, .next = i + 1 < n ? i + 1 : none};
  b->n = 0;
  for (uint32_t i = 0; i + 1 < n; i++) {
    const int64_t rank = rank_at(t, b, i);
    if (rank >= 0)
      b->heap[b->n++] = (uint64_t)rank << 32 | i;
  }
  for (size_t i = b->n / 2; i-- > 0;)
    sink(b, i, b->heap[i]);
}

static void merge(const struct tokenizer *t, struct bpe *b, uint32_t at, int32_t id)
{
  struct bpe_symbol *left = &b->symbol[at], *right = &b->symbol[left->next];
  left->id = id;
  left->next = right->next;
  right->id = -1;
  if (left->next != none)
    b->symbol[left->next].prev = at;
  offer(t, b, left->prev);
  offer(t, b, at);
}

static void merge_all(const struct tokenizer *t, struct bpe *b)
{
  while (b->n) {
    const uint64_t top = pop(b);
    const uint32_t at = (uint32_t)top;
    const int32_t id = t->merged[top >> 32];
    if (b->symbol[at].id < 0 || b->symbol[at].next == none)
      continue;
    const int64_t rank = rank_at(t, b, at);
    if (rank >= 0 && t->merged[rank] == id)
      merge(t, b, at, id);
  }
}

static int merge_word(const struct tokenizer *t, struct bpe *b, const uint8_t *word, size_t n,
                      struct base_error *e)
{
  /* A merge takes one entry and makes at most two: there are never 2 n. */
  if (tokenizer_grow(&b->symbol, &b->symbol_room, n, sizeof *b->symbol, e) ||
      tokenizer_grow(&b->heap, &b->heap_room, 2 * n, sizeof *b->heap, e))
    return -1;
  begin(t, b, word, (uint32_t)n);
  merge_all(t, b);
  return 0;
}

int bpe_word(const struct tokenizer *t, struct bpe *b, const uint8_t *word, size_t n,
             struct tokenizer_ids *out, struct base_error *e)
{
  const int32_t whole = vocab_word(t, word, n);
  if (whole >= 0 && t->token[whole].flags & TOKEN_WHOLE)
    return tokenizer_put(out, whole, e);
  if (merge_word(t, b, word, n, e))
    return -1;
  for (uint32_t i = 0; i != none; i = b->symbol[i].next)
    if (tokenizer_put(out, b->symbol[i].id, e))
      return -1;
  return 0;
}

int bpe_find_whole(struct tokenizer *t, struct base_error *e)
{
  struct bpe b = {0};
  int r = 0;
  for (uint32_t id = 0; id < t->vocab && !r; id++) {
    struct token *k = &t->token[id];
    if (!(k->flags & TOKEN_WORD))
      continue;
    if (!t->ignore_merges && !(r = merge_word(t, &b, t->pool + k->at, k->bytes, e)) &&
        (b.symbol[0].next != none || b.symbol[0].id != (int32_t)id))
      continue;
    k->flags |= TOKEN_WHOLE;
  }
  bpe_free(&b);
  return r;
}
