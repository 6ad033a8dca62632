/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Plain text for tables: numbers, cells and wrapped paragraphs. Locale-free, no state. */
#ifndef SIM_REPORT_TEXT_H
#define SIM_REPORT_TEXT_H

#include <stdio.h>

#include "sim/experiment.h"

/* One printed number. */
struct text_cell {
  char s[32];
};

/* Fixed decimals; "-" for NaN. */
struct text_cell text_number(double value, int decimals);
/* Signed percentage of `ours` against `reference` as text_change does; where the reference is 0,
 * the signed difference itself; "-" where undefined. */
struct text_cell text_difference(double ours, double reference);
/* A relative change (0.013) as "+1.3%", from 100% on without decimals; "-" for NaN. */
struct text_cell text_change(double change);
/* The same of an error, whose sign is told even where it rounds to 0: simulated below measured. */
struct text_cell text_error(double error);
/* Picoseconds in seconds, the shortest of up to six decimals. */
struct text_cell text_seconds(lull_time ps);

/* A line put together cell by cell; what would exceed it is cut. */
struct text_line {
  char s[256];
  size_t n;
};
void text_add(struct text_line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints it without blanks at its end, and empties it. */
void text_end(struct text_line *l, FILE *out);

/* A paragraph of words, white space collapsed, wrapped at REPORT_WIDTH; the first line begins with
 * `lead` (padded to `indent`), the following with `indent` blanks. Ends with a newline. */
void text_wrap(FILE *out, const char *lead, int indent, const char *text);

/* BASE_ENV if the stream has failed; flushes it first. */
int text_done(FILE *out, struct base_error *e);

#endif
