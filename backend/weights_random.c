/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Weights of no training: what a model of that shape costs to run does not depend on their values.
 */
#include <stdlib.h>

#include "backend/draw.h"
#include "backend/store.h"
#include "backend/weights_roles.h"

enum { PIECE = 1 << 18 }; /* elements that are drawn at a time for a file */
static const double deviation = 0.02;

/* Elements first to first + n - 1 of a tensor. */
static void draw(const struct weights_item *item, uint64_t seed, uint64_t first, size_t n, void *to)
{
  int dtype = item->tensor->dtype;
  if (item->kind == WEIGHTS_LINEAR)
    draw_normal(seed, item->name, first, n, deviation, dtype, to);
  else
    draw_constant(item->kind == WEIGHTS_NORM ? 1 : 0, n, dtype, to);
}

struct filler {
  struct store *store;
  uint64_t seed;
  struct base_error *e;
};

static int fill_item(void *ctx, const struct weights_item *item)
{
  struct filler *f = ctx;
  struct tensor *t = item->tensor;
  if (store_allocate(f->store, t, f->e))
    return -1;
  draw(item, f->seed, 0, (size_t)t->rows * t->cols, (void *)t->data);
  return 0;
}

struct weights *weights_random(const struct config *c, uint64_t seed, int dtype,
                               struct base_error *e)
{
  struct weights *w = weights_outline(c, dtype, e);
  if (!w)
    return NULL;
  w->owned = store_new(e);
  if (!w->owned || weights_walk(w, fill_item, &(struct filler){w->owned, seed, e})) {
    weights_free(w);
    return NULL;
  }
  if (c->tied)
    w->head = w->embed;
  return w;
}

/* A file under way. */
struct put {
  struct safetensors_writer out;
  uint64_t seed;
  void *piece;      /* room for PIECE elements */
  double all, done; /* elements */
  int (*tell)(void *ctx, double fraction);
  void *ctx;
  struct base_error *e;
};

static int put_item(void *ctx, const struct weights_item *item)
{
  struct put *p = ctx;
  size_t n = (size_t)item->tensor->rows * item->tensor->cols;
  for (size_t i = 0; i < n; i += PIECE) {
    size_t k = n - i < PIECE ? n - i : PIECE;
    draw(item, p->seed, i, k, p->piece);
    if (safetensors_put(&p->out, p->piece, k * tensor_dtype_bytes(item->tensor->dtype), p->e))
      return -1;
    p->done += (double)k;
    if (p->tell && p->tell(p->ctx, p->done / p->all))
      return base_fail(p->e, BASE_INCOMPLETE, "stopped before the weights were written");
  }
  return 0;
}

int weights_random_write(const struct config *c, uint64_t seed, int dtype, const char *folder,
                         int (*tell)(void *ctx, double fraction), void *ctx, struct base_error *e)
{
  struct weights *w = weights_outline(c, dtype, e);
  struct put put = {.seed = seed, .tell = tell, .ctx = ctx, .e = e};
  int bad = !w;
  put.all = (double)config_parameters(c);
  put.piece = malloc(PIECE * sizeof(float));
  if (!put.piece)
    bad = base_fail_memory(e);
  if (!bad)
    bad = weights_write_folder(w, folder, &put.out, put_item, &put, e);
  free(put.piece);
  weights_free(w);
  return bad;
}
