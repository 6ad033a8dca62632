/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The CSV formats: a table says which columns hold what, and the header where they stand. Cells
 * may be quoted as in RFC 4180, but must end on their line.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/units.h"
#include "models/trace_reader.h"

enum role { TIME, PROMPT, OUTPUT, ID, TIME_PS, ACCEPT, PHASE, HASHES, HASH_TOKENS, ROLES };

/* Column names by role; NULL: the format has none. */
struct layout {
  const char *name[ROLES];
  int optional[ROLES];
};
static const struct layout layouts[TRACE_FORMATS] = {
    [TRACE_AZURE] = {.name = {"TIMESTAMP", "ContextTokens", "GeneratedTokens", NULL}},
    [TRACE_VIDUR] = {.name = {"arrived_at", "num_prefill_tokens", "num_decode_tokens", NULL},
                     .optional = {[TIME] = 1}},
    [TRACE_NATIVE] =
        {.name = {"arrival_ns", "prompt_tokens", "output_tokens", "id", "arrival_ps", "accept_q16",
                  "phase_q16", "hash_ids", "hash_tokens"},
         .optional =
             {[ID] = 1, [TIME_PS] = 1, [ACCEPT] = 1, [PHASE] = 1, [HASHES] = 1, [HASH_TOKENS] = 1}},
};

struct csv {
  const char *const *name; /* of the columns, by role */
  int column[ROLES];       /* where each role stands, from 0; -1: nowhere */
  int columns;             /* of the header */
  struct trace_ids ids;
};

/* What the header says, for all CSV formats at once, so that a wrong format can be named. */
struct header {
  int column[TRACE_FORMATS][ROLES];
  int columns;
  char list[300];                    /* the names, for a message */
  char misspelt[ROLES][TRACE_QUOTE]; /* names of this format but for their case, quoted */
};

/* Removes the quotes of a cell in place; returns its end (',' or NUL), NULL if it has none. */
static char *unquote(char *cell)
{
  char *to = cell, *from = cell + 1;
  while (*from && (*from != '"' || from[1] == '"')) {
    from += *from == '"'; /* of a doubled quote one stays */
    *to++ = *from++;
  }
  if (!*from || (from[1] && from[1] != ','))
    return NULL;
  *to = '\0';
  return from + 1;
}

char *trace_csv_cell(char **rest)
{
  char *cell = *rest;
  char *end = *cell == '"' ? unquote(cell) : cell + strcspn(cell, ",");
  if (!end)
    return NULL;
  *rest = *end ? end + 1 : NULL;
  *end = '\0';
  return cell;
}

int trace_bad_quotes(const struct trace *t, struct base_error *e)
{
  return trace_fail(t, e,
                    "a quoted cell does not end properly on its line; "
                    "close it with \" in front of a comma or the line's end");
}

/* Notes where a header cell belongs in each format. */
static int note_column(const struct trace *t, struct header *h, const char *cell,
                       struct base_error *e)
{
  for (int f = 0; f < TRACE_FORMATS; f++) {
    for (int r = 0; r < ROLES; r++) {
      const char *name = layouts[f].name[r];
      if (!name || strcasecmp(name, cell) != 0)
        continue;
      if (strcmp(name, cell) == 0 && h->column[f][r] < 0)
        h->column[f][r] = h->columns;
      else if (strcmp(name, cell) == 0)
        return trace_fail(t, e, "the column %s stands twice in the header; remove one", name);
      else if (f == t->format)
        trace_quote(cell, h->misspelt[r]);
    }
  }
  trace_list_add(h->list, sizeof h->list, cell);
  h->columns++;
  return 0;
}

static int read_header(const struct trace *t, char *line, struct header *h, struct base_error *e)
{
  memset(h->column, -1, sizeof h->column);
  for (char *rest = line; rest;) {
    char *cell = trace_csv_cell(&rest);
    if (!cell)
      return trace_bad_quotes(t, e);
    if (note_column(t, h, cell, e))
      return -1;
  }
  return 0;
}

/* The first role of a format that must have a column and has none; ROLES if there is none. */
static int missing_role(const struct header *h, int format)
{
  const struct layout *l = &layouts[format];
  for (int r = 0; r < ROLES; r++) {
    int told = r == TIME && h->column[format][TIME_PS] >= 0;
    if (l->name[r] && !l->optional[r] && !told && h->column[format][r] < 0)
      return r;
  }
  return ROLES;
}

/* Refuses a header without a column that the format needs, naming a format that would fit. */
static int no_column(const struct trace *t, const struct header *h, const char *name,
                     struct base_error *e)
{
  for (int f = 0; f < TRACE_FORMATS; f++)
    if (f != TRACE_MOONCAKE && missing_role(h, f) == ROLES)
      return trace_fail(t, e,
                        "no column '%s', which the format %s needs; the columns are %s: "
                        "read it as format %s",
                        name, trace_format_name(t->format), h->list, trace_format_name(f));
  return trace_fail(t, e,
                    "no column '%s', which the format %s needs; the columns are %s: "
                    "add or rename one",
                    name, trace_format_name(t->format), h->list);
}

