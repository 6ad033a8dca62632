/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Attribute values by table: parsing, ranges, hints, reference text. */
#include "sim/scenario/fields.h"

#include <lull/types.h>
#include <string.h>

#include "base/units.h"

static const struct {
  enum base_unit unit;
  const char *what;
} units[] = {
    [FIELD_TIME] = {BASE_TIME, "time"},
    [FIELD_DRAIN] = {BASE_TIME, "time or \"none\""},
    [FIELD_WINDOW] = {BASE_TIME, "time or \"trace\""},
    [FIELD_BYTES] = {BASE_BYTES, "bytes"},
    [FIELD_BANDWIDTH] = {BASE_BANDWIDTH, "bandwidth"},
    [FIELD_RATE] = {BASE_RATE, "rate"},
    [FIELD_TOKENS] = {BASE_TOKENS, "tokens"},
    [FIELD_RATIO] = {BASE_RATIO, "ratio"},
    [FIELD_REAL] = {BASE_REAL, "number"},
    [FIELD_COUNT] = {BASE_COUNT, "whole number"},
};

const struct element *element_find(const char *name)
{
  for (size_t i = 0; i < scenario_element_count; i++)
    if (!strcmp(scenario_elements[i].name, name))
      return &scenario_elements[i];
  return NULL;
}

const struct field *element_field(const struct element *el, const char *name)
{
  for (size_t i = 0; i < el->nfields; i++)
    if (!strcmp(el->field[i].name, name))
      return &el->field[i];
  return NULL;
}

int field_is_number(const struct field *f)
{
  return f->kind != FIELD_ID && f->kind != FIELD_TEXT && f->kind != FIELD_CHOICE;
}

int split_words(const char *text, char (*word)[WORD_SIZE], int max)
{
  static const char space[] = " \t\r\n";
  int n = 0;
  for (const char *p = text + strspn(text, space); *p; p += strspn(p, space)) {
    size_t length = strcspn(p, space);
    if (n == max || length >= WORD_SIZE)
      return -1;
    memcpy(word[n], p, length);
    word[n++][length] = 0;
    p += length;
  }
  return n;
}

enum { CHOICES = 24 };

const char *nearest_word(const char *name, const char *names, char buf[WORD_SIZE])
{
  char word[CHOICES][WORD_SIZE];
  const char *list[CHOICES];
  int n = split_words(names, word, CHOICES);
  for (int i = 0; i < n; i++)
    list[i] = word[i];
  const char *best = n > 0 ? base_nearest(name, list, (size_t)n) : NULL;
  return best ? strcpy(buf, best) : NULL;
}

static int parse_choice(const struct field *f, const char *text, int64_t *value,
                        struct base_error *e)
{
  char word[CHOICES][WORD_SIZE], near[WORD_SIZE];
  int n = split_words(f->choices, word, CHOICES);
  for (int i = 0; i < n; i++)
    if (!strcmp(word[i], text)) {
      *value = f->min + i;
      return 0;
    }
  if (nearest_word(text, f->choices, near))
    return base_fail(e, BASE_INPUT, "unknown %s '%.60s'; did you mean '%s'? (one of: %s)", f->name,
                     text, near, f->choices);
  return base_fail(e, BASE_INPUT, "unknown %s '%.60s'; one of: %s", f->name, text, f->choices);
}

/* Names end up in stream names, tables, JSON and paths of results. */
static int check_id(const char *text, struct base_error *e)
{
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  size_t n = strspn(text, allowed);
  if (n && n < WORD_SIZE && !text[n] && text[0] != '.' && text[0] != '-')
    return 0;
  return base_fail(e, BASE_INPUT,
                   "'%.80s' is not a name; use letters, digits, '-', '_' and '.', at most %d, and "
                   "no '-' or '.' in front",
                   text, WORD_SIZE - 1);
}

static int check_range(const struct field *f, const char *text, int64_t value, struct base_error *e)
{
  char low[64], high[64];
  enum base_unit unit = units[f->kind].unit;
  int64_t max = f->max ? f->max : INT64_MAX;
  if (value >= f->min && value <= max)
    return 0;
  base_unit_format(unit, f->min, low, sizeof low);
  base_unit_format(unit, max, high, sizeof high);
  if (value < f->min)
    return base_fail(e, BASE_INPUT, "'%.60s' is too small; at least %s", text, low);
  return base_fail(e, BASE_INPUT, "'%.60s' is too large; at most %s", text, high);
}

int field_parse(const struct field *f, const char *text, int64_t *value, struct base_error *e)
{
  int64_t v = 0;
  if (f->kind == FIELD_TEXT)
    return 0;
  if (f->kind == FIELD_ID)
    return check_id(text, e);
  if (f->kind == FIELD_CHOICE)
    return parse_choice(f, text, value, e);
  if (f->kind == FIELD_DRAIN && !strcmp(text, "none")) {
    *value = LULL_NEVER;
    return 0;
  }
  if (f->kind == FIELD_WINDOW && !strcmp(text, "trace")) {
    *value = WINDOW_TRACE;
    return 0;
  }
  if (base_unit_parse(units[f->kind].unit, text, &v, e) || check_range(f, text, v, e))
    return -1;
  *value = v;
  return 0;
}

/* What may be written, in words: "time, 1ps to 106d". */
static void print_type(const struct field *f, FILE *out)
{
  char low[64], high[64];
  if (f->kind == FIELD_CHOICE)
    fprintf(out, "one of: %s", f->choices);
  else if (!field_is_number(f))
    fputs(f->kind == FIELD_ID ? "name" : "text", out);
  else {
    enum base_unit unit = units[f->kind].unit;
    fprintf(out, "%s, %s", units[f->kind].what, base_unit_format(unit, f->min, low, sizeof low));
    if (f->max)
      fprintf(out, " to %s", base_unit_format(unit, f->max, high, sizeof high));
    else
      fputs(" or more", out);
  }
}

static void print_field(const struct field *f, FILE *out)
{
  fprintf(out, "| `%s` | ", f->name);
  print_type(f, out);
  if (!f->preset)
    fputs(" | required", out);
  else if (f->preset[0])
    fprintf(out, " | `%s`", f->preset);
  else
    fputs(" | -", out);
  fprintf(out, " | %s |\n", f->doc);
}

int scenario_print_reference(FILE *out)
{
  for (size_t i = 0; i < scenario_element_count; i++) {
    const struct element *el = &scenario_elements[i];
    int first = el->doc[0] >= 'a' && el->doc[0] <= 'z' ? el->doc[0] - 'a' + 'A' : el->doc[0];
    fprintf(out, "### `<%s>`\n\n%c%s.", el->name, first, el->doc + 1);
    if (el->children[0])
      fprintf(out, " Children: %s.", el->children);
    fputs(el->nfields ? "\n\n| attribute | value | default | meaning |\n|---|---|---|---|\n" : "\n",
          out);
    for (size_t j = 0; j < el->nfields; j++)
      print_field(&el->field[j], out);
    fputc('\n', out);
  }
  return ferror(out) ? -1 : 0;
}
