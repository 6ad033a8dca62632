/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The JSON-lines format: one object a line, its times in whole milliseconds. */
#include <jansson.h>
#include <string.h>

#include "models/trace_json.h"

int trace_bad_json(const struct trace *t, const json_error_t *j, struct base_error *e)
{
  char text[JSON_ERROR_TEXT_LENGTH];
  if (json_error_code(j) == json_error_out_of_memory)
    return base_fail_memory(e);
  size_t n = strnlen(j->text, sizeof text - 1);
  for (size_t i = 0; i < n; i++)
    text[i] = j->text[i] >= ' ' && j->text[i] <= '~' ? j->text[i] : '?';
  text[n] = '\0';
  return trace_fail(t, e, "not a JSON object: %s at byte %d; write one request a line", text,
                    j->position);
}

int trace_missing_key(const struct trace *t, json_t *object, const char *key, struct base_error *e)
{
  char list[300] = "";
  const char *name;
  json_t *value;
  json_object_foreach(object, name, value) trace_list_add(list, sizeof list, name);
  return trace_fail(t, e, "no key '%s'; the keys are %s: add it", key, *list ? list : "none");
}

const char *trace_type_name(const json_t *value)
{
  switch (json_typeof(value)) {
  case JSON_OBJECT:
    return "an object";
  case JSON_ARRAY:
    return "an array";
  case JSON_STRING:
    return "a string";
  case JSON_REAL:
    return "a number with a point or an exponent";
  case JSON_NULL:
    return "null";
  default:
    return "true or false";
  }
}

static int get_integer(const struct trace *t, json_t *object, const char *key, int64_t *number,
                       struct base_error *e)
{
  const json_t *value = json_object_get(object, key);
  if (!value)
    return trace_missing_key(t, object, key, e);
  if (!json_is_integer(value))
    return trace_fail(t, e, "%s is %s; write a whole number", key, trace_type_name(value));
  *number = json_integer_value(value);
  return 0;
}

static int get_tokens(const struct trace *t, json_t *object, const char *key, uint32_t *tokens,
                      struct base_error *e)
{
  char text[32];
  int64_t number = 0;
  if (get_integer(t, object, key, &number, e))
    return -1;
  snprintf(text, sizeof text, "%lld", (long long)number);
  return trace_tokens(t, key, number, text, tokens, e);
}

/* The list of prefix blocks, each a whole number from 0 on. */
static int get_hashes(struct trace *t, const json_t *hashes, struct base_error *e)
{
  size_t i;
  const json_t *value;
  json_array_foreach(hashes, i, value)
  {
    if (!json_is_integer(value))
      return trace_fail(t, e, "entry %zu of hash_ids is %s; write a whole number", i + 1,
                        trace_type_name(value));
    if (json_integer_value(value) < 0)
      return trace_fail(t, e, "entry %zu of hash_ids is negative: '%lld'; count ids from 0 on",
                        i + 1, (long long)json_integer_value(value));
    if (trace_add_hash(t, (uint64_t)json_integer_value(value), e))
      return -1;
  }
  return 0;
}

static int read_object(struct trace *t, json_t *object, struct trace_raw *raw, struct base_error *e)
{
  int64_t ms = 0;
  const json_t *hashes = json_object_get(object, "hash_ids");
  if (get_integer(t, object, "timestamp", &ms, e))
    return -1;
  if (ms < 0)
    return trace_fail(t, e, "timestamp is negative: '%lld'; count times from 0 on", (long long)ms);
  if (hashes && !json_is_array(hashes))
    return trace_fail(t, e, "hash_ids is no array; write the list of prefix blocks, or leave it");
  if (hashes && t->rules.keep_ids && get_hashes(t, hashes, e))
    return -1;
  raw->t_ns = (__int128)ms * 1000000;
  return get_tokens(t, object, "input_length", &raw->prompt, e) ||
                 get_tokens(t, object, "output_length", &raw->output, e)
             ? -1
             : 0;
}

static int json_row(struct trace *t, char *line, size_t length, struct trace_raw *raw,
                    struct base_error *e)
{
  json_error_t j;
  json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &j);
  if (!object)
    return trace_bad_json(t, &j, e);
  int r = json_is_object(object)
              ? read_object(t, object, raw, e)
              : trace_fail(t, e, "the line is %s, not a JSON object; write one request a line",
                           json_is_integer(object) ? "a number" : trace_type_name(object));
  json_decref(object);
  return r;
}

const struct trace_family trace_json = {NULL, json_row, NULL};
