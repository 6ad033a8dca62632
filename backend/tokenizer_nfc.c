/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * NFC by the tables of utf8proc. Only the reordering of combining marks is our own: utf8proc's time
 * for it is quadratic in the length of a run of marks, which a hostile text can make long.
 */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "backend/tokenizer_inner.h"

struct points {
  int32_t *c;
  size_t n, room;
};

/* Everything below U+0300, whose first byte is 0xcc, is NFC in any order. */
static int is_plain(const char *text, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if ((uint8_t)text[i] >= 0xcc)
      return 0;
  return 1;
}

static int decompose(const char *text, size_t n, struct points *p, struct base_error *e)
{
  const size_t longest = 32; /* more than any character's decomposition */
  const utf8proc_uint8_t *u = (const utf8proc_uint8_t *)text;
  int boundary = 0;
  for (size_t i = 0; i < n;) {
    utf8proc_int32_t c;
    i += (size_t)utf8proc_iterate(u + i, (utf8proc_ssize_t)(n - i), &c);
    if (tokenizer_grow(&p->c, &p->room, p->n + longest, sizeof *p->c, e))
      return -1;
    p->n += (size_t)utf8proc_decompose_char(c, p->c + p->n, (utf8proc_ssize_t)longest,
                                            UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &boundary);
  }
  return 0;
}

static unsigned class_of(int32_t c)
{
  return c < 0x300 ? 0 : (unsigned)utf8proc_get_property(c)->combining_class;
}

static void sort_few(int32_t *c, size_t n)
{
  for (size_t i = 1; i < n; i++) {
    const int32_t mark = c[i];
    size_t k = i;
    for (; k && class_of(c[k - 1]) > class_of(mark); k--)
      c[k] = c[k - 1];
    c[k] = mark;
  }
}

/* By counting; `copy` has room for n. */
static void sort_many(int32_t *c, size_t n, int32_t *copy)
{
  size_t start[257] = {0};
  for (size_t i = 0; i < n; i++)
    start[class_of(c[i]) + 1]++;
  for (unsigned k = 1; k < 257; k++)
    start[k] += start[k - 1];
  memcpy(copy, c, n * sizeof *c);
  for (size_t i = 0; i < n; i++)
    c[start[class_of(copy[i])]++] = copy[i];
}

/* Sorts each run of marks by their class, equal ones staying in order. */
static int reorder(struct points *p, struct base_error *e)
{
  struct points copy = {0};
  int result = 0;
  for (size_t i = 0, end; i < p->n && !result; i = end + 1) {
    for (end = i; end < p->n && class_of(p->c[end]);)
      end++;
    if (end - i <= 32)
      sort_few(p->c + i, end - i);
    else if (!(result = tokenizer_grow(&copy.c, &copy.room, end - i, sizeof *copy.c, e)))
      sort_many(p->c + i, end - i, copy.c);
  }
  free(copy.c);
  return result;
}

static int encode(const struct points *p, char **out, size_t *out_n, struct base_error *e)
{
  char *text = malloc(p->n * 4 + 1);
  size_t n = 0;
  if (!text)
    return base_fail_memory(e);
  for (size_t i = 0; i < p->n; i++)
    n += (size_t)utf8proc_encode_char(p->c[i], (utf8proc_uint8_t *)text + n);
  *out = text;
  *out_n = n;
  return 0;
}

int tokenizer_nfc(const char *text, size_t n, char **out, size_t *out_n, struct base_error *e)
{
  struct points p = {0};
  *out = NULL;
  *out_n = n;
  if (is_plain(text, n))
    return 0;
  int result = decompose(text, n, &p, e);
  if (!result && !(result = reorder(&p, e))) {
    p.n = (size_t)utf8proc_normalize_utf32(p.c, (utf8proc_ssize_t)p.n,
                                           UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    result = encode(&p, out, out_n, e);
  }
  free(p.c);
  return result;
}
