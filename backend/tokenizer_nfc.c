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

static int put(struct tokenizer_text *out, const char *text, size_t n, struct base_error *e)
{
  if (tokenizer_grow(&out->byte, &out->room, out->n + n + 1, 1, e))
    return -1;
  memcpy(out->byte + out->n, text, n);
  out->n += n;
  return 0;
}

static int encode(const struct points *p, struct tokenizer_text *out, struct base_error *e)
{
  if (tokenizer_grow(&out->byte, &out->room, out->n + p->n * 4 + 1, 1, e))
    return -1;
  for (size_t i = 0; i < p->n; i++)
    out->n += (size_t)utf8proc_encode_char(p->c[i], (utf8proc_uint8_t *)out->byte + out->n);
  return 0;
}

static int normalise(const char *text, size_t n, struct points *p, struct tokenizer_text *out,
                     struct base_error *e)
{
  p->n = 0;
  if (decompose(text, n, p, e) || reorder(p, e))
    return -1;
  p->n = (size_t)utf8proc_normalize_utf32(p->c, (utf8proc_ssize_t)p->n,
                                          UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  return encode(p, out, e);
}

/* Characters below U+0300 are NFC in any order, and none of them joins what is before it. The first
 * byte of the others is 0xcc or more. */
static int is_plain(char lead)
{
  return (uint8_t)lead < 0xcc;
}

static size_t next(const char *text, size_t n, size_t at)
{
  for (at++; at < n && ((uint8_t)text[at] & 0xc0) == 0x80;)
    at++;
  return at;
}

/* From `at`, the next stretch that may change: characters from U+0300 on, and the one before. */
static size_t find_stretch(const char *text, size_t n, size_t at, size_t *stop)
{
  size_t start = at, i = at;
  while (i < n && is_plain(text[i])) {
    start = i;
    i = next(text, n, i);
  }
  if (i == n)
    start = n;
  while (i < n && !is_plain(text[i]))
    i = next(text, n, i);
  *stop = i;
  return start;
}

int tokenizer_nfc(const char *text, size_t n, char **out, size_t *out_n, struct base_error *e)
{
  struct points p = {0};
  struct tokenizer_text made = {0};
  size_t stop, at = 0, start = find_stretch(text, n, 0, &stop);
  int result = 0;
  *out = NULL;
  *out_n = n;
  if (start == n)
    return 0;
  for (; at < n && !result; at = stop) {
    start = find_stretch(text, n, at, &stop);
    result = put(&made, text + at, start - at, e) ||
             normalise(text + start, stop - start, &p, &made, e);
  }
  free(p.c);
  if (result) {
    free(made.byte);
    return -1;
  }
  *out = made.byte;
  *out_n = made.n;
  return 0;
}
