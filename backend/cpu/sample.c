/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sampling by the Gumbel trick: the token with the largest logit / temperature - log(-log u), where
 * u of a token is a word of Philox under (seed, key, position, token). What top-k and top-p leave
 * is found by a threshold: logits become integers of the same order, whose most probable part is
 * narrowed down digit by digit; of equals at the threshold the lowest ids stay.
 *
 * Logarithms are our own, so that a token does not depend on the C library.
 */
#include "backend/cpu/sample.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

enum { DIGITS = 4, DIGIT_BITS = 8, DIGIT = 1 << DIGIT_BITS };

/* Natural logarithm of a positive normal number, to a few units in the last place. */
static double logarithm(double x)
{
  int e;
  double m = frexp(x, &e);
  if (m < 0.70710678118654752) {
    m *= 2;
    e--;
  }
  const double s = (m - 1) / (m + 1), z = s * s;
  double p = 0;
  for (int n = 21; n >= 3; n -= 2)
    p = (p + 1.0 / n) * z;
  return 2 * (s + s * p) + e * 0.69314718055994531;
}

/* Larger for larger logits; +0 and -0 are equal, NaN is the least. */
static uint32_t order(float x)
{
  uint32_t u;
  if (x != x)
    return 0;
  x += 0.0f;
  memcpy(&u, &x, sizeof u);
  return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* The lowest id of the largest logits; 0 where all are NaN. */
static int32_t largest(const struct cpu_kernels *k, const float *logit, uint32_t vocab)
{
  const float max = k->max(logit, vocab);
  for (uint32_t i = 0; i < vocab; i++)
    if (logit[i] == max)
      return (int32_t)i;
  uint32_t best = 0;
  for (uint32_t i = 1; i < vocab; i++)
    if (order(logit[i]) > order(logit[best]))
      best = i;
  return (int32_t)best;
}

static double gumbel(uint32_t word)
{
  return -logarithm(-logarithm(((double)word + 0.5) * 0x1p-32));
}

/* No noise is larger: of the largest word. */
static const double gumbel_max = 22.88;

/* Words of tokens 4 i .. 4 i + 3. */
static void noise(const struct ops_sample *how, uint32_t i, uint32_t word[4])
{
  const uint32_t key[2] = {(uint32_t)how->seed, (uint32_t)(how->seed >> 32)};
  const uint32_t counter[4] = {i, how->position, (uint32_t)how->key, (uint32_t)(how->key >> 32)};
  base_philox4x32(counter, key, word);
}

/* What is left: ids with order(logit) > least, and the first `equals` of those equal to it. */
struct cut {
  uint32_t least, equals;
};

/* The fewest of the largest whose weights add up to target: weight[i], or 1 each where it is NULL.
 * The last one is always there. */
static struct cut cut_at(const uint32_t *key, const double *weight, uint32_t n, double target)
{
  double above = 0, bin[DIGIT];
  uint32_t prefix = 0, mask = 0;
  for (int digit = DIGITS - 1; digit >= 0; digit--) {
    const int shift = digit * DIGIT_BITS;
    memset(bin, 0, sizeof bin);
    uint32_t lowest = DIGIT - 1;
    for (uint32_t i = 0; i < n; i++)
      if ((key[i] & mask) == prefix) {
        const uint32_t d = key[i] >> shift & (DIGIT - 1);
        bin[d] += weight ? weight[i] : 1;
        lowest = d < lowest ? d : lowest;
      }
    uint32_t d = DIGIT - 1;
    while (d > lowest && above + bin[d] < target)
      above += bin[d--];
    prefix |= d << shift;
    mask |= (uint32_t)(DIGIT - 1) << shift;
  }
  uint32_t equals = 0;
  for (uint32_t i = 0; i < n; i++)
    if (key[i] == prefix && (equals == 0 || above < target)) {
      above += weight ? weight[i] : 1;
      equals++;
    }
  return (struct cut){prefix, equals};
}

/* Takes out of the list what the cut does not leave. */
static uint32_t keep(struct cut c, uint32_t *key, uint32_t *id, uint32_t n)
{
  uint32_t kept = 0, equals = 0;
  for (uint32_t i = 0; i < n; i++)
    if (key[i] > c.least || (key[i] == c.least && equals++ < c.equals)) {
      key[kept] = key[i];
      id[kept++] = id[i];
    }
  return kept;
}

size_t cpu_sample_bytes(uint32_t vocab)
{
  return (size_t)vocab * (sizeof(double) + 2 * sizeof(uint32_t));
}

/* Ids that top_k and top_p leave, ascending, to id[]; returns how many. */
static uint32_t leave(const struct cpu_kernels *k, const float *logit, const struct ops_sample *how,
                      uint32_t vocab, double *weight, uint32_t *key, uint32_t *id)
{
  uint32_t n = vocab;
  for (uint32_t i = 0; i < vocab; i++) {
    key[i] = order(logit[i]);
    id[i] = i;
  }
  if (how->top_k > 0 && how->top_k < n)
    n = keep(cut_at(key, NULL, n, how->top_k), key, id, n);
  if (how->top_p < 1) {
    const float max = k->max(logit, vocab);
    double total = 0;
    for (uint32_t i = 0; i < n; i++) {
      const float x = (logit[id[i]] - max) / how->temperature;
      weight[i] = k->exp_sum(&x, 0, 1);
      total += weight[i];
    }
    n = keep(cut_at(key, weight, n, total * how->top_p), key, id, n);
  }
  return n;
}

struct choice {
  double best;
  uint32_t token;
};

static void offer(struct choice *c, double logit, uint32_t token, uint32_t word)
{
  if (logit + gumbel_max <= c->best)
    return;
  const double score = logit + gumbel(word);
  if (score > c->best) {
    c->best = score;
    c->token = token;
  }
}

/* The first try is the largest logit, so that most of the others cannot win and need no noise. */
static uint32_t choose(const float *logit, const struct ops_sample *how, const uint32_t *id,
                       uint32_t n, uint32_t first)
{
  const double t = how->temperature;
  struct choice c = {-INFINITY, first};
  uint32_t word[4], have = UINT32_MAX;
  noise(how, first / 4, word);
  const double floor_of_first = logit[first] / t + gumbel(word[first % 4]);
  c.best = nextafter(floor_of_first, -INFINITY);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t token = id ? id[i] : i;
    const double x = logit[token] / t;
    if (!(x + gumbel_max > c.best))
      continue;
    if (have != token / 4)
      noise(how, have = token / 4, word);
    offer(&c, x, token, word[token % 4]);
  }
  return c.token;
}

int32_t cpu_sample_row(const struct cpu_kernels *k, const float *logit,
                       const struct ops_sample *how, uint32_t vocab, void *space)
{
  const int32_t first = largest(k, logit, vocab);
  if (!(how->temperature > 0))
    return first;
  if ((how->top_k == 0 || how->top_k >= vocab) && !(how->top_p < 1))
    return (int32_t)choose(logit, how, NULL, vocab, (uint32_t)first);
  double *weight = space;
  uint32_t *key = (uint32_t *)(void *)(weight + vocab), *id = key + vocab;
  const uint32_t n = leave(k, logit, how, vocab, weight, key, id);
  return (int32_t)choose(logit, how, id, n, (uint32_t)first);
}

float cpu_logprob(const struct cpu_kernels *k, const float *logit, uint32_t vocab, int32_t token)
{
  const float max = k->max(logit, vocab);
  return (float)((double)logit[token] - max - logarithm(k->exp_sum(logit, max, vocab)));
}
