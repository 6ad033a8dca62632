/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Numbers of JSON text by their digits, and the records of LLMServingSim's vLLM runs. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "models/measured_reader.h"

static const char blanks[] = " \t\r\n";

/* Behind the string that starts at p. */
static const char *string_end(const char *p)
{
  for (p++; *p != '"'; p++)
    p += *p == '\\';
  return p + 1;
}

/* Behind the value that starts at p. */
static const char *value_end(const char *p)
{
  int depth = 0;
  do {
    if (*p == '"') {
      p = string_end(p);
    } else if (strchr("{[", *p)) {
      depth++;
      p++;
    } else if (strchr("}]", *p)) {
      depth--;
      p++;
    } else if (depth) {
      p++;
    } else {
      return p + strcspn(p, ",]} \t\r\n");
    }
  } while (depth);
  return p;
}

static const char *skip(const char *p, const char *set)
{
  return p + strspn(p, set);
}

const char *measured_member(const char *p, const char *key)
{
  size_t n = strlen(key);
  for (p = skip(p + 1, blanks); *p == '"';) {
    const char *end = string_end(p), *value = skip(end, " \t\r\n:");
    if ((size_t)(end - p) == n + 2 && !memcmp(p + 1, key, n))
      return value;
    p = skip(value_end(value), " \t\r\n,");
  }
  return NULL;
}

const char *measured_first(const char *p)
{
  p = skip(p + 1, blanks);
  return *p == ']' ? NULL : p;
}

const char *measured_next(const char *p)
{
  p = skip(value_end(p), " \t\r\n,");
  return *p == ']' ? NULL : p;
}

int measured_seconds(const char *p, int64_t *ns)
{
  const char *end;
  if (!strchr("0123456789", *p) || base_decimal(p, 9, ns, &end))
    return -1;
  return end == value_end(p) ? 0 : -1;
}

/* The time under a key of the record `object`, whose text is at `text`. */
static int get_time(const struct measured_reader *r, json_t *object, const char *text,
                    const char *key, int64_t *ns, struct base_error *e)
{
  const json_t *value = json_object_get(object, key);
  char quoted[TRACE_QUOTE];
  if (!value)
    return trace_missing_key(&r->t, object, key, e);
  if (!json_is_number(value))
    return trace_fail(&r->t, e, "%s is %s; write seconds", key, trace_type_name(value));
  const char *at = measured_member(text, key);
  if (at && !measured_seconds(at, ns))
    return 0;
  return trace_fail(&r->t, e, "%s is no time: %s; write seconds from 0 to 9223372036", key,
                    trace_quote(at ? at : "", quoted));
}

static int get_tokens(const struct measured_reader *r, json_t *object, const char *key,
                      uint32_t *tokens, struct base_error *e)
{
  const json_t *value = json_object_get(object, key);
  char text[32];
  if (!value)
    return trace_missing_key(&r->t, object, key, e);
  if (!json_is_integer(value))
    return trace_fail(&r->t, e, "%s is %s; write a whole number", key, trace_type_name(value));
  snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
  return trace_tokens(&r->t, key, json_integer_value(value), text, tokens, e);
}

/* Known keys must be there; scheduled_ts, where it is, must stand between its neighbours. */
static int read_record(struct measured_reader *r, json_t *object, const char *text,
                       struct base_error *e)
{
  unsigned line = (unsigned)trace_source_number(r->t.source);
  struct measured_times t;
  uint32_t prompt, output;
  int64_t scheduled;
  if (get_tokens(r, object, "input_toks", &prompt, e) ||
      get_tokens(r, object, "output_toks", &output, e) ||
      get_time(r, object, text, "queued_ts", &t.arrival, e) ||
      get_time(r, object, text, "first_token_ts", &t.first, e) ||
      get_time(r, object, text, "last_token_ts", &t.last, e))
    return -1;
  if (json_object_get(object, "scheduled_ts")) {
    if (get_time(r, object, text, "scheduled_ts", &scheduled, e))
      return -1;
    if (scheduled < t.arrival || scheduled > t.first)
      return trace_fail(&r->t, e,
                        "scheduled_ts is not between queued_ts and first_token_ts; correct the "
                        "times");
  }
  return measured_add(r, line, &t, prompt, output, e);
}

static int read_line(struct measured_reader *r, const char *line, size_t length,
                     struct trace_ids *ids, struct base_error *e)
{
  json_error_t j;
  if (!length)
    return trace_fail(&r->t, e, "the line is blank; remove it");
  json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, &j);
  if (!object)
    return trace_bad_json(&r->t, &j, e);
  const char *id = json_string_value(json_object_get(object, "request_id"));
  int bad = !json_is_object(object)
                ? trace_fail(&r->t, e,
                             "the line is %s, not a JSON object; write one request a line",
                             trace_type_name(object))
                : (id && trace_check_id(&r->t, ids, id, e)) ||
                      read_record(r, object, skip(line, blanks), e);
  json_decref(object);
  return bad ? -1 : 0;
}

int measured_lines(struct measured_reader *r, char *line, size_t length, struct base_error *e)
{
  struct trace_ids ids = {0};
  int got, bad;
  r->out->format = "llmservingsim";
  do {
    bad = read_line(r, line, length, &ids, e);
    got = bad ? -1 : trace_source_line(r->t.source, &line, &length, e);
  } while (got > 0);
  trace_ids_free(&ids);
  return got;
}

/* Appends a line and its end to a text. */
static int append(char **text, size_t *n, size_t *room, const char *line, size_t length,
                  struct base_error *e)
{
  while (*n + length + 2 > *room) {
    size_t more = *room ? 2 * *room : 4096;
    char *grown = realloc(*text, more);
    if (!grown)
      return base_fail_memory(e);
    *text = grown;
    *room = more;
  }
  memcpy(*text + *n, line, length);
  *n += length;
  (*text)[(*n)++] = '\n';
  (*text)[*n] = '\0';
  return 0;
}

/* Numbers that Python writes and JSON does not know; `said`: of the parser. NULL: none of them. */
static const char *no_number(const char *said)
{
  static const char *const name[] = {"NaN", "Infinity"};
  for (int i = 0; i < 2; i++)
    if (strstr(said, name[i]))
      return name[i];
  return strstr(said, "'-'") || strstr(said, "'-I") ? "-Infinity" : NULL;
}

/* Tells why the whole text is not one object. */
static void bad_document(const struct measured_reader *r, const json_error_t *j,
                         struct base_error *e)
{
  const char *number = no_number(j->text);
  if (json_error_code(j) == json_error_out_of_memory)
    base_fail_memory(e);
  else if (number)
    measured_fail(r, (unsigned)j->line, e,
                  "%s (byte %d) is no JSON number: the value was not measured; remove the request "
                  "from every list",
                  number, j->position);
  else
    measured_fail(r, (unsigned)j->line, e,
                  "not one JSON object (byte %d): the file is cut or holds several; give the "
                  "records of one run",
                  j->position);
}

json_t *measured_document(struct measured_reader *r, const char *line, size_t length, char **text,
                          struct base_error *e)
{
  size_t n = 0, room = 0;
  char *more;
  int got, bad = append(text, &n, &room, line, length, e);
  while (!bad && (got = trace_source_line(r->t.source, &more, &length, e)) != 0)
    bad = got < 0 || append(text, &n, &room, more, length, e);
  if (bad)
    return NULL;
  json_error_t j;
  json_t *whole = json_loadb(*text, n, JSON_REJECT_DUPLICATES, &j);
  if (whole)
    return whole;
  bad_document(r, &j, e);
  return NULL;
}
