/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/engine_fixture.h"

#include <stdarg.h>
#include <stdio.h>

const char *engine_data(const char *fmt, ...)
{
  static char path[8][512];
  static unsigned next;
  const char *srcdir = getenv("srcdir");
  next = (next + 1) % 8;
  int n = snprintf(path[next], sizeof path[0], "%s/tests/data/engine/", srcdir ? srcdir : ".");
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(path[next] + n, sizeof path[0] - (size_t)n, fmt, ap);
  va_end(ap);
  return path[next];
}

struct weights *fixture_weights(const char *model, int dtype)
{
  struct base_error e = {0};
  struct weights *w = weights_open(engine_data("%s", model), 1, &e);
  ck_assert_msg(w != NULL, "%s", e.text);
  if (w->dtype == dtype)
    return w;
  struct weights *copy = weights_copy(w, dtype, &e);
  ck_assert_msg(copy != NULL, "%s", e.text);
  weights_free(w);
  return copy;
}

struct adapter *fixture_adapter(const char *name, const struct config *base)
{
  struct base_error e = {0};
  struct adapter *a = adapter_open(engine_data("%s", name), base, &e);
  ck_assert_msg(a != NULL, "%s", e.text);
  return a;
}

struct ops *fixture_ops(int dtype, int threads, const char *path)
{
  struct base_error e = {0};
  struct ops *ops = cpu_ops_create(dtype, NULL, threads, path, &e);
  ck_assert_msg(ops != NULL, "%s", e.text);
  return ops;
}
