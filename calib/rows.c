/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/rows.h"

#include <stdlib.h>

void *rows_grow(void *rows, size_t n, size_t size, struct base_error *e)
{
  if (n && (n < 64 || (n & (n - 1)))) /* room is a power of two, at least 64 */
    return rows;
  void *more = realloc(rows, (n ? 2 * n : 64) * size);
  if (!more)
    base_fail_memory(e);
  return more;
}
