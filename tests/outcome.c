/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/outcome.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT_LINES = 25 };

void outcome_line(void *ctx, const struct world_log_line *l)
{
  static const char *const kind[] = {"event",   "plan",  "chunk",  "preempt", "resume",
                                     "planned", "route", "reject", "abort",   "timer",
                                     "forced",  "text",  "train"};
  struct outcome *o = ctx;
  if (o->size + 256 > o->cap) {
    o->cap = o->cap ? 2 * o->cap : 1 << 16;
    o->log = realloc(o->log, o->cap);
    if (!o->log)
      abort();
  }
  o->size += (size_t)snprintf(o->log + o->size, 256,
                              "%" PRId64 " server %d %s %" PRId64 " %" PRId64 " %s\n", l->time,
                              l->server, kind[l->kind], l->a, l->b, l->text ? l->text : "");
  o->lines++;
}

void outcome_free(struct outcome *o)
{
  world_result_free(&o->r);
  free(o->log);
}

/* What both still agreed on. */
static void show_context(const char *log, size_t end)
{
  size_t from = end;
  for (int lines = 0; from && lines <= CONTEXT_LINES; from--)
    lines += log[from - 1] == '\n';
  fprintf(stderr, "%.*s", (int)(end - from), log + from);
}

static int differ_log(const struct outcome *a, const struct outcome *b, int context, char *why,
                      size_t size)
{
  size_t n = a->size < b->size ? a->size : b->size, line = 0, i = 0;
  int whole = !(a->rc &&
                b->rc); /* where both failed, one may have noticed earlier in the instant */
  if ((a->size == b->size || !whole) && (!n || !memcmp(a->log, b->log, n)))
    return 0;
  size_t number = 1;
  while (i < n && a->log[i] == b->log[i])
    if (a->log[i++] == '\n') {
      line = i;
      number++;
    }
  if (context)
    show_context(a->log, line);
  snprintf(why, size, "log line %zu: '%.*s' and '%.*s'", number,
           line < a->size ? (int)strcspn(a->log + line, "\n") : 0, a->log ? a->log + line : "",
           line < b->size ? (int)strcspn(b->log + line, "\n") : 0, b->log ? b->log + line : "");
  return 1;
}

struct line_of {
  char text[512];
};

static const char *record_text(const struct world_record *r, struct line_of *l)
{
  snprintf(l->text, sizeof l->text,
           "arrival %" PRId64 " chunk %" PRId64 " first %" PRId64 " last %" PRId64
           " prompt %u output %u generated %u preempts %u discarded %" PRIu64 " cached %" PRIu64
           " share %" PRId64 " wasted %" PRId64 " server %d class %d fate %d met %d",
           r->arrival, r->first_chunk, r->first_token, r->last_token, r->prompt, r->output,
           r->generated, r->preempts, r->discarded, r->cached, r->share, r->wasted, r->server,
           r->cls, r->fate, r->met);
  return l->text;
}

static int differ_records(const struct outcome *a, const struct outcome *b, char *why, size_t size)
{
  struct line_of x, y;
  if (a->r.records != b->r.records) {
    snprintf(why, size, "records: %" PRIu64 " and %" PRIu64, a->r.records, b->r.records);
    return 1;
  }
  for (uint64_t i = 0; i < a->r.records; i++)
    if (strcmp(record_text(&a->r.record[i], &x), record_text(&b->r.record[i], &y))) {
      snprintf(why, size, "record %" PRIu64 ": '%s' and '%s'", i, x.text, y.text);
      return 1;
    }
  return 0;
}

/* One number of a result, by name. */
static int differ_number(const char *what, int i, base_int128 x, base_int128 y, char *why,
                         size_t size)
{
  if (x == y)
    return 0;
  snprintf(why, size, "%s %d: %" PRId64 " and %" PRId64, what, i, (int64_t)x, (int64_t)y);
  return 1;
}

static int differ_hist(const struct base_hist *a, const struct base_hist *b, int c, char *why,
                       size_t size)
{
  if (differ_number("gaps of class", c, a->n, b->n, why, size) ||
      differ_number("gap sum of class", c, a->sum, b->sum, why, size))
    return 1;
  if (a->n && (differ_number("least gap of class", c, a->min, b->min, why, size) ||
               differ_number("largest gap of class", c, a->max, b->max, why, size)))
    return 1;
  for (size_t i = 0; i < BASE_HIST_BINS; i++)
    if (differ_number("gap bin of class", c, a->bin[i], b->bin[i], why, size))
      return 1;
  return 0;
}

