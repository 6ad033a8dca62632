/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Prefix caching: which blocks bear which name, who holds them, and the queue of free ones
 * (PREFIX).
 *
 * It is evaluated lazily, and exactly. A block that is taken loses its name, so it does not matter
 * which request got it, and blocks are taken from the front of the queue while others come to its
 * end: so growth only counts (fixed_blocks, decode_blocks), and the queue is cut down to what is
 * free when somebody looks a name up. What a row generates is its own: no other request can find
 * its names, so they are given when it lets go. Blocks without a name that stand together are one
 * entry.
 *
 * A name is the 128-bit XXH3 of the parent's name and the block's content: two of 10^9 different
 * names are equal with a chance of 10^-20.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "sim/world/internal.h"

enum { NONE = 0 }; /* no node; also the end of a list */

/* A named block, or in the queue a run of blocks without names. */
struct node {
  XXH128_hash_t name;
  uint32_t refs;       /* requests that hold it; 0: it is in the queue */
  uint32_t run;        /* blocks without names; 0: it has one, and is one block */
  uint32_t prev, next; /* in the queue; next also among nodes that are not in use */
  uint32_t peer;       /* next of its bucket, of equal names the oldest first */
};

struct cache {
  struct node *node; /* from 1 on, room for twice the pool: see make_nodes */
  uint32_t used, spare;
  uint32_t live;    /* nodes in use */
  uint32_t *bucket; /* first of each; mask: their number less 1 */
  uint32_t mask;
  uint32_t front, back;
  int64_t queued;                 /* blocks in the queue */
  int64_t held;                   /* named blocks that somebody holds */
  int64_t shared;                 /* of these, holders beyond the first */
  struct chain *late, *late_last; /* ASYNC: of who finished at this boundary, in that order */
};

/* Block i of a request. */
struct link {
  XXH128_hash_t name;
  uint32_t node; /* while it is held under its name */
};

struct chain {
  struct link *link;    /* [room] */
  uint32_t room, known; /* names that were worked out */
  uint32_t named;       /* of the blocks held, the first so many bear their names */
  uint32_t blocks;      /* held; of those that are late only */
  uint8_t hidden;       /* what it holds came back from the host, without names */
  struct chain *next;   /* among those that are late */
};

/* ------------------------------------------------------------------------------------ names --- */

static void put64(unsigned char *to, uint64_t value)
{
  for (int i = 0; i < 8; i++)
    to[i] = (unsigned char)(value >> 8 * i);
}

/* The name that follows `parent` for a piece of content; the same on every machine. */
static XXH128_hash_t name_after(XXH128_hash_t parent, int own, uint64_t id, uint64_t at)
{
  unsigned char b[33];
  put64(b, parent.low64);
  put64(b + 8, parent.high64);
  put64(b + 16, id);
  put64(b + 24, at);
  b[32] = (unsigned char)own;
  return XXH3_128bits(b, sizeof b);
}

/* Name of block i; what the arrival says of its tokens may be several ids. */
static XXH128_hash_t work_out(const struct server *s, const struct req *r, XXH128_hash_t parent,
                              uint32_t i)
{
  const struct world_prefix *p = r->content;
  uint64_t from = (uint64_t)i << s->block_shift, to = from + s->v.block_tokens;
  if (!p || to > r->v.prompt || to > (uint64_t)p->n * p->tokens)
    return name_after(parent, 1, (uint64_t)r->v.id, i);
  XXH128_hash_t name = parent;
  for (uint64_t at = from; at < to; at = (at / p->tokens + 1) * p->tokens)
    name = name_after(name, 0, p->id[at / p->tokens], at % p->tokens);
  return name;
}

/* Makes the names of the first n blocks known. */
static int know_names(struct world *w, const struct server *s, struct req *r, uint32_t n)
{
  struct chain *c = r->chain;
  if (n > c->room) {
    uint32_t room = n > 2 * c->room ? n : 2 * c->room;
    struct link *more = realloc(c->link, room * sizeof *more);
    if (!more) {
      w->failed = 1;
      return base_fail_memory(w->err);
    }
    c->link = more;
    c->room = room;
  }
  for (; c->known < n; c->known++) {
    XXH128_hash_t parent = c->known ? c->link[c->known - 1].name : (XXH128_hash_t){0};
    c->link[c->known] = (struct link){.name = work_out(s, r, parent, c->known)};
  }
  return 0;
}

/* ------------------------------------------------------------------------------------ nodes --- */

static uint32_t *bucket_of(struct cache *c, XXH128_hash_t name)
{
  return &c->bucket[name.low64 & c->mask];
}

/* The block that has borne a name longest, or NONE. */
static uint32_t find_name(struct cache *c, XXH128_hash_t name)
{
  uint32_t i = *bucket_of(c, name);
  while (i != NONE && !XXH128_isEqual(c->node[i].name, name))
    i = c->node[i].peer;
  return i;
}

