/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The tensors of a model as a table: what each is called in a checkpoint, its shape, what kind of
 * weight it is, and which models have it.
 */
#ifndef BACKEND_WEIGHTS_ROLES_H
#define BACKEND_WEIGHTS_ROLES_H

#include "backend/safetensors.h"
#include "backend/weights.h"

enum weights_kind { WEIGHTS_LINEAR, WEIGHTS_NORM, WEIGHTS_BIAS };
enum { WEIGHTS_NAME = 64 };

/* One tensor of a model. Norms and biases are vectors. */
struct weights_item {
  char name[WEIGHTS_NAME]; /* in the checkpoint */
  int kind;                /* enum weights_kind */
  struct tensor *tensor;
};

/* Calls visit for every tensor that the configuration has, in the checkpoint's order, until one
 * result is not 0, and returns that. */
int weights_walk(struct weights *w, int (*visit)(void *ctx, const struct weights_item *item),
                 void *ctx);
size_t weights_count(const struct config *c);
/* All tensors with shape and dtype, and no data. NULL with e. */
struct weights *weights_outline(const struct config *c, int dtype, struct base_error *e);

/* Writes config.json and model.safetensors; `put`, called with `ctx` for every tensor, writes its
 * data to `out`. */
int weights_write_folder(struct weights *w, const char *folder, struct safetensors_writer *out,
                         int (*put)(void *ctx, const struct weights_item *item), void *ctx,
                         struct base_error *e);

#endif
