/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Growing arrays of table rows, and the order of their coordinates. */
#ifndef CALIB_ROWS_H
#define CALIB_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Room for one more element of `size` bytes behind n of them: the array, moved or not; NULL: out of
 * memory. It must have grown by this alone from NULL. */
void *rows_grow(void *rows, size_t n, size_t size, struct base_error *e);

/* Compares tuples of n numbers, the first number first: -1, 0, 1. */
static inline int rows_order(const int64_t *a, const int64_t *b, int n)
{
  for (int i = 0; i < n; i++)
    if (a[i] != b[i])
      return a[i] < b[i] ? -1 : 1;
  return 0;
}

#endif
