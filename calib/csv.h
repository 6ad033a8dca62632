/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A small reader of CSV tables, plain or gzip: a header line, then rows of as many cells. No
 * quotes (they are refused), LF or CRLF; an uncompressed file must end its last line.
 */
#ifndef CALIB_CSV_H
#define CALIB_CSV_H

#include <stdint.h>

#include "base/error.h"

struct csv;

struct csv *csv_open(const char *path, struct base_error *e); /* reads the header */
void csv_close(struct csv *c);
/* Column of a name; -1 if there is none, which is an error unless e is NULL. */
int csv_column(const struct csv *c, const char *name, struct base_error *e);
/* Reads a row: 1, 0 at the end, -1 on failure. */
int csv_next(struct csv *c, struct base_error *e);
/* Cell of the row just read; valid until the next. column must be one that csv_column gave. */
const char *csv_cell(const struct csv *c, int column);
/* The cell as a number times 10^digits, 0 to max; -1 on failure. */
int csv_number(const struct csv *c, int column, int digits, int64_t max, int64_t *value,
               struct base_error *e);
/*
 * The column of times `name`, which are in the unit of `name`'s suffix (time_us) or, if it has none
 * that is known, in `unit` ("ms"). A header that has it in another unit contradicts the table:
 * that is an error, as is a missing column. Returns 0 or -1.
 */
int csv_time_column(const struct csv *c, const char *name, const char *unit, int *column,
                    struct base_error *e);
/* The cell as a time in ps, above 0 and at most 1 h; `digits`: the unit is 10^digits ps. A unit in
 * the cell itself is an error. */
int csv_time(const struct csv *c, int column, int digits, int64_t *ps, struct base_error *e);
const char *csv_path(const struct csv *c);
unsigned csv_line(const struct csv *c); /* of the row just read, 1-based */

#endif
