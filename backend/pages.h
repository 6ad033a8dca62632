/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A pool of numbered pages of one size in one piece of memory, of a device or of the host. Which
 * pages are free is kept on a stack, so that the same calls give the same numbers; numbers never
 * show in what is computed. No lock: the owner has one.
 */
#ifndef BACKEND_PAGES_H
#define BACKEND_PAGES_H

#include "backend/ops.h"
#include "base/error.h"

struct page_pool {
  struct ops *ops; /* whose memory it is; NULL: the host's */
  char *base;      /* NULL: the memory is given back, and no page can be taken */
  size_t page_bytes;
  uint32_t pages, nfree;
  int32_t *stack; /* [nfree] free pages; the last is taken first */
  uint8_t *held;  /* [pages] 1: somebody has it */
};

/* All pages are free, the lowest is taken first. BASE_ENV without memory. */
int page_pool_open(struct page_pool *p, struct ops *ops, uint32_t pages, size_t page_bytes,
                   struct base_error *e);
void page_pool_close(struct page_pool *p);

/* n pages into page[], or -1 where fewer are free (nothing is taken then). */
int page_pool_take(struct page_pool *p, uint32_t n, int32_t *page);
/* Pages that were taken go back. */
void page_pool_give(struct page_pool *p, uint32_t n, const int32_t *page);

static inline void *page_pool_at(const struct page_pool *p, int32_t page)
{
  return p->base + (size_t)page * p->page_bytes;
}

/* Gives back the memory while all pages are free, and takes it again; what was in it is lost. Bytes
 * given back or taken, 0 if there was nothing to do; -1 with BASE_ENV without memory. */
int64_t page_pool_release(struct page_pool *p);
int64_t page_pool_reserve(struct page_pool *p, struct base_error *e);

#endif
