/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "backend/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/fields.h"

enum { LENGTH_BYTES = 8 };

static const struct type {
  const char *name;
  int dtype;
  uint32_t bytes;
} types[] = {
    {"F32", SAFETENSORS_F32, 4},       {"BF16", SAFETENSORS_BF16, 2},
    {"F16", SAFETENSORS_F16, 2},       {"F64", SAFETENSORS_OTHER, 8},
    {"I64", SAFETENSORS_OTHER, 8},     {"U64", SAFETENSORS_OTHER, 8},
    {"I32", SAFETENSORS_OTHER, 4},     {"U32", SAFETENSORS_OTHER, 4},
    {"I16", SAFETENSORS_OTHER, 2},     {"U16", SAFETENSORS_OTHER, 2},
    {"I8", SAFETENSORS_OTHER, 1},      {"U8", SAFETENSORS_OTHER, 1},
    {"BOOL", SAFETENSORS_OTHER, 1},    {"F8_E4M3", SAFETENSORS_OTHER, 1},
    {"F8_E5M2", SAFETENSORS_OTHER, 1},
};

/* What stands behind struct safetensors. */
struct source {
  char *name; /* for messages */
  void *map;  /* NULL: not mapped */
  size_t map_size;
  json_t *header;   /* holds the names */
  const char *data; /* first byte behind the header */
  uint64_t size;    /* bytes from there on */
};

static int wrong(const struct source *s, struct base_error *e, const char *tensor, const char *what)
{
  return base_fail_at(e, BASE_INPUT, s->name, 0, "tensor '%.200s' %s", tensor, what);
}

/* ------------------------------------------------------------------------------ the header ---- */

static uint64_t little_endian(const unsigned char *p)
{
  uint64_t v = 0;
  for (int i = LENGTH_BYTES - 1; i >= 0; i--)
    v = v << 8 | p[i];
  return v;
}

/* Splits the file into header and data. */
static int split(struct source *s, const void *bytes, size_t size, struct base_error *e)
{
  if (size < LENGTH_BYTES)
    return base_fail_at(
        e, BASE_INPUT, s->name, 0,
        "the file is truncated: it has %zu bytes, fewer than the length of a header", size);
  uint64_t length = little_endian(bytes);
  const char *text = (const char *)bytes + LENGTH_BYTES;
  if (length > SAFETENSORS_HEADER_MAX)
    return base_fail_at(e, BASE_INPUT, s->name, 0,
                        "the header is of %llu bytes, but %d are allowed; this is no safetensors "
                        "file",
                        (unsigned long long)length, SAFETENSORS_HEADER_MAX);
  if (length > size - LENGTH_BYTES)
    return base_fail_at(e, BASE_INPUT, s->name, 0,
                        "the file is truncated: its header is of %llu bytes, but %zu are there",
                        (unsigned long long)length, size - LENGTH_BYTES);
  if (!length || *text != '{')
    return base_fail_at(e, BASE_INPUT, s->name, 0, "the header is no JSON object");
  s->header = fields_parse(text, length, s->name, e);
  if (!s->header)
    return -1;
  s->data = text + length;
  s->size = size - LENGTH_BYTES - length;
  return 0;
}

/* The only free-form part: a map of texts. */
static int check_metadata(const struct source *s, json_t *map, struct base_error *e)
{
  const char *key;
  json_t *value;
  int good = json_is_object(map);
  json_object_foreach(map, key, value) good &= json_is_string(value);
  return good ? 0 : wrong(s, e, "__metadata__", "must be a map of texts");
}

/* A whole number that is not negative; -1 if it is anything else. */
static int get_size(const json_t *value, uint64_t *to)
{
  if (!json_is_integer(value) || json_integer_value(value) < 0)
    return -1;
  *to = (uint64_t)json_integer_value(value);
  return 0;
}

