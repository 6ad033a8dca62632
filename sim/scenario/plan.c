/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Freezing: all rows that arrive by themselves, merged by (time, class, row), in integers. A plan
 * keeps its rows while they are few; of a longer one it keeps the digest, and whoever walks it
 * draws the rows again: they depend on the seed and their index only. Backlog items are always
 * drawn by their index when they are asked for. The scenario must outlive its plans.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "sim/scenario/draw.h"
#include "sim/scenario/reader.h"

/* Rows that a plan keeps: 32 MiB of them. */
enum { KEPT_ROWS = 1 << 20 };

/* What prompts begin with, kept as long as its rows are. */
struct prefixes {
  struct world_prefix **p; /* [n] */
  size_t n, room;
};

struct plan {
  const struct scenario *s;
  uint64_t seed, n;
  struct world_arrival *row; /* [n] by (time, class, row of its class); NULL: more than KEPT_ROWS */
  struct prefixes prefixes;  /* of these rows */
  char digest[33];
};

/* ------------------------------------------------------------------------------------- rows --- */

/* One class on its way through the window. */
struct lane {
  struct world_arrival next;
  uint64_t rows; /* taken so far, `next` included */
  int open;      /* `next` holds a row */
  struct trace *trace;
};

struct arrivals {
  struct draw draw;
  struct lane lane[LULL_CLASSES];
  struct prefixes prefixes;
};

static void free_prefixes(struct prefixes *list)
{
  while (list->n)
    free(list->p[--list->n]);
  free(list->p);
  *list = (struct prefixes){0};
}

/* Does any server look at what prompts begin with? Only then a trace's word on it is kept. */
static int is_cached(const struct scenario *s)
{
  for (uint32_t a = 0; a < s->narms; a++)
    for (uint32_t c = 0; c < s->arm[a].ncandidates; c++)
      for (uint32_t i = 0; i < s->arm[a].candidate[c].nservers; i++)
        if (s->arm[a].candidate[c].server[i].engine.prefix_caching)
          return 1;
  return 0;
}

/* Keeps a row's ids for as long as its class is walked. */
static int keep_prefix(struct prefixes *list, const struct trace_row *row,
                       const struct world_prefix **out, struct base_error *e)
{
  *out = NULL;
  if (!row->nids)
    return 0;
  if (list->n == list->room) {
    size_t room = list->room ? 2 * list->room : 256;
    struct world_prefix **more = realloc(list->p, room * sizeof *more);
    if (!more)
      return base_fail_memory(e);
    list->p = more;
    list->room = room;
  }
  struct world_prefix *p = malloc(sizeof *p + row->nids * sizeof *p->id);
  if (!p)
    return base_fail_memory(e);
  p->n = row->nids;
  p->tokens = row->id_tokens;
  memcpy(p->id, row->ids, row->nids * sizeof *p->id);
  *out = list->p[list->n++] = p;
  return 0;
}

static int next_generated(struct draw *d, int cls, struct lane *l)
{
  lull_time gap = draw_gap(d, cls, l->rows);
  if (gap >= d->s->window - l->next.time)
    return 0;
  l->next.time += gap;
  draw_request(d, cls, l->rows, &l->next);
  return 1;
}

static int next_replayed(struct arrivals *a, int cls, struct base_error *e)
{
  struct draw *d = &a->draw;
  struct lane *l = &a->lane[cls];
  const struct scenario_class *c = &d->s->cls[cls];
  struct trace_row row;
  int got = c->trace.limit && l->rows >= c->trace.limit ? 0 : trace_next(l->trace, &row, e);
  if (got < 1)
    return got;
  l->next.time = trace_time(c, &row);
  if (l->next.time >= d->s->window)
    return 0;
  draw_for_row(d, cls, l->rows, &row, &l->next);
  return keep_prefix(&a->prefixes, &row, &l->next.prefix, e) ? -1 : 1;
}

static int advance(struct arrivals *a, int cls, struct base_error *e)
{
  struct lane *l = &a->lane[cls];
  int got = l->trace ? next_replayed(a, cls, e) : next_generated(&a->draw, cls, l);
  l->open = got > 0;
  l->rows += (uint64_t)l->open;
  return got < 0 ? -1 : 0;
}

