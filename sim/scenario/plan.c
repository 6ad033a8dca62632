/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Freezing: all rows that arrive by themselves, merged by (time, class, row), in integers. Backlog
 * items are drawn when they are asked for, by their index. The scenario must outlive its plans.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "sim/scenario/draw.h"
#include "sim/scenario/reader.h"

struct plan {
  const struct scenario *s;
  uint64_t seed, n;
  struct world_arrival *row; /* [n], by (time, class, row of its class) */
  char digest[33];
};

/* Rows of one class while it is generated. */
struct rows {
  struct world_arrival *row;
  uint64_t n, room;
};

static int push(struct rows *rows, const struct world_arrival *a, struct base_error *e)
{
  if (rows->n == LIMIT_ROWS)
    return base_fail(e, BASE_INPUT, "more than %d requests arrive; shorten the window", LIMIT_ROWS);
  if (rows->n == rows->room) {
    uint64_t room = rows->room ? rows->room * 2 : 1024;
    struct world_arrival *more = realloc(rows->row, room * sizeof *more);
    if (!more)
      return base_fail_memory(e);
    rows->row = more;
    rows->room = room;
  }
  rows->row[rows->n++] = *a;
  return 0;
}

static int generate(struct draw *d, int cls, struct rows *rows, struct base_error *e)
{
  lull_time window = d->s->window;
  struct world_arrival a = {0};
  for (;;) {
    lull_time gap = draw_gap(d, cls, rows->n);
    if (gap >= window - a.time)
      return 0;
    a.time += gap;
    draw_request(d, cls, rows->n, &a);
    if (push(rows, &a, e))
      return -1;
  }
}

static int replay(struct draw *d, int cls, struct rows *rows, struct base_error *e)
{
  const struct scenario_class *c = &d->s->cls[cls];
  struct trace *t = trace_open(c->trace.path, c->trace.format, NULL, e);
  struct trace_row row;
  int got = t ? 0 : -1;
  while (t && (!c->trace.limit || rows->n < c->trace.limit) &&
         (got = trace_next(t, &row, e)) == 1) {
    struct world_arrival a = {.time = trace_time(row.t_ns, c->trace.speed_ppm),
                              .prompt = row.prompt,
                              .output = row.output};
    if (a.time >= d->s->window)
      break;
    draw_request(d, cls, rows->n, &a);
    if (push(rows, &a, e)) {
      got = -1;
      break;
    }
  }
  if (got >= 0 && !trace_has_times(t))
    got = base_fail(e, BASE_INPUT, "'%.200s' has no arrival times; it cannot be replayed",
                    c->trace.path);
  trace_close(t);
  return got < 0 ? -1 : 0;
}

static int fill_class(struct draw *d, int cls, struct rows *rows, struct base_error *e)
{
  int arrivals = d->s->cls[cls].arrivals;
  if (arrivals == ARRIVALS_TRACE)
    return replay(d, cls, rows, e);
  if (arrivals == ARRIVALS_NONE || arrivals == ARRIVALS_BACKLOG)
    return 0;
  return generate(d, cls, rows, e);
}

/* Each class is sorted; of equal times the lower class goes first. */
static int merge(struct plan *p, const struct rows *rows, struct base_error *e)
{
  uint64_t at[LULL_CLASSES] = {0};
  for (uint32_t c = 0; c < p->s->nclasses; c++)
    p->n += rows[c].n;
  if (p->n > LIMIT_ROWS)
    return base_fail(e, BASE_INPUT, "more than %d requests arrive; shorten the window", LIMIT_ROWS);
  p->row = malloc((p->n + 1) * sizeof *p->row);
  if (!p->row)
    return base_fail_memory(e);
  for (uint64_t i = 0; i < p->n; i++) {
    int first = -1;
    for (uint32_t c = 0; c < p->s->nclasses; c++)
      if (at[c] < rows[c].n &&
          (first < 0 || rows[c].row[at[c]].time < rows[first].row[at[first]].time))
        first = (int)c;
    p->row[i] = rows[first].row[at[first]++];
  }
  return 0;
}

static void put(unsigned char *to, uint64_t value, int bytes)
{
  for (int i = 0; i < bytes; i++)
    to[i] = (unsigned char)(value >> 8 * i);
}

