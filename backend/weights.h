/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The weights of a model by their role. From a folder with config.json and *.safetensors, or drawn
 * at random (Philox, the same bytes on every machine), or made by the trainer. Files are mapped,
 * not copied, but for tensors that are not aligned to their elements there, and for fp16, which
 * becomes fp32: data are always aligned to an element. The files must not be cut short while in
 * use.
 */
#ifndef BACKEND_WEIGHTS_H
#define BACKEND_WEIGHTS_H

#include "backend/config.h"

struct layer_weights {
  struct tensor input_norm, post_norm; /* [hidden] */
  struct tensor q, k, v, o; /* [q_heads*head_dim][hidden], [kv..][hidden] x 2, [hidden][q..] */
  struct tensor q_bias, k_bias, v_bias; /* data NULL where the family has none */
  struct tensor q_norm, k_norm;         /* [head_dim]; likewise */
  struct tensor gate, up, down;         /* [intermediate][hidden] x 2, [hidden][intermediate] */
};

struct weights {
  struct config config;
  struct tensor embed;         /* [vocab][hidden] */
  struct tensor norm;          /* [hidden] */
  struct tensor head;          /* [vocab][hidden]; embed's data where tied */
  struct layer_weights *layer; /* [config.layers] */
  int dtype;                   /* of all linear layers and the embedding */
  void *owned;                 /* how it is stored: weights.c's own */
};

/* Reads a folder. BASE_INPUT: truncated, overlapping or foreign files, wrong dtype or shape (both
 * said), a missing tensor (named); a NaN or infinite weight (named, with its index) if `scan`,
 * which reads every byte. NULL on failure. Free with weights_free. */
struct weights *weights_open(const char *folder, int scan, struct base_error *e);
/* Normal with deviation 0.02 (norms: 1; biases 0), each tensor a stream named by its checkpoint
 * name, so that layers do not depend on each other. dtype: enum tensor_dtype. */
struct weights *weights_random(const struct config *c, uint64_t seed, int dtype,
                               struct base_error *e);
/* The same weights written to a folder as weights_write would, without holding them in memory.
 * `tell` (NULL: nobody) hears now and then which fraction is done; if it returns anything but 0,
 * all stops with BASE_INCOMPLETE and nothing is left behind. */
int weights_random_write(const struct config *c, uint64_t seed, int dtype, const char *folder,
                         int (*tell)(void *ctx, double fraction), void *ctx, struct base_error *e);
/* A copy in memory that may be written to (training): every tensor of it of dtype. */
struct weights *weights_copy(const struct weights *w, int dtype, struct base_error *e);
/* Writes config.json and model.safetensors into a folder, which is made if it is missing: each file
 * whole or not at all, config.json last. */
int weights_write(const struct weights *w, const char *folder, struct base_error *e);
void weights_free(struct weights *w);

/* Calls visit for every tensor there is (a tied head is the embedding and is left out), with its
 * checkpoint name, which lives as long as the call, in a fixed order. Stops at the
 * first result that is not 0 and returns it. */
int weights_visit(struct weights *w, int (*visit)(void *ctx, const char *name, struct tensor *t),
                  void *ctx);

#endif
