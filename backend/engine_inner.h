/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the files engine*.c share. Functions here are called with the lock held, unless said. */
#ifndef BACKEND_ENGINE_INNER_H
#define BACKEND_ENGINE_INNER_H

#include <pthread.h>

#define HASH_NONFATAL_OOM 1 /* an element that could not be added has no hh.tbl */
#include <uthash.h>

#include "backend/engine.h"
#include "backend/model.h"
#include "backend/pages.h"

/* A copy of an adapter in the backend's memory. Lives while a slot or a sequence holds it. */
struct adapter_version {
  struct adapter adapter;
  void *memory;    /* of the backend: all its tensors */
  size_t bytes;    /* of memory */
  uint64_t serial; /* of the load, from 1 */
  uint32_t users;
};

/* What holds a sequence now; nobody else may touch it then. */
enum engine_use { FREE, STEPPING, MOVING };

struct sequence {
  UT_hash_handle hh;
  int32_t seq;                   /* the caller's number; the key */
  uint32_t prompt, known, limit; /* tokens: of the prompt, in token[], in it at most */
  uint32_t kv;                   /* tokens whose keys and values are in the pages */
  uint32_t npages;
  int on_host; /* the pages are the host pool's */
  int use;     /* enum engine_use */
  struct ops_sample how;
  struct adapter_version *adapter; /* NULL: none */
  int32_t *token;                  /* [limit]; does not move */
  int32_t *page;                   /* [npages], room for limit tokens */
};

/* A sequence's part of a step. */
struct entry {
  struct sequence *s;
  uint32_t start, tokens;
  uint32_t index; /* in the caller's arrays: chunks, then rows */
  uint32_t fresh; /* pages taken for it */
};

/* Arrays of a step, for max_tokens rows. */
struct engine_work {
  struct entry *entry;
  int32_t *token;
  uint32_t *position;
  struct ops_seq *seq;
  struct model_lora *lora;
  uint32_t *sampled;
  struct ops_sample *how;
  int32_t *out;
  float *logprob;
};

struct engine {
  const struct weights *w;
  struct ops *ops;
  struct engine_options o;
  struct model *model; /* the stepping thread's, with work */
  struct engine_work work;
  pthread_mutex_t lock; /* guards all below */
  struct page_pool device, host;
  struct sequence *sequences;    /* hash by seq */
  struct adapter_version **slot; /* [o.adapters] */
  uint64_t loads;
};

void engine_lock(const struct engine *en);
void engine_unlock(const struct engine *en);

struct sequence *engine_find(const struct engine *en, int32_t seq);
/* The same; says which there is not, or that it is in use, with BASE_INPUT. */
struct sequence *engine_find_idle(const struct engine *en, int32_t seq, struct base_error *e);
static inline struct page_pool *engine_pool(struct engine *en, int on_host)
{
  return on_host ? &en->host : &en->device;
}
static inline uint32_t engine_pages(const struct engine *en, uint32_t tokens)
{
  return tokens / en->o.block_tokens + (tokens % en->o.block_tokens != 0);
}

/* Frees it when it was the last user; NULL is fine. */
void adapter_version_leave(struct engine *en, struct adapter_version *v);

#endif
