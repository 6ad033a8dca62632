/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Ids are kept as 128-bit hashes, 24 bytes an id whatever its length: two of ten million different
 * ids fall together with a chance of 10^-25. The hash is XXH3, the same on every machine.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "models/trace_reader.h"

struct trace_id {
  XXH128_hash_t hash;
  uint64_t line; /* 0: the slot is free */
};

/* The slot of a hash, or the free one where it belongs. */
static struct trace_id *find_slot(struct trace_id *slot, size_t slots, XXH128_hash_t hash)
{
  size_t i = hash.low64 & (slots - 1);
  while (slot[i].line && !XXH128_isEqual(slot[i].hash, hash))
    i = (i + 1) & (slots - 1);
  return &slot[i];
}

/* Doubles the table, or makes the first one; always a power of two. */
static int grow(struct trace_ids *ids, struct base_error *e)
{
  size_t slots = ids->slots ? ids->slots * 2 : 1024;
  struct trace_id *slot = calloc(slots, sizeof *slot);
  if (!slot)
    return base_fail_memory(e);
  for (size_t i = 0; i < ids->slots; i++)
    if (ids->slot[i].line)
      *find_slot(slot, slots, ids->slot[i].hash) = ids->slot[i];
  free(ids->slot);
  ids->slot = slot;
  ids->slots = slots;
  return 0;
}

int64_t trace_ids_add(struct trace_ids *ids, const char *id, uint64_t line, struct base_error *e)
{
  if (ids->used >= ids->slots / 4 * 3 && grow(ids, e))
    return -1;
  XXH128_hash_t hash = XXH3_128bits(id, strlen(id));
  struct trace_id *slot = find_slot(ids->slot, ids->slots, hash);
  if (slot->line)
    return (int64_t)slot->line;
  slot->hash = hash;
  slot->line = line;
  ids->used++;
  return 0;
}

void trace_ids_free(struct trace_ids *ids)
{
  free(ids->slot);
  *ids = (struct trace_ids){0};
}
