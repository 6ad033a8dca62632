/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The detailed result of `vllm bench serve`: one object, an array a field, an item a request. */
#include <string.h>

#include "models/measured_reader.h"

enum field { INPUT, OUTPUT, TTFT, ITL, START, ERROR, FIELDS };
static const char *const names[FIELDS] = {"input_lens", "output_lens", "ttfts",
                                          "itls",       "start_times", "errors"};

/* The arrays side by side, at one request. */
struct arrays {
  json_t *array[FIELDS];  /* NULL: START and ERROR may be absent */
  const char *at[FIELDS]; /* text of the item */
  const char *text;       /* of the whole */
  size_t i;
};

/* The line on which a piece of the text stands. */
static unsigned line_of(const struct arrays *a, const char *at)
{
  unsigned line = 1;
  for (const char *p = a->text; p < at; p++)
    line += *p == '\n';
  return line;
}

static int field_fail(const struct measured_reader *r, const struct arrays *a, int field,
                      struct base_error *e, const char *what)
{
  char quoted[TRACE_QUOTE];
  return measured_fail(r, line_of(a, a->at[field]), e, "%s[%zu] %s: %s", names[field], a->i, what,
                       trace_quote(a->at[field], quoted));
}

static int get_tokens(const struct measured_reader *r, const struct arrays *a, int field,
                      uint32_t *tokens, struct base_error *e)
{
  const json_t *value = json_array_get(a->array[field], a->i);
  if (!json_is_integer(value))
    return field_fail(r, a, field, e, "is no whole number");
  if (json_integer_value(value) < 0 || json_integer_value(value) > INT32_MAX)
    return field_fail(r, a, field, e, "is no count of tokens");
  *tokens = (uint32_t)json_integer_value(value);
  return 0;
}

static int get_time(const struct measured_reader *r, const struct arrays *a, int field, int64_t *ns,
                    struct base_error *e)
{
  *ns = 0;
  if (a->array[field] && measured_seconds(a->at[field], ns))
    return field_fail(r, a, field, e, "is no time in seconds, 0 or more");
  return 0;
}

/* Adds the gaps of a request; *sum: their time. */
static int get_gaps(struct measured_reader *r, const struct arrays *a, int64_t *sum,
                    struct base_error *e)
{
  *sum = 0;
  if (*a->at[ITL] != '[')
    return field_fail(r, a, ITL, e, "is no list of seconds");
  for (const char *p = measured_first(a->at[ITL]); p; p = measured_next(p)) {
    int64_t ns;
    if (measured_seconds(p, &ns))
      return field_fail(r, a, ITL, e, "holds what is no time in seconds");
    if (__builtin_add_overflow(*sum, ns, sum))
      return field_fail(r, a, ITL, e, "lasts over 292 years");
    if (measured_add_gap(r, ns, e))
      return -1;
  }
  return 0;
}

/* A request that failed has a text in errors; it has no latencies to compare. */
static int failed(const struct arrays *a)
{
  const char *text = json_string_value(json_array_get(a->array[ERROR], a->i));
  return text && *text;
}

static int read_request(struct measured_reader *r, const struct arrays *a, struct base_error *e)
{
  struct measured_times t;
  uint32_t prompt = 0, output = 0;
  int64_t ttft, rest;
  if (failed(a)) {
    r->out->failed++;
    return 0;
  }
  if (get_tokens(r, a, INPUT, &prompt, e) || get_tokens(r, a, OUTPUT, &output, e) ||
      get_time(r, a, START, &t.arrival, e) || get_time(r, a, TTFT, &ttft, e) ||
      get_gaps(r, a, &rest, e))
    return -1;
  if (__builtin_add_overflow(t.arrival, ttft, &t.first) ||
      __builtin_add_overflow(t.first, rest, &t.last))
    return field_fail(r, a, TTFT, e, "ends beyond 292 years");
  return measured_add(r, line_of(a, a->at[INPUT]), &t, prompt, output, e);
}

/* Without start times only a run whose requests were all sent at once is known. */
static int check_burst(const struct measured_reader *r, json_t *object, struct base_error *e)
{
  const json_t *rate = json_object_get(object, "request_rate");
  const json_t *most = json_object_get(object, "max_concurrency");
  const char *text = json_string_value(rate);
  if (text && !strcmp(text, "inf") && (!most || json_is_null(most)))
    return 0;
  return measured_fail(r, 1, e,
                       "no key 'start_times', and the requests were not all sent at once "
                       "(request_rate \"inf\", no max_concurrency), so their arrivals are not "
                       "known; measure with a version of vLLM that saves start_times");
}

static int open_arrays(const struct measured_reader *r, struct arrays *a, json_t *object,
                       struct base_error *e)
{
  for (int f = 0; f < FIELDS; f++) {
    a->array[f] = json_object_get(object, names[f]);
    if (f == START && !a->array[f] && check_burst(r, object, e))
      return -1;
    if (!a->array[f] && (f == START || f == ERROR))
      continue;
    if (!a->array[f])
      return measured_fail(r, 1, e,
                           "no key '%s'; measure with vllm bench serve --save-result "
                           "--save-detailed",
                           names[f]);
    const char *at = measured_member(a->text, names[f]);
    if (!json_is_array(a->array[f]) || !at)
      return measured_fail(r, 1, e, "%s is no array; write an item for each request", names[f]);
    if (json_array_size(a->array[f]) != json_array_size(a->array[INPUT]))
      return measured_fail(
          r, line_of(a, at), e, "%s has %zu items and input_lens %zu; give each an item a request",
          names[f], json_array_size(a->array[f]), json_array_size(a->array[INPUT]));
    a->at[f] = measured_first(at);
  }
  return 0;
}

int measured_vllm(struct measured_reader *r, json_t *object, const char *text, struct base_error *e)
{
  struct arrays a = {.text = text};
  if (!json_is_object(object))
    return measured_fail(r, 1, e, "the file is %s, not a JSON object", trace_type_name(object));
  r->out->has_gaps = 1;
  if (open_arrays(r, &a, object, e))
    return -1;
  for (size_t n = json_array_size(a.array[INPUT]); a.i < n; a.i++) {
    if (read_request(r, &a, e))
      return -1;
    for (int f = 0; f < FIELDS; f++)
      a.at[f] = a.at[f] ? measured_next(a.at[f]) : NULL;
  }
  return 0;
}
