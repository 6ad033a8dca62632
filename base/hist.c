/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Percentiles and log-linear histograms. Values below 2^SUB have a bin each (group 0); the group
 * g >= 1 holds [2^(SUB+g-1), 2^(SUB+g)) in 2^SUB bins of width 2^(g-1).
 */
#include "base/hist.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SUB_BINS = 1 << BASE_HIST_SUB };

/* Position in a sample of n >= 1 of percentile p: the lower order statistic and the way beyond. */
static uint64_t position(uint64_t n, double p, double *way)
{
  double top = (double)(n - 1), h = top * (p > 0 ? p < 1 ? p : 1 : 0);
  double k = floor(h);
  *way = h - k;
  return k < top ? (uint64_t)k : n - 1;
}

double base_percentile_sorted(const int64_t *sorted, size_t n, double p)
{
  double way;
  uint64_t k = position(n, p, &way);
  double low = (double)sorted[k];
  return k + 1 < n ? low + way * ((double)sorted[k + 1] - low) : low;
}

static int by_value(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

void base_sort_int64(int64_t *x, size_t n)
{
  if (n > 1)
    qsort(x, n, sizeof *x, by_value);
}

static unsigned bin_of(uint64_t v)
{
  if (v < SUB_BINS)
    return (unsigned)v;
  unsigned shift = 63u - BASE_HIST_SUB - (unsigned)__builtin_clzll(v);
  return ((shift + 1) << BASE_HIST_SUB) + (unsigned)((v >> shift) - SUB_BINS);
}

/* Least value of a bin, and how many values it holds. */
static uint64_t bin_range(unsigned i, uint64_t *width)
{
  unsigned group = i >> BASE_HIST_SUB, shift = group ? group - 1 : 0;
  uint64_t base = group ? SUB_BINS + (i & (SUB_BINS - 1)) : i;
  *width = (uint64_t)1 << shift;
  return base << shift;
}

int base_hist_init(struct base_hist *h)
{
  *h = (struct base_hist){.bin = calloc(BASE_HIST_BINS, sizeof *h->bin)};
  return h->bin ? 0 : -1;
}

void base_hist_free(struct base_hist *h)
{
  if (!h)
    return;
  free(h->bin);
  *h = (struct base_hist){0};
}

/* Notes that values from low to high were added; call before n grows. */
static void widen(struct base_hist *h, int64_t low, int64_t high)
{
  if (!h->n || low < h->min)
    h->min = low;
  if (!h->n || high > h->max)
    h->max = high;
}

void base_hist_add(struct base_hist *h, int64_t value, uint64_t weight)
{
  if (!weight)
    return;
  if (value < 0)
    value = 0;
  widen(h, value, value);
  h->bin[bin_of((uint64_t)value)] += weight;
  h->n += weight;
  h->sum += (base_int128)value * weight;
}

/* Terms start + i*inc, i < count, that do not pass 2^63 - 1; inc >= 1. */
static uint64_t terms_in_range(int64_t start, int64_t inc, uint64_t count)
{
  uint64_t fit = (uint64_t)(INT64_MAX - start) / (uint64_t)inc + 1;
  return fit < count ? fit : count;
}

/* Puts `count` terms, none past 2^63 - 1, into their bins. Where terms lie closer than bins are
 * wide, every bin after a first one has width / inc of them, or one more. */
static void spread(struct base_hist *h, uint64_t value, uint64_t inc, uint64_t count,
                   uint64_t weight)
{
  while (count) {
    uint64_t width, i = bin_of(value), end = bin_range((unsigned)i, &width) + width;
    if (value + (count - 1) * inc < end) { /* all that is left */
      h->bin[i] += count * weight;
      return;
    }
    uint64_t group = (i | (SUB_BINS - 1)) + 1, each = inc < width ? width / inc : 0;
    uint64_t k = each ? (end - value + inc - 1) / inc : 1;
    k = k < count ? k : count;
    h->bin[i] += k * weight;
    count -= k;
    value += k * inc;
    /* the rest of the group, without a product a bin */
    uint64_t span = each * inc, all = each * weight;
    while (each && count > each && ++i < group) {
      end += width;
      uint64_t more = value + span < end;
      h->bin[i] += all + (weight & -more);
      count -= each + more;
      value += span + (inc & -more);
    }
  }
}

void base_hist_series(struct base_hist *h, int64_t start, int64_t inc, uint64_t count,
                      uint64_t weight)
{
  start = start < 0 ? 0 : start;
  if (!count || !weight)
    return;
  if (count == 1 || inc <= 0) {
    base_hist_add(h, start, count * weight);
    return;
  }
  uint64_t k = terms_in_range(start, inc, count);
  widen(h, start, start + (int64_t)(k - 1) * inc);
  spread(h, (uint64_t)start, (uint64_t)inc, k, weight);
  h->n += k * weight;
  base_int128 pairs = (base_int128)k * (k - 1) / 2;
  h->sum += ((base_int128)start * k + pairs * inc) * weight;
  base_hist_add(h, INT64_MAX, (count - k) * weight);
}

void base_hist_merge(struct base_hist *into, const struct base_hist *from)
{
  if (!from->n)
    return;
  widen(into, from->min, from->max);
  for (unsigned i = 0; i < BASE_HIST_BINS; i++)
    into->bin[i] += from->bin[i];
  into->n += from->n;
  into->sum += from->sum;
}

/* What stands for the values of a bin. */
static double midpoint(const struct base_hist *h, unsigned i)
{
  uint64_t width, low = bin_range(i, &width);
  double mid = (double)low + (double)(width - 1) / 2;
  mid = mid < (double)h->min ? (double)h->min : mid;
  return mid > (double)h->max ? (double)h->max : mid;
}

double base_hist_percentile(const struct base_hist *h, double p)
{
  if (!h->n)
    return NAN;
  double way;
  uint64_t k = position(h->n, p, &way), seen = 0;
  unsigned i = 0;
  while ((seen += h->bin[i]) <= k)
    i++;
  double low = midpoint(h, i);
  if (k + 1 < seen || k + 1 >= h->n)
    return low;
  do
    i++;
  while (!h->bin[i]);
  return low + way * (midpoint(h, i) - low);
}

/* ---------------------------------------------------------------------------------- samples -- */

static int reserve(struct base_sample *s, size_t n)
{
  if (n <= s->cap)
    return 0;
  size_t cap = s->cap ? 2 * s->cap : 64;
  cap = cap < n ? n : cap;
  int64_t *x = realloc(s->x, cap * sizeof *x);
  if (!x)
    return -1;
  s->x = x;
  s->cap = cap;
  return 0;
}

/* From exact to binned. */
static int spill(struct base_sample *s)
{
  if (!base_sample_is_exact(s))
    return 0;
  if (base_hist_init(&s->h))
    return -1;
  for (uint64_t i = 0; i < s->n; i++)
    base_hist_add(&s->h, s->x[i], 1);
  free(s->x);
  free(s->start);
  s->x = NULL;
  s->start = NULL;
  s->cap = 0;
  return 0;
}

int base_sample_add_slow(struct base_sample *s, int64_t value)
{
  if (s->n >= BASE_SAMPLE_EXACT) {
    if (spill(s))
      return -1;
    base_hist_add(&s->h, value, 1);
  } else {
    if (reserve(s, s->n + 1))
      return -1;
    s->x[s->n] = value;
  }
  s->settled = 0;
  s->n++;
  return 0;
}

int base_sample_merge(struct base_sample *into, const struct base_sample *from)
{
  uint64_t n = into->n + from->n;
  if (n > BASE_SAMPLE_EXACT) {
    if (spill(into))
      return -1;
    if (!base_sample_is_exact(from))
      base_hist_merge(&into->h, &from->h);
    for (uint64_t i = 0; base_sample_is_exact(from) && i < from->n; i++)
      base_hist_add(&into->h, from->x[i], 1);
  } else if (from->n) {
    if (reserve(into, n))
      return -1;
    memcpy(into->x + into->n, from->x, from->n * sizeof *from->x);
  }
  into->n = n;
  into->settled = 0;
  return 0;
}

/* Buckets of equal width, 2^shift values from `low` on: one has all values of one leading digit. */
enum { BUCKET_BITS = 11, BUCKETS = 1 << BUCKET_BITS };

static unsigned bucket_of(const struct base_sample *s, int64_t value)
{
  return (unsigned)(((uint64_t)value - (uint64_t)s->low) >> s->shift);
}

static void lay_out_buckets(struct base_sample *s)
{
  int64_t low = s->x[0], high = s->x[0];
  for (uint64_t i = 1; i < s->n; i++) {
    low = s->x[i] < low ? s->x[i] : low;
    high = s->x[i] > high ? s->x[i] : high;
  }
  uint64_t range = (uint64_t)high - (uint64_t)low;
  unsigned bits = range ? 64u - (unsigned)__builtin_clzll(range) : 0;
  s->low = low;
  s->shift = bits > BUCKET_BITS ? bits - BUCKET_BITS : 0;
}

/* Counts the values by bucket; then start[b] is where those of bucket b begin. */
static void find_starts(const struct base_sample *s, uint32_t *start)
{
  uint32_t sum = 0;
  for (uint64_t i = 0; i < s->n; i++)
    start[bucket_of(s, s->x[i])]++;
  for (unsigned b = 0; b <= BUCKETS; b++) {
    uint32_t count = start[b];
    start[b] = sum;
    sum += count;
  }
}

/* Moves every value into its bucket, in place: at[b] is where the next of bucket b goes. */
static void fill_buckets(struct base_sample *s, const uint32_t *start)
{
  uint32_t at[BUCKETS];
  memcpy(at, start, sizeof at);
  for (unsigned b = 0; b < BUCKETS; b++) {
    while (at[b] < start[b + 1]) {
      int64_t v = s->x[at[b]];
      for (unsigned d; (d = bucket_of(s, v)) != b;) { /* follow who is displaced until one fits */
        int64_t next = s->x[at[d]];
        s->x[at[d]++] = v;
        v = next;
      }
      s->x[at[b]++] = v;
    }
  }
}

int base_sample_settle(struct base_sample *s)
{
  if (!base_sample_is_exact(s) || !s->n || s->settled)
    return 0;
  uint32_t *start = calloc(BUCKETS + 1, sizeof *start);
  if (!start)
    return -1;
  lay_out_buckets(s);
  find_starts(s, start);
  fill_buckets(s, start);
  free(s->start);
  s->start = start;
  s->settled = 1;
  return 0;
}

/* The value of rank k: its bucket, then digit by digit among the values there. */
static int64_t order_statistic(const struct base_sample *s, uint64_t k)
{
  unsigned b = 0, bits = s->shift;
  while (s->start[b + 1] <= k)
    b++;
  const int64_t *x = s->x + s->start[b];
  uint64_t n = s->start[b + 1] - s->start[b], low = (uint64_t)s->low + ((uint64_t)b << bits);
  k -= s->start[b];
  while (bits) {
    unsigned rest = bits > BUCKET_BITS ? bits - BUCKET_BITS : 0, digit = 0;
    uint32_t count[BUCKETS] = {0};
    for (uint64_t i = 0; i < n; i++) {
      uint64_t v = (uint64_t)x[i] - low;
      if (v >> bits == 0)
        count[v >> rest]++;
    }
    for (; count[digit] <= k; digit++)
      k -= count[digit];
    low += (uint64_t)digit << rest;
    bits = rest;
  }
  return (int64_t)low;
}

double base_sample_percentile(const struct base_sample *s, double p)
{
  if (!s->n)
    return NAN;
  if (!base_sample_is_exact(s))
    return base_hist_percentile(&s->h, p);
  assert(s->settled);
  double way;
  uint64_t k = position(s->n, p, &way);
  double low = (double)order_statistic(s, k);
  return k + 1 < s->n && way > 0 ? low + way * ((double)order_statistic(s, k + 1) - low) : low;
}

void base_sample_free(struct base_sample *s)
{
  free(s->x);
  free(s->start);
  if (s->h.bin)
    base_hist_free(&s->h);
  *s = (struct base_sample){0};
}
