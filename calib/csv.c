/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/csv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/units.h"

#define HOUR_PS INT64_C(3600000000000000)
enum { LINE_MAX_BYTES = 4096, COLUMNS_MAX = 64 };

struct csv {
  gzFile in;
  char *path;
  unsigned line;
  int columns;
  int cells;
  char *name[COLUMNS_MAX]; /* into header */
  char *cell[COLUMNS_MAX]; /* into text */
  char header[LINE_MAX_BYTES], text[LINE_MAX_BYTES];
};

const char *csv_path(const struct csv *c)
{
  return c->path;
}

unsigned csv_line(const struct csv *c)
{
  return c->line;
}

const char *csv_cell(const struct csv *c, int column)
{
  return c->cell[column];
}

void csv_close(struct csv *c)
{
  if (!c)
    return;
  if (c->in)
    gzclose_r(c->in);
  free(c->path);
  free(c);
}

/* Is the end of the file a good one? A cut gzip stream is not. Returns 0 or -1. */
static int check_end(struct csv *c, struct base_error *e)
{
  int code;
  const char *why = gzerror(c->in, &code);
  if (code == Z_OK || code == Z_STREAM_END)
    return 0;
  if (code == Z_ERRNO)
    return base_fail_errno(e, "cannot read %s", c->path);
  return base_fail_at(e, BASE_INPUT, c->path, c->line, "the gzip data is damaged or cut short: %s",
                      why);
}

/* Reads a line without its end: 1, 0 at the end of the file, -1 on failure. */
static int read_line(struct csv *c, char *text, struct base_error *e)
{
  if (!gzgets(c->in, text, LINE_MAX_BYTES))
    return check_end(c, e);
  c->line++;
  size_t n = strlen(text);
  if (n == LINE_MAX_BYTES - 1 && text[n - 1] != '\n')
    return base_fail_at(e, BASE_INPUT, c->path, c->line, "the line is longer than %d bytes",
                        LINE_MAX_BYTES - 2);
  if (n && text[n - 1] == '\n')
    text[--n] = 0;
  else if (check_end(c, e))
    return -1;
  else if (gzdirect(c->in)) /* a cut number would pass for a smaller one; gzip tells a cut itself */
    return base_fail_at(e, BASE_INPUT, c->path, c->line,
                        "the last line is not ended, so the file may be cut; take a whole copy, or "
                        "end the line if it is complete");
  if (n && text[n - 1] == '\r')
    text[--n] = 0;
  if (strchr(text, '"'))
    return base_fail_at(e, BASE_INPUT, c->path, c->line, "quoted cells are not read here");
  return 1;
}

/* Cuts a line at its commas; returns the number of cells, or -1 if there are too many. */
static int split(char *text, char *cell[COLUMNS_MAX])
{
  int n = 0;
  for (char *p = text; p; n++) {
    if (n == COLUMNS_MAX)
      return -1;
    cell[n] = p;
    p = strchr(p, ',');
    if (p)
      *p++ = 0;
  }
  return n;
}

static int open_file(struct csv *c, const char *path, struct base_error *e)
{
  c->path = strdup(path);
  if (!c->path)
    return base_fail_memory(e);
  c->in = gzopen(path, "rb");
  if (!c->in)
    return base_fail_errno(e, "cannot open %s", path);
  int rc = read_line(c, c->header, e);
  if (rc < 0)
    return -1;
  if (!rc)
    return base_fail_at(e, BASE_INPUT, path, 0, "the file is empty");
  c->columns = split(c->header, c->name);
  if (c->columns < 0)
    return base_fail_at(e, BASE_INPUT, path, 1, "there are more than %d columns", COLUMNS_MAX);
  return 0;
}

struct csv *csv_open(const char *path, struct base_error *e)
{
  struct csv *c = calloc(1, sizeof *c);
  if (!c) {
    base_fail_memory(e);
    return NULL;
  }
  if (open_file(c, path, e)) {
    csv_close(c);
    return NULL;
  }
  return c;
}

int csv_column(const struct csv *c, const char *name, struct base_error *e)
{
  for (int i = 0; i < c->columns; i++)
    if (strcmp(c->name[i], name) == 0)
      return i;
  if (e)
    base_fail_at(e, BASE_INPUT, c->path, 1, "there is no column '%s'", name);
  return -1;
}

int csv_next(struct csv *c, struct base_error *e)
{
  int rc = read_line(c, c->text, e);
  if (rc <= 0)
    return rc;
  c->cells = split(c->text, c->cell);
  if (c->cells != c->columns)
    return base_fail_at(e, BASE_INPUT, c->path, c->line, "the row has %d cells, the header %d",
                        c->cells, c->columns);
  return 1;
}

int csv_number(const struct csv *c, int column, int digits, int64_t max, int64_t *value,
               struct base_error *e)
{
  const char *end;
  if (base_decimal(c->cell[column], digits, value, &end) || *end || *value < 0 || *value > max)
    return base_fail_at(e, BASE_INPUT, c->path, c->line, "%s='%s' is not a number in range",
                        c->name[column], c->cell[column]);
  return 0;
}

/* ------------------------------------------------------------------------------------ times --- */

static const char *const unit_suffix[] = {"_ms",  "_us",  "_ns",  "_s",  "_ps",
                                          "(ms)", "(us)", "(ns)", "(s)", ""};

int csv_time_column(const struct csv *c, const char *name, const char *unit, int *column,
                    struct base_error *e)
{
  size_t stem = strlen(name), u = strlen(unit);
  char text[64];
  *column = csv_column(c, name, NULL);
  if (*column >= 0)
    return 0;
  if (stem > u + 1 && name[stem - u - 1] == '_' && !strcmp(name + stem - u, unit))
    stem -= u + 1;
  for (size_t i = 0; i < sizeof unit_suffix / sizeof unit_suffix[0]; i++) {
    snprintf(text, sizeof text, "%.*s%s", (int)stem, name, unit_suffix[i]);
    if (strcmp(text, name) && csv_column(c, text, NULL) >= 0)
      return base_fail_at(e, BASE_INPUT, c->path, 1,
                          "the header has the time as '%s', but these tables are in %s; convert "
                          "the column and name it '%s'",
                          text, strcmp(unit, "us") ? "milliseconds" : "microseconds", name);
  }
  *column = csv_column(c, name, e);
  return -1;
}

int csv_time(const struct csv *c, int column, int digits, int64_t *ps, struct base_error *e)
{
  const char *cell = c->cell[column];
  size_t n = strlen(cell);
  if (n && strchr("smun\xb5", cell[n - 1]) && strspn(cell, "0123456789.") > 0)
    return base_fail_at(e, BASE_INPUT, c->path, c->line,
                        "the time '%.40s' has a unit of its own, which contradicts the header; "
                        "write the bare number",
                        cell);
  if (csv_number(c, column, digits, HOUR_PS, ps, e))
    return -1;
  return *ps > 0 ? 0
                 : base_fail_at(e, BASE_INPUT, c->path, c->line, "a time must be above 0, not '%s'",
                                cell);
}
