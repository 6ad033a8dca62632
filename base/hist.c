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
#include <sys/mman.h>

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

static inline unsigned bin_of(uint64_t v)
{
  unsigned shift = 63u - BASE_HIST_SUB - (unsigned)__builtin_clzll(v | SUB_BINS);
  return (shift << BASE_HIST_SUB) + (unsigned)(v >> shift);
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
  uint64_t k = count, way;
  start = start < 0 ? 0 : start;
  if (!count || !weight)
    return;
  if (count == 1 || inc <= 0) {
    base_hist_add(h, start, count * weight);
    return;
  }
  if (__builtin_mul_overflow(count - 1, (uint64_t)inc, &way) || way > (uint64_t)INT64_MAX - start) {
    k = (uint64_t)(INT64_MAX - start) / (uint64_t)inc + 1;
    way = (k - 1) * (uint64_t)inc;
    base_hist_add(h, INT64_MAX, (count - k) * weight);
  }
  uint64_t first = (uint64_t)start, last = first + way, i = bin_of(first);
  widen(h, start, (int64_t)last);
  if (bin_of(last) == i)
    h->bin[i] += k * weight;
  else
    spread(h, first, (uint64_t)inc, k, weight);
  h->n += k * weight;
  h->sum += (base_int128)((unsigned __int128)(first + last) * (k * weight) >> 1);
}

