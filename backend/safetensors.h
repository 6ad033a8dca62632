/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Files of tensors (safetensors): 8 bytes of header length, a JSON header of names, types, shapes
 * and ranges, then the data, little-endian. Read by mapping, with every bound checked: the ranges
 * cover the data exactly, without overlap, hole or rest, as the format's own library demands.
 */
#ifndef BACKEND_SAFETENSORS_H
#define BACKEND_SAFETENSORS_H

#include <stdint.h>

#include "base/outfile.h"

enum { SAFETENSORS_DIMS = 8, SAFETENSORS_HEADER_MAX = 100000000 };

/* The types that the engine uses; others may stand in a file and are SAFETENSORS_OTHER. */
enum safetensors_dtype { SAFETENSORS_F32, SAFETENSORS_BF16, SAFETENSORS_F16, SAFETENSORS_OTHER };

struct safetensors_tensor {
  const char *name;
  const char *type; /* as the file calls it: "BF16" */
  int dtype;        /* enum safetensors_dtype */
  uint32_t ndims;
  uint64_t shape[SAFETENSORS_DIMS];
  const void *data; /* in the file's mapping, and as aligned as the file has it: perhaps not */
  uint64_t bytes;
};

/* All tensors of a file, by name. Names and data live as long as it. */
struct safetensors {
  size_t n;
  struct safetensors_tensor *tensor; /* [n], ordered by name */
  void *owned;                       /* the reader's own */
};

/* Maps a file. The file must not be cut short while it is open. NULL with BASE_INPUT and what is
 * wrong where. Close with safetensors_close. */
struct safetensors *safetensors_open(const char *path, struct base_error *e);
/* The same of bytes in memory, which stay the caller's; `name` for messages. */
struct safetensors *safetensors_parse(const void *data, size_t size, const char *name,
                                      struct base_error *e);
const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name);
void safetensors_close(struct safetensors *s);
/* "[64, 128]" into buf; returns buf. */
const char *safetensors_shape(const uint64_t *shape, uint32_t ndims, char *buf, size_t size);

/*
 * Writing: all names and shapes first, then the data of each in that order, in pieces of any size.
 *
 *   struct safetensors_writer w;
 *   if (safetensors_create(&w, path, tensor, n, &e)) return -1;
 *   ... safetensors_put(&w, data, bytes) ...
 *   if (safetensors_commit(&w, &e)) return -1;
 */
struct safetensors_writer {
  struct base_outfile out;
  uint64_t left; /* bytes still to come */
};

/* Of each tensor name, dtype (F32 or BF16), ndims and shape are used. The data start at a multiple
 * of 64 bytes. */
int safetensors_create(struct safetensors_writer *w, const char *path,
                       const struct safetensors_tensor *tensor, size_t n, struct base_error *e);
int safetensors_put(struct safetensors_writer *w, const void *data, size_t bytes,
                    struct base_error *e);
/* The file appears whole, or -1 and not at all. */
int safetensors_commit(struct safetensors_writer *w, struct base_error *e);
void safetensors_abandon(struct safetensors_writer *w);

#endif