/* Sets shape and the bytes that it needs. */
static int read_shape(const struct source *s, const json_t *list, uint32_t element,
                      struct safetensors_tensor *t, struct base_error *e)
{
  t->bytes = element;
  if (!json_is_array(list))
    return wrong(s, e, t->name, "has no shape");
  if (json_array_size(list) > SAFETENSORS_DIMS)
    return wrong(s, e, t->name, "has more than 8 dimensions");
  t->ndims = (uint32_t)json_array_size(list);
  for (uint32_t i = 0; i < t->ndims; i++) {
    if (get_size(json_array_get(list, i), &t->shape[i]))
      return wrong(s, e, t->name, "has a shape that is not of whole numbers");
    if (__builtin_mul_overflow(t->bytes, t->shape[i], &t->bytes))
      return wrong(s, e, t->name, "has a shape that no file can hold");
  }
  return 0;
}

static const struct type *find_type(const char *name)
{
  for (size_t i = 0; name && i < sizeof types / sizeof types[0]; i++)
    if (!strcmp(types[i].name, name))
      return &types[i];
  return NULL;
}

/* A range within the data, as long as type and shape say. */
static int read_range(const struct source *s, const json_t *range, struct safetensors_tensor *t,
                      struct base_error *e)
{
  uint64_t begin, end;
  if (json_array_size(range) != 2 || get_size(json_array_get(range, 0), &begin) ||
      get_size(json_array_get(range, 1), &end) || begin > end)
    return wrong(s, e, t->name, "has no data_offsets of a begin and an end");
  if (end > s->size)
    return base_fail_at(e, BASE_INPUT, s->name, 0,
                        "the file is truncated: tensor '%.200s' ends at byte %llu of the data, of "
                        "which there are %llu",
                        t->name, (unsigned long long)end, (unsigned long long)s->size);
  if (end - begin != t->bytes)
    return base_fail_at(e, BASE_INPUT, s->name, 0,
                        "tensor '%.200s' has %llu bytes, but its type and shape need %llu", t->name,
                        (unsigned long long)(end - begin), (unsigned long long)t->bytes);
  t->data = s->data + begin;
  return 0;
}

static int read_tensor(const struct source *s, const char *name, const json_t *value,
                       struct safetensors_tensor *t, struct base_error *e)
{
  const struct type *type = find_type(json_string_value(json_object_get(value, "dtype")));
  t->name = name;
  if (!fields_is_plain(name))
    return base_fail_at(e, BASE_INPUT, s->name, 0, "a tensor's name has control characters");
  if (!type)
    return wrong(s, e, name, "has no dtype, or one that is not known");
  t->type = type->name;
  t->dtype = type->dtype;
  if (read_shape(s, json_object_get(value, "shape"), type->bytes, t, e))
    return -1;
  return read_range(s, json_object_get(value, "data_offsets"), t, e);
}

static int by_name(const void *a, const void *b)
{
  return strcmp(((const struct safetensors_tensor *)a)->name,
                ((const struct safetensors_tensor *)b)->name);
}

/* Of equal starts the empty one is first. */
static int by_place(const void *a, const void *b)
{
  const struct safetensors_tensor *x = a, *y = b;
  if (x->data != y->data)
    return (const char *)x->data < (const char *)y->data ? -1 : 1;
  return x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1) : strcmp(x->name, y->name);
}

/* The ranges follow each other from the first byte of the data to the last. */
static int check_cover(const struct source *s, struct safetensors_tensor *t, size_t n,
                       struct base_error *e)
{
  const char *at = s->data;
  qsort(t, n, sizeof *t, by_place);
  for (size_t i = 0; i < n; i++) {
    const char *begin = t[i].data;
    if (begin != at)
      return wrong(s, e, t[i].name,
                   begin < at ? "overlaps another one" : "lies behind bytes that are of no tensor");
    at = begin + t[i].bytes;
  }
  uint64_t rest = (uint64_t)(s->data + s->size - at);
  if (rest)
    return base_fail_at(e, BASE_INPUT, s->name, 0, "%llu bytes behind the last tensor are of none",
                        (unsigned long long)rest);
  return 0;
}

