/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Numbers with units. Text becomes a row of decimal digits with a point; that row is multiplied by
 * the unit's factor, digit by digit, and rounded once. No floating point takes part.
 */
#include "base/units.h"

#include <stdio.h>
#include <string.h>

typedef unsigned __int128 uint128;

enum {
  DIGITS = 300, /* kept of a number; what is behind only tells whether it is zero */
  ROOM = 20     /* digits in front, for the product with a factor below 10^20 */
};

/* A number as it was written: value = sign * 0.d[0]d[1]... * 10^point, from d[ROOM] on. */
struct number {
  int negative, zero, cut; /* cut: digits beyond DIGITS were not zero */
  unsigned n;              /* digits in d, ROOM included */
  int64_t point;           /* where the point lies in d; may be outside */
  unsigned char d[ROOM + DIGITS + 1];
};

struct suffix {
  const char *text;
  uint64_t num, den; /* value in the carried unit = number * num / den */
};

struct kind {
  const char *what;         /* for messages */
  const char *advice;       /* what to write behind a number without unit; %s: the number */
  struct suffix suffix[10]; /* preferred first, ends with text NULL */
  unsigned whole : 1;       /* fractions are errors */
};

#define T UINT64_C(1000000000000)
#define KI UINT64_C(1024)

static const struct kind kinds[] = {
    [BASE_TIME] = {"time",
                   "write %sms or %ss",
                   {{"d", 86400 * T, 1},
                    {"h", 3600 * T, 1},
                    {"min", 60 * T, 1},
                    {"s", T, 1},
                    {"ms", 1000000000, 1},
                    {"us", 1000000, 1},
                    {"ns", 1000, 1},
                    {"ps", 1, 1}},
                   0},
    [BASE_BYTES] = {"number of bytes",
                    "write %sMiB or %sGB",
                    {{"TiB", KI *KI *KI *KI, 1},
                     {"TB", T, 1},
                     {"GiB", KI *KI *KI, 1},
                     {"GB", 1000000000, 1},
                     {"MiB", KI *KI, 1},
                     {"MB", 1000000, 1},
                     {"KiB", KI, 1},
                     {"kB", 1000, 1},
                     {"B", 1, 1}},
                    0},
    [BASE_BANDWIDTH] = {"bandwidth",
                        "write %sGB/s or %sTB/s",
                        {{"TiB/s", KI *KI *KI *KI, 1},
                         {"TB/s", T, 1},
                         {"GiB/s", KI *KI *KI, 1},
                         {"GB/s", 1000000000, 1},
                         {"MiB/s", KI *KI, 1},
                         {"MB/s", 1000000, 1},
                         {"KiB/s", KI, 1},
                         {"kB/s", 1000, 1},
                         {"B/s", 1, 1}},
                        0},
    [BASE_RATE] = {"rate",
                   "write %s/s or %s/min",
                   {{"/s", 1000000, 1}, {"/min", 1000000, 60}, {"/h", 1000000, 3600}},
                   0},
    [BASE_TOKENS] = {"number of tokens", "write %stok", {{"tok", 1, 1}}, 1},
    [BASE_RATIO] = {"ratio", "", {{"", 1000000, 1}, {"%", 10000, 1}}, 0},
    [BASE_COUNT] = {"count", "", {{"", 1, 1}}, 1},
    [BASE_REAL] = {"number", "", {{"", 1000000, 1}}, 0},
};

static int is_digit(char c)
{
  return c >= '0' && c <= '9';
}

/* Appends one digit: leading zeros only move the point. */
static void put_digit(struct number *x, int digit, int behind_point)
{
  if (x->zero && !digit) {
    x->point -= behind_point;
    return;
  }
  x->zero = 0;
  x->point += !behind_point;
  if (x->n < ROOM + DIGITS)
    x->d[x->n++] = (unsigned char)digit;
  else if (digit)
    x->cut = 1;
}

/* Reads an exponent at p ("e-3") if there is a whole one; returns what is behind it. */
static const char *scan_exponent(const char *p, int64_t *exponent)
{
  const char *q = p + 1;
  int negative = 0;
  int64_t v = 0;
  if (*p != 'e' && *p != 'E')
    return p;
  if (*q == '+' || *q == '-')
    negative = *q++ == '-';
  if (!is_digit(*q))
    return p;
  for (; is_digit(*q); q++)
    v = v < INT64_C(1000000000000000) ? v * 10 + (*q - '0') : v;
  *exponent = negative ? -v : v;
  return q;
}

