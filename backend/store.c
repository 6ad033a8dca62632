/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "backend/store.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALIGNMENT = 64 };

struct store *store_new(struct base_error *e)
{
  struct store *s = calloc(1, sizeof *s);
  if (!s)
    base_fail_memory(e);
  return s;
}

void store_free(struct store *s)
{
  if (!s)
    return;
  for (size_t i = 0; i < s->nfiles; i++)
    safetensors_close(s->file[i]);
  for (size_t i = 0; i < s->nblocks; i++)
    free(s->block[i]);
  free(s->file);
  free(s->block);
  free(s);
}

char *store_path(const char *folder, const char *name, struct base_error *e)
{
  size_t size = strlen(folder) + strlen(name) + 2;
  char *path = malloc(size);
  if (!path)
    base_fail_memory(e);
  else
    snprintf(path, size, "%s/%s", folder, name);
  return path;
}

int store_make_folder(const char *folder, struct base_error *e)
{
  struct stat st;
  if (!mkdir(folder, 0777))
    return 0;
  if (errno != EEXIST)
    return base_fail_errno(e, "cannot make the folder '%s'", folder);
  if (stat(folder, &st) || !S_ISDIR(st.st_mode))
    return base_fail(e, BASE_ENV, "cannot write into '%s': it is no folder", folder);
  return 0;
}

/* The folder that a new one would be in, new; a slash at the end counts for nothing. */
static char *parent_of(const char *folder)
{
  char *p = strdup(folder);
  size_t n = p ? strlen(p) : 0;
  while (n > 1 && p[n - 1] == '/')
    n--;
  while (n > 0 && p[n - 1] != '/')
    n--;
  if (p && n == 0)
    p[n++] = '.';
  if (p)
    p[n] = '\0';
  return p;
}

int store_check_folder(const char *folder, struct base_error *e)
{
  struct stat st;
  char *parent = NULL;
  int bad = 0;
  if (stat(folder, &st)) {
    if (errno != ENOENT)
      return base_fail_errno(e, "cannot make the folder '%s'", folder);
    parent = parent_of(folder);
    if (!parent)
      return base_fail_memory(e);
    if (access(parent, W_OK | X_OK))
      bad = base_fail_errno(e, "cannot make the folder '%s'", folder);
  } else if (!S_ISDIR(st.st_mode)) {
    bad = base_fail(e, BASE_ENV, "cannot write into '%s': it is no folder", folder);
  } else if (access(folder, W_OK | X_OK)) {
    bad = base_fail_errno(e, "cannot write into '%s'", folder);
  }
  free(parent);
  return bad;
}

static int is_of_a_model(const char *name)
{
  static const char end[] = ".safetensors";
  size_t n = strlen(name), len = sizeof end - 1;
  return !strcmp(name, "config.json") || (n >= len && !strcmp(name + n - len, end));
}

int store_check_free(const char *folder, struct base_error *e)
{
  DIR *d = opendir(folder);
  const struct dirent *entry;
  int bad = 0;
  if (!d)
    return errno == ENOENT || errno == ENOTDIR
               ? 0
               : base_fail_errno(e, "cannot read the folder '%s'", folder);
  while (!bad && (entry = readdir(d)))
    if (is_of_a_model(entry->d_name))
      bad = base_fail(e, BASE_ENV,
                      "'%s' holds a model already (%.60s): name another folder, or give --force to "
                      "write over it",
                      folder, entry->d_name);
  closedir(d);
  return bad;
}

/* Room for one more pointer at the end of a list. */
static int grow(void *list, size_t n, struct base_error *e)
{
  void **more = realloc(*(void ***)list, (n + 1) * sizeof *more);
  if (!more)
    return base_fail_memory(e);
  *(void ***)list = more;
  return 0;
}

struct safetensors *store_open(struct store *s, const char *folder, const char *name,
                               struct base_error *e)
{
  char *path = store_path(folder, name, e);
  int bad = !path || grow(&s->file, s->nfiles, e);
  struct safetensors *f = bad ? NULL : safetensors_open(path, e);
  if (f)
    s->file[s->nfiles++] = f;
  free(path);
  return f;
}

