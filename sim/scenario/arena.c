/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/scenario/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_CHUNK = 1 << 16, ARENA_ALIGN = 16 };

struct arena_chunk {
  struct arena_chunk *next;
  size_t used, size;
  _Alignas(ARENA_ALIGN) unsigned char data[];
};

/* A zeroed chunk with room for `need` bytes at least, in front of the list. */
static struct arena_chunk *grow(struct arena *a, size_t need)
{
  size_t size = need > ARENA_CHUNK ? need : ARENA_CHUNK;
  struct arena_chunk *c = size > SIZE_MAX / 2 ? NULL : calloc(1, sizeof *c + size);
  if (!c)
    return NULL;
  c->size = size;
  c->next = a->chunk;
  a->chunk = c;
  return c;
}

void *arena_alloc(struct arena *a, size_t count, size_t size)
{
  struct arena_chunk *c = a->chunk;
  size_t need;
  if (__builtin_mul_overflow(count, size, &need) ||
      __builtin_add_overflow(need, ARENA_ALIGN - 1, &need)) {
    a->failed = 1;
    return NULL;
  }
  need &= ~(size_t)(ARENA_ALIGN - 1);
  if (!c || c->size - c->used < need)
    c = grow(a, need);
  if (!c) {
    a->failed = 1;
    return NULL;
  }
  void *p = c->data + c->used;
  c->used += need;
  return p;
}

const char *arena_text(struct arena *a, const char *text)
{
  size_t n = strlen(text) + 1;
  char *copy = arena_alloc(a, n, 1);
  return copy ? memcpy(copy, text, n) : "";
}

const char *arena_format(struct arena *a, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  char *text = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1, 1);
  if (!text) {
    a->failed = 1;
    return "";
  }
  va_start(ap, fmt);
  vsnprintf(text, (size_t)n + 1, fmt, ap);
  va_end(ap);
  return text;
}

void arena_free(struct arena *a)
{
  for (struct arena_chunk *c = a->chunk, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  *a = (struct arena){0};
}
