/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "backend/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/outfile.h"

enum { FILE_MAX = 64 << 20, SHOWN = 48 };

int fields_is_plain(const char *text)
{
  for (; *text; text++)
    if ((unsigned char)*text < ' ' || *text == 127)
      return 0;
  return 1;
}

/* Why a text is no JSON, without its own words if they are of several lines. */
static const char *reason(const json_error_t *j)
{
  return fields_is_plain(j->text) ? j->text : "a token is broken";
}

json_t *fields_parse(const char *text, size_t size, const char *name, struct base_error *e)
{
  json_error_t j;
  json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &j);
  if (root && json_is_object(root))
    return root;
  if (root)
    base_fail_at(e, BASE_INPUT, name, 0, "this is a JSON array, but an object is wanted");
  else if (json_error_code(&j) == json_error_out_of_memory)
    base_fail_memory(e);
  else
    base_fail_at(e, BASE_INPUT, name, j.line > 0 ? (unsigned)j.line : 0, "no JSON object: %s",
                 reason(&j));
  json_decref(root);
  return NULL;
}

json_t *fields_read(const char *path, struct base_error *e)
{
  size_t size;
  char *text = base_read_file(path, FILE_MAX, &size, e);
  if (!text)
    return NULL;
  json_t *root = fields_parse(text, size, path, e);
  free(text);
  return root;
}

json_t *fields_get(const struct fields *f, const char *key)
{
  json_t *value = json_object_get(f->object, key);
  return json_is_null(value) ? NULL : value;
}

int fields_write(const char *path, json_t *object, struct base_error *e)
{
  struct base_outfile out;
  if (!object)
    return base_fail_memory(e);
  int bad = base_outfile_open(&out, path, e);
  if (!bad) {
    json_dumpf(object, out.f, JSON_INDENT(2) | JSON_SORT_KEYS);
    fputc('\n', out.f);
    bad = base_outfile_commit(&out, e);
  }
  json_decref(object);
  return bad;
}

int fields_missing(const struct fields *f, const char *key)
{
  return base_fail_at(f->e, BASE_INPUT, f->file, 0, "there is no '%s'", key);
}

int fields_refuse(const struct fields *f, const char *key, const char *allowed)
{
  char *text = json_dumps(json_object_get(f->object, key),
                          JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
  int n = text ? (int)strlen(text) : 0;
  base_fail_at(f->e, BASE_INPUT, f->file, 0, "'%s' is %.*s%s, but %s", key, n < SHOWN ? n : SHOWN,
               text ? text : "", n > SHOWN ? "..." : "", allowed);
  free(text);
  return -1;
}

int fields_count(const struct fields *f, const char *key, uint32_t min, uint32_t max, uint32_t *to)
{
  const json_t *value = fields_get(f, key);
  char allowed[96];
  if (!value)
    return 0;
  json_int_t v = json_integer_value(value);
  if (json_is_integer(value) && v >= (json_int_t)min && v <= (json_int_t)max) {
    *to = (uint32_t)v;
    return 1;
  }
  snprintf(allowed, sizeof allowed, "must be a whole number from %u to %u", min, max);
  return fields_refuse(f, key, allowed);
}

int fields_real(const struct fields *f, const char *key, double min, double max, double *to)
{
  const json_t *value = fields_get(f, key);
  char allowed[96];
  if (!value)
    return 0;
  double v = json_number_value(value);
  if (json_is_number(value) && v >= min && v <= max) {
    *to = v;
    return 1;
  }
  snprintf(allowed, sizeof allowed, "must be a number from %g to %g", min, max);
  return fields_refuse(f, key, allowed);
}

int fields_flag(const struct fields *f, const char *key, int *to)
{
  const json_t *value = fields_get(f, key);
  if (!value)
    return 0;
  if (!json_is_boolean(value))
    return fields_refuse(f, key, "must be true or false");
  *to = json_is_true(value);
  return 1;
}

int fields_text(const struct fields *f, const char *key, const char **to)
{
  const json_t *value = fields_get(f, key);
  if (!value)
    return 0;
  if (!json_is_string(value))
    return fields_refuse(f, key, "must be a text");
  *to = json_string_value(value);
  return 1;
}
