/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "models/trace.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "models/trace_reader.h"

const char *const trace_format_names[TRACE_FORMATS] = {
    [TRACE_AZURE] = "azure",
    [TRACE_VIDUR] = "vidur",
    [TRACE_MOONCAKE] = "mooncake",
    [TRACE_NATIVE] = "native",
};

int trace_format_by_name(const char *name)
{
  for (int i = 0; i < TRACE_FORMATS; i++)
    if (strcmp(name, trace_format_names[i]) == 0)
      return i;
  return -1;
}

const char *trace_format_name(int format)
{
  return format < 0 || format >= TRACE_FORMATS ? "unknown" : trace_format_names[format];
}

int trace_fail(const struct trace *t, struct base_error *e, const char *fmt, ...)
{
  uint64_t number = trace_source_number(t->source);
  unsigned line = number > UINT_MAX ? UINT_MAX : number ? (unsigned)number : 1; /* 1: empty file */
  va_list ap;
  va_start(ap, fmt);
  base_vfail_at(e, BASE_INPUT, trace_source_name(t->source), line, fmt, ap);
  va_end(ap);
  return -1;
}

const char *trace_quote(const char *text, char buf[TRACE_QUOTE])
{
  size_t n = 0;
  buf[n++] = '\'';
  for (; *text && n < TRACE_QUOTE - 6; text++)
    buf[n++] = *text >= ' ' && *text <= '~' ? *text : '?';
  strcpy(buf + n, *text ? "...'" : "'");
  return buf;
}

void trace_list_add(char *buf, size_t size, const char *name)
{
  char quoted[TRACE_QUOTE];
  size_t n = strlen(buf), left = size - n;
  trace_quote(name, quoted);
  if (n >= 3 && strcmp(buf + n - 3, "...") == 0)
    return;
  if (n + 2 + strlen(quoted) + sizeof ", ..." > size)
    snprintf(buf + n, left, n ? ", ..." : "...");
  else
    snprintf(buf + n, left, "%s%s", n ? ", " : "", quoted);
}

int trace_tokens(const struct trace *t, const char *name, int64_t value, const char *text,
                 uint32_t *tokens, struct base_error *e)
{
  char quoted[TRACE_QUOTE];
  if (value < 0)
    return trace_fail(t, e, "%s is negative: %s; give a count of tokens, 1 or more", name,
                      trace_quote(text, quoted));
  if (value > INT32_MAX)
    return trace_fail(t, e, "%s is too large: %s; at most %d tokens can be given", name,
                      trace_quote(text, quoted), INT32_MAX);
  *tokens = (uint32_t)value;
  return 0;
}

int trace_add_hash(struct trace *t, uint64_t id, struct base_error *e)
{
  if (t->nids == t->room_ids) {
    uint32_t room = t->room_ids ? 2 * t->room_ids : 64;
    uint64_t *ids = realloc(t->ids, room * sizeof *ids);
    if (!ids)
      return base_fail_memory(e);
    t->ids = ids;
    t->room_ids = room;
  }
  t->ids[t->nids++] = id;
  return 0;
}

/* Both ways to open meet here. Takes over the source, also when it fails. */
static struct trace *open_source(struct trace_source *source, int format,
                                 const struct trace_rules *rules, struct base_error *e)
{
  if (!source)
    return NULL;
  struct trace *t = calloc(1, sizeof *t);
  if (!t) {
    trace_source_close(source);
    base_fail_memory(e);
    return NULL;
  }
  t->source = source;
  t->format = format;
  t->family = format == TRACE_MOONCAKE ? &trace_json : &trace_csv;
  t->has_times = 1;
  if (rules)
    t->rules = *rules;
  if (t->family->start && t->family->start(t, e)) {
    trace_close(t);
    return NULL;
  }
  return t;
}

