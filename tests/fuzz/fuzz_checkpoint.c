/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Feeds text to the readers of config.json and of adapter_config.json; what they accept keeps what
 * their headers promise. replay.c feeds it files.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backend/adapter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program where the fuzzer notices. */
static void require(int good)
{
  if (!good)
    abort();
}

static void require_error(const struct base_error *e)
{
  require(e->code == BASE_INPUT && e->text[0] && !strchr(e->text, '\n'));
}

static void require_config(const struct config *c)
{
  require(c->family >= CONFIG_QWEN3 && c->family <= CONFIG_LLAMA);
  require(c->hidden && c->layers && c->q_heads && c->kv_heads && c->head_dim && c->intermediate);
  require(c->vocab && c->max_position && c->q_heads % c->kv_heads == 0 && c->head_dim % 2 == 0);
  require(c->rms_eps > 0 && c->rms_eps < 1 && c->rope_theta >= 1 && isfinite(c->rope_theta));
  require(c->rope_factor == 0 || (c->rope_low_freq > 0 && c->rope_high_freq > c->rope_low_freq));
  require(c->rope_factor == 0 || (c->rope_factor >= 1 && c->rope_original));
  require(c->dtype == TENSOR_F32 || c->dtype == TENSOR_BF16);
  require(c->bos >= -1 && c->bos < (int64_t)c->vocab && c->neos <= CONFIG_EOS);
  for (uint32_t i = 0; i < c->neos; i++)
    require(c->eos[i] >= 0 && c->eos[i] < (int64_t)c->vocab);
  require(config_parameters(c) > 0 && config_kv_bytes(c, 4) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct base_error e = {0}, ea = {0};
  struct config c;
  struct adapter_config a;
  char *text = malloc(size ? size : 1); /* of this size exactly, so that no byte behind is read */
  require(text != NULL);
  if (size)
    memcpy(text, data, size);
  if (config_parse(text, size, "fuzz", &c, &e))
    require_error(&e);
  else
    require_config(&c);
  if (adapter_config_parse(text, size, "fuzz", &a, &ea))
    require_error(&ea);
  else
    require(a.rank && a.targets && a.targets < 1u << LORA_TARGETS && isfinite(a.scale));
  free(text);
  return 0;
}