/* Reads [+-] digits [. digits] [exponent]; returns what is behind, or NULL if no digit was met. */
static const char *scan_number(const char *p, struct number *x)
{
  int digits = 0, behind = 0;
  int64_t exponent = 0;
  *x = (struct number){.zero = 1, .n = ROOM, .point = ROOM};
  if (*p == '+' || *p == '-')
    x->negative = *p++ == '-';
  for (; is_digit(*p) || (*p == '.' && !behind); p++) {
    if (*p == '.') {
      behind = 1;
      continue;
    }
    digits = 1;
    put_digit(x, *p - '0', behind);
  }
  if (!digits)
    return NULL;
  p = scan_exponent(p, &exponent);
  x->point += exponent;
  x->d[x->n] = (unsigned char)x->cut; /* as good as all that is behind, where nothing multiplies */
  x->n += x->cut != 0;
  return p;
}

/* d *= num, exactly. */
static void multiply(struct number *x, uint64_t num)
{
  uint128 carry = 0;
  for (unsigned i = x->n; i-- > 0;) {
    carry += (uint128)x->d[i] * num;
    x->d[i] = (unsigned char)(carry % 10);
    carry /= 10;
  }
}

/* Sign of (digits behind the point) - 1/2; *nonzero: whether there are any. */
static int fraction_to_half(const struct number *x, int *nonzero)
{
  int first = x->point >= 0 && x->point < x->n ? x->d[x->point] : 0, rest = 0;
  for (int64_t i = x->point >= 0 ? x->point + 1 : 0; i < x->n; i++)
    rest |= x->d[i];
  *nonzero = first || rest;
  return first != 5 ? first < 5 ? -1 : 1 : rest != 0;
}

/* The whole part of the digits, or -1 if it cannot fit after division by a den of ours. */
static int whole_part(const struct number *x, uint128 *out)
{
  const uint128 limit = (uint128)1 << 80;
  uint128 v = 0;
  for (int64_t i = 0; i < x->point; i++) {
    if (i >= x->n && !v)
      break;
    v = v * 10 + (i < x->n ? x->d[i] : 0);
    if (v > limit)
      return -1;
  }
  *out = v;
  return 0;
}

/* x * num / den to the nearest integer, ties to even; *exact: nothing was rounded. -1: too big. */
static int scale(struct number *x, uint64_t num, uint64_t den, int64_t *value, int *exact)
{
  uint128 whole;
  int fraction;
  if (num != 1)
    multiply(x, num);
  if (whole_part(x, &whole))
    return -1;
  uint128 q = whole / den;
  uint64_t rem = (uint64_t)(whole % den);
  int half = fraction_to_half(x, &fraction);
  *exact = !rem && !fraction;
  int64_t gap = (int64_t)den - 2 * (int64_t)rem; /* compare 2 * fraction with it */
  int order = gap <= 0 ? gap < 0 || fraction : gap == 1 ? half : -1;
  if (order > 0 || (order == 0 && (q & 1)))
    q++;
  if (q > (uint128)INT64_MAX + (x->negative ? 1 : 0))
    return -1;
  *value = x->negative ? (int64_t) - (uint64_t)q : (int64_t)q;
  return 0;
}

int base_decimal(const char *text, int digits, int64_t *value, const char **end)
{
  struct number x;
  int exact;
  const char *behind = scan_number(text, &x);
  if (end)
    *end = behind ? behind : text;
  if (!behind)
    return -1;
  x.point += digits;
  return scale(&x, 1, 1, value, &exact);
}

static const struct suffix *find_suffix(const struct kind *k, const char *text)
{
  for (const struct suffix *s = k->suffix; s->text; s++)
    if (!strcmp(s->text, text))
      return s;
  return NULL;
}

/* A number of a dimension without its unit: show how to write it. */
static int fail_no_unit(const struct kind *k, const char *text, struct base_error *e)
{
  char advice[128];
  int n = 0;
  for (const char *p = k->advice; *p && n < (int)sizeof advice - 32; p++) {
    if (p[0] == '%' && p[1] == 's')
      n += snprintf(advice + n, sizeof advice - (size_t)n, "%.24s", text), p++;
    else
      advice[n++] = *p;
  }
  advice[n] = 0;
  return base_fail(e, BASE_INPUT, "'%.60s' has no unit; %s", text, advice);
}

