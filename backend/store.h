/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Where tensors of a model or an adapter lie: mapped files, and memory of their own. Takes tensors
 * out of files in the form that the engine computes with.
 */
#ifndef BACKEND_STORE_H
#define BACKEND_STORE_H

#include "backend/safetensors.h"
#include "backend/tensor.h"

struct store {
  struct safetensors **file; /* [nfiles] */
  size_t nfiles;
  void **block; /* [nblocks] */
  size_t nblocks;
};

struct store *store_new(struct base_error *e);
void store_free(struct store *s);
/* Opens folder/name and keeps it open. NULL on failure. */
struct safetensors *store_open(struct store *s, const char *folder, const char *name,
                               struct base_error *e);
/* Zeroed memory for a tensor of t's shape and dtype, which t->data then is. Aligned to 64. */
int store_allocate(struct store *s, struct tensor *t, struct base_error *e);
/* Sets dtype and data of t, whose rows and cols say what is wanted (a vector: one row), from a
 * tensor of `file` (named so in messages). Data of fp32 and bf16 stay in the mapping if they are
 * aligned to their elements and are copied if not; fp16 becomes fp32, which holds all of its
 * values. BASE_INPUT for a wrong dtype or shape, both said. */
int store_take(struct store *s, const char *file, const struct safetensors_tensor *from,
               int is_vector, struct tensor *t, struct base_error *e);
/* Fails for the first value that is NaN or infinite, with tensor and index. */
int store_scan(const char *file, const char *name, const struct tensor *t, struct base_error *e);

/* What the writer wants of a tensor, and its bytes. */
struct safetensors_tensor store_entry(const char *name, int is_vector, const struct tensor *t);
/* Elements of `from` as those of `to`, which has the same shape. */
void store_convert(const struct tensor *from, const struct tensor *to);
/* "FOLDER/NAME", new; NULL with e. */
char *store_path(const char *folder, const char *name, struct base_error *e);
/* Makes the folder if it is missing. */
int store_make_folder(const char *folder, struct base_error *e);
/* Could it be made, and written into? Nothing is made: to be asked before long work. */
int store_check_folder(const char *folder, struct base_error *e);
/* Fails if a model or an adapter is there already: config.json or *.safetensors. A folder that is
 * missing, or holds anything else, is free. */
int store_check_free(const char *folder, struct base_error *e);

#endif
