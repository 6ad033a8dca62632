/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * KV blocks of the naive world, one by one: who holds them, in what order they are free, and, by
 * paragraph PREFIX, what is in them. A name is not hashed: it is the tokens up to the block's end.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/naive_inner.h"

int naive_set_up_blocks(struct naive_world *w, struct naive_server *s)
{
  uint32_t n = s->v.kv_blocks;
  s->block = calloc(n, sizeof *s->block);
  s->queue = calloc(n, sizeof *s->queue);
  s->late = calloc((size_t)n * s->v.max_seqs, sizeof *s->late);
  if (!s->block || !s->queue || !s->late)
    return base_fail_memory(w->e);
  for (uint32_t i = 0; i < n; i++)
    s->queue[i] = i;
  return 0;
}

void naive_free_request(struct naive_request *r)
{
  free(r->block);
  free(r);
}

/* The first of the queue, which forgets what it held. */
static uint32_t pop(struct naive_world *w, struct naive_server *s)
{
  if (!s->v.kv_free) {
    naive_fail(w, BASE_INVARIANT, "a block is taken where none is free");
    return 0;
  }
  uint32_t first = s->queue[0];
  s->v.kv_free--;
  memmove(s->queue, s->queue + 1, s->v.kv_free * sizeof *s->queue);
  s->block[first] = (struct naive_block){.refs = 1};
  return first;
}

static void drop(struct naive_server *s, uint32_t block)
{
  if (!--s->block[block].refs)
    s->queue[s->v.kv_free++] = block;
}

void naive_hold(struct naive_world *w, struct naive_server *s, struct naive_request *r,
                uint32_t blocks)
{
  if (!r->block)
    r->block = calloc(s->v.kv_blocks, sizeof *r->block);
  if (!r->block) {
    w->failed = 1;
    base_fail_memory(w->e);
    return;
  }
  while (r->held > blocks)
    drop(s, r->block[--r->held]);
  while (r->held < blocks && !w->failed)
    r->block[r->held++] = pop(w, s);
}

void naive_let_go(struct naive_server *s, struct naive_request *r)
{
  while (r->held)
    drop(s, r->block[--r->held]);
  r->v.blocks = r->named = 0;
}

void naive_let_go_later(struct naive_server *s, struct naive_request *r)
{
  while (r->held)
    s->late[s->nlate++] = r->block[--r->held];
  r->v.blocks = r->named = 0;
}

void naive_late_blocks(struct naive_server *s)
{
  for (uint32_t i = 0; i < s->nlate; i++)
    drop(s, s->late[i]);
  s->nlate = 0;
}

/* ------------------------------------------------------------------------------------ names --- */

/* What a token is: of which request, or of none, the id, and the place in what that stands for. */
struct token {
  lull_id own;
  uint64_t id, at;
};

static struct token token_of(const struct naive_request *r, uint32_t t)
{
  const struct world_prefix *p = r->a.prefix;
  if (p && t < r->a.prompt && t / p->tokens < p->n)
    return (struct token){-1, p->id[t / p->tokens], t % p->tokens};
  return (struct token){r->v.id, 0, t};
}

static int same_tokens(const struct naive_request *a, const struct naive_request *b, uint32_t n)
{
  for (uint32_t t = 0; t < n; t++) {
    struct token x = token_of(a, t), y = token_of(b, t);
    if (x.own != y.own || x.id != y.id || x.at != y.at)
      return 0;
  }
  return 1;
}

/* The block that has borne the name of r's block i longest, or -1. */
static int64_t oldest_named(const struct naive_server *s, const struct naive_request *r, uint32_t i)
{
  int64_t best = -1;
  for (uint32_t b = 0; b < s->v.kv_blocks; b++) {
    const struct naive_block *x = &s->block[b];
    if (x->owner && x->index == i && same_tokens(x->owner, r, (i + 1) * s->v.block_tokens) &&
        (best < 0 || x->named < s->block[best].named))
      best = b;
  }
  return best;
}

void naive_find_prefix(const struct naive_server *s, const struct naive_request *r, uint32_t *found,
                       uint32_t *idle)
{
  *found = *idle = 0;
  while (s->c->prefix_caching && (*found + 1) * s->v.block_tokens < r->v.prefill_target) {
    int64_t b = oldest_named(s, r, *found);
    if (b < 0)
      return;
    ++*found;
    *idle += !s->block[b].refs;
  }
}

static void leave_queue(struct naive_server *s, uint32_t block)
{
  uint32_t at = 0;
  while (s->queue[at] != block)
    at++;
  s->v.kv_free--;
  memmove(s->queue + at, s->queue + at + 1, (s->v.kv_free - at) * sizeof *s->queue);
}

void naive_take_prefix(struct naive_world *w, struct naive_server *s, struct naive_request *r,
                       uint32_t found)
{
  naive_hold(w, s, r, 0);
  r->hidden = 0;
  for (uint32_t i = 0; i < found && !w->failed; i++) {
    uint32_t b = (uint32_t)oldest_named(s, r, i);
    if (!s->block[b].refs++)
      leave_queue(s, b);
    r->block[r->held++] = b;
  }
  r->named = found;
  r->v.prefill_done = r->v.kv0 = found * s->v.block_tokens;
  r->rec.cached += r->v.prefill_done;
  if (s->c->prefix_caching)
    w->out->cls[r->rec.cls].looked_up += r->v.prefill_target;
}

void naive_name(struct naive_server *s, struct naive_request *r, uint32_t kv)
{
  if (!s->c->prefix_caching || r->hidden)
    return;
  for (; (r->named + 1) * s->v.block_tokens <= kv; r->named++) {
    struct naive_block *b = &s->block[r->block[r->named]];
    b->owner = r;
    b->index = r->named;
    b->named = ++s->namings;
  }
}
