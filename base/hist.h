/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Distributions of non-negative integers (times in ps): an exact sample, and a mergeable
 * log-linear histogram for what is too many to keep.
 *
 * Percentiles are Hyndman-Fan type 7: linear interpolation between the order statistics around
 * (n-1)*p.
 */
#ifndef BASE_HIST_H
#define BASE_HIST_H

#include <stddef.h>
#include <stdint.h>

typedef __int128 base_int128;

/* Percentile p in [0,1] of a sorted sample; n >= 1. */
double base_percentile_sorted(const int64_t *sorted, size_t n, double p);
/* Sorts ascending. */
void base_sort_int64(int64_t *x, size_t n);

/*
 * Bins: below 2^10 one a value; above, 2^10 to a power of two, so a bin is at most 2^-10 of its
 * value wide. Count, sum, minimum and maximum are exact. 2^63 is out of range (values saturate).
 */
enum { BASE_HIST_SUB = 10, BASE_HIST_BINS = (64 - BASE_HIST_SUB) << BASE_HIST_SUB };
struct base_hist {
  uint64_t *bin;     /* [BASE_HIST_BINS], owned */
  uint64_t n;
  base_int128 sum;
  int64_t min, max;  /* of n >= 1 values */
};
int base_hist_init(struct base_hist *h); /* -1: out of memory */
void base_hist_free(struct base_hist *h);
void base_hist_add(struct base_hist *h, int64_t value, uint64_t weight);
/* Adds start, start+inc, ..., `count` terms (inc >= 0), each `weight` times: in O(bins touched),
 * with the same result as count single adds. */
void base_hist_series(struct base_hist *h, int64_t start, int64_t inc, uint64_t count,
                      uint64_t weight);
void base_hist_merge(struct base_hist *into, const struct base_hist *from);
/* Percentile by type 7 over bin midpoints, clamped to [min, max]; NaN for n == 0. */
double base_hist_percentile(const struct base_hist *h, double p);

/*
 * A sample that is kept exactly up to BASE_SAMPLE_EXACT values and binned beyond, so that it never
 * grows past that. Zero it before use.
 */
enum { BASE_SAMPLE_EXACT = 1 << 20 };
struct base_sample {
  uint64_t n;
  int64_t *x;         /* [used], owned: while exact, all n; then those that wait for their bins */
  size_t used, cap;
  int settled;        /* the buckets are counted: see base_sample_settle */
  uint32_t *start;    /* settled: how many values lie in the buckets before each, owned */
  uint32_t *kept_at;  /* and where in `kept` those of a bucket are, UINT32_MAX: not there */
  int64_t *kept;      /* settled: the values around the percentiles that are usual, owned */
  int64_t low;
  unsigned shift;     /* bucket b holds the values from low + (b << shift) on */
  struct base_hist h; /* once n has passed BASE_SAMPLE_EXACT: all but those */
};
int base_sample_make_room(struct base_sample *s); /* for one more in x; -1: out of memory */
static inline int base_sample_add(struct base_sample *s, int64_t value) /* -1: out of memory */
{
  if (s->used == s->cap && base_sample_make_room(s))
    return -1;
  s->settled = 0;
  s->n++;
  s->x[s->used++] = value;
  return 0;
}
int base_sample_merge(struct base_sample *into, const struct base_sample *from);
static inline int base_sample_is_exact(const struct base_sample *s)
{
  return !s->h.bin;
}
/* Counts what percentiles need: O(n). Those of 0.5, 0.9, 0.95 and 0.99 then cost little, others a pass
 * or some over the values. To be called after the last value and before the first percentile. -1: out
 * of memory. */
int base_sample_settle(struct base_sample *s);
/* Type 7, exact (of a settled sample) or binned; NaN for n == 0. */
double base_sample_percentile(const struct base_sample *s, double p);
void base_sample_free(struct base_sample *s);

#endif
