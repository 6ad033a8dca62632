/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/validate/stats.h"

#include <math.h>

double stats_ks(const int64_t *a, size_t na, const int64_t *b, size_t nb)
{
  double most = 0;
  size_t i = 0, j = 0;
  if (!na || !nb)
    return NAN;
  while (i < na && j < nb) {
    int64_t at = a[i] < b[j] ? a[i] : b[j];
    while (i < na && a[i] == at)
      i++;
    while (j < nb && b[j] == at)
      j++;
    double apart = fabs((double)i / (double)na - (double)j / (double)nb);
    most = apart > most ? apart : most;
  }
  return most;
}

double stats_ks_hist(const struct base_hist *a, const struct base_hist *b)
{
  double most = 0;
  uint64_t i = 0, j = 0;
  if (!a->bin || !b->bin || !a->n || !b->n)
    return NAN;
  for (int k = 0; k < BASE_HIST_BINS; k++) {
    i += a->bin[k];
    j += b->bin[k];
    double apart = fabs((double)i / (double)a->n - (double)j / (double)b->n);
    most = apart > most ? apart : most;
  }
  return most;
}

double stats_mean(const int64_t *x, size_t n)
{
  base_int128 sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += x[i];
  return n ? (double)sum / (double)n : NAN;
}

/* Two passes: the products are of deviations, so large means cost no digits. */
double stats_correlation(const int64_t *x, const int64_t *y, size_t n)
{
  double mx = stats_mean(x, n), my = stats_mean(y, n), xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < n; i++) {
    double dx = (double)x[i] - mx, dy = (double)y[i] - my;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  return n > 1 && xx > 0 && yy > 0 ? xy / (sqrt(xx) * sqrt(yy)) : NAN;
}

/* Mean of the relative differences, or of their sizes. */
static double mean_difference(const int64_t *x, const int64_t *y, size_t n, int size)
{
  double sum = 0;
  size_t used = 0;
  for (size_t i = 0; i < n; i++) {
    if (x[i] <= 0)
      continue;
    double d = (double)(y[i] - x[i]) / (double)x[i];
    sum += size ? fabs(d) : d;
    used++;
  }
  return used ? sum / (double)used : NAN;
}

double stats_bias(const int64_t *x, const int64_t *y, size_t n)
{
  return mean_difference(x, y, n, 0);
}

double stats_error(const int64_t *x, const int64_t *y, size_t n)
{
  return mean_difference(x, y, n, 1);
}