/* An optional column in the wrong case is refused, since it would be ignored without a word. */
static int check_header(const struct trace *t, const struct header *h, struct base_error *e)
{
  const struct layout *l = &layouts[t->format];
  int missing = missing_role(h, t->format);
  const int *column = h->column[t->format];
  if (missing != ROLES)
    return no_column(t, h, l->name[missing], e);
  if (column[TIME] >= 0 && column[TIME_PS] >= 0)
    return trace_fail(t, e, "the columns %s and %s both say when a row arrives; remove one",
                      l->name[TIME], l->name[TIME_PS]);
  for (int r = 0; r < ROLES; r++)
    if (h->misspelt[r][0] && column[r] < 0)
      return trace_fail(t, e, "the column %s would be ignored; spell it '%s', or rename it",
                        h->misspelt[r], l->name[r]);
  return 0;
}

/* Reads the header and remembers where the format's columns stand. */
static int csv_start(struct trace *t, struct base_error *e)
{
  char *line;
  size_t length;
  int r = trace_source_line(t->source, &line, &length, e);
  if (r < 0)
    return -1;
  if (!r)
    return trace_fail(t, e, "the file is empty; give a trace with a header and rows");
  if (*line == '{')
    return trace_fail(t, e, "this is JSON, not CSV with a header; read it as format mooncake");
  struct header h = {0};
  if (read_header(t, line, &h, e) || check_header(t, &h, e))
    return -1;
  struct csv *c = calloc(1, sizeof *c);
  if (!c)
    return base_fail_memory(e);
  c->name = layouts[t->format].name;
  memcpy(c->column, h.column[t->format], sizeof c->column);
  c->columns = h.columns;
  t->state = c;
  t->has_times = c->column[TIME] >= 0 || c->column[TIME_PS] >= 0;
  return 0;
}

/* Finds the cells of a row by role; NULL where the file has no such column. */
static int take_cells(const struct trace *t, char *line, char *cell[ROLES], struct base_error *e)
{
  const struct csv *c = t->state;
  int n = 0;
  for (char *rest = line; rest; n++) {
    char *text = trace_csv_cell(&rest);
    if (!text)
      return trace_bad_quotes(t, e);
    for (int r = 0; r < ROLES; r++)
      if (c->column[r] == n)
        cell[r] = text;
  }
  if (n != c->columns)
    return trace_fail(t, e, "the row has %d cell%s and the header %d; give every row as many", n,
                      n == 1 ? "" : "s", c->columns);
  return 0;
}

int trace_whole(const char *text, int64_t *value)
{
  int negative = *text == '-', cut = 0;
  int64_t v = 0;
  if (!text[negative])
    return -1;
  for (const char *p = text + negative; *p; p++) {
    int digit = *p - '0';
    if (digit < 0 || digit > 9)
      return -1;
    cut = cut || v > (INT64_MAX - digit) / 10;
    v = cut ? INT64_MAX : v * 10 + digit;
  }
  *value = negative ? -v : v;
  return cut;
}

int trace_csv_tokens(const struct trace *t, const char *name, const char *text, uint32_t *tokens,
                     struct base_error *e)
{
  char quoted[TRACE_QUOTE];
  int64_t value;
  if (trace_whole(text, &value) < 0)
    return trace_fail(t, e, "%s is not a whole number: %s; give a count of tokens such as 128",
                      name, trace_quote(text, quoted));
  return trace_tokens(t, name, value, text, tokens, e);
}

/* Seconds in decimal to ns, to nearest, ties to even. */
static int seconds(const char *text, int64_t *ns)
{
  const char *end;
  if (!strchr("-.0123456789", *text) || base_decimal(text, 9, ns, &end))
    return -1;
  return *end ? -1 : 0;
}

/* The arrival on the file's clock, in ns. */
static int read_time(const struct trace *t, const char *name, const char *text, __int128 *t_ns,
                     struct base_error *e)
{
  static const char *const how[TRACE_FORMATS] = {
      [TRACE_AZURE] = "a day and time as YYYY-MM-DD HH:MM:SS, with up to 9 digits behind a point",
      [TRACE_VIDUR] = "seconds as a decimal number such as 12.5, below 9223372036",
      [TRACE_NATIVE] = "whole nanoseconds, at most 9223372036854775807",
  };
  char quoted[TRACE_QUOTE];
  int64_t ns = 0;
  int bad;
  if (t->format == TRACE_AZURE) {
    bad = trace_stamp(text, t_ns);
  } else {
    bad = t->format == TRACE_VIDUR ? seconds(text, &ns) : trace_whole(text, &ns);
    *t_ns = ns;
  }
  if (bad)
    return trace_fail(t, e, "%s is no time: %s; write %s", name, trace_quote(text, quoted),
                      how[t->format]);
  if (ns < 0)
    return trace_fail(t, e, "%s is negative: %s; count times from 0 on", name,
                      trace_quote(text, quoted));
  return 0;
}

