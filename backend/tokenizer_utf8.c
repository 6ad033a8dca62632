/* SPDX-License-Identifier: GPL-3.0-or-later */
/* UTF-8, classes of characters, and the alphabet in which byte-level BPE spells bytes. */
#include <utf8proc.h>

#include "backend/tokenizer_inner.h"

/* Number of bytes that a lead byte announces, and the range of the second one: what keeps out
 * overlong forms, surrogates and code points past U+10FFFF. 0: no lead byte. */
static unsigned lead(uint8_t c, uint8_t *low, uint8_t *high)
{
  *low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
  *high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
  if (c < 0x80)
    return 1;
  if (c < 0xc2 || c > 0xf4)
    return 0;
  return c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

int tokenizer_utf8(const uint8_t *p, size_t n, unsigned *length)
{
  uint8_t low, high;
  const unsigned want = lead(p[0], &low, &high);
  *length = 1;
  if (!want)
    return -1;
  for (; *length < want; ++*length, low = 0x80, high = 0xbf) {
    if (*length == n)
      return 0;
    if (p[*length] < low || p[*length] > high)
      return -1;
  }
  return 1;
}

size_t tokenizer_utf8_good(const uint8_t *p, size_t n)
{
  unsigned length;
  size_t at = 0;
  while (at < n && tokenizer_utf8(p + at, n - at, &length) > 0)
    at += length;
  return at;
}

int tokenizer_is_space(int32_t c)
{
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

/* Letters in circles and squares: symbols that are Alphabetic. */
static int is_enclosed_letter(int32_t c)
{
  return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
         (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

int tokenizer_is_word(int32_t c)
{
  switch (utf8proc_category(c)) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_MC:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_ND:
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_PC:
    return 1;
  default:
    return c == 0x200c || c == 0x200d || is_enclosed_letter(c);
  }
}

/* Bytes that have a visible character in Latin-1 are spelt by it, the other 68 by the characters
 * from U+0100 on, in order. */
static int is_visible(unsigned byte)
{
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

static unsigned spelling(uint8_t byte)
{
  unsigned hidden = 0;
  if (is_visible(byte))
    return byte;
  for (unsigned b = 0; b < byte; b++)
    hidden += !is_visible(b);
  return 0x100 + hidden;
}

void tokenizer_byte_spelling(uint8_t byte, char text[3])
{
  const unsigned c = spelling(byte);
  text[0] = (char)(c < 0x80 ? c : 0xc0 | c >> 6);
  text[1] = (char)(c < 0x80 ? 0 : 0x80 | (c & 0x3f));
  text[2] = 0;
}

/* The byte that a character of one or two bytes spells, or -1. */
static int unspell(unsigned c)
{
  unsigned hidden = 0x100;
  if (c < 0x100)
    return is_visible(c) ? (int)c : -1;
  for (unsigned b = 0; b < 256; b++)
    if (!is_visible(b) && hidden++ == c)
      return (int)b;
  return -1;
}

long tokenizer_unspell(const char *text, size_t n, uint8_t *out)
{
  const uint8_t *p = (const uint8_t *)text, *end = p + n;
  long bytes = 0;
  while (p < end) {
    unsigned c = *p++;
    if (c >= 0x80) {
      if (c >= 0xe0 || p == end)
        return -1;
      c = (c & 0x1f) << 6 | (*p++ & 0x3f);
    }
    const int byte = unspell(c);
    if (byte < 0)
      return -1;
    out[bytes++] = (uint8_t)byte;
  }
  return bytes;
}