void base_hist_merge(struct base_hist *into, const struct base_hist *from)
{
  if (!from->n)
    return;
  widen(into, from->min, from->max);
  for (unsigned i = bin_of((uint64_t)from->min); i <= bin_of((uint64_t)from->max); i++)
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

/* From so many values on there is room for all at once. */
enum { MANY = 1 << 16, LARGE_PAGE = 1 << 21 };
/* So many values wait for their bins. */
enum { WAITING = 1024 };

/* What is not written takes no memory; in large pages what is takes few faults. */
static int64_t *room_for_all(void)
{
  size_t bytes = BASE_SAMPLE_EXACT * sizeof(int64_t);
  int64_t *x = aligned_alloc(LARGE_PAGE, bytes);
#ifdef MADV_HUGEPAGE
  if (x)
    (void)madvise(x, bytes, MADV_HUGEPAGE); /* only advice */
#endif
  return x;
}

/* n: at most BASE_SAMPLE_EXACT. */
static int reserve(struct base_sample *s, size_t n)
{
  if (n <= s->cap)
    return 0;
  size_t cap = BASE_SAMPLE_EXACT;
  int64_t *x;
  if (n > MANY) {
    x = room_for_all();
    for (uint64_t i = 0; x && i < s->n; i++)
      x[i] = s->x[i];
    if (x)
      free(s->x);
  } else {
    cap = 2 * s->cap > 64 ? 2 * s->cap : 64;
    cap = cap < n ? n : cap;
    x = realloc(s->x, cap * sizeof *x);
  }
  if (!x)
    return -1;
  s->x = x;
  s->cap = cap;
  return 0;
}

/* Binned: what lies in x goes into its bins, all at once, since one by one each would wait for
 * memory. */
static void bin_all(struct base_sample *s)
{
  for (size_t i = 0; i < s->used; i++)
    base_hist_add(&s->h, s->x[i], 1);
  s->used = 0;
}

/* From exact to binned, if it is not yet. */
static int spill(struct base_sample *s)
{
  if (!base_sample_is_exact(s))
    return 0;
  int64_t *x = malloc(WAITING * sizeof *x);
  if (!x || base_hist_init(&s->h)) {
    free(x);
    return -1;
  }
  bin_all(s);
  free(s->x);
  free(s->start);
  free(s->kept);
  s->x = x;
  s->cap = WAITING;
  s->start = NULL;
  s->kept = NULL;
  return 0;
}

int base_sample_make_room(struct base_sample *s)
{
  if (base_sample_is_exact(s) && s->n < BASE_SAMPLE_EXACT)
    return reserve(s, s->n + 1);
  if (spill(s))
    return -1;
  bin_all(s);
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
    for (size_t i = 0; i < from->used; i++)
      base_hist_add(&into->h, from->x[i], 1);
  } else if (from->n) {
    if (reserve(into, n))
      return -1;
    memcpy(into->x + into->used, from->x, from->used * sizeof *from->x);
    into->used += from->used;
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

/* Counts the values by bucket; then start[b] is how many lie in those before b. */
static void find_starts(struct base_sample *s)
{
  uint32_t sum = 0;
  memset(s->start, 0, (BUCKETS + 1) * sizeof *s->start);
  for (uint64_t i = 0; i < s->n; i++)
    s->start[bucket_of(s, s->x[i])]++;
  for (unsigned b = 0; b <= BUCKETS; b++) {
    uint32_t count = s->start[b];
    s->start[b] = sum;
    sum += count;
  }
}

/* The bucket of rank k, from `b` on. */
static unsigned bucket_of_rank(const struct base_sample *s, unsigned b, uint64_t k)
{
  while (s->start[b + 1] <= k)
    b++;
  return b;
}

/* The percentiles that reports give, ascending: what they need of x is kept apart. */
static const double usual[] = {0.5, 0.9, 0.95, 0.99};
enum { NOT_KEPT = UINT32_MAX };

/* Notes where the values of the buckets of usual percentiles will be kept. Returns how many. */
static uint32_t choose_kept(struct base_sample *s)
{
  uint32_t n = 0;
  unsigned b = 0;
  double way;
  memset(s->kept_at, 0xff, BUCKETS * sizeof *s->kept_at);
  for (size_t i = 0; i < 2 * sizeof usual / sizeof *usual; i++) {
    uint64_t k = position(s->n, usual[i / 2], &way) + i % 2;
    b = bucket_of_rank(s, b, k < s->n ? k : s->n - 1);
    if (s->kept_at[b] == NOT_KEPT) {
      s->kept_at[b] = n;
      n += s->start[b + 1] - s->start[b];
    }
  }
  return n;
}

static void keep(struct base_sample *s)
{
  uint32_t next[BUCKETS];
  memcpy(next, s->kept_at, sizeof next);
  for (uint64_t i = 0; i < s->n; i++) {
    unsigned b = bucket_of(s, s->x[i]);
    if (next[b] != NOT_KEPT)
      s->kept[next[b]++] = s->x[i];
  }
}

int base_sample_settle(struct base_sample *s)
{
  if (!s->n || s->settled)
    return 0;
  if (!base_sample_is_exact(s)) {
    bin_all(s);
    s->settled = 1;
    return 0;
  }
  if (!s->start) {
    s->start = malloc((BUCKETS + 1 + BUCKETS) * sizeof *s->start);
    if (!s->start)
      return -1;
    s->kept_at = s->start + BUCKETS + 1;
  }
  lay_out_buckets(s);
  find_starts(s);
  int64_t *kept = realloc(s->kept, choose_kept(s) * sizeof *kept);
  if (!kept)
    return -1;
  s->kept = kept;
  keep(s);
  s->settled = 1;
  return 0;
}

/* The value of rank k: its bucket, then digit by digit among the values there. With few values
 * digits are short, so that there are not more counters than values. */
static int64_t order_statistic(const struct base_sample *s, uint64_t k)
{
  unsigned b = bucket_of_rank(s, 0, k), bits = s->shift, digit_bits = BUCKET_BITS;
  const int64_t *x = s->x;
  uint64_t n = s->n, low = (uint64_t)s->low + ((uint64_t)b << bits);
  if (s->kept_at[b] != NOT_KEPT) {
    x = s->kept + s->kept_at[b];
    n = s->start[b + 1] - s->start[b];
  }
  while (digit_bits > 2 && n >> digit_bits == 0)
    digit_bits--;
  k -= s->start[b];
  while (bits) {
    unsigned rest = bits > digit_bits ? bits - digit_bits : 0, digit = 0;
    uint32_t count[BUCKETS];
    memset(count, 0, sizeof *count << (bits - rest));
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
  assert(s->settled);
  if (!base_sample_is_exact(s))
    return base_hist_percentile(&s->h, p);
  double way;
  uint64_t k = position(s->n, p, &way);
  double low = (double)order_statistic(s, k);
  return k + 1 < s->n && way > 0 ? low + way * ((double)order_statistic(s, k + 1) - low) : low;
}

void base_sample_free(struct base_sample *s)
{
  free(s->x);
  free(s->start);
  free(s->kept);
  if (s->h.bin)
    base_hist_free(&s->h);
  *s = (struct base_sample){0};
}
