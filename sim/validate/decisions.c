/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/validate/decisions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const verb[] = {
    [WORLD_LOG_CHUNK] = "chunk", [WORLD_LOG_PREEMPT] = "preempt", [WORLD_LOG_RESUME] = "resume",
    [WORLD_LOG_ROUTE] = "route", [WORLD_LOG_REJECT] = "reject",   [WORLD_LOG_FORCED] = "forced",
    [WORLD_LOG_TRAIN] = "train"};
enum { VERBS = sizeof verb / sizeof verb[0] };

void decisions_add(struct decisions *d, const struct world_log_line *l)
{
  if (l->kind >= VERBS || !verb[l->kind] || d->no_memory)
    return;
  if (!(d->n & (d->n - 1)) && d->n != 1) { /* room is a power of two, at least 2 */
    void *more = realloc(d->item, (d->n ? 2 * d->n : 2) * sizeof *d->item);
    if (!more) {
      d->no_memory = 1;
      return;
    }
    d->item = more;
  }
  d->item[d->n++] = (struct decision){l->kind, l->server, (uint64_t)l->a, l->b, l->time};
}

void decisions_free(struct decisions *d)
{
  free(d->item);
  *d = (struct decisions){0};
}

static int by_id(const void *pa, const void *pb)
{
  const struct tap_request *a = pa, *b = pb;
  return a->id < b->id ? -1 : a->id > b->id;
}

int decisions_name(struct decisions *d, const struct tap *t, struct base_error *e)
{
  struct tap_request *known = malloc((t->nrequests + 1) * sizeof *known);
  if (!known || d->no_memory || t->no_memory) {
    free(known);
    return base_fail_memory(e);
  }
  if (t->nrequests)
    memcpy(known, t->request, t->nrequests * sizeof *known);
  qsort(known, t->nrequests, sizeof *known, by_id);
  for (size_t i = 0; i < d->n; i++) {
    struct decision *x = &d->item[i];
    const struct tap_request key = {.id = (lull_id)x->key};
    if (x->kind == WORLD_LOG_TRAIN)
      continue;
    const struct tap_request *r = bsearch(&key, known, t->nrequests, sizeof key, by_id);
    x->key = r ? r->key : DECISION_UNTOLD | (uint64_t)x->key;
  }
  free(known);
  return 0;
}

static int order(const struct decision *a, const struct decision *b)
{
  const int64_t x[] = {a->kind, a->server, (int64_t)a->key, a->value};
  const int64_t y[] = {b->kind, b->server, (int64_t)b->key, b->value};
  for (int i = 0; i < 4; i++)
    if (x[i] != y[i])
      return x[i] < y[i] ? -1 : 1;
  return 0;
}

static int order_any(const void *a, const void *b)
{
  return order(a, b);
}

/* Of two bags, sorted: how many are in both, and in one alone. */
static void match(const struct decision *a, size_t na, const struct decision *b, size_t nb,
                  struct decisions_compared *out)
{
  size_t i = 0, j = 0;
  while (i < na && j < nb) {
    int c = order(&a[i], &b[j]);
    out->moved += !c;
    out->alone[0] += c < 0;
    out->alone[1] += c > 0;
    i += c <= 0;
    j += c >= 0;
  }
  out->alone[0] += na - i;
  out->alone[1] += nb - j;
}

/* A sorted copy of all from `from` on; NULL: out of memory. */
static struct decision *rest_of(const struct decisions *d, size_t from)
{
  struct decision *rest = malloc((d->n - from + 1) * sizeof *rest);
  if (rest && d->n > from) {
    memcpy(rest, d->item + from, (d->n - from) * sizeof *rest);
    qsort(rest, d->n - from, sizeof *rest, order_any);
  }
  return rest;
}

int decisions_compare(const struct decisions *a, const struct decisions *b,
                      struct decisions_compared *out, struct base_error *e)
{
  size_t k = 0, least = a->n < b->n ? a->n : b->n;
  *out = (struct decisions_compared){.n = {a->n, b->n}};
  while (k < least && !order(&a->item[k], &b->item[k]))
    k++;
  out->agreed = k;
  out->differ = k < a->n || k < b->n;
  out->first[0] = k < a->n ? a->item[k] : (struct decision){.kind = -1};
  out->first[1] = k < b->n ? b->item[k] : (struct decision){.kind = -1};
  struct decision *x = rest_of(a, k), *y = rest_of(b, k);
  if (x && y)
    match(x, a->n - k, y, b->n - k, out);
  int bad = x && y ? 0 : base_fail_memory(e);
  free(x);
  free(y);
  return bad;
}

void decision_text(const struct decision *d, const struct scenario *s, char *buf, size_t size)
{
  char who[96];
  uint32_t c = (uint32_t)(d->key >> 32) & 0x7fffffff;
  if (d->kind < 0) {
    snprintf(buf, size, "no more");
    return;
  }
  if (d->kind == WORLD_LOG_TRAIN || d->key & DECISION_UNTOLD || c >= s->nclasses)
    snprintf(who, sizeof who, "%lld", (long long)(d->key & ~DECISION_UNTOLD));
  else
    snprintf(who, sizeof who, "%.60s %lld", s->cls[c].id, (long long)(d->key & 0xffffffff));
  snprintf(buf, size, "%s %s, %lld, server %d", verb[d->kind], who, (long long)d->value, d->server);
}
