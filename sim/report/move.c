/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/report/move.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A decimal: digits * 10^-places, and what stands behind it. */
struct decimal {
  int64_t digits;
  int places;
  const char *unit;
};

static int is_digit(char c)
{
  return c >= '0' && c <= '9';
}

/* Reads at most 17 significant digits, so that eleven times the number still fits. */
static int read_decimal(const char *text, struct decimal *d)
{
  int seen = 0, point = 0;

  *d = (struct decimal){0};
  for (; is_digit(*text) || (*text == '.' && !point); text++) {
    if (*text == '.') {
      point = 1;
      continue;
    }
    if (d->digits > INT64_C(9999999999999999))
      return -1;
    d->digits = d->digits * 10 + (*text - '0');
    d->places += point;
    seen = 1;
  }
  d->unit = text;
  return seen && !strpbrk(text, "0123456789. \t\r\n") ? 0 : -1;
}

/* Writes digits * 10^-places, without trailing zeros behind the point, and the unit. */
static int write_decimal(const struct decimal *d, char *buf, size_t size)
{
  int64_t whole, power = 1, digits = d->digits;
  int places = d->places, n;

  while (places > 0 && digits % 10 == 0) {
    digits /= 10;
    places--;
  }
  if (places > 18)
    return -1;
  for (int i = 0; i < places; i++)
    power *= 10;
  whole = digits / power;
  if (places)
    n = snprintf(buf, size, "%" PRId64 ".%0*" PRId64 "%s", whole, places, digits % power, d->unit);
  else
    n = snprintf(buf, size, "%" PRId64 "%s", whole, d->unit);
  return n > 0 && (size_t)n < size ? 0 : -1;
}

int move_exact(const char *text, int tenths, char *buf, size_t size)
{
  struct decimal d;

  if (read_decimal(text, &d) || d.digits == 0)
    return -1;
  d.digits *= 10 + tenths;
  d.places++;
  return write_decimal(&d, buf, size);
}

int move_whole(const char *text, int tenths, char *buf, size_t size)
{
  struct decimal d;
  int64_t step;

  if (read_decimal(text, &d) || d.digits == 0 || d.places)
    return -1;
  step = (d.digits + 5) / 10;
  if (step == 0)
    step = 1;
  d.digits += tenths < 0 ? -step : step;
  return write_decimal(&d, buf, size);
}