static uint32_t new_node(struct cache *c)
{
  uint32_t i = c->spare;
  if (i == NONE)
    i = ++c->used;
  else
    c->spare = c->node[i].next;
  c->node[i] = (struct node){0};
  c->live++;
  return i;
}

static void free_node(struct cache *c, uint32_t i)
{
  c->live--;
  c->node[i].next = c->spare;
  c->spare = i;
}

/* A block that is held gets its name. */
static uint32_t give_name(struct cache *c, XXH128_hash_t name)
{
  uint32_t i = new_node(c), *at = bucket_of(c, name);
  c->node[i].name = name;
  c->node[i].refs = 1;
  c->held++;
  while (*at != NONE)
    at = &c->node[*at].peer;
  *at = i;
  return i;
}

static void take_name(struct cache *c, uint32_t i)
{
  uint32_t *at = bucket_of(c, c->node[i].name);
  while (*at != i)
    at = &c->node[*at].peer;
  *at = c->node[i].peer;
}

/* ------------------------------------------------------------------------------------ queue --- */

static void put_last(struct cache *c, uint32_t i)
{
  struct node *n = &c->node[i];
  n->prev = c->back;
  n->next = NONE;
  if (c->back != NONE)
    c->node[c->back].next = i;
  else
    c->front = i;
  c->back = i;
  c->queued += n->run ? n->run : 1;
}

static void take_from_queue(struct cache *c, uint32_t i)
{
  struct node *n = &c->node[i];
  if (n->prev != NONE)
    c->node[n->prev].next = n->next;
  else
    c->front = n->next;
  if (n->next != NONE)
    c->node[n->next].prev = n->prev;
  else
    c->back = n->prev;
  c->queued -= n->run ? n->run : 1;
}

static int trim_queue(struct world *w, struct server *s);

/* Room for `more` nodes, at most the pool's blocks and one. A node stands for a block at least, so
 * a queue that holds but what is free leaves that much. */
static int make_nodes(struct world *w, struct server *s, uint32_t more)
{
  uint32_t room = 2 * s->v.kv_blocks + 1;
  return s->cache->live + more > room ? trim_queue(w, s) : 0;
}

void prefix_put_spare(struct world *w, struct server *s, uint32_t blocks)
{
  struct cache *c = s->cache;
  if (!blocks || make_nodes(w, s, 1))
    return;
  if (c->back != NONE && c->node[c->back].run) {
    c->node[c->back].run += blocks;
    c->queued += blocks;
    return;
  }
  uint32_t i = new_node(c);
  c->node[i].run = blocks;
  put_last(c, i);
}

/* The blocks that were taken since this was last looked at leave the front. What is free, held, and
 * held under names must agree. */
static int trim_queue(struct world *w, struct server *s)
{
  struct cache *c = s->cache;
  int64_t taken = c->queued - server_free(s);
  if (taken < 0 || server_free(s) < 0 || c->held > s->fixed_blocks + s->decode_blocks)
    return world_broken(w,
                        "server %d: of %u KV blocks %lld are free, but %lld stand in the queue and "
                        "%lld are held under names",
                        s->v.id, s->v.kv_blocks, (long long)server_free(s), (long long)c->queued,
                        (long long)c->held);
  while (taken) {
    struct node *n = &c->node[c->front];
    if (n->run > taken) {
      n->run -= (uint32_t)taken;
      c->queued -= taken;
      return 0;
    }
    uint32_t i = c->front;
    taken -= n->run ? n->run : 1;
    take_from_queue(c, i);
    if (!n->run)
      take_name(c, i);
    free_node(c, i);
  }
  return 0;
}

/* ---------------------------------------------------------------------------------- requests ---
 */

/* How many first blocks of r, which waits, have names that are borne; *idle: of these, not held. */
uint32_t prefix_find(struct world *w, struct server *s, struct req *r, uint32_t *idle)
{
  uint32_t most = (r->v.prefill_target - 1) >> s->block_shift, n = 0;
  if (!r->chain)
    r->chain = calloc(1, sizeof *r->chain);
  if (!r->chain) {
    w->failed = 1;
    base_fail_memory(w->err);
    return 0;
  }
  if (trim_queue(w, s))
    return 0;
  for (; n < most; n++) {
    if (know_names(w, s, r, n + 1))
      return 0;
    struct link *l = &r->chain->link[n];
    l->node = find_name(s->cache, l->name);
    if (l->node == NONE)
      break;
    *idle += !s->cache->node[l->node].refs;
  }
  return n;
}

/* Holds the first n that prefix_find has found. */
void prefix_take(struct server *s, struct req *r, uint32_t n)
{
  struct cache *c = s->cache;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at = r->chain->link[i].node;
    if (c->node[at].refs++) {
      c->shared++;
      continue;
    }
    take_from_queue(c, at);
    c->held++;
  }
  if (r->chain) {
    r->chain->named = n;
    r->chain->hidden = 0;
  }
}

