/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A model of a few thousand weights for suites, and files of it that are spoilt in one place. */
#ifndef TESTS_TINY_MODEL_H
#define TESTS_TINY_MODEL_H

#include <string.h>

#include "backend/config.h"
#include "base/outfile.h"
#include "tests/scratch.h"

static inline struct config tiny_config(void)
{
  return (struct config){.family = CONFIG_QWEN3,
                         .hidden = 16,
                         .layers = 2,
                         .q_heads = 4,
                         .kv_heads = 2,
                         .head_dim = 6,
                         .intermediate = 24,
                         .vocab = 50,
                         .max_position = 64,
                         .rms_eps = 1e-6,
                         .rope_theta = 1e6,
                         .tied = 1,
                         .qk_norm = 1,
                         .dtype = TENSOR_BF16,
                         .bos = -1};
}

/* Writes a file of the scratch folder as it is given. */
static inline void tiny_put(const char *name, const void *data, size_t size)
{
  FILE *f = fopen(scratch_path(name), "wb");
  ck_assert_ptr_nonnull(f);
  ck_assert_uint_eq(fwrite(data, 1, size, f), size);
  ck_assert_int_eq(fclose(f), 0);
}

/* Writes a safetensors file of this header and `size` bytes of data, which count up from 0. */
static inline void tiny_safetensors(const char *name, const char *header, size_t size)
{
  char file[4096];
  size_t n = strlen(header);
  ck_assert_uint_lt(8 + n + size, sizeof file);
  for (int i = 0; i < 8; i++)
    file[i] = (char)((uint64_t)n >> 8 * i);
  memcpy(file + 8, header, n);
  for (size_t i = 0; i < size; i++)
    file[8 + n + i] = (char)i;
  tiny_put(name, file, 8 + n + size);
}

/* Replaces each `from` in a file's text by `to`, of the same length. Returns how many. */
static inline int tiny_replace(const char *name, const char *from, const char *to)
{
  struct base_error e = {0};
  size_t size, k = strlen(from);
  int found = 0;
  char *text = base_read_file(scratch_path(name), 1 << 24, &size, &e);
  ck_assert_ptr_nonnull(text);
  ck_assert_uint_eq(k, strlen(to));
  for (size_t i = 0; i + k <= size; i++)
    if (!memcmp(text + i, from, k)) {
      memcpy(text + i, to, k);
      found++;
    }
  tiny_put(name, text, size);
  free(text);
  return found;
}

/* Cuts a file, or grows it by zeros. */
static inline void tiny_resize(const char *name, long by)
{
  FILE *f = fopen(scratch_path(name), "ab");
  ck_assert_ptr_nonnull(f);
  ck_assert_int_eq(fseek(f, 0, SEEK_END), 0);
  ck_assert_int_eq(ftruncate(fileno(f), ftell(f) + by), 0);
  ck_assert_int_eq(fclose(f), 0);
}

#endif
