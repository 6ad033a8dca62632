/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Feeds bytes to the reader of safetensors files. replay.c feeds it files. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backend/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program where the fuzzer notices. */
static void require(int good)
{
  if (!good)
    abort();
}

/* Names in order and all found; the data lie in the file and fill it. */
static void require_file(const struct safetensors *f, const char *file, size_t size)
{
  uint64_t sum = 0;
  unsigned mixed = 0;
  for (size_t i = 0; i < f->n; i++) {
    const struct safetensors_tensor *t = &f->tensor[i];
    const char *at = t->data;
    require(i == 0 || strcmp(f->tensor[i - 1].name, t->name) < 0);
    require(safetensors_find(f, t->name) == t && t->ndims <= SAFETENSORS_DIMS);
    require(at >= file + 8 && at <= file + size && t->bytes <= (uint64_t)(file + size - at));
    for (uint64_t k = 0; k < t->bytes; k++)
      mixed += (unsigned char)at[k];
    sum += t->bytes;
  }
  require(sum + 8 <= size && mixed <= 255 * sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct base_error e = {0};
  char *file = malloc(size ? size : 1); /* of this size exactly, so that no byte behind is read */
  require(file != NULL);
  if (size)
    memcpy(file, data, size);
  struct safetensors *f = safetensors_parse(file, size, "fuzz", &e);
  if (f)
    require_file(f, file, size);
  else
    require(e.code == BASE_INPUT && e.text[0] && !strchr(e.text, '\n'));
  safetensors_close(f);
  free(file);
  return 0;
}