int store_allocate(struct store *s, struct tensor *t, struct base_error *e)
{
  size_t bytes = (tensor_bytes(t) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (grow(&s->block, s->nblocks, e))
    return -1;
  void *block = aligned_alloc(ALIGNMENT, bytes ? bytes : ALIGNMENT);
  if (!block)
    return base_fail_memory(e);
  memset(block, 0, bytes);
  s->block[s->nblocks++] = block;
  t->data = block;
  return 0;
}

void store_convert(const struct tensor *from, const struct tensor *to)
{
  size_t n = (size_t)from->rows * from->cols;
  if (from->dtype == to->dtype) {
    memcpy((void *)to->data, from->data, tensor_bytes(to));
    return;
  }
  for (size_t i = 0; i < n; i++) {
    float x = tensor_get(from, i);
    if (to->dtype == TENSOR_BF16)
      ((uint16_t *)to->data)[i] = bf16_from_f32(x);
    else
      ((float *)to->data)[i] = x;
  }
}

/* Every value of fp16 is one of fp32: sign, exponent of 5 bits, fraction of 10. */
static float f16_to_f32(uint16_t h)
{
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
  float x = (float)fraction * 0x1p-24f; /* subnormal, and zero */
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  if (exponent == 31)
    u = 0x7f800000 | fraction << 13;
  else if (exponent)
    u = (exponent + 112) << 23 | fraction << 13;
  u |= sign;
  memcpy(&x, &u, sizeof x);
  return x;
}

static int take_f16(struct store *s, const void *data, struct tensor *t, struct base_error *e)
{
  size_t n = (size_t)t->rows * t->cols;
  if (store_allocate(s, t, e))
    return -1;
  for (size_t i = 0; i < n; i++) {
    uint16_t h;
    memcpy(&h, (const char *)data + 2 * i, sizeof h);
    ((float *)t->data)[i] = f16_to_f32(h);
  }
  return 0;
}

struct safetensors_tensor store_entry(const char *name, int is_vector, const struct tensor *t)
{
  struct safetensors_tensor x = {.name = name, .ndims = is_vector ? 1 : 2};
  x.dtype = t->dtype == TENSOR_BF16 ? SAFETENSORS_BF16 : SAFETENSORS_F32;
  x.shape[0] = is_vector ? t->cols : t->rows;
  x.shape[1] = is_vector ? 0 : t->cols;
  x.bytes = tensor_bytes(t);
  return x;
}

static int check_form(const char *file, const struct safetensors_tensor *from, int is_vector,
                      const struct tensor *t, struct base_error *e)
{
  char is[128], wanted[64];
  struct safetensors_tensor want = store_entry(from->name, is_vector, t);
  if (from->dtype == SAFETENSORS_OTHER)
    return base_fail_at(e, BASE_INPUT, file, 0,
                        "tensor '%.200s' is of %s, but must be of BF16, F32 or F16", from->name,
                        from->type);
  if (from->ndims == want.ndims &&
      !memcmp(from->shape, want.shape, want.ndims * sizeof want.shape[0]))
    return 0;
  return base_fail_at(e, BASE_INPUT, file, 0,
                      "tensor '%.200s' is of shape %s, but the configuration makes it %s",
                      from->name, safetensors_shape(from->shape, from->ndims, is, sizeof is),
                      safetensors_shape(want.shape, want.ndims, wanted, sizeof wanted));
}

int store_take(struct store *s, const char *file, const struct safetensors_tensor *from,
               int is_vector, struct tensor *t, struct base_error *e)
{
  if (check_form(file, from, is_vector, t, e))
    return -1;
  t->dtype = from->dtype == SAFETENSORS_BF16 ? TENSOR_BF16 : TENSOR_F32;
  if (from->dtype == SAFETENSORS_F16)
    return take_f16(s, from->data, t, e);
  if ((uintptr_t)from->data % tensor_dtype_bytes(t->dtype) == 0) {
    t->data = from->data;
    return 0;
  }
  if (store_allocate(s, t, e))
    return -1;
  memcpy((void *)t->data, from->data, tensor_bytes(t));
  return 0;
}

int store_scan(const char *file, const char *name, const struct tensor *t, struct base_error *e)
{
  size_t n = (size_t)t->rows * t->cols;
  for (size_t i = 0; i < n; i++) {
    float x = tensor_get(t, i);
    if (__builtin_isfinite(x))
      continue;
    return base_fail_at(e, BASE_INPUT, file, 0, "tensor '%.200s' is %s at row %zu, column %zu",
                        name, __builtin_isnan(x) ? "NaN" : "infinite", i / t->cols, i % t->cols);
  }
  return 0;
}
