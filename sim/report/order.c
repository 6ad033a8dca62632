/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/report/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct page {
  uint32_t ended;
  struct world_record record[ORDER_PAGE];
};

/* Where a page is. Neither in memory nor away: none of it has ended. */
struct slot {
  struct page *page; /* owned */
  off_t away;        /* place in the temporary file, in pages from 1; 0: not there */
};

/* Slots head ... n-1 are those of pages first ... */
struct order {
  order_take *take;
  void *ctx;
  struct slot *slot;
  size_t head, n, cap;
  uint64_t first;
  struct page *spare; /* kept, or NULL */
  unsigned waiting;   /* whole pages in memory */
  FILE *away;         /* NULL until it is needed */
  off_t away_end;     /* pages written to it */
  size_t away_pages;  /* of them, those still to leave */
};

struct order *order_new(order_take *take, void *ctx)
{
  struct order *o = calloc(1, sizeof *o);
  if (o)
    *o = (struct order){.take = take, .ctx = ctx};
  return o;
}

static struct page *page_new(struct order *o)
{
  struct page *p = o->spare ? o->spare : malloc(sizeof *p);
  o->spare = NULL;
  if (p)
    p->ended = 0;
  return p;
}

static void page_free(struct order *o, struct page *p)
{
  free(o->spare);
  o->spare = p;
}

/* Slots up to that of page `index` are there. */
static int reach(struct order *o, uint64_t index, struct base_error *e)
{
  size_t want = (size_t)(index - o->first) + 1; /* slots in use */
  if (want <= o->n - o->head)
    return 0;
  if (o->head)
    memmove(o->slot, o->slot + o->head, (o->n - o->head) * sizeof *o->slot);
  o->n -= o->head;
  o->head = 0;
  if (want > o->cap) {
    size_t cap = want < 32 ? 64 : 2 * want;
    struct slot *more = realloc(o->slot, cap * sizeof *more);
    if (!more)
      return base_fail_memory(e);
    o->slot = more;
    o->cap = cap;
  }
  memset(o->slot + o->n, 0, (want - o->n) * sizeof *o->slot);
  o->n = want;
  return 0;
}

/* Moves a whole page to the temporary file. */
static int send_away(struct order *o, struct slot *s, struct base_error *e)
{
  if (!o->away)
    o->away = tmpfile();
  if (!o->away || fseeko(o->away, o->away_end * (off_t)sizeof *s->page, SEEK_SET) ||
      fwrite(s->page, sizeof *s->page, 1, o->away) != 1)
    return base_fail_errno(e, "requests that wait for an older one could not be kept in a "
                              "temporary file");
  s->away = ++o->away_end;
  o->away_pages++;
  page_free(o, s->page);
  s->page = NULL;
  return 0;
}

/* Brings a page back. Its place is used again only when the file has no page left: nothing is kept
 * of what is free, and stragglers are few. */
static int bring_back(struct order *o, struct slot *s, struct base_error *e)
{
  struct page *p = page_new(o);
  if (!p)
    return base_fail_memory(e);
  if (fseeko(o->away, (s->away - 1) * (off_t)sizeof *p, SEEK_SET) ||
      fread(p, sizeof *p, 1, o->away) != 1) {
    page_free(o, p);
    return base_fail_errno(e, "requests could not be read back from a temporary file");
  }
  s->page = p;
  s->away = 0;
  if (!--o->away_pages)
    o->away_end = 0;
  return 0;
}

/* The first page, with its first n records, leaves. */
static int leave(struct order *o, size_t n, struct base_error *e)
{
  struct slot *s = &o->slot[o->head++];
  int rc = o->take(o->ctx, o->first++ * ORDER_PAGE, s->page->record, n, e);
  page_free(o, s->page);
  s->page = NULL;
  return rc;
}

/* The first page has become whole: it leaves, and so do those that waited for it. */
static int leave_whole(struct order *o, struct base_error *e)
{
  int rc = leave(o, ORDER_PAGE, e);
  while (!rc && o->head < o->n) {
    struct slot *s = &o->slot[o->head];
    if (s->away)
      rc = bring_back(o, s, e);
    else if (s->page && s->page->ended == ORDER_PAGE)
      o->waiting--;
    else
      break;
    rc = rc ? rc : leave(o, ORDER_PAGE, e);
  }
  return rc;
}

int order_put(struct order *o, lull_id id, const struct world_record *r, struct base_error *e)
{
  uint64_t index = (uint64_t)id / ORDER_PAGE;
  if (reach(o, index, e))
    return -1;
  size_t at = o->head + (size_t)(index - o->first);
  struct slot *s = &o->slot[at];
  if (!s->page && !(s->page = page_new(o)))
    return base_fail_memory(e);
  s->page->record[(uint64_t)id % ORDER_PAGE] = *r;
  if (++s->page->ended < ORDER_PAGE)
    return 0;
  if (at == o->head)
    return leave_whole(o, e);
  if (o->waiting == ORDER_WAITING)
    return send_away(o, s, e);
  o->waiting++;
  return 0;
}

/* Empty, ready for ids from 0. */
static void clear(struct order *o)
{
  for (size_t i = o->head; i < o->n; i++)
    if (o->slot[i].page)
      page_free(o, o->slot[i].page);
  o->head = o->n = 0;
  o->first = 0;
  o->waiting = 0;
  o->away_end = 0;
  o->away_pages = 0;
}

/* At a run's end only the last page can be less than whole. */
int order_finish(struct order *o, uint64_t total, int failed, struct base_error *e)
{
  uint64_t left = total - o->first * ORDER_PAGE;
  int rc = 0;
  if (!failed && left) {
    const struct page *p = o->head < o->n ? o->slot[o->head].page : NULL;
    if (!p || p->ended != left)
      rc = base_fail(e, BASE_INVARIANT, "request %llu or a later one has no record at the end",
                     (unsigned long long)(o->first * ORDER_PAGE));
    else
      rc = leave(o, (size_t)left, e);
  }
  clear(o);
  return rc;
}

void order_free(struct order *o)
{
  if (!o)
    return;
  clear(o);
  free(o->slot);
  free(o->spare);
  if (o->away)
    fclose(o->away);
  free(o);
}