/* The full blocks of r's KV get their names. */
void prefix_name(struct world *w, struct server *s, struct req *r)
{
  struct chain *c = r->chain;
  uint32_t full = r->v.kv0 >> s->block_shift;
  if (!c || c->hidden || full <= c->named || know_names(w, s, r, full) ||
      make_nodes(w, s, full - c->named))
    return;
  for (; c->named < full; c->named++)
    c->link[c->named].node = give_name(s->cache, c->link[c->named].name);
}

/* Lets go of `blocks`, the last one first; returns how many nobody holds now. */
static uint32_t let_go(struct world *w, struct server *s, struct chain *chain, uint32_t blocks)
{
  struct cache *c = s->cache;
  uint32_t freed = blocks - (chain ? chain->named : 0);
  prefix_put_spare(w, s, freed);
  while (chain && chain->named) {
    uint32_t at = chain->link[--chain->named].node;
    struct node *n = &c->node[at];
    if (!n->refs) {
      world_broken(w, "server %d: a KV block is let go of that nobody holds", s->v.id);
    } else if (--n->refs) {
      c->shared--;
    } else {
      c->held--;
      put_last(c, at);
      freed++;
    }
  }
  return freed;
}

uint32_t prefix_release(struct world *w, struct server *s, struct req *r)
{
  if (!r->v.blocks)
    return 0;
  prefix_name(w, s, r);
  return let_go(w, s, r->chain, r->v.blocks);
}

/* r, which has finished, lets go a step later. */
void prefix_finish_late(struct world *w, struct server *s, struct req *r)
{
  struct cache *c = s->cache;
  prefix_name(w, s, r);
  struct chain *chain = r->chain;
  if (!chain) /* the memory for it was short: the run ends */
    return;
  chain->blocks = r->v.blocks;
  chain->next = NULL;
  if (c->late)
    c->late_last->next = chain;
  else
    c->late = chain;
  c->late_last = chain;
  r->chain = NULL;
  r->v.blocks = 0;
}

static void free_chain(struct chain *c)
{
  if (c)
    free(c->link);
  free(c);
}

uint32_t prefix_release_late(struct world *w, struct server *s)
{
  uint32_t freed = 0;
  while (s->cache->late) {
    struct chain *c = s->cache->late;
    s->cache->late = c->next;
    freed += let_go(w, s, c, c->blocks);
    free_chain(c);
  }
  return freed;
}

void prefix_hide(struct req *r)
{
  if (r->chain)
    r->chain->hidden = 1;
}

void prefix_drop_chain(struct req *r)
{
  free_chain(r->chain);
  r->chain = NULL;
}

/* ------------------------------------------------------------------------------- the server --- */

int prefix_open(struct world *w, struct server *s)
{
  uint32_t blocks = s->v.kv_blocks, buckets = 1;
  if (blocks > UINT32_MAX / 4)
    return base_fail(w->err, BASE_INPUT,
                     "server %d: prefix caching of %u KV blocks; make the pool smaller", s->v.id,
                     blocks);
  while (buckets < blocks)
    buckets *= 2;
  struct cache *c = s->cache = calloc(1, sizeof *c);
  if (!c)
    return base_fail_memory(w->err);
  c->node = calloc(2 * (size_t)blocks + 2, sizeof *c->node); /* touched as it is used */
  c->bucket = calloc(buckets, sizeof *c->bucket);
  if (!c->node || !c->bucket)
    return base_fail_memory(w->err);
  c->mask = buckets - 1;
  prefix_put_spare(w, s, blocks);
  return 0;
}

void prefix_close(struct server *s)
{
  struct cache *c = s->cache;
  if (!c)
    return;
  while (c->late) {
    struct chain *next = c->late->next;
    free_chain(c->late);
    c->late = next;
  }
  free(c->node);
  free(c->bucket);
  free(c);
  s->cache = NULL;
}

/* Do the counts of blocks hold, where some are counted by several who hold them? */
int prefix_is_sound(const struct server *s)
{
  return server_free(s) >= 0 && s->decode_blocks >= 0 && s->fixed_blocks + s->cache->shared >= 0 &&
         s->fixed_blocks + s->decode_blocks >= s->cache->held;
}

/* At the end nobody holds anything, and the whole pool is in the queue. */
int prefix_check(struct world *w, struct server *s)
{
  struct cache *c = s->cache;
  if (trim_queue(w, s))
    return -1;
  if (!c->held && !c->shared && c->queued == s->v.kv_blocks)
    return 0;
  return world_broken(
      w, "server %d: %lld KV blocks are still held by %lld, and %lld of %u are free", s->v.id,
      (long long)c->held, (long long)(c->held + c->shared), (long long)c->queued, s->v.kv_blocks);
}
