/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/toy_engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SEQUENCES = 4096 }; /* ids modulo */

struct toy_sequence {
  int used;
  int32_t seq;
  uint32_t kv, known, limit, pages;
  int on_host, adapter;
  uint64_t key;
  int32_t *token;
};

struct engine {
  struct toy_options o;
  pthread_mutex_t lock;
  uint32_t free, host_free, sequences;
  uint64_t works;
  struct toy_sequence s[SEQUENCES];
};

int32_t toy_token(uint64_t key, uint32_t position)
{
  uint64_t x = (key + 1) * 0x9e3779b97f4a7c15u + position;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  return (int32_t)((x ^ x >> 31) % 997);
}

struct engine *toy_engine_create(const struct toy_options *o)
{
  struct engine *en = calloc(1, sizeof *en);
  if (!en)
    return NULL;
  en->o = *o;
  en->free = o->engine.pages;
  en->host_free = o->engine.host_pages;
  pthread_mutex_init(&en->lock, NULL);
  return en;
}

void engine_destroy(struct engine *en)
{
  for (int i = 0; en && i < SEQUENCES; i++)
    free(en->s[i].token);
  if (en)
    pthread_mutex_destroy(&en->lock);
  free(en);
}

uint32_t toy_sequences(const struct engine *en)
{
  return en->sequences;
}

uint64_t toy_works(const struct engine *en)
{
  return en->works;
}

static void lock(const struct engine *en)
{
  pthread_mutex_lock((pthread_mutex_t *)&en->lock);
}

static void unlock(const struct engine *en)
{
  pthread_mutex_unlock((pthread_mutex_t *)&en->lock);
}

static struct toy_sequence *find(const struct engine *en, int32_t seq)
{
  struct toy_sequence *s = (struct toy_sequence *)&en->s[(uint32_t)seq % SEQUENCES];
  return seq >= 0 && s->used && s->seq == seq ? s : NULL;
}

static uint32_t pages_of(const struct engine *en, uint32_t tokens)
{
  return (tokens + en->o.engine.block_tokens - 1) / en->o.engine.block_tokens;
}

int engine_begin(struct engine *en, int32_t seq, const struct engine_request *r,
                 struct base_error *e)
{
  struct toy_sequence *s = &en->s[(uint32_t)seq % SEQUENCES];
  uint32_t limit = r->prompt_tokens + r->max_tokens;
  int32_t *token = malloc(limit * sizeof *token);
  if (!token)
    return base_fail_memory(e);
  memcpy(token, r->prompt, r->prompt_tokens * sizeof *token);
  lock(en);
  if (s->used) {
    unlock(en);
    free(token);
    return base_fail(e, BASE_INPUT, "sequence %d is there already, or too many are", (int)seq);
  }
  *s = (struct toy_sequence){.used = 1,
                             .seq = seq,
                             .known = r->prompt_tokens,
                             .limit = limit,
                             .key = r->how.key,
                             .token = token};
  en->sequences++;
  unlock(en);
  return 0;
}

static void give_up(struct engine *en, struct toy_sequence *s)
{
  if (s->on_host)
    en->host_free += s->pages;
  else
    en->free += s->pages;
  s->pages = s->kv = 0;
  s->on_host = 0;
}

void engine_drop(struct engine *en, int32_t seq)
{
  lock(en);
  struct toy_sequence *s = find(en, seq);
  if (s) {
    give_up(en, s);
    free(s->token);
    *s = (struct toy_sequence){0};
    en->sequences--;
  }
  unlock(en);
}

void engine_evict(struct engine *en, int32_t seq)
{
  lock(en);
  struct toy_sequence *s = find(en, seq);
  if (s)
    give_up(en, s);
  unlock(en);
}

/* Lasts; 1 if it was stopped. */
static int spend(long ns, int parts, const volatile int *stop)
{
  for (int i = 0; i < parts; i++) {
    if (stop && __atomic_load_n(stop, __ATOMIC_RELAXED))
      return 1;
    const struct timespec t = {.tv_nsec = ns / parts};
    if (t.tv_nsec)
      nanosleep(&t, NULL);
  }
  return 0;
}

/* Is this the work that goes wrong? */
static int begin_work(struct engine *en, struct base_error *e)
{
  lock(en);
  uint64_t n = ++en->works;
  unlock(en);
  if (n == en->o.exit_at)
    pthread_exit(NULL);
  return n == en->o.fail_at ? base_fail(e, BASE_ENV, "the toy is broken at work %d", (int)n) : 0;
}

