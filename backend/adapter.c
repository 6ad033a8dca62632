/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Adapters read from a folder, drawn, and written to one. */
#include "backend/adapter.h"

#include <stdlib.h>

#include "backend/adapter_layout.h"
#include "backend/draw.h"
#include "backend/store.h"

static const char weights_name[] = "adapter_model.safetensors";
static const char config_name[] = "adapter_config.json";
enum { CONFIG_MAX = 1 << 20 };

void adapter_shape(const struct config *c, int target, uint32_t *in, uint32_t *out)
{
  uint32_t q = c->q_heads * c->head_dim, kv = c->kv_heads * c->head_dim;
  *in = target == LORA_O ? q : target == LORA_DOWN ? c->intermediate : c->hidden;
  switch (target) {
  case LORA_Q:
    *out = q;
    break;
  case LORA_K:
  case LORA_V:
    *out = kv;
    break;
  case LORA_GATE:
  case LORA_UP:
    *out = c->intermediate;
    break;
  default:
    *out = c->hidden;
  }
}

void adapter_free(struct adapter *a)
{
  if (!a)
    return;
  store_free(a->owned);
  free(a->pair);
  free(a);
}

/* All pairs of the targets with their shapes, and no data. */
static struct adapter *outline(const struct config *base, const struct adapter_config *c, int dtype,
                               struct base_error *e)
{
  struct adapter *a = calloc(1, sizeof *a);
  struct adapter_pair *pair = calloc((size_t)base->layers * LORA_TARGETS, sizeof *pair);
  struct store *store = store_new(e);
  if (!a || !pair || !store) {
    base_fail_memory(e);
    store_free(store);
    free(pair);
    free(a);
    return NULL;
  }
  *a = (struct adapter){c->rank, base->layers, c->scale, pair, store};
  for (uint32_t i = 0; i < base->layers * LORA_TARGETS; i++) {
    uint32_t in, out;
    adapter_shape(base, (int)(i % LORA_TARGETS), &in, &out);
    if (c->targets & 1u << i % LORA_TARGETS)
      pair[i] = (struct adapter_pair){{dtype, c->rank, in, NULL}, {dtype, out, c->rank, NULL}};
  }
  return a;
}

/* Matrix 'A' or 'B' of pair i, as PEFT calls it. */
static const char *name_of(uint32_t i, char which, char name[ADAPTER_NAME])
{
  int target = (int)(i % LORA_TARGETS);
  snprintf(name, ADAPTER_NAME, "base_model.model.model.layers.%u.%s.%s.lora_%c.weight",
           i / LORA_TARGETS, target <= LORA_O ? "self_attn" : "mlp", adapter_module(target), which);
  return name;
}

/* ------------------------------------------------------------------------------------- read ----
 */

struct reader {
  struct adapter *a;
  char *path; /* of the weights */
  const struct safetensors *file;
  size_t taken;
  struct base_error *e;
};

/* One matrix. A rank other than the configuration's is told apart from another base. */
static int take(struct reader *r, uint32_t i, char which, struct tensor *t)
{
  char name[ADAPTER_NAME];
  const struct safetensors_tensor *from = safetensors_find(r->file, name_of(i, which, name));
  uint32_t side = which == 'A' ? 0 : 1;
  if (!from)
    return base_fail_at(r->e, BASE_INPUT, r->path, 0,
                        "tensor '%s' is missing: the adapter is of another base, or of other "
                        "targets than adapter_config.json says",
                        name);
  if (from->ndims == 2 && from->shape[side] != r->a->rank)
    return base_fail_at(r->e, BASE_INPUT, r->path, 0,
                        "tensor '%s' is of rank %llu, but adapter_config.json says %u", name,
                        (unsigned long long)from->shape[side], r->a->rank);
  uint64_t width = from->shape[1 - side], want = which == 'A' ? t->cols : t->rows;
  if (from->ndims == 2 && width != want)
    return base_fail_at(r->e, BASE_INPUT, r->path, 0,
                        "tensor '%s' is %llu wide, but the model needs %llu: the adapter is of "
                        "another base",
                        name, (unsigned long long)width, (unsigned long long)want);
  r->taken++;
  return store_take(r->a->owned, r->path, from, 0, t, r->e) || store_scan(r->path, name, t, r->e)
             ? -1
             : 0;
}

static int is_known(const struct adapter *a, const char *tensor)
{
  char name[ADAPTER_NAME];
  for (uint32_t i = 0; i < a->layers * LORA_TARGETS; i++)
    if (a->pair[i].a.data &&
        (!strcmp(tensor, name_of(i, 'A', name)) || !strcmp(tensor, name_of(i, 'B', name))))
      return 1;
  return 0;
}

/* A tensor that was not taken would be ignored. */
static int check_foreign(const struct reader *r)
{
  size_t i = 0;
  if (r->taken == r->file->n)
    return 0;
  while (i + 1 < r->file->n && is_known(r->a, r->file->tensor[i].name))
    i++;
  return base_fail_at(r->e, BASE_INPUT, r->path, 0,
                      "tensor '%.200s' has no place: the adapter is of another base, with more "
                      "than %u layers, or of other targets than adapter_config.json says",
                      r->file->tensor[i].name, r->a->layers);
}

