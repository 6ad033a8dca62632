/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