/* One row in its canonical bytes: little-endian, without padding. */
static void digest_row(XXH3_state_t *x, const struct world_arrival *a)
{
  unsigned char b[25];
  put(b, (uint64_t)a->time, 8);
  put(b + 8, a->prompt, 4);
  put(b + 12, a->output, 4);
  put(b + 16, a->accept_q16, 4);
  put(b + 20, a->phase_q16, 4);
  b[24] = a->cls;
  XXH3_128bits_update(x, b, sizeof b);
}

/* Names and order of the classes, and the first items of each backlog: they follow one law. */
static void digest_classes(XXH3_state_t *x, struct draw *d)
{
  enum { ITEMS = 1024 };
  for (uint32_t c = 0; c < d->s->nclasses; c++) {
    const struct scenario_class *k = &d->s->cls[c];
    struct world_arrival a = {0};
    XXH3_128bits_update(x, k->id, strlen(k->id) + 1);
    for (uint64_t i = 0; k->arrivals == ARRIVALS_BACKLOG && i < ITEMS; i++) {
      draw_request(d, (int)c, i, &a);
      digest_row(x, &a);
    }
  }
}

static int digest(struct plan *p, struct draw *d, struct base_error *e)
{
  XXH128_canonical_t canonical;
  XXH3_state_t *x = XXH3_createState();
  if (!x)
    return base_fail_memory(e);
  XXH3_128bits_reset(x);
  digest_classes(x, d);
  for (uint64_t i = 0; i < p->n; i++)
    digest_row(x, &p->row[i]);
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(x));
  XXH3_freeState(x);
  for (int i = 0; i < 16; i++)
    snprintf(p->digest + 2 * i, 3, "%02x", canonical.digest[i]);
  return 0;
}

struct plan *plan_freeze(const struct scenario *s, uint64_t seed, struct base_error *e)
{
  struct rows rows[LULL_CLASSES] = {0};
  struct draw d = {0};
  struct plan *p = calloc(1, sizeof *p);
  if (!p) {
    base_fail_memory(e);
    return NULL;
  }
  p->s = s;
  p->seed = seed;
  int bad = draw_open(&d, s, seed, e);
  for (uint32_t c = 0; !bad && c < s->nclasses; c++)
    bad = fill_class(&d, (int)c, &rows[c], e);
  bad = bad || merge(p, rows, e) || digest(p, &d, e);
  for (int c = 0; c < LULL_CLASSES; c++)
    free(rows[c].row);
  draw_close(&d);
  if (!bad)
    return p;
  plan_free(p);
  return NULL;
}

void plan_free(struct plan *p)
{
  if (p)
    free(p->row);
  free(p);
}

static int next_row(void *ctx, struct world_arrival *out, struct base_error *e)
{
  struct plan_cursor *c = ctx;
  while (c->next < c->plan->n) {
    const struct world_arrival *a = &c->plan->row[c->next++];
    if (c->class_mask >> a->cls & 1) {
      *out = *a;
      return 1;
    }
  }
  return 0;
}

/* As next_row, 1: there is an item; a backlog has no end. */
static int refill(void *ctx, int cls, uint64_t index, struct world_arrival *out,
                  struct base_error *e)
{
  struct plan_cursor *c = ctx;
  *out = (struct world_arrival){0};
  draw_request(c->rng, cls, index, out);
  return 1;
}

int plan_open(const struct plan *p, uint32_t class_mask, struct plan_cursor *cursor,
              struct world_source *source, struct base_error *e)
{
  struct draw *d = malloc(sizeof *d);
  *cursor = (struct plan_cursor){.plan = p, .class_mask = class_mask, .rng = d};
  if (!d)
    return base_fail_memory(e);
  if (draw_open(d, p->s, p->seed, e)) {
    plan_close(cursor);
    return -1;
  }
  *source = (struct world_source){.ctx = cursor, .next = next_row, .refill = refill};
  return 0;
}

void plan_close(struct plan_cursor *cursor)
{
  if (cursor->rng)
    draw_close(cursor->rng);
  free(cursor->rng);
  cursor->rng = NULL;
}

const char *plan_digest(const struct plan *p)
{
  return p->digest;
}

uint64_t plan_rows(const struct plan *p)
{
  return p->n;
}
