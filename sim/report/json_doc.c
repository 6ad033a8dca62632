/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/outfile.h"
#include "sim/report/json.h"

/* Notes a failed allocation. */
static json_t *noted(struct json_doc *d, json_t *value)
{
  d->failed |= !value;
  return value;
}

json_t *json_doc_object(struct json_doc *d)
{
  return noted(d, json_object());
}

json_t *json_doc_array(struct json_doc *d)
{
  return noted(d, json_array());
}

void json_doc_put(struct json_doc *d, json_t *into, const char *key, json_t *value)
{
  int rc = key ? json_object_set_new(into, key, value) : json_array_append_new(into, value);

  d->failed |= rc != 0;
}

void json_doc_real(struct json_doc *d, json_t *into, const char *key, double value)
{
  json_doc_put(d, into, key, isfinite(value) ? json_real(value) : json_null());
}

/* A string with everything beyond ASCII replaced. */
static json_t *ascii(const char *value)
{
  char *copy = strdup(value);
  json_t *s;

  if (!copy)
    return NULL;
  for (char *c = copy; *c; c++)
    if ((unsigned char)*c > 127)
      *c = '?';
  s = json_string(copy);
  free(copy);
  return s;
}

void json_doc_text(struct json_doc *d, json_t *into, const char *key, const char *value)
{
  json_t *s = value ? json_string(value) : json_null();

  json_doc_put(d, into, key, s ? s : ascii(value));
}

void json_doc_count(struct json_doc *d, json_t *into, const char *key, uint64_t value)
{
  char text[24];

  if (value <= INT64_MAX) {
    json_doc_put(d, into, key, json_integer((json_int_t)value));
    return;
  }
  snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  json_doc_text(d, into, key, text);
}

void json_doc_flag(struct json_doc *d, json_t *into, const char *key, int value)
{
  json_doc_put(d, into, key, json_boolean(value));
}

int json_doc_write(struct json_doc *d, json_t *doc, const char *path, struct base_error *e)
{
  struct base_outfile file = {0};
  int rc = -1;

  if (d->failed) {
    base_fail_memory(e);
    goto done;
  }
  if (base_outfile_open(&file, path, e))
    goto done;
  if (json_dumpf(doc, file.f, JSON_SORT_KEYS | JSON_INDENT(1) | JSON_REAL_PRECISION(17)) ||
      fputc('\n', file.f) == EOF) {
    base_fail_errno(e, "%s could not be written", path);
    base_outfile_abandon(&file);
    goto done;
  }
  rc = base_outfile_commit(&file, e);
done:
  json_decref(doc);
  return rc;
}
