/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/weights.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static int parse_dtype(const char *name, int checkpoint, struct base_error *e)
{
  if (!name)
    return checkpoint;
  if (!strcmp(name, "bfloat16"))
    return TENSOR_BF16;
  if (!strcmp(name, "float32"))
    return TENSOR_F32;
  return base_fail(e, BASE_USAGE, "--dtype: '%s' is neither bfloat16 nor float32", name);
}

struct weights *cli_weights_open(const char *folder, const char *dtype, struct base_error *e)
{
  struct weights *w = weights_open(folder, 1, e);
  int wanted = w ? parse_dtype(dtype, w->dtype, e) : -1;
  if (wanted < 0 || wanted == w->dtype) {
    if (wanted < 0)
      weights_free(w);
    return wanted < 0 ? NULL : w;
  }
  struct weights *converted = weights_copy(w, wanted, e);
  weights_free(w);
  return converted;
}

static int digest_tensor(void *ctx, const char *name, struct tensor *t)
{
  XXH3_state_t *x = ctx;
  XXH3_128bits_update(x, name, strlen(name) + 1);
  XXH3_128bits_update(x, t->data, tensor_bytes(t));
  return 0;
}

int cli_weights_digest(struct weights *w, char hex[33], struct base_error *e)
{
  XXH3_state_t *x = XXH3_createState();
  if (!x)
    return base_fail_memory(e);
  XXH3_128bits_reset(x);
  weights_visit(w, digest_tensor, x);
  XXH128_hash_t h = XXH3_128bits_digest(x);
  XXH3_freeState(x);
  snprintf(hex, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
  return 0;
}
