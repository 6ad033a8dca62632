/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Numbers with units, as files and options write them: "10ms", "2min", "4GiB", "4.8TB/s", "8/s",
 * "200tok", "99%". A number that has a dimension must carry its unit; a bare 0 is allowed.
 * Decimal text is converted exactly (integer arithmetic, nearest, ties to even), independent of
 * the locale.
 */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum base_unit {
  BASE_TIME,     /* ps s: ps ns us ms s min h d                       -> picoseconds */
  BASE_BYTES,    /* B kB MB GB TB KiB MiB GiB TiB                     -> bytes */
  BASE_BANDWIDTH,/* bytes units "/s"                                  -> bytes a second */
  BASE_RATE,     /* "/s" "/min" "/h"                                  -> micro-events a second */
  BASE_TOKENS,   /* "tok"                                             -> tokens */
  BASE_RATIO,    /* plain number, or "%"                              -> parts per million */
  BASE_COUNT,    /* plain integer                                     -> itself */
  BASE_REAL      /* plain number                                      -> parts per million */
};

/*
 * Parses the whole of `text` as a value of `unit` into *value (set only on success). Fails with
 * BASE_INPUT and a text without file or line ("'10' has no unit; write 10ms or 10s"), including
 * for values that overflow, are negative (none of these units is ever negative), NaN or empty.
 */
int base_unit_parse(enum base_unit unit, const char *text, int64_t *value, struct base_error *e);

/* Writes a value the way base_unit_parse reads it, shortest exact form ("10ms"); returns buf. */
const char *base_unit_format(enum base_unit unit, int64_t value, char *buf, size_t size);

/* Decimal text without sign or exponent, or with both, to value * 10^-digits rounded to nearest,
 * ties to even: ("5.8926549999999995", 9) -> 5892655000. *end is set behind the number. Returns 0,
 * or -1 if there is no number or it does not fit in int64. */
int base_decimal(const char *text, int digits, int64_t *value, const char **end);

#endif