static int known_format(int format, struct base_error *e)
{
  if (format >= 0 && format < TRACE_FORMATS)
    return 1;
  base_fail(e, BASE_USAGE, "unknown trace format %d; use azure, vidur, mooncake or native", format);
  return 0;
}

struct trace *trace_open(const char *path, int format, const struct trace_rules *rules,
                         struct base_error *e)
{
  return known_format(format, e) ? open_source(trace_source_open(path, e), format, rules, e) : NULL;
}

struct trace *trace_open_memory(const void *data, size_t size, const char *name, int format,
                                const struct trace_rules *rules, struct base_error *e)
{
  return known_format(format, e)
             ? open_source(trace_source_open_memory(data, size, name, e), format, rules, e)
             : NULL;
}

static __int128 time_ps(const struct trace_raw *raw)
{
  return raw->t_ns * 1000 + raw->ps;
}

/* Whole nanoseconds, rounded down also below 0. */
static __int128 floor_ns(__int128 ps)
{
  return ps / 1000 - (ps % 1000 < 0);
}

/* What the rules say of a row, whatever the format. */
static int judge(const struct trace *t, const struct trace_raw *raw, struct base_error *e)
{
  if (!t->rules.allow_zero && (!raw->prompt || !raw->output))
    return trace_fail(t, e, "the row has zero %s tokens; remove it, or give it 1 or more",
                      raw->prompt ? "output" : "prompt");
  if (!t->has_times || !t->rows)
    return 0;
  if (!t->rules.allow_unsorted && time_ps(raw) < t->previous_ps)
    return trace_fail(t, e, "the row arrives before the one above it; sort the rows by time");
  __int128 since = floor_ns(time_ps(raw) - t->first_ps);
  if (since > INT64_MAX || since < -INT64_MAX)
    return trace_fail(t, e, "the row arrives over 292 years from the first one; correct its time");
  return 0;
}

/* The end of the file is only good behind a row. */
static int at_end(const struct trace *t, struct base_error *e)
{
  if (t->rows)
    return 0;
  return trace_fail(t, e, "the trace has no rows; give a file with at least one request");
}

static int next_row(struct trace *t, struct trace_row *row, struct base_error *e)
{
  struct trace_raw raw = {.accept_q16 = -1, .phase_q16 = -1, .id_tokens = TRACE_HASH_TOKENS};
  char *line;
  size_t length;
  int r = trace_source_line(t->source, &line, &length, e);
  if (r < 0)
    return r;
  if (!r)
    return at_end(t, e);
  if (!length)
    return trace_fail(t, e, "the line is blank; remove it");
  t->nids = 0;
  if (t->family->row(t, line, length, &raw, e) || judge(t, &raw, e))
    return -1;
  if (!t->rows++)
    t->first_ps = time_ps(&raw);
  t->previous_ps = time_ps(&raw);
  __int128 since = t->has_times ? t->previous_ps - t->first_ps : 0;
  *row = (struct trace_row){.t_ns = (int64_t)floor_ns(since),
                            .ps = (uint16_t)(since - floor_ns(since) * 1000),
                            .prompt = raw.prompt,
                            .output = raw.output,
                            .accept_q16 = raw.accept_q16,
                            .phase_q16 = raw.phase_q16,
                            .ids = t->ids,
                            .nids = t->nids,
                            .id_tokens = raw.id_tokens};
  return 1;
}

int trace_next(struct trace *t, struct trace_row *row, struct base_error *e)
{
  int r = t->error.code ? -1 : next_row(t, row, &t->error);
  if (r < 0 && e && !e->code) /* a second call repeats the failure */
    *e = t->error;
  return r;
}

int trace_has_times(const struct trace *t)
{
  return t->has_times;
}

uint64_t trace_line(const struct trace *t)
{
  return trace_source_number(t->source);
}

void trace_close(struct trace *t)
{
  if (!t)
    return;
  if (t->family->stop)
    t->family->stop(t);
  trace_source_close(t->source);
  free(t->ids);
  free(t);
}