static int fail_unit(const struct kind *k, const char *text, const char *unit, struct base_error *e)
{
  char list[96] = "";
  size_t n = 0;
  for (const struct suffix *s = k->suffix; s->text; s++)
    if (s->text[0])
      n += (size_t)snprintf(list + n, sizeof list - n, " %s", s->text);
  if (*unit == ' ')
    return base_fail(e, BASE_INPUT, "'%.60s' has a space behind the number; write it without",
                     text);
  if (!n)
    return base_fail(e, BASE_INPUT, "'%.60s': a %s has no unit, but '%.20s' is behind the number",
                     text, k->what, unit);
  return base_fail(e, BASE_INPUT, "'%.60s' has the unknown unit '%.20s'; units of %s are:%s", text,
                   unit, k->what, list);
}

/* The number at the front of `text`: checks all that does not depend on its unit. */
static const char *scan_value(const struct kind *k, const char *text, struct number *x,
                              struct base_error *e)
{
  if (!*text) {
    base_fail(e, BASE_INPUT, "empty value; expected a %s", k->what);
    return NULL;
  }
  const char *behind = scan_number(text, x);
  if (!behind)
    base_fail(e, BASE_INPUT, "'%.60s' is not a number; expected a %s", text, k->what);
  else if (x->negative)
    base_fail(e, BASE_INPUT, "'%.60s' is negative; a %s is not", text, k->what);
  else if (x->cut || x->n > ROOM + DIGITS)
    base_fail(e, BASE_INPUT, "'%.60s...' has more than %d digits", text, DIGITS);
  else
    return behind;
  return NULL;
}

int base_unit_parse(enum base_unit unit, const char *text, int64_t *value, struct base_error *e)
{
  const struct kind *k = &kinds[unit];
  struct number x;
  int64_t v;
  int exact;
  const char *behind = scan_value(k, text, &x, e);
  if (!behind)
    return -1;
  if (!*behind && x.zero) {
    *value = 0;
    return 0;
  }
  const struct suffix *s = find_suffix(k, behind);
  if (!s)
    return *behind ? fail_unit(k, text, behind, e) : fail_no_unit(k, text, e);
  if (scale(&x, s->num, s->den, &v, &exact))
    return base_fail(e, BASE_INPUT, "'%.60s' is too large for a %s", text, k->what);
  if (k->whole && !exact)
    return base_fail(e, BASE_INPUT, "'%.60s' is not a whole number", text);
  *value = v;
  return 0;
}

/* mantissa * 10^-places as text without trailing zeros, then the suffix. Returns its length. */
static int write_decimal(char *buf, size_t size, uint128 mantissa, int places, const char *suffix)
{
  char digit[64];
  int n = 0;
  for (; places && mantissa % 10 == 0; places--)
    mantissa /= 10;
  for (int i = 0; i < places; i++, mantissa /= 10)
    digit[n++] = (char)('0' + (int)(mantissa % 10));
  if (places)
    digit[n++] = '.';
  do
    digit[n++] = (char)('0' + (int)(mantissa % 10));
  while (mantissa /= 10);
  for (int i = 0; i < n / 2; i++) {
    char c = digit[i];
    digit[i] = digit[n - 1 - i];
    digit[n - 1 - i] = c;
  }
  return snprintf(buf, size, "%.*s%s", n, digit, suffix);
}

/* Does `text`, a number with suffix s behind it, read as `value`? */
static int reads_as(const char *text, const struct suffix *s, int64_t value)
{
  struct number x;
  int64_t v;
  int exact;
  return scan_number(text, &x) && !scale(&x, s->num, s->den, &v, &exact) && v == value;
}

/* The least number of places with which `value` reads back in suffix s; 0 if there is none. */
static int try_suffix(const struct suffix *s, int64_t value, char *buf, size_t size)
{
  enum { PLACES = 15 };
  uint128 scaled = (uint128)(uint64_t)value * s->den;
  for (int places = 0; places <= PLACES; places++, scaled *= 10) {
    int n = write_decimal(buf, size, (scaled + s->num / 2) / s->num, places, s->text);
    if (reads_as(buf, s, value))
      return n;
  }
  return 0;
}

const char *base_unit_format(enum base_unit unit, int64_t value, char *buf, size_t size)
{
  const struct kind *k = &kinds[unit];
  char best[80] = "0", text[80];
  int least = 0, negative = value < 0;
  if (negative)
    value = value == INT64_MIN ? INT64_MAX : -value;
  for (const struct suffix *s = k->suffix; value && s->text; s++) {
    int n = try_suffix(s, value, text, sizeof text);
    if (n && (!least || n < least)) {
      least = n;
      memcpy(best, text, sizeof best);
    }
  }
  if (size)
    snprintf(buf, size, "%s%s", negative ? "-" : "", best);
  return buf;
}