static int read_pairs(struct reader *r, const char *folder)
{
  struct adapter *a = r->a;
  r->file = store_open(a->owned, folder, weights_name, r->e);
  if (!r->file)
    return -1;
  for (uint32_t i = 0; i < a->layers * LORA_TARGETS; i++)
    if (a->pair[i].a.rows && (take(r, i, 'A', &a->pair[i].a) || take(r, i, 'B', &a->pair[i].b)))
      return -1;
  return check_foreign(r);
}

static int read_config(const char *folder, struct adapter_config *c, struct base_error *e)
{
  size_t size;
  char *path = store_path(folder, config_name, e);
  char *text = path ? base_read_file(path, CONFIG_MAX, &size, e) : NULL;
  int bad = !text || adapter_config_parse(text, size, path, c, e);
  free(text);
  free(path);
  return bad;
}

struct adapter *adapter_open(const char *folder, const struct config *base, struct base_error *e)
{
  struct adapter_config c;
  struct reader r = {.e = e};
  if (read_config(folder, &c, e))
    return NULL;
  r.a = outline(base, &c, TENSOR_F32, e);
  r.path = r.a ? store_path(folder, weights_name, e) : NULL;
  int bad = !r.path || read_pairs(&r, folder);
  free(r.path);
  if (!bad)
    return r.a;
  adapter_free(r.a);
  return NULL;
}

/* ------------------------------------------------------------------------------------- draw ----
 */

struct adapter *adapter_random(const struct config *base, uint32_t rank, float alpha,
                               unsigned targets, uint64_t seed, int dtype, struct base_error *e)
{
  struct adapter_config c = {rank, (float)((double)alpha / rank), targets};
  struct adapter *a = outline(base, &c, dtype, e);
  for (uint32_t i = 0; a && i < a->layers * LORA_TARGETS; i++) {
    struct adapter_pair *p = &a->pair[i];
    char name[ADAPTER_NAME];
    if (!p->a.rows)
      continue;
    if (store_allocate(a->owned, &p->a, e) || store_allocate(a->owned, &p->b, e)) {
      adapter_free(a);
      return NULL;
    }
    draw_normal(seed, name_of(i, 'A', name), 0, (size_t)p->a.rows * p->a.cols, 1.0 / rank, dtype,
                (void *)p->a.data);
  }
  return a;
}

/* ------------------------------------------------------------------------------------ write ----
 */

/* The targets of the first layer, which must be those of all. */
static int common_targets(const struct adapter *a, unsigned *targets, struct base_error *e)
{
  *targets = 0;
  for (uint32_t i = 0; i < a->layers * LORA_TARGETS; i++) {
    unsigned bit = 1u << i % LORA_TARGETS;
    int there = a->pair[i].a.data != NULL;
    if (i < LORA_TARGETS)
      *targets |= there ? bit : 0;
    else if (there != ((*targets & bit) != 0))
      return base_fail(e, BASE_INPUT,
                       "an adapter whose layers have different targets cannot be written: layers "
                       "0 and %u differ in %s",
                       i / LORA_TARGETS, adapter_module((int)(i % LORA_TARGETS)));
  }
  return 0;
}

static int write_pairs(const struct adapter *a, const char *path, struct base_error *e)
{
  size_t most = 2 * (size_t)a->layers * LORA_TARGETS, n = 0;
  struct safetensors_tensor *t = calloc(most, sizeof *t);
  char(*name)[ADAPTER_NAME] = calloc(most, sizeof *name);
  struct safetensors_writer w;
  if (!t || !name) {
    free(name);
    free(t);
    return base_fail_memory(e);
  }
  for (uint32_t i = 0; i < a->layers * LORA_TARGETS; i++) {
    const struct adapter_pair *p = &a->pair[i];
    if (!p->a.data)
      continue;
    t[n] = store_entry(name_of(i, 'A', name[n]), 0, &p->a);
    t[n++].data = p->a.data;
    t[n] = store_entry(name_of(i, 'B', name[n]), 0, &p->b);
    t[n++].data = p->b.data;
  }
  int bad = safetensors_create(&w, path, t, n, e);
  if (!bad) {
    for (size_t i = 0; i < n && !bad; i++)
      bad = safetensors_put(&w, t[i].data, t[i].bytes, e);
    if (bad)
      safetensors_abandon(&w);
    else
      bad = safetensors_commit(&w, e);
  }
  free(name);
  free(t);
  return bad;
}

int adapter_write(const struct adapter *a, const char *folder, struct base_error *e)
{
  struct adapter_config c = {a->rank, a->scale, 0};
  char *data = store_path(folder, weights_name, e);
  char *config = data ? store_path(folder, config_name, e) : NULL;
  int bad = !config || common_targets(a, &c.targets, e) || store_make_folder(folder, e) ||
            write_pairs(a, data, e) || adapter_config_write(config, &c, e);
  free(config);
  free(data);
  return bad ? -1 : 0;
}