static int open_trace(struct lane *l, const struct scenario_class *c, int keep_ids,
                      struct base_error *e)
{
  const struct trace_rules rules = {.keep_ids = keep_ids};
  l->trace = trace_open(c->trace.file.path, c->trace.file.format, &rules, e);
  if (!l->trace)
    return -1;
  if (!trace_has_times(l->trace))
    return base_fail(e, BASE_INPUT, "'%.200s' has no arrival times; it cannot be replayed",
                     c->trace.file.path);
  return 0;
}

static void arrivals_close(struct arrivals *a)
{
  for (int c = 0; c < LULL_CLASSES; c++)
    trace_close(a->lane[c].trace);
  free_prefixes(&a->prefixes);
  draw_close(&a->draw);
}

/* The classes of the mask, each at its first row. */
static int arrivals_open(struct arrivals *a, const struct scenario *s, uint64_t seed, uint32_t mask,
                         struct base_error *e)
{
  memset(a, 0, sizeof *a);
  int bad = draw_open(&a->draw, s, seed, e);
  for (uint32_t c = 0; !bad && c < s->nclasses; c++) {
    int kind = s->cls[c].arrivals;
    if (!(mask >> c & 1) || kind == ARRIVALS_NONE || kind == ARRIVALS_BACKLOG)
      continue;
    bad = (kind == ARRIVALS_TRACE && open_trace(&a->lane[c], &s->cls[c], is_cached(s), e)) ||
          advance(a, (int)c, e);
  }
  if (bad)
    arrivals_close(a);
  return bad ? -1 : 0;
}

/* Each class is sorted; of equal times the lower class goes first. 1: *out is the next row. */
static int arrivals_next(struct arrivals *a, struct world_arrival *out, struct base_error *e)
{
  int first = -1;
  for (uint32_t c = 0; c < a->draw.s->nclasses; c++)
    if (a->lane[c].open && (first < 0 || a->lane[c].next.time < a->lane[first].next.time))
      first = (int)c;
  if (first < 0)
    return 0;
  *out = a->lane[first].next;
  return advance(a, first, e) ? -1 : 1;
}

/* ----------------------------------------------------------------------------------- digest --- */

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
  for (uint32_t i = 0; a->prefix && i < a->prefix->n; i++) {
    put(b, a->prefix->id[i], 8);
    put(b + 8, a->prefix->tokens, 4);
    XXH3_128bits_update(x, b, 12);
  }
}

/* Names and order of the classes, and the first items of each backlog: they follow one law. */
static void digest_classes(XXH3_state_t *x, struct draw *d)
{
  enum { ITEMS = 1024 };
  for (uint32_t c = 0; c < d->s->nclasses; c++) {
    const struct scenario_class *k = &d->s->cls[c];
    struct world_arrival a = {0};
    XXH3_128bits_update(x, k->id, strlen(k->id) + 1);
    int items = k->arrivals == ARRIVALS_BACKLOG || k->items.n;
    for (uint64_t i = 0; items && i < ITEMS; i++) {
      draw_item(d, (int)c, i, &a);
      digest_row(x, &a);
    }
  }
}

/* -------------------------------------------------------------------------------- freezing --- */

/* Keeps a row, until there are too many. */
static int keep(struct plan *p, uint64_t *room, const struct world_arrival *a, struct base_error *e)
{
  if (p->n >= KEPT_ROWS) {
    free(p->row);
    p->row = NULL;
    return 0;
  }
  if (p->n == *room) {
    *room = *room ? 2 * *room : 1024;
    struct world_arrival *more = realloc(p->row, *room * sizeof *more);
    if (!more)
      return base_fail_memory(e);
    p->row = more;
  }
  p->row[p->n] = *a;
  return 0;
}

/* One walk over all rows: counts and digests them. */
static int freeze_rows(struct plan *p, XXH3_state_t *x, struct base_error *e)
{
  struct arrivals rows;
  struct world_arrival a;
  uint64_t room = 0;
  int got;
  if (arrivals_open(&rows, p->s, p->seed, UINT32_MAX, e))
    return -1;
  XXH3_128bits_reset(x);
  digest_classes(x, &rows.draw);
  while ((got = arrivals_next(&rows, &a, e)) > 0) {
    if (p->n == LIMIT_ROWS)
      got = base_fail(e, BASE_INPUT, "more than %d requests arrive; shorten the window",
                      LIMIT_ROWS);
    if (got < 0 || keep(p, &room, &a, e))
      break;
    digest_row(x, &a);
    p->n++;
  }
  if (p->row) {
    p->prefixes = rows.prefixes;
    rows.prefixes = (struct prefixes){0};
  }
  arrivals_close(&rows);
  return got ? -1 : 0;
}

