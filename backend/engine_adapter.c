/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Versions of adapters in the backend's memory. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "backend/engine_inner.h"

enum { ALIGN = 64 };

static const char *const target_name[LORA_TARGETS] = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                      "gate_proj", "up_proj", "down_proj"};

static void version_free(struct engine *en, struct adapter_version *v)
{
  if (v->memory)
    en->ops->table->free(en->ops, v->memory);
  free(v->adapter.pair);
  free(v);
}

void adapter_version_leave(struct engine *en, struct adapter_version *v)
{
  if (!v)
    return;
  assert(v->users > 0);
  if (--v->users == 0)
    version_free(en, v);
}

/* ---------------------------------------------------------------------------------- load ---- */

static int check_pair(const struct config *c, const struct adapter *a, uint32_t layer, int target,
                      struct base_error *e)
{
  const struct adapter_pair *p = &a->pair[layer * LORA_TARGETS + (uint32_t)target];
  uint32_t in, out;
  if (!p->a.data && !p->b.data)
    return 0;
  adapter_shape(c, target, &in, &out);
  if (p->a.data && p->b.data && p->a.rows == a->rank && p->b.cols == a->rank && p->a.cols == in &&
      p->b.rows == out)
    return 0;
  return base_fail(
      e, BASE_INPUT,
      "the adapter is of another base: layer %" PRIu32 " %s takes %" PRIu32 " to %" PRIu32
      " by rank %" PRIu32 ", it has %" PRIu32 " to %" PRIu32 " by %" PRIu32 " and %" PRIu32,
      layer, target_name[target], in, out, a->rank, p->a.cols, p->b.rows, p->a.rows, p->b.cols);
}

static int check_adapter(const struct config *c, const struct adapter *a, struct base_error *e)
{
  if (a->layers != c->layers)
    return base_fail(e, BASE_INPUT,
                     "the adapter is of another base: it has %" PRIu32
                     " layers, the model %" PRIu32,
                     a->layers, c->layers);
  for (uint32_t l = 0; l < a->layers; l++)
    for (int t = 0; t < LORA_TARGETS; t++)
      if (check_pair(c, a, l, t, e))
        return -1;
  return 0;
}

/* Bytes of a tensor as the backend has it: in its dtype, padded. */
static size_t held_bytes(const struct engine *en, const struct tensor *t)
{
  size_t bytes = (size_t)t->rows * t->cols * tensor_dtype_bytes(en->ops->dtype);
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void convert(const struct tensor *from, int dtype, void *to)
{
  size_t n = (size_t)from->rows * from->cols;
  for (size_t i = 0; i < n; i++)
    if (dtype == TENSOR_BF16)
      ((uint16_t *)to)[i] = bf16_from_f32(tensor_get(from, i));
    else
      ((float *)to)[i] = tensor_get(from, i);
}

/* Copies a tensor to `to`, through `host`, in the dtype that the backend computes in. */
static struct tensor place(struct engine *en, const struct tensor *from, void *to, void *host)
{
  struct tensor t = {en->ops->dtype, from->rows, from->cols, to};
  convert(from, t.dtype, host);
  en->ops->table->copy(en->ops, to, host, tensor_bytes(&t));
  return t;
}

/* Bytes of all tensors, and of the largest. */
static size_t measure(const struct engine *en, const struct adapter *a, size_t *largest)
{
  size_t bytes = 0;
  *largest = ALIGN;
  for (uint32_t i = 0; i < a->layers * LORA_TARGETS; i++)
    for (int b = 0; b < 2; b++) {
      const struct tensor *t = b ? &a->pair[i].b : &a->pair[i].a;
      size_t size = t->data ? held_bytes(en, t) : 0;
      bytes += size;
      if (size > *largest)
        *largest = size;
    }
  return bytes + ALIGN;
}

int64_t engine_adapter_bytes(const struct engine *en, const struct adapter *a)
{
  size_t largest;
  return (int64_t)measure(en, a, &largest);
}

static void place_all(struct engine *en, const struct adapter *a, struct adapter_version *v,
                      void *host)
{
  char *at = v->memory;
  for (uint32_t i = 0; i < a->layers * LORA_TARGETS; i++) {
    const struct adapter_pair *from = &a->pair[i];
    struct adapter_pair *to = &v->adapter.pair[i];
    if (!from->a.data)
      continue;
    to->a = place(en, &from->a, at, host);
    at += held_bytes(en, &from->a);
    to->b = place(en, &from->b, at, host);
    at += held_bytes(en, &from->b);
  }
}

/* A copy without users. */
static struct adapter_version *make_version(struct engine *en, const struct adapter *a,
                                            struct base_error *e)
{
  size_t largest;
  struct adapter_version *v = calloc(1, sizeof *v);
  if (!v) {
    base_fail_memory(e);
    return NULL;
  }
  v->adapter = (struct adapter){.rank = a->rank, .layers = a->layers, .scale = a->scale};
  v->adapter.pair = calloc((size_t)a->layers * LORA_TARGETS + 1, sizeof *v->adapter.pair);
  v->bytes = measure(en, a, &largest);
  v->memory = en->ops->table->alloc(en->ops, v->bytes);
  void *host = malloc(largest);
  if (!v->adapter.pair || !v->memory || !host) {
    base_fail(e, BASE_ENV, "no memory for an adapter of %zu bytes", v->bytes);
    free(host);
    version_free(en, v);
    return NULL;
  }
  place_all(en, a, v, host);
  free(host);
  return v;
}

/* What a slot holds, from now on; `v` may be NULL. */
static void fill_slot(struct engine *en, int slot, struct adapter_version *v)
{
  engine_lock(en);
  struct adapter_version *old = en->slot[slot];
  if (v) {
    v->serial = ++en->loads;
    v->users = 1;
  }
  en->slot[slot] = v;
  adapter_version_leave(en, old);
  engine_unlock(en);
}

int engine_adapter_load(struct engine *en, int slot, const struct adapter *a, struct base_error *e)
{
  if (slot < 0 || (uint32_t)slot >= en->o.adapters)
    return base_fail(e, BASE_ENV, "there is no adapter slot %d; there are %" PRIu32, slot,
                     en->o.adapters);
  if (check_adapter(&en->w->config, a, e))
    return -1;
  struct adapter_version *v = make_version(en, a, e);
  if (!v)
    return -1;
  fill_slot(en, slot, v);
  return 0;
}

void engine_adapter_drop(struct engine *en, int slot)
{
  if (slot >= 0 && (uint32_t)slot < en->o.adapters)
    fill_slot(en, slot, NULL);
}
