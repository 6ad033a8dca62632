/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "backend/pages.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

enum { ALIGN = 64 };

static size_t pool_bytes(const struct page_pool *p)
{
  return (size_t)p->pages * p->page_bytes;
}

static void *take_memory(struct ops *ops, size_t bytes)
{
  if (ops)
    return ops->table->alloc(ops, bytes);
  return aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
}

int64_t page_pool_reserve(struct page_pool *p, struct base_error *e)
{
  size_t bytes;
  if (p->base || !p->pages)
    return 0;
  if (__builtin_mul_overflow(p->pages, p->page_bytes, &bytes) || bytes > INT64_MAX / 2)
    return base_fail(e, BASE_ENV, "%" PRIu32 " pages of %zu bytes are more than any memory",
                     p->pages, p->page_bytes);
  p->base = take_memory(p->ops, bytes);
  if (!p->base)
    return base_fail(e, BASE_ENV,
                     "no memory for %" PRIu32 " pages of %zu bytes (%zu bytes); ask for fewer",
                     p->pages, p->page_bytes, bytes);
  return (int64_t)bytes;
}

int64_t page_pool_release(struct page_pool *p)
{
  assert(p->nfree == p->pages);
  if (!p->base)
    return 0;
  if (p->ops)
    p->ops->table->free(p->ops, p->base);
  else
    free(p->base);
  p->base = NULL;
  return (int64_t)pool_bytes(p);
}

int page_pool_open(struct page_pool *p, struct ops *ops, uint32_t pages, size_t page_bytes,
                   struct base_error *e)
{
  *p = (struct page_pool){.ops = ops, .page_bytes = page_bytes, .pages = pages, .nfree = pages};
  p->stack = malloc(pages * sizeof *p->stack + 1);
  p->held = calloc((size_t)pages + 1, 1);
  if (!p->stack || !p->held) {
    base_fail_memory(e);
    goto close;
  }
  if (page_pool_reserve(p, e) < 0) /* before the list, which is large where the pages are many */
    goto close;
  for (uint32_t i = 0; i < pages; i++)
    p->stack[i] = (int32_t)(pages - 1 - i);
  return 0;
close:
  page_pool_close(p);
  return -1;
}

void page_pool_close(struct page_pool *p)
{
  if (p->base)
    page_pool_release(p);
  free(p->stack);
  free(p->held);
  *p = (struct page_pool){0};
}

int page_pool_take(struct page_pool *p, uint32_t n, int32_t *page)
{
  if (n > p->nfree || (n && !p->base))
    return -1;
  for (uint32_t i = 0; i < n; i++) {
    page[i] = p->stack[--p->nfree];
    assert(!p->held[page[i]]);
    p->held[page[i]] = 1;
  }
  return 0;
}

void page_pool_give(struct page_pool *p, uint32_t n, const int32_t *page)
{
  for (uint32_t i = n; i-- > 0;) {
    assert(page[i] >= 0 && (uint32_t)page[i] < p->pages && p->held[page[i]]);
    assert(p->nfree < p->pages);
    p->held[page[i]] = 0;
    p->stack[p->nfree++] = page[i];
  }
}