/* The rows as they are given, with what a draft model needs of each. */
static int freeze_given(struct plan *p, XXH3_state_t *x, int cls, const struct world_arrival *row,
                        uint64_t n, struct base_error *e)
{
  struct draw draw;
  if (n > LIMIT_ROWS)
    return base_fail(e, BASE_INPUT, "more than %d requests; give fewer", LIMIT_ROWS);
  p->row = calloc(n + 1, sizeof *p->row);
  if (!p->row)
    return base_fail_memory(e);
  if (draw_open(&draw, p->s, p->seed, e))
    return -1;
  XXH3_128bits_reset(x);
  digest_classes(x, &draw);
  for (; p->n < n; p->n++) {
    struct world_arrival *a = &p->row[p->n];
    draw_request(&draw, cls, p->n, a);
    a->time = row[p->n].time;
    a->prompt = row[p->n].prompt;
    a->output = row[p->n].output;
    digest_row(x, a);
  }
  draw_close(&draw);
  return 0;
}

/* Rows of the scenario's own arrivals, or n given ones. */
static struct plan *freeze(const struct scenario *s, uint64_t seed, int cls,
                           const struct world_arrival *row, uint64_t n, struct base_error *e)
{
  struct plan *p = calloc(1, sizeof *p);
  XXH3_state_t *x = XXH3_createState();
  int bad = p && x ? 0 : base_fail_memory(e);
  if (!bad) {
    p->s = s;
    p->seed = seed;
    bad = row ? freeze_given(p, x, cls, row, n, e) : freeze_rows(p, x, e);
  }
  if (!bad) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(x));
    for (int i = 0; i < 16; i++)
      snprintf(p->digest + 2 * i, 3, "%02x", canonical.digest[i]);
  }
  XXH3_freeState(x);
  if (!bad)
    return p;
  plan_free(p);
  return NULL;
}

struct plan *plan_freeze(const struct scenario *s, uint64_t seed, struct base_error *e)
{
  return freeze(s, seed, 0, NULL, 0, e);
}

struct plan *plan_of_rows(const struct scenario *s, uint64_t seed, int cls,
                          const struct world_arrival *row, uint64_t n, struct base_error *e)
{
  return freeze(s, seed, cls, row, n, e);
}

void plan_free(struct plan *p)
{
  if (p) {
    free(p->row);
    free_prefixes(&p->prefixes);
  }
  free(p);
}

/* --------------------------------------------------------------------------------- cursors --- */

/* A cursor owns the rows of its arm, drawn again where the plan kept none; items of backlogs come
 * from the same draws. */
static int next_row(void *ctx, struct world_arrival *out, struct base_error *e)
{
  struct plan_cursor *c = ctx;
  struct arrivals *rows = c->rows;
  if (!c->plan->row)
    return c->plan->n ? arrivals_next(rows, out, e) : 0;
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
  struct arrivals *rows = c->rows;
  *out = (struct world_arrival){0};
  draw_item(&rows->draw, cls, index, out);
  return 1;
}

int plan_open(const struct plan *p, uint32_t class_mask, struct plan_cursor *cursor,
              struct world_source *source, struct base_error *e)
{
  struct arrivals *rows = malloc(sizeof *rows);
  *cursor = (struct plan_cursor){.plan = p, .class_mask = class_mask, .rows = rows};
  if (!rows)
    return base_fail_memory(e);
  /* without rows of its own a cursor walks no class, but its draws serve the backlogs */
  if (arrivals_open(rows, p->s, p->seed, p->row ? 0 : class_mask, e)) {
    free(rows);
    cursor->rows = NULL;
    return -1;
  }
  *source = (struct world_source){.ctx = cursor, .next = next_row, .refill = refill};
  return 0;
}

void plan_close(struct plan_cursor *cursor)
{
  if (cursor->rows)
    arrivals_close(cursor->rows);
  free(cursor->rows);
  cursor->rows = NULL;
}

const char *plan_digest(const struct plan *p)
{
  return p->digest;
}

uint64_t plan_rows(const struct plan *p)
{
  return p->n;
}