static int read_tensors(struct safetensors *f, const struct source *s, struct base_error *e)
{
  const char *name;
  json_t *value;
  f->tensor = calloc(json_object_size(s->header) + 1, sizeof *f->tensor);
  if (!f->tensor)
    return base_fail_memory(e);
  json_object_foreach(s->header, name, value)
  {
    if (!strcmp(name, "__metadata__") ? check_metadata(s, value, e)
                                      : read_tensor(s, name, value, &f->tensor[f->n], e))
      return -1;
    f->n += strcmp(name, "__metadata__") != 0;
  }
  if (check_cover(s, f->tensor, f->n, e))
    return -1;
  qsort(f->tensor, f->n, sizeof *f->tensor, by_name);
  return 0;
}

/* --------------------------------------------------------------------------- open and close ----
 */

void safetensors_close(struct safetensors *f)
{
  struct source *s = f ? f->owned : NULL;
  if (s) {
    if (s->map)
      munmap(s->map, s->map_size);
    json_decref(s->header);
    free(s->name);
    free(s);
  }
  if (f)
    free(f->tensor);
  free(f);
}

static struct safetensors *new_file(const char *name, struct base_error *e)
{
  struct safetensors *f = calloc(1, sizeof *f);
  struct source *s = calloc(1, sizeof *s);
  char *copy = strdup(name);
  if (f && s && copy) {
    s->name = copy;
    f->owned = s;
    return f;
  }
  free(copy);
  free(s);
  free(f);
  base_fail_memory(e);
  return NULL;
}

struct safetensors *safetensors_parse(const void *data, size_t size, const char *name,
                                      struct base_error *e)
{
  struct safetensors *f = new_file(name, e);
  if (f && !split(f->owned, data, size, e) && !read_tensors(f, f->owned, e))
    return f;
  safetensors_close(f);
  return NULL;
}

/* Maps all of a regular file; an empty one is size 0 and NULL. */
static int map_file(struct source *s, int fd, struct base_error *e)
{
  struct stat st;
  if (fstat(fd, &st))
    return base_fail_errno(e, "cannot read '%s'", s->name);
  if (!S_ISREG(st.st_mode))
    return base_fail_at(e, BASE_INPUT, s->name, 0, "this is no regular file");
  s->map_size = (size_t)st.st_size;
  if (!s->map_size)
    return 0;
  void *map = mmap(NULL, s->map_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED)
    return base_fail_errno(e, "cannot map '%s'", s->name);
  s->map = map;
  return 0;
}

struct safetensors *safetensors_open(const char *path, struct base_error *e)
{
  struct safetensors *f = new_file(path, e);
  struct source *s = f ? f->owned : NULL;
  int fd = s ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
  if (s && fd < 0)
    base_fail(e, BASE_INPUT, "cannot read '%s': %s", path, strerror(errno));
  int bad = fd < 0 || map_file(s, fd, e) || split(s, s->map, s->map_size, e) ||
            read_tensors(f, s, e);
  if (fd >= 0)
    close(fd);
  if (!bad)
    return f;
  safetensors_close(f);
  return NULL;
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *f, const char *name)
{
  struct safetensors_tensor key = {.name = name};
  return f->n ? bsearch(&key, f->tensor, f->n, sizeof key, by_name) : NULL;
}

const char *safetensors_shape(const uint64_t *shape, uint32_t ndims, char *buf, size_t size)
{
  size_t n = (size_t)snprintf(buf, size, "[");
  for (uint32_t i = 0; i < ndims && n < size; i++)
    n += (size_t)snprintf(buf + n, size - n, "%s%llu", i ? ", " : "", (unsigned long long)shape[i]);
  if (n < size)
    snprintf(buf + n, size - n, "]");
  return buf;
}
