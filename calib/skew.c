/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/skew.h"

#include <stdlib.h>
#include <string.h>

#include "calib/fit.h"

typedef __int128 wide;

#define PPM 1000000

/* A row's share, and its weight; both parts a million. */
struct vote {
  int64_t rows, share, weight;
};

static int compare_votes(const void *pa, const void *pb)
{
  const struct vote *a = pa, *b = pb;
  const int64_t x[] = {a->rows, a->share, a->weight}, y[] = {b->rows, b->share, b->weight};
  for (int i = 0; i < 3; i++)
    if (x[i] != y[i])
      return x[i] < y[i] ? -1 : 1;
  return 0;
}

static int64_t clamp(int64_t v, int64_t min, int64_t max)
{
  return v < min ? min : v > max ? max : v;
}

/* The votes of the rows of a kind that are not left out: 4 of 5 if `train`. Returns how many. */
static size_t list_votes(const struct operators_skew_row *row, size_t n, int mixed, int train,
                         struct vote *vote)
{
  size_t k = 0, seen = 0;
  for (size_t i = 0; i < n; i++) {
    int64_t way = row[i].max_ps - row[i].mean_ps;
    if (!row[i].chunk != !mixed || row[i].rows < 2 || (train && seen++ % 5 == 4) || !way)
      continue;
    wide share = (wide)(row[i].skew_ps - row[i].mean_ps) * PPM / way;
    vote[k++] = (struct vote){row[i].rows,
                              (int64_t)(share < -100 * PPM  ? -100 * PPM
                                        : share > 100 * PPM ? 100 * PPM
                                                            : share),
                              (int64_t)((wide)llabs(way) * PPM / row[i].skew_ps)};
  }
  if (k)
    qsort(vote, k, sizeof *vote, compare_votes);
  return k;
}

/* The weighted median of votes that are sorted by share. */
static int64_t median(const struct vote *vote, size_t n)
{
  int64_t all = 0, below = 0;
  size_t i = 0;
  for (size_t j = 0; j < n; j++)
    all += vote[j].weight;
  while (i + 1 < n && 2 * (below + vote[i].weight) < all)
    below += vote[i++].weight;
  return clamp(vote[i].share, 0, PPM);
}

/* A curve over rows from sorted votes; v has room for as many knots as there are votes. */
static void elect(const struct vote *vote, size_t n, struct calibration_curve *v)
{
  v->n = 0;
  for (size_t i = 0, j; i < n; i = j) {
    for (j = i; j < n && vote[j].rows == vote[i].rows; j++)
      ;
    v->x[v->n] = vote[i].rows;
    v->y[v->n++] = median(vote + i, j - i);
  }
}

static int64_t share_of(const struct calibration_curve *v, int64_t rows)
{
  for (uint32_t i = 0; i < v->n; i++)
    if (v->x[i] == rows)
      return v->y[i];
  return 0;
}

/* Every fifth row of the kind, by the shares of the others, and by the mean alone. */
static int judge(const struct operators_skew_row *row, size_t n, int mixed,
                 const struct calibration_curve *v, struct calibration_residual *r)
{
  struct fit_errors f[2];
  size_t seen = 0;
  if (fit_errors_init(&f[0], n))
    return -1;
  if (fit_errors_init(&f[1], n)) {
    free(f[0].ppb);
    return -1;
  }
  for (size_t i = 0; i < n; i++) {
    if (!row[i].chunk != !mixed || row[i].rows < 2)
      continue;
    if (seen++ % 5 == 4) {
      wide more = (wide)(row[i].max_ps - row[i].mean_ps) * share_of(v, row[i].rows) / PPM;
      fit_errors_add(&f[0], row[i].mean_ps + (int64_t)more, row[i].skew_ps);
      fit_errors_add(&f[1], row[i].mean_ps, row[i].skew_ps);
    }
  }
  f[0].samples = f[1].samples = seen;
  fit_errors_close(&f[0], mixed ? "uneven mixed" : "uneven decode", &r[0]);
  fit_errors_close(&f[1], mixed ? "uneven mixed by mean alone" : "uneven decode by mean alone",
                   &r[1]);
  return 0;
}

int skew_fit(const struct operators_skew_row *row, size_t n, int mixed, struct calibration_curve *v,
             struct calibration_residual *r, struct base_error *e)
{
  struct vote *vote = malloc((n + 1) * sizeof *vote);
  v->x = calloc(n + 1, sizeof *v->x);
  v->y = calloc(n + 1, sizeof *v->y);
  int rc = vote && v->x && v->y ? 0 : -1;
  if (!rc) {
    elect(vote, list_votes(row, n, mixed, 1, vote), v);
    rc = judge(row, n, mixed, v, r);
  }
  if (!rc)
    elect(vote, list_votes(row, n, mixed, 0, vote), v);
  free(vote);
  return rc ? base_fail_memory(e) : 0;
}
