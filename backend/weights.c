/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Weights read from a folder, copied, and written to one. */
#include "backend/weights.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/fields.h"
#include "backend/store.h"
#include "backend/weights_roles.h"

static const char whole_name[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";

void weights_free(struct weights *w)
{
  if (!w)
    return;
  store_free(w->owned);
  free(w->layer);
  free(w);
}

/* An outline with an empty store. */
static struct weights *new_weights(const struct config *c, int dtype, struct base_error *e)
{
  struct weights *w = weights_outline(c, dtype, e);
  if (!w)
    return NULL;
  w->owned = store_new(e);
  if (w->owned)
    return w;
  weights_free(w);
  return NULL;
}

static void tie(struct weights *w)
{
  if (w->config.tied)
    w->head = w->embed;
}

/* ----------------------------------------------------------------------------------- files ---- */

/* One file of a checkpoint. */
struct shard {
  const char *name; /* in the folder */
  const struct safetensors *file;
};

struct source {
  const char *folder;
  json_t *map; /* tensor to file name; NULL: all is in one file */
  struct shard *shard;
  size_t nshards;
  struct weights *w;
  int scan;
  size_t taken;
  struct base_error *e;
};

static struct shard *find_shard(struct source *s, const char *name)
{
  for (size_t i = 0; i < s->nshards; i++)
    if (!strcmp(s->shard[i].name, name))
      return &s->shard[i];
  return NULL;
}

static int add_shard(struct source *s, const char *name)
{
  struct shard *more = realloc(s->shard, (s->nshards + 1) * sizeof *more);
  if (!more)
    return base_fail_memory(s->e);
  s->shard = more;
  const struct safetensors *f = store_open(s->w->owned, s->folder, name, s->e);
  if (!f)
    return -1;
  s->shard[s->nshards++] = (struct shard){name, f};
  return 0;
}

/* Opens every file that the index names. A name must not lead out of the folder. */
static int open_shards(struct source *s, const char *index)
{
  const char *tensor;
  json_t *value;
  json_object_foreach(s->map, tensor, value)
  {
    const char *name = json_string_value(value);
    if (!name || !*name || strchr(name, '/') || !strcmp(name, "..") || !fields_is_plain(name))
      return base_fail_at(s->e, BASE_INPUT, index, 0,
                          "weight_map: the file of '%.100s' must be a name without '/'",
                          fields_is_plain(tensor) ? tensor : "?");
    if (!find_shard(s, name) && add_shard(s, name))
      return -1;
  }
  return 0;
}

static int read_index(struct source *s, const char *index)
{
  json_t *root = fields_read(index, s->e);
  s->map = json_incref(json_object_get(root, "weight_map"));
  json_decref(root);
  if (!root)
    return -1;
  if (!json_is_object(s->map))
    return base_fail_at(s->e, BASE_INPUT, index, 0,
                        "'weight_map' must be an object of tensors and their files");
  return open_shards(s, index);
}

/* One file if it is there, else the index. */
static int open_files(struct source *s)
{
  char *whole = store_path(s->folder, whole_name, s->e);
  char *index = whole ? store_path(s->folder, index_name, s->e) : NULL;
  int bad = !index;
  if (!bad && (!access(whole, F_OK) || access(index, F_OK)))
    bad = add_shard(s, whole_name);
  else if (!bad)
    bad = read_index(s, index);
  free(index);
  free(whole);
  return bad;
}

/* ---------------------------------------------------------------------------------- tensors ----
 */

/* Linear layers and the embedding are all of the type that the configuration tells. */
static int check_dtype(const struct source *s, const char *file,
                       const struct safetensors_tensor *from, const struct weights_item *item)
{
  static const char *const name[] = {"float32", "bfloat16"};
  if (item->kind != WEIGHTS_LINEAR || item->tensor->dtype == s->w->dtype)
    return 0;
  return base_fail_at(s->e, BASE_INPUT, file, 0, "tensor '%s' is of %s, but config.json says %s",
                      item->name, from->type, name[s->w->dtype]);
}

static int take_item(void *ctx, const struct weights_item *item)
{
  struct source *s = ctx;
  const char *name = s->map ? json_string_value(json_object_get(s->map, item->name)) : whole_name;
  const struct shard *shard = name ? find_shard(s, name) : NULL;
  const struct safetensors_tensor *from = shard ? safetensors_find(shard->file, item->name) : NULL;
  if (!from)
    return base_fail_at(s->e, BASE_INPUT, s->folder, 0, "tensor '%s' is missing%s%s", item->name,
                        name ? " in " : " in the index", name ? name : "");
  char *path = store_path(s->folder, name, s->e);
  int bad = !path ||
            store_take(s->w->owned, path, from, item->kind != WEIGHTS_LINEAR, item->tensor, s->e) ||
            check_dtype(s, path, from, item) ||
            (s->scan && store_scan(path, item->name, item->tensor, s->e));
  free(path);
  s->taken++;
  return bad ? -1 : 0;
}

/* Tensors that do not belong to the weights: a second copy of a tied head, and the frequencies of
 * RoPE, which some old files have. */
static int is_spare(const struct config *c, const char *name)
{
  static const char frequencies[] = ".rotary_emb.inv_freq";
  size_t n = strlen(name), k = sizeof frequencies - 1;
  return (c->tied && !strcmp(name, "lm_head.weight")) ||
         (n > k && !strcmp(name + n - k, frequencies));
}

struct seen {
  const char *name;
  int found;
};

static int is_it(void *ctx, const char *name, struct tensor *t)
{
  struct seen *s = ctx;
  (void)t;
  return s->found = !strcmp(s->name, name);
}

/* The first tensor without a role. */
static int fail_foreign(struct source *s)
{
  for (size_t i = 0; i < s->nshards; i++) {
    const struct safetensors *f = s->shard[i].file;
    for (size_t k = 0; k < f->n; k++) {
      struct seen seen = {f->tensor[k].name, 0};
      if (is_spare(&s->w->config, seen.name))
        continue;
      weights_visit(s->w, is_it, &seen);
      if (!seen.found)
        return base_fail_at(s->e, BASE_INPUT, s->folder, 0,
                            "tensor '%.200s' of %s is none of the model that config.json describes",
                            seen.name, s->shard[i].name);
    }
  }
  return base_fail_at(s->e, BASE_INPUT, s->folder, 0, "a tensor is in more than one file");
}

/* A tensor that was not taken would be ignored, and the model be another one than the files'. */
static int check_foreign(struct source *s)
{
  size_t n = 0;
  for (size_t i = 0; i < s->nshards; i++)
    for (size_t k = 0; k < s->shard[i].file->n; k++)
      n += !is_spare(&s->w->config, s->shard[i].file->tensor[k].name);
  return n == s->taken ? 0 : fail_foreign(s);
}

static int read_weights(struct source *s)
{
  int bad = open_files(s) || weights_walk(s->w, take_item, s) || check_foreign(s);
  json_decref(s->map);
  free(s->shard);
  if (!bad)
    tie(s->w);
  return bad;
}

struct weights *weights_open(const char *folder, int scan, struct base_error *e)
{
  struct config c;
  char *path = store_path(folder, "config.json", e);
  int bad = !path || config_read(path, &c, e);
  free(path);
  struct weights *w = bad ? NULL : new_weights(&c, c.dtype, e);
  struct source s = {.folder = folder, .w = w, .scan = scan, .e = e};
  if (!w || !read_weights(&s))
    return w;
  weights_free(w);
  return NULL;
}

/* ------------------------------------------------------------------------------------ visit ----
 */

struct visitor {
  int (*visit)(void *ctx, const char *name, struct tensor *t);
  void *ctx;
};

static int visit_item(void *ctx, const struct weights_item *item)
{
  const struct visitor *v = ctx;
  return v->visit(v->ctx, item->name, item->tensor);
}

int weights_visit(struct weights *w, int (*visit)(void *ctx, const char *name, struct tensor *t),
                  void *ctx)
{
  struct visitor v = {visit, ctx};
  return weights_walk(w, visit_item, &v);
}

/* ------------------------------------------------------------------------------------- copy ----
 */

struct collect {
  struct tensor *item;
  size_t n;
};

static int collect_item(void *ctx, const struct weights_item *item)
{
  struct collect *list = ctx;
  list->item[list->n++] = *item->tensor;
  return 0;
}

struct copy {
  const struct tensor *from; /* in the order of the walk */
  struct store *store;
  struct base_error *e;
};

static int copy_item(void *ctx, const struct weights_item *item)
{
  struct copy *c = ctx;
  if (store_allocate(c->store, item->tensor, c->e))
    return -1;
  store_convert(c->from++, item->tensor);
  return 0;
}

struct weights *weights_copy(const struct weights *w, int dtype, struct base_error *e)
{
  struct collect list = {calloc(weights_count(&w->config), sizeof *list.item), 0};
  struct weights *to = list.item ? new_weights(&w->config, dtype, e) : NULL;
  int bad = !to;
  if (!list.item)
    base_fail_memory(e);
  if (!bad) {
    weights_walk((struct weights *)w, collect_item, &list);
    bad = weights_walk(to, copy_item, &(struct copy){list.item, to->owned, e});
  }
  free(list.item);
  if (!bad) {
    tie(to);
    return to;
  }
  weights_free(to);
  return NULL;
}

/* ------------------------------------------------------------------------------------ write ----
 */

struct entries {
  struct safetensors_tensor *item; /* their names are owned */
  size_t n;
};

static int add_entry(void *ctx, const struct weights_item *item)
{
  struct entries *list = ctx;
  char *name = strdup(item->name);
  if (!name)
    return -1;
  list->item[list->n++] = store_entry(name, item->kind != WEIGHTS_LINEAR, item->tensor);
  return 0;
}

static int create(struct safetensors_writer *out, struct weights *w, const char *path,
                  struct base_error *e)
{
  struct entries list = {calloc(weights_count(&w->config), sizeof *list.item), 0};
  int bad = !list.item || weights_walk(w, add_entry, &list);
  if (bad)
    base_fail_memory(e);
  else
    bad = safetensors_create(out, path, list.item, list.n, e);
  for (size_t i = 0; i < list.n; i++)
    free((char *)list.item[i].name);
  free(list.item);
  return bad;
}

/* config.json comes last: with it the folder is complete. */
int weights_write_folder(struct weights *w, const char *folder, struct safetensors_writer *out,
                         int (*put)(void *ctx, const struct weights_item *item), void *ctx,
                         struct base_error *e)
{
  char *data = store_path(folder, whole_name, e);
  char *config = data ? store_path(folder, "config.json", e) : NULL;
  int bad = !config || store_make_folder(folder, e) || create(out, w, data, e);
  if (!bad && weights_walk(w, put, ctx)) {
    safetensors_abandon(out);
    bad = -1;
  } else if (!bad) {
    bad = safetensors_commit(out, e) || config_write(config, &w->config, e);
  }
  free(config);
  free(data);
  return bad ? -1 : 0;
}

struct put {
  struct safetensors_writer out;
  struct base_error *e;
};

static int put_item(void *ctx, const struct weights_item *item)
{
  struct put *p = ctx;
  return safetensors_put(&p->out, item->tensor->data, tensor_bytes(item->tensor), p->e);
}

int weights_write(const struct weights *w, const char *folder, struct base_error *e)
{
  struct put put = {.e = e};
  return weights_write_folder((struct weights *)w, folder, &put.out, put_item, &put, e);
}
