/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pages between device and host, one sequence at a time or all memory at once. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "backend/engine_inner.h"

/* With the lock held: the pages to copy to, in page[]; then the sequence is MOVING. */
static struct sequence *begin_move(struct engine *en, int32_t seq, int to_host, int32_t **page,
                                   struct base_error *e)
{
  struct sequence *s = engine_find_idle(en, seq, e);
  struct page_pool *to = engine_pool(en, to_host);
  if (!s)
    return NULL;
  if (s->on_host == to_host) {
    base_fail(e, BASE_INPUT, "sequence %" PRId32 " is %s already", seq,
              to_host ? "swapped out" : "on the device");
    return NULL;
  }
  if (s->npages && !to->base && !to_host) {
    base_fail(e, BASE_INPUT, "the engine sleeps; wake it first");
    return NULL;
  }
  *page = malloc(s->npages * sizeof **page + 1);
  if (!*page) {
    base_fail_memory(e);
    return NULL;
  }
  if (page_pool_take(to, s->npages, *page)) {
    base_fail(e, BASE_ENV,
              "sequence %" PRId32 " has %" PRIu32 " pages; %" PRIu32 " of %" PRIu32
              " are free on the %s",
              seq, s->npages, to->nfree, to->pages, to_host ? "host" : "device");
    free(*page);
    return NULL;
  }
  s->use = MOVING;
  return s;
}

static void end_move(struct engine *en, struct sequence *s, int to_host, const int32_t *page)
{
  page_pool_give(engine_pool(en, s->on_host), s->npages, s->page);
  memcpy(s->page, page, s->npages * sizeof *page);
  s->on_host = to_host;
  s->use = FREE;
}

/* The copies run without the lock: nobody else touches the sequence, nor the pages taken for it. */
static int move(struct engine *en, int32_t seq, int to_host, struct base_error *e)
{
  const struct page_pool *from = engine_pool(en, !to_host), *to = engine_pool(en, to_host);
  int32_t *page = NULL;
  engine_lock(en);
  struct sequence *s = begin_move(en, seq, to_host, &page, e);
  engine_unlock(en);
  if (!s)
    return -1;
  for (uint32_t i = 0; i < s->npages; i++)
    en->ops->table->copy(en->ops, page_pool_at(to, page[i]), page_pool_at(from, s->page[i]),
                         to->page_bytes);
  engine_lock(en);
  end_move(en, s, to_host, page);
  engine_unlock(en);
  free(page);
  return 0;
}

int engine_swap_out(struct engine *en, int32_t seq, struct base_error *e)
{
  return move(en, seq, 1, e);
}

int engine_swap_in(struct engine *en, int32_t seq, struct base_error *e)
{
  return move(en, seq, 0, e);
}

/* --------------------------------------------------------------------------------- sleep ---- */

int64_t engine_sleep(struct engine *en, int level, struct base_error *e)
{
  int64_t bytes = -1;
  if (level != 1 && level != 2)
    return base_fail(e, BASE_INPUT, "sleep of level %d; there are 1 and 2", level);
  engine_lock(en);
  if (en->device.nfree < en->device.pages)
    base_fail(e, BASE_INPUT,
              "%" PRIu32 " pages are in use; drop, evict or swap out their sequences before sleep",
              en->device.pages - en->device.nfree);
  else
    bytes = page_pool_release(&en->device);
  engine_unlock(en);
  return bytes;
}

int64_t engine_wake(struct engine *en, struct base_error *e)
{
  engine_lock(en);
  int64_t bytes = page_pool_reserve(&en->device, e);
  engine_unlock(en);
  return bytes;
}
