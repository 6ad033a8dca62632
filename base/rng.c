/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Philox4x32-10 as a GSL generator.
 *
 * Key: XXH3-64 of the stream's name, seeded with the run's seed. Counter: words 0 and 1 count
 * blocks within an entity, words 2 and 3 are the entity. So an entity has 2^66 words of its own,
 * and no state beyond the counter.
 */
#define XXH_INLINE_ALL
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct philox {
  uint32_t key[2];
  uint32_t ctr[4]; /* of the next block */
  uint32_t out[4]; /* the present block */
  unsigned used;   /* words of it that were given out */
};

void base_philox4x32(const uint32_t c[4], const uint32_t k[2], uint32_t out[4])
{
  uint32_t x0 = c[0], x1 = c[1], x2 = c[2], x3 = c[3], k0 = k[0], k1 = k[1];
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * x0, p1 = (uint64_t)0xCD9E8D57u * x2;
    x0 = (uint32_t)(p1 >> 32) ^ x1 ^ k0;
    x1 = (uint32_t)p1;
    x2 = (uint32_t)(p0 >> 32) ^ x3 ^ k1;
    x3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = x0, out[1] = x1, out[2] = x2, out[3] = x3;
}

static uint32_t next_word(struct philox *s)
{
  if (s->used == 4) {
    base_philox4x32(s->ctr, s->key, s->out);
    s->used = 0;
    if (++s->ctr[0] == 0)
      s->ctr[1]++;
  }
  return s->out[s->used++];
}

static void to_entity(struct philox *s, uint64_t entity)
{
  s->ctr[0] = s->ctr[1] = 0;
  s->ctr[2] = (uint32_t)entity;
  s->ctr[3] = (uint32_t)(entity >> 32);
  s->used = 4;
}

/* GSL's own way to seed: the seed is the key. */
static void philox_set(void *state, unsigned long seed)
{
  struct philox *s = state;
  s->key[0] = (uint32_t)seed;
  s->key[1] = (uint32_t)((uint64_t)seed >> 32);
  to_entity(s, 0);
}

static unsigned long philox_get(void *state)
{
  return next_word(state);
}

/* 53 bits: k * 2^-53, 0 <= k < 2^53, so 0 <= u < 1. The first word is the high one. */
static double philox_get_double(void *state)
{
  uint64_t hi = next_word(state);
  uint64_t lo = next_word(state);
  return (double)((hi << 32 | lo) >> 11) * 0x1p-53;
}

static const gsl_rng_type philox_type = {
    .name = "philox4x32-10",
    .max = 0xFFFFFFFFul,
    .min = 0,
    .size = sizeof(struct philox),
    .set = philox_set,
    .get = philox_get,
    .get_double = philox_get_double,
};
const gsl_rng_type *const base_rng_philox = &philox_type;

void base_rng_key(uint64_t seed, const char *name, uint32_t key[2])
{
  uint64_t k = XXH3_64bits_withSeed(name, strlen(name), seed);
  key[0] = (uint32_t)k;
  key[1] = (uint32_t)(k >> 32);
}

/* Not gsl_rng_alloc: without memory that calls GSL's error handler, which aborts. */
gsl_rng *base_rng_open(uint64_t seed, const char *name)
{
  gsl_rng *r = malloc(sizeof *r);
  struct philox *s = calloc(1, sizeof *s);
  if (!r || !s) {
    free(s);
    free(r);
    return NULL;
  }
  base_rng_key(seed, name, s->key);
  to_entity(s, 0);
  r->type = base_rng_philox;
  r->state = s;
  return r;
}

void base_rng_entity(gsl_rng *r, uint64_t entity)
{
  to_entity(r->state, entity);
}
