/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Moving a number with a unit by a tenth, in decimal text and exactly. */
#ifndef SIM_REPORT_MOVE_H
#define SIM_REPORT_MOVE_H

#include <stddef.h>

/* `text` is one number without sign or exponent, and a unit behind it ("18/s", "1.5", "99%").
 * Writes it times (10 + tenths) / 10 with its unit: "18/s" by 1 -> "19.8/s". -1: not such a text,
 * zero, or too many digits. */
int move_exact(const char *text, int tenths, char *buf, size_t size);

/* The same as a whole number: rounded to nearest, and at least 1 away from `text`, which must be
 * whole. */
int move_whole(const char *text, int tenths, char *buf, size_t size);

#endif