/* As read_time, where the column holds whole picoseconds. */
static int read_time_ps(const struct trace *t, const char *name, const char *text,
                        struct trace_raw *raw, struct base_error *e)
{
  char quoted[TRACE_QUOTE];
  int64_t ps;
  if (trace_whole(text, &ps) || ps < 0)
    return trace_fail(t, e,
                      "%s is no time: %s; write whole picoseconds, at most 9223372036854775807",
                      name, trace_quote(text, quoted));
  raw->t_ns = ps / 1000;
  raw->ps = (uint16_t)(ps % 1000);
  return 0;
}

/* A number of 16 fraction bits, at most `most`; none of them if there is no such column. */
static int read_q16(const struct trace *t, const char *name, const char *text, int32_t most,
                    int32_t *q16, struct base_error *e)
{
  char quoted[TRACE_QUOTE];
  int64_t value;
  if (!text)
    return 0;
  if (trace_whole(text, &value) || value < 0 || value > most)
    return trace_fail(t, e, "%s is not within 0 to %d: %s; write 65536ths, 32768 for a half", name,
                      (int)most, trace_quote(text, quoted));
  *q16 = (int32_t)value;
  return 0;
}

/* Ids with a space between. Writes into the text. */
static int read_hashes(struct trace *t, const char *name, char *text, struct base_error *e)
{
  char quoted[TRACE_QUOTE], *rest = NULL;
  int64_t id;
  for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    if (trace_whole(word, &id) || id < 0)
      return trace_fail(t, e, "%s holds %s; write whole numbers from 0 on, with a space between",
                        name, trace_quote(word, quoted));
    if (trace_add_hash(t, (uint64_t)id, e))
      return -1;
  }
  return 0;
}

/* What the row says of its prompt's content. */
static int read_content(struct trace *t, char *const cell[ROLES], struct trace_raw *raw,
                        struct base_error *e)
{
  const struct csv *c = t->state;
  if (!t->rules.keep_ids)
    return 0;
  if (cell[HASH_TOKENS] &&
      trace_csv_tokens(t, c->name[HASH_TOKENS], cell[HASH_TOKENS], &raw->id_tokens, e))
    return -1;
  if (!raw->id_tokens)
    return trace_fail(t, e, "%s is 0; give the tokens that an id stands for", c->name[HASH_TOKENS]);
  return cell[HASHES] ? read_hashes(t, c->name[HASHES], cell[HASHES], e) : 0;
}

int trace_check_id(const struct trace *t, struct trace_ids *ids, const char *id,
                   struct base_error *e)
{
  char quoted[TRACE_QUOTE];
  if (!*id)
    return trace_fail(t, e, "the id is empty; give every row its own, or remove the column");
  int64_t first = trace_ids_add(ids, id, trace_source_number(t->source), e);
  if (first <= 0)
    return (int)first;
  return trace_fail(t, e, "the id %s stands on line %lld already; give every row its own",
                    trace_quote(id, quoted), (long long)first);
}

static int csv_row(struct trace *t, char *line, size_t length, struct trace_raw *raw,
                   struct base_error *e)
{
  struct csv *c = t->state;
  char *cell[ROLES] = {NULL};
  if (take_cells(t, line, cell, e))
    return -1;
  if (cell[TIME] && read_time(t, c->name[TIME], cell[TIME], &raw->t_ns, e))
    return -1;
  if (cell[TIME_PS] && read_time_ps(t, c->name[TIME_PS], cell[TIME_PS], raw, e))
    return -1;
  if (read_q16(t, c->name[ACCEPT], cell[ACCEPT], 65536, &raw->accept_q16, e) ||
      read_q16(t, c->name[PHASE], cell[PHASE], 65535, &raw->phase_q16, e))
    return -1;
  if (read_content(t, cell, raw, e))
    return -1;
  if (trace_csv_tokens(t, c->name[PROMPT], cell[PROMPT], &raw->prompt, e) ||
      trace_csv_tokens(t, c->name[OUTPUT], cell[OUTPUT], &raw->output, e))
    return -1;
  return cell[ID] ? trace_check_id(t, &c->ids, cell[ID], e) : 0;
}

static void csv_stop(struct trace *t)
{
  struct csv *c = t->state;
  if (c)
    trace_ids_free(&c->ids);
  free(c);
}

const struct trace_family trace_csv = {csv_start, csv_row, csv_stop};