static int move(struct engine *en, int32_t seq, int to_host, struct base_error *e)
{
  int bad = begin_work(en, e);
  spend(en->o.copy_ns, 1, NULL);
  lock(en);
  struct toy_sequence *s = find(en, seq);
  uint32_t *to = to_host ? &en->host_free : &en->free, *from = to_host ? &en->free : &en->host_free;
  if (!bad && (!s || s->on_host == to_host))
    bad = base_fail(e, BASE_INPUT, "sequence %d is not where it is copied from", (int)seq);
  if (!bad && *to < s->pages)
    bad = base_fail(e, BASE_ENV, "the pool is full");
  if (!bad) {
    *to -= s->pages;
    *from += s->pages;
    s->on_host = to_host;
  }
  unlock(en);
  return bad;
}

int engine_swap_out(struct engine *en, int32_t seq, struct base_error *e)
{
  return move(en, seq, 1, e);
}

int engine_swap_in(struct engine *en, int32_t seq, struct base_error *e)
{
  return move(en, seq, 0, e);
}

/* Part i of a step: chunks, then rows. */
static struct engine_chunk part_of(const struct engine *en, const struct engine_step *st,
                                   uint32_t i)
{
  if (i < st->chunks)
    return st->chunk[i];
  int32_t seq = st->row[i - st->chunks];
  const struct toy_sequence *s = find(en, seq);
  return (struct engine_chunk){seq, s ? s->known - 1 : 0, 1};
}

static int check(const struct engine *en, const struct engine_step *st, struct base_error *e)
{
  uint32_t need = 0, tokens = 0;
  for (uint32_t i = 0; i < st->chunks + st->rows; i++) {
    struct engine_chunk c = part_of(en, st, i);
    const struct toy_sequence *s = find(en, c.seq);
    if (!s || s->on_host || c.start != s->kv || !c.tokens || c.start + c.tokens > s->known ||
        (c.start + c.tokens == s->known && s->known == s->limit))
      return base_fail(e, BASE_INPUT, "sequence %d is unknown, away, full, or not at token %u",
                       (int)c.seq, c.start);
    need += pages_of(en, c.start + c.tokens) - s->pages;
    tokens += c.tokens;
  }
  if (need > en->free || tokens > en->o.engine.max_tokens)
    return base_fail(e, BASE_ENV, "a step of %u pages, of which %u are free, and %u tokens", need,
                     en->free, tokens);
  return 0;
}

static void advance(struct engine *en, const struct engine_step *st)
{
  for (uint32_t i = 0; i < st->chunks + st->rows; i++) {
    struct engine_chunk c = part_of(en, st, i);
    struct toy_sequence *s = find(en, c.seq);
    uint32_t pages = pages_of(en, c.start + c.tokens);
    en->free -= pages - s->pages;
    s->pages = pages;
    s->kv = c.start + c.tokens;
    st->out[i] = (struct engine_token){.seq = c.seq, .token = -1};
    if (s->kv == s->known) {
      st->out[i].token = s->token[s->known] = toy_token(s->key, s->known);
      s->known++;
    }
  }
}

int engine_step(struct engine *en, const struct engine_step *st, struct base_error *e)
{
  if (begin_work(en, e))
    return -1;
  lock(en);
  int bad = check(en, st, e);
  unlock(en);
  if (bad)
    return -1;
  if (spend(en->o.step_ns, en->o.layers, st->stop))
    return ENGINE_ABORTED;
  lock(en);
  advance(en, st);
  unlock(en);
  return 0;
}

const int32_t *engine_tokens(const struct engine *en, int32_t seq, uint32_t *n)
{
  lock(en);
  const struct toy_sequence *s = find(en, seq);
  const int32_t *token = s ? s->token : NULL;
  *n = s ? s->known : 0;
  unlock(en);
  return token;
}

/* It has no slots, and does not sleep. */
int64_t engine_adapter_bytes(const struct engine *en, const struct adapter *a)
{
  (void)en, (void)a;
  return 0;
}

int engine_adapter_load(struct engine *en, int slot, const struct adapter *a, struct base_error *e)
{
  (void)en, (void)a;
  return base_fail(e, BASE_ENV, "there is no adapter slot %d", slot);
}

void engine_adapter_drop(struct engine *en, int slot)
{
  (void)en, (void)slot;
}

int64_t engine_sleep(struct engine *en, int level, struct base_error *e)
{
  (void)en;
  return base_fail(e, BASE_ENV, "the toy has no sleep of level %d", level);
}

int64_t engine_wake(struct engine *en, struct base_error *e)
{
  (void)en;
  return base_fail(e, BASE_ENV, "the toy does not sleep");
}
