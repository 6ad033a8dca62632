/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Error objects, lists of them, and the nearest right name. */
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The end of a long name says more than its start: keep that. */
static void copy_name(char *to, size_t size, const char *name)
{
  size_t n = strlen(name);
  if (n < size)
    memcpy(to, name, n + 1);
  else
    snprintf(to, size, "...%s", name + n - (size - 4));
}

/* A failure is told on one line; what it quotes may hold anything that a terminal would obey. */
static void one_line(char *text)
{
  size_t n = strlen(text);
  while (n && text[n - 1] == '\n')
    text[--n] = 0;
  for (; *text; text++)
    if ((unsigned char)*text < ' ' || *text == 127)
      *text = '?';
}

/* Fills `e` whatever it holds. */
static void fill(struct base_error *e, int code, const char *file, unsigned line, const char *fmt,
                 va_list ap)
{
  e->code = code;
  e->line = line;
  e->column = 0;
  e->file[0] = 0;
  if (file)
    copy_name(e->file, sizeof e->file, file);
  if (vsnprintf(e->text, sizeof e->text, fmt, ap) < 0)
    snprintf(e->text, sizeof e->text, "(no text: the message could not be written)");
  one_line(e->text);
}

int base_vfail_at(struct base_error *e, int code, const char *file, unsigned line, const char *fmt,
                  va_list ap)
{
  if (e && e->code == BASE_OK)
    fill(e, code, file, line, fmt, ap);
  return -1;
}

int base_fail_at(struct base_error *e, int code, const char *file, unsigned line, const char *fmt,
                 ...)
{
  va_list ap;
  va_start(ap, fmt);
  base_vfail_at(e, code, file, line, fmt, ap);
  va_end(ap);
  return -1;
}

int base_fail(struct base_error *e, int code, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  base_vfail_at(e, code, NULL, 0, fmt, ap);
  va_end(ap);
  return -1;
}

int base_fail_errno(struct base_error *e, const char *fmt, ...)
{
  int saved = errno;
  if (!e || e->code != BASE_OK)
    return -1;
  va_list ap;
  va_start(ap, fmt);
  base_vfail_at(e, BASE_ENV, NULL, 0, fmt, ap);
  va_end(ap);
  size_t n = strlen(e->text);
  snprintf(e->text + n, sizeof e->text - n, ": %s", strerror(saved));
  return -1;
}

int base_fail_memory(struct base_error *e)
{
  return base_fail(e, BASE_ENV, "out of memory");
}

const char *base_error_format(const struct base_error *e, char *buf, size_t size)
{
  char where[sizeof e->file + 32] = "";
  if (e->file[0] && e->line && e->column)
    snprintf(where, sizeof where, "%s:%u:%u: ", e->file, e->line, e->column);
  else if (e->file[0] && e->line)
    snprintf(where, sizeof where, "%s:%u: ", e->file, e->line);
  else if (e->file[0])
    snprintf(where, sizeof where, "%s: ", e->file);
  else if (e->line)
    snprintf(where, sizeof where, "line %u: ", e->line);
  if (size)
    snprintf(buf, size, "%serror: %s", where, e->text);
  return buf;
}

/* A zeroed slot at the list's end, or NULL where only counting is left: full, or no memory. */
static struct base_error *slot(struct base_errors *list)
{
  list->total++;
  if (list->n == BASE_ERRORS_MAX)
    return NULL;
  if (!list->item)
    list->item = calloc(BASE_ERRORS_MAX, sizeof *list->item);
  return list->item ? &list->item[list->n++] : NULL;
}

int base_errors_at(struct base_errors *list, int code, const char *file, unsigned line,
                   const char *fmt, ...)
{
  struct base_error *e = list ? slot(list) : NULL;
  if (!e)
    return -1;
  va_list ap;
  va_start(ap, fmt);
  fill(e, code, file, line, fmt, ap);
  va_end(ap);
  return -1;
}

int base_errors_add(struct base_errors *list, const struct base_error *e)
{
  struct base_error *to = list ? slot(list) : NULL;
  if (to)
    *to = *e;
  return -1;
}

void base_errors_free(struct base_errors *list)
{
  if (!list)
    return;
  free(list->item);
  *list = (struct base_errors){0};
}

enum { NAME_MAX_DISTANCE = 64 }; /* longer names have no nearest one */

static int lower(int c)
{
  return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static unsigned least(unsigned a, unsigned b)
{
  return a < b ? a : b;
}

/* Edits from a to b: insert, drop, replace, swap of neighbours; letters' case is free. */
static unsigned distance(const char *a, size_t na, const char *b, size_t nb)
{
  unsigned row[3][NAME_MAX_DISTANCE + 1];
  unsigned *prev = row[0], *cur = row[1], *before = row[2];
  for (size_t j = 0; j <= nb; j++)
    cur[j] = (unsigned)j;
  for (size_t i = 1; i <= na; i++) {
    unsigned *old = before;
    before = prev, prev = cur, cur = old;
    cur[0] = (unsigned)i;
    for (size_t j = 1; j <= nb; j++) {
      int ca = lower(a[i - 1]), cb = lower(b[j - 1]);
      cur[j] = least(prev[j - 1] + (ca != cb), least(prev[j], cur[j - 1]) + 1);
      if (i > 1 && j > 1 && ca == lower(b[j - 2]) && cb == lower(a[i - 2]))
        cur[j] = least(cur[j], before[j - 2] + 1);
    }
  }
  return cur[nb];
}

/* Letters that two names share at their ends. */
static size_t shared_ends(const char *a, size_t na, const char *b, size_t nb)
{
  size_t n = na < nb ? na : nb, front = 0, back = 0;
  while (front < n && lower(a[front]) == lower(b[front]))
    front++;
  while (front + back < n && lower(a[na - 1 - back]) == lower(b[nb - 1 - back]))
    back++;
  return front + back;
}

const char *base_nearest(const char *name, const char *const *names, size_t n)
{
  const char *best = NULL;
  size_t len = strlen(name), alike = 0;
  unsigned limit = (unsigned)(len / 3 + 1);
  if (len > NAME_MAX_DISTANCE)
    return NULL;
  for (size_t i = 0; i < n; i++) {
    size_t other = strlen(names[i]);
    if (other > NAME_MAX_DISTANCE)
      continue;
    unsigned d = distance(name, len, names[i], other);
    size_t ends = shared_ends(name, len, names[i], other);
    if (d > limit || d >= other || d >= len || (best && d == limit && ends <= alike))
      continue;
    best = names[i];
    limit = d;
    alike = ends;
  }
  return best;
}
