/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/cores.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int bad_cores(const char *text, struct base_error *e)
{
  return base_fail(e, BASE_USAGE,
                   "--cores: '%.100s' is no list of processors for each GPU; write for example "
                   "0-3:4-7",
                   text);
}

/* A number at *p, which moves behind it; -1: there is none. */
static long take_number(const char **p)
{
  char *end;
  errno = 0;
  long n = **p >= '0' && **p <= '9' ? strtol(*p, &end, 10) : -1;
  if (n < 0 || n > INT32_MAX || errno)
    return -1;
  *p = end;
  return n;
}

/* "0-3,8" up to a colon or the end. */
static int parse_list(const char **p, struct cli_cores *c)
{
  for (;; (*p)++) {
    long from = take_number(p), to = from;
    if (from >= 0 && **p == '-') {
      (*p)++;
      to = take_number(p);
    }
    if (from < 0 || to < from || c->n + (to - from) >= CLI_CORES_MAX)
      return -1;
    int *more = realloc(c->core, (size_t)(c->n + (to - from) + 1) * sizeof *more);
    if (!more)
      return -1;
    c->core = more;
    while (from <= to)
      c->core[c->n++] = (int)from++;
    if (**p != ',')
      return 0;
  }
}

int cli_cores_parse(const char *text, struct cli_cores *list, int most, int needed,
                    struct base_error *e)
{
  const char *p = text;
  int n = 0;
  for (;; p++) {
    if (n == most || parse_list(&p, &list[n++]) || (*p && *p != ':'))
      return bad_cores(text, e);
    if (!*p)
      break;
  }
  if (n < needed)
    return base_fail(e, BASE_USAGE,
                     "--cores has lists for %d GPUs, but there are arms with %d; separate them by "
                     "colons",
                     n, needed);
  return 0;
}

int cli_threads(const struct cli_options *o, int ngpus)
{
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  if (o->threads)
    return (int)o->threads;
  return n > ngpus ? (int)(n / ngpus) : 1;
}

void cli_cores_name(const char *path, int threads, char *name, size_t size)
{
  snprintf(name, size, "cpu-%s-t%d", path, threads);
}
