/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "backend/safetensors.h"

enum { ALIGNMENT = 64, LENGTH_BYTES = 8 };

/* Adds one tensor's entry; its data start at *at, which moves behind them. */
static int add_entry(json_t *header, const struct safetensors_tensor *t, uint64_t *at)
{
  uint64_t bytes = t->dtype == SAFETENSORS_BF16 ? 2 : 4;
  json_t *shape = json_array();
  for (uint32_t i = 0; i < t->ndims; i++) {
    bytes *= t->shape[i];
    json_array_append_new(shape, json_integer((json_int_t)t->shape[i]));
  }
  json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype",
                            t->dtype == SAFETENSORS_BF16 ? "BF16" : "F32", "shape", shape,
                            "data_offsets", (json_int_t)*at, (json_int_t)(*at + bytes));
  *at += bytes;
  return json_object_set_new(header, t->name, entry);
}

/* The header's text; *bytes is of all data. NULL if there is no memory. */
static char *header_text(const struct safetensors_tensor *tensor, size_t n, uint64_t *bytes)
{
  /* Programs that ask who made a file look for this entry. */
  json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
  int bad = !header;
  *bytes = 0;
  for (size_t i = 0; i < n && !bad; i++)
    bad = add_entry(header, &tensor[i], bytes);
  char *text = bad ? NULL : json_dumps(header, JSON_COMPACT);
  json_decref(header);
  return text;
}

/* Length, header, and blanks up to where data may start. */
static void put_header(FILE *f, const char *text)
{
  size_t n = strlen(text), end = (LENGTH_BYTES + n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  for (int i = 0; i < LENGTH_BYTES; i++)
    fputc((int)((uint64_t)(end - LENGTH_BYTES) >> 8 * i & 255), f);
  fprintf(f, "%s%*s", text, (int)(end - LENGTH_BYTES - n), "");
}

int safetensors_create(struct safetensors_writer *w, const char *path,
                       const struct safetensors_tensor *tensor, size_t n, struct base_error *e)
{
  *w = (struct safetensors_writer){0};
  char *text = header_text(tensor, n, &w->left);
  if (!text)
    return base_fail_memory(e);
  int bad = base_outfile_open(&w->out, path, e);
  if (!bad)
    put_header(w->out.f, text);
  free(text);
  return bad;
}

int safetensors_put(struct safetensors_writer *w, const void *data, size_t bytes,
                    struct base_error *e)
{
  w->left -= bytes;
  if (fwrite(data, 1, bytes, w->out.f) == bytes)
    return 0;
  return base_fail_errno(e, "cannot write '%s'", w->out.path);
}

int safetensors_commit(struct safetensors_writer *w, struct base_error *e)
{
  if (!w->left)
    return base_outfile_commit(&w->out, e);
  base_fail(e, BASE_INVARIANT, "'%s' was not given the bytes that its header promises",
            w->out.path);
  base_outfile_abandon(&w->out);
  return -1;
}

void safetensors_abandon(struct safetensors_writer *w)
{
  base_outfile_abandon(&w->out);
}