static int differ_class(const struct world_class_result *a, const struct world_class_result *b,
                        int c, char *why, size_t size)
{
  const base_int128 x[] = {a->offered,       a->finished,      a->failed,     a->rejected,
                           a->cancelled,     a->expired,       a->unfinished, a->met,
                           a->output_tokens, a->useful_tokens, a->preempts,   a->discarded,
                           a->share,         a->residue,       a->looked_up,  a->cached};
  const base_int128 y[] = {b->offered,       b->finished,      b->failed,     b->rejected,
                           b->cancelled,     b->expired,       b->unfinished, b->met,
                           b->output_tokens, b->useful_tokens, b->preempts,   b->discarded,
                           b->share,         b->residue,       b->looked_up,  b->cached};
  static const char *const name[] = {
      "offered of class",       "finished of class",  "failed of class",
      "rejected of class",      "cancelled of class", "expired of class",
      "unfinished of class",    "met of class",       "output tokens of class",
      "useful tokens of class", "preempts of class",  "discarded of class",
      "share of class",         "residue of class",   "looked up of class",
      "cached of class"};
  for (size_t i = 0; i < sizeof x / sizeof *x; i++)
    if (differ_number(name[i], c, x[i], y[i], why, size))
      return 1;
  return differ_hist(&a->itl, &b->itl, c, why, size);
}

static int differ_misses(const struct cost_misses *a, const struct cost_misses *b, char *why,
                         size_t size)
{
  for (int k = 0; k < COST_KINDS; k++)
    if (differ_number("steps beyond, kind", k, a->beyond[k], b->beyond[k], why, size) ||
        differ_number("steps below, kind", k, a->below[k], b->below[k], why, size))
      return 1;
  return differ_number("steps of several chunks", 0, a->several, b->several, why, size) ||
         differ_number("steps outside", 0, a->steps, b->steps, why, size);
}

static int differ_totals(const struct world_result *a, const struct world_result *b,
                         const struct world_config *cfg, char *why, size_t size)
{
  const base_int128 x[] = {a->end,   a->paid,   a->steps,    a->plans,  a->forced,
                           a->swaps, a->aborts, a->released, a->partial};
  const base_int128 y[] = {b->end,   b->paid,   b->steps,    b->plans,  b->forced,
                           b->swaps, b->aborts, b->released, b->partial};
  static const char *const name[] = {"end",   "paid",   "steps",    "plans",  "forced",
                                     "swaps", "aborts", "released", "partial"};
  for (size_t i = 0; i < sizeof x / sizeof *x; i++)
    if (differ_number(name[i], 0, x[i], y[i], why, size))
      return 1;
  if (differ_misses(&a->misses, &b->misses, why, size))
    return 1;
  for (uint32_t g = 0; g < cfg->ngpus; g++) {
    if (differ_number("busy time of GPU", (int)g, a->gpu_busy[g], b->gpu_busy[g], why, size))
      return 1;
    for (int k = 0; k < WORLD_ACCOUNTS; k++)
      if (differ_number(world_account_name[k], (int)g, a->gpu_account[g][k], b->gpu_account[g][k],
                        why, size))
        return 1;
  }
  for (uint32_t i = 0; i < cfg->njobs; i++)
    if (differ_number("micro-steps of job", (int)i, a->job[i].micro_steps, b->job[i].micro_steps,
                      why, size) ||
        differ_number("busy time of job", (int)i, a->job[i].busy, b->job[i].busy, why, size))
      return 1;
  for (int k = 0; k < WORLD_ACCOUNTS; k++)
    if (differ_number(world_account_name[k], -1, a->account[k], b->account[k], why, size))
      return 1;
  return 0;
}

int outcome_differ(const struct outcome *a, const struct outcome *b, const struct world_config *cfg,
                   int context, char *why, size_t size)
{
  if (a->log && b->log && differ_log(a, b, context, why, size))
    return 1;
  if (a->rc != b->rc || a->e.code != b->e.code) {
    snprintf(why, size, "end: %d, code %d '%s' and %d, code %d '%s'", a->rc, a->e.code, a->e.text,
             b->rc, b->e.code, b->e.text);
    return 1;
  }
  if (a->rc)
    return 0;
  if (differ_records(a, b, why, size))
    return 1;
  for (uint32_t c = 0; c < cfg->nclasses; c++)
    if (differ_class(&a->r.cls[c], &b->r.cls[c], (int)c, why, size))
      return 1;
  return differ_totals(&a->r, &b->r, cfg, why, size);
}
