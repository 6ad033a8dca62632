/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Added tokens in a text: the leftmost, of those the longest, as `tokenizers` finds them. A match
 * that does not count (it is not a word of its own, or special where special tokens are text) is
 * stepped over as a whole.
 */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "backend/tokenizer_inner.h"

int added_insert(struct added_set *set, const struct added *a, struct base_error *e)
{
  if (tokenizer_grow(&set->item, &set->room, set->n + 1, sizeof *set->item, e))
    return -1;
  set->item[set->n++] = *a;
  set->starts[(uint8_t)a->text[0]] = 1;
  return 0;
}

static int by_text(const void *left, const void *right)
{
  const struct added *a = left, *b = right;
  const size_t n = a->bytes < b->bytes ? a->bytes : b->bytes;
  const int order = memcmp(a->text, b->text, n);
  return order ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

long added_sort(struct added_set *set)
{
  if (set->n)
    qsort(set->item, set->n, sizeof *set->item, by_text);
  for (size_t i = 1; i < set->n; i++)
    if (!by_text(&set->item[i - 1], &set->item[i]))
      return (long)i;
  return -1;
}

void added_free(struct added_set *set)
{
  for (size_t i = 0; i < set->n; i++)
    free(set->item[i].text);
  free(set->item);
  *set = (struct added_set){0};
}

/* The first of items low .. high-1, which agree in their first `depth` bytes and are longer, whose
 * next byte is at least `byte`. */
static size_t bound(const struct added_set *set, size_t low, size_t high, size_t depth, int byte)
{
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if ((uint8_t)set->item[middle].text[depth] < byte)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* The longest that stands at the start of the text. */
static const struct added *longest(const struct added_set *set, const char *text, size_t n)
{
  const struct added *found = NULL;
  size_t low = 0, high = set->n;
  for (size_t depth = 0; depth < n && low < high; depth++) {
    const int byte = (uint8_t)text[depth];
    low = bound(set, low, high, depth, byte);
    high = bound(set, low, high, depth, byte + 1);
    if (low < high && set->item[low].bytes == depth + 1)
      found = &set->item[low++];
  }
  return found;
}

static int32_t point_at(const char *text, size_t at, size_t n, size_t *length)
{
  utf8proc_int32_t c;
  *length = (size_t)utf8proc_iterate((const utf8proc_uint8_t *)text + at,
                                     (utf8proc_ssize_t)(n - at), &c);
  return c;
}

static size_t before(const char *text, size_t at)
{
  do
    at--;
  while (at && ((uint8_t)text[at] & 0xc0) == 0x80);
  return at;
}

static int is_single(const char *text, size_t start, size_t stop, size_t n)
{
  size_t length;
  if (start && tokenizer_is_word(point_at(text, before(text, start), n, &length)))
    return 0;
  return stop == n || !tokenizer_is_word(point_at(text, stop, n, &length));
}

static size_t strip_left(const char *text, size_t start, size_t taken)
{
  size_t length;
  while (start > taken) {
    const size_t at = before(text, start);
    if (!tokenizer_is_space(point_at(text, at, start, &length)))
      break;
    start = at;
  }
  return start;
}

static size_t strip_right(const char *text, size_t stop, size_t n)
{
  for (size_t length; stop < n && tokenizer_is_space(point_at(text, stop, n, &length));)
    stop += length;
  return stop;
}

const struct added *added_next(const struct added_set *set, const char *text, size_t n,
                               unsigned flags, size_t taken, size_t *at, size_t *start,
                               size_t *stop)
{
  for (; set->n && *at < n; ++*at) {
    const struct added *a = set->starts[(uint8_t)text[*at]] ? longest(set, text + *at, n - *at)
                                                            : NULL;
    if (!a)
      continue;
    *start = *at;
    *stop = *at + a->bytes;
    *at = *stop;
    if (!(flags & TOKENIZER_NO_SPECIAL && a->special) &&
        !(a->single_word && !is_single(text, *start, *stop, n))) {
      if (a->lstrip)
        *start = strip_left(text, *start, taken);
      if (a->rstrip)
        *stop = strip_right(text, *stop, n);
      return a;
    }
    --*at; /* the loop adds it again */
  }
  return NULL;
}
