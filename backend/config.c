/* SPDX-License-Identifier: GPL-3.0-or-later */
/* config.json: what the three families share is a table; what they differ in, functions. */
#include "backend/config.h"

#include <stdlib.h>
#include <string.h>

#include "backend/fields.h"
#include "base/outfile.h"

static const char *const architecture[] = {"Qwen3ForCausalLM", "Qwen2ForCausalLM",
                                           "LlamaForCausalLM"};
static const char *const model_type[] = {"qwen3", "qwen2", "llama"};
enum { FAMILIES = 3, QWEN3_HEAD_DIM = 128, QWEN_FULL_LAYERS = 28 };

/* Counts that must be there. Bounds keep every product of shapes within int64. */
static const struct count_field {
  const char *key;
  size_t offset;
  uint32_t max;
} count_field[] = {
    {"hidden_size", offsetof(struct config, hidden), 1 << 17},
    {"num_hidden_layers", offsetof(struct config, layers), 1024},
    {"num_attention_heads", offsetof(struct config, q_heads), 1024},
    {"intermediate_size", offsetof(struct config, intermediate), 1 << 20},
    {"vocab_size", offsetof(struct config, vocab), 1 << 24},
    {"max_position_embeddings", offsetof(struct config, max_position), 1 << 24},
};
enum { COUNTS = sizeof count_field / sizeof count_field[0] };

static int family_of(const char *name, const char *const *names)
{
  for (int i = 0; i < FAMILIES; i++)
    if (!strcmp(name, names[i]))
      return i;
  return -1;
}

/* The architecture that is named first; a file without one is known by its model type. */
static int read_family(const struct fields *f, struct config *c)
{
  const json_t *list = fields_get(f, "architectures");
  const char *name = json_string_value(json_array_get(list, 0));
  if (list) {
    c->family = name ? family_of(name, architecture) : -1;
    if (c->family < 0)
      return fields_refuse(f, "architectures",
                           "Qwen3ForCausalLM, Qwen2ForCausalLM and LlamaForCausalLM are built");
    return 0;
  }
  int have = fields_text(f, "model_type", &name);
  if (have < 1)
    return have ? -1 : fields_missing(f, "architectures");
  c->family = family_of(name, model_type);
  return c->family < 0 ? fields_refuse(f, "model_type", "qwen3, qwen2 and llama are built") : 0;
}

static int read_counts(const struct fields *f, struct config *c)
{
  for (size_t i = 0; i < COUNTS; i++) {
    const struct count_field *d = &count_field[i];
    int have = fields_count(f, d->key, 1, d->max, (uint32_t *)(void *)((char *)c + d->offset));
    if (have < 1)
      return have ? -1 : fields_missing(f, d->key);
  }
  return 0;
}

/* Where the file does not say it: Qwen3's class has a constant, the others divide. */
static int default_head_dim(const struct fields *f, struct config *c)
{
  if (c->family == CONFIG_QWEN3) {
    c->head_dim = QWEN3_HEAD_DIM;
    return 0;
  }
  if (c->hidden % c->q_heads)
    return base_fail_at(f->e, BASE_INPUT, f->file, 0,
                        "there is no 'head_dim', and hidden_size %u is no multiple of "
                        "num_attention_heads %u",
                        c->hidden, c->q_heads);
  c->head_dim = c->hidden / c->q_heads;
  return 0;
}

static int read_heads(const struct fields *f, struct config *c)
{
  c->kv_heads = c->q_heads;
  if (fields_count(f, "num_key_value_heads", 1, c->q_heads, &c->kv_heads) < 0)
    return -1;
  if (c->q_heads % c->kv_heads)
    return fields_refuse(f, "num_key_value_heads", "must divide num_attention_heads");
  int have = fields_count(f, "head_dim", 2, 1024, &c->head_dim);
  if (have < 0 || (!have && default_head_dim(f, c)))
    return -1;
  if (c->head_dim % 2)
    return base_fail_at(f->e, BASE_INPUT, f->file, 0,
                        "head_dim is %u, but must be even: its halves are rotated together",
                        c->head_dim);
  return 0;
}

/* Llama-3's four numbers, all of them needed. */
static int read_llama3(const struct fields *f, struct config *c)
{
  int have = fields_real(f, "factor", 1, 1024, &c->rope_factor);
  if (have < 1)
    return have ? -1 : fields_missing(f, "factor");
  have = fields_real(f, "low_freq_factor", 1e-3, 1e6, &c->rope_low_freq);
  if (have < 1)
    return have ? -1 : fields_missing(f, "low_freq_factor");
  have = fields_real(f, "high_freq_factor", 1e-3, 1e6, &c->rope_high_freq);
  if (have < 1)
    return have ? -1 : fields_missing(f, "high_freq_factor");
  if (c->rope_high_freq <= c->rope_low_freq)
    return fields_refuse(f, "high_freq_factor", "must be more than low_freq_factor");
  have = fields_count(f, "original_max_position_embeddings", 1, 1 << 24, &c->rope_original);
  if (have < 1)
    return have ? -1 : fields_missing(f, "original_max_position_embeddings");
  return 0;
}

/* RoPE's own object, which older files call rope_scaling and newer ones rope_parameters. */
static int read_rope_object(const struct fields *outer, const char *key, struct config *c)
{
  json_t *object = fields_get(outer, key);
  struct fields f = {object, outer->file, outer->e};
  const char *kind = NULL;
  if (!object)
    return 0;
  if (!json_is_object(object))
    return fields_refuse(outer, key, "must be an object");
  if (fields_real(&f, "rope_theta", 1, 1e12, &c->rope_theta) < 0 ||
      fields_text(&f, "type", &kind) < 0 || fields_text(&f, "rope_type", &kind) < 0)
    return -1;
  if (kind && !strcmp(kind, "llama3"))
    return read_llama3(&f, c);
  if (kind ? strcmp(kind, "default") : fields_get(&f, "factor") != NULL)
    return fields_refuse(outer, key, "of scalings of RoPE only llama3 is built, and default");
  return 0;
}

static int read_rope(const struct fields *f, struct config *c)
{
  double whole = 1;
  c->rope_theta = 10000;
  if (fields_real(f, "rope_theta", 1, 1e12, &c->rope_theta) < 0 ||
      read_rope_object(f, "rope_scaling", c) || read_rope_object(f, "rope_parameters", c))
    return -1;
  if (fields_real(f, "partial_rotary_factor", 0, 1, &whole) < 0)
    return -1;
  return whole < 1 ? fields_refuse(f, "partial_rotary_factor", "only whole heads are rotated") : 0;
}

/* A window that is on, of layers that there are, and shorter than the longest sequence. */
static int check_window(const struct fields *f, const struct config *c)
{
  uint32_t window = UINT32_MAX, full = QWEN_FULL_LAYERS;
  int on = 0;
  size_t i;
  const json_t *kind;
  json_array_foreach(fields_get(f, "layer_types"), i, kind)
  {
    const char *name = json_string_value(kind);
    if (!name || strcmp(name, "full_attention"))
      return fields_refuse(f, "layer_types", "only full_attention is built");
  }
  if (c->family == CONFIG_LLAMA)
    return 0;
  if (fields_flag(f, "use_sliding_window", &on) < 0 ||
      fields_count(f, "max_window_layers", 0, UINT32_MAX, &full) < 0)
    return -1;
  int have = on ? fields_count(f, "sliding_window", 1, UINT32_MAX, &window) : 0;
  if (have > 0 && window < c->max_position && full < c->layers)
    return fields_refuse(f, "sliding_window", "a sliding window that is in use is not built");
  return have < 0 ? -1 : 0;
}

/* What would change the result silently if it were ignored. */
static int check_features(const struct fields *f, const struct config *c)
{
  const char *act = "silu";
  int bias = 0, mlp_bias = 0;
  if (fields_text(f, "hidden_act", &act) < 0)
    return -1;
  if (strcmp(act, "silu"))
    return fields_refuse(f, "hidden_act", "only silu is built");
  if (fields_flag(f, "attention_bias", &bias) < 0 || fields_flag(f, "mlp_bias", &mlp_bias) < 0)
    return -1;
  if (bias && c->family != CONFIG_QWEN2)
    return fields_refuse(f, "attention_bias", "a bias of the output projection is not built");
  if (mlp_bias)
    return fields_refuse(f, "mlp_bias", "a bias of the MLP is not built");
  if (fields_get(f, "quantization_config"))
    return fields_refuse(f, "quantization_config",
                         "quantised weights are not built; take the float32 or bfloat16 ones");
  return check_window(f, c);
}

/* 16-bit floats fit into fp32 and are read as such. */
static int read_dtype(const struct fields *f, struct config *c)
{
  const char *key = fields_get(f, "dtype") ? "dtype" : "torch_dtype", *name = "float32";
  if (fields_text(f, key, &name) < 0)
    return -1;
  c->dtype = strcmp(name, "bfloat16") ? TENSOR_F32 : TENSOR_BF16;
  if (c->dtype == TENSOR_F32 && strcmp(name, "float32") && strcmp(name, "float16"))
    return fields_refuse(f, key, "must be bfloat16, float32 or float16");
  return 0;
}

static int read_token(const struct fields *f, const char *key, const json_t *value,
                      const struct config *c, int32_t *to)
{
  json_int_t v = json_integer_value(value);
  if (!json_is_integer(value) || v < 0 || v >= (json_int_t)c->vocab)
    return fields_refuse(f, key, "must be ids of the vocabulary, from 0 to vocab_size - 1");
  *to = (int32_t)v;
  return 0;
}

static int read_tokens(const struct fields *f, struct config *c)
{
  const json_t *bos = fields_get(f, "bos_token_id"), *eos = fields_get(f, "eos_token_id");
  size_t n = json_is_array(eos) ? json_array_size(eos) : eos != NULL;
  c->bos = -1;
  if (bos && read_token(f, "bos_token_id", bos, c, &c->bos))
    return -1;
  if (n > CONFIG_EOS)
    return fields_refuse(f, "eos_token_id", "may be 8 ids at most");
  for (size_t i = 0; i < n; i++) {
    const json_t *id = json_is_array(eos) ? json_array_get(eos, i) : eos;
    if (read_token(f, "eos_token_id", id, c, &c->eos[i]))
      return -1;
  }
  c->neos = (uint32_t)n;
  return 0;
}

static int read_config(const struct fields *f, struct config *c)
{
  if (read_family(f, c) || read_counts(f, c) || read_heads(f, c) || read_rope(f, c) ||
      read_dtype(f, c) || read_tokens(f, c) || check_features(f, c))
    return -1;
  c->qk_norm = c->family == CONFIG_QWEN3;
  c->qkv_bias = c->family == CONFIG_QWEN2;
  c->rms_eps = 1e-6;
  if (fields_flag(f, "tie_word_embeddings", &c->tied) < 0)
    return -1;
  return fields_real(f, "rms_norm_eps", 1e-12, 1e-1, &c->rms_eps) < 0 ? -1 : 0;
}

int config_parse(const char *text, size_t size, const char *name, struct config *c,
                 struct base_error *e)
{
  struct config got = {0};
  json_t *root = fields_parse(text, size, name, e);
  struct fields f = {root, name, e};
  int bad = !root || read_config(&f, &got);
  json_decref(root);
  if (!bad)
    *c = got;
  return bad ? -1 : 0;
}

enum { FILE_MAX = 1 << 22 };

int config_read(const char *path, struct config *c, struct base_error *e)
{
  size_t size;
  char *text = base_read_file(path, FILE_MAX, &size, e);
  if (!text)
    return -1;
  int bad = config_parse(text, size, path, c, e);
  free(text);
  return bad;
}

/* ----------------------------------------------------------------------------- writing ---- */

static json_t *eos_json(const struct config *c)
{
  if (c->neos == 0)
    return json_null();
  if (c->neos == 1)
    return json_integer(c->eos[0]);
  json_t *list = json_array();
  for (uint32_t i = 0; i < c->neos; i++)
    json_array_append_new(list, json_integer(c->eos[i]));
  return list;
}

static json_t *rope_json(const struct config *c)
{
  if (c->rope_factor == 0)
    return json_null();
  return json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor", c->rope_factor,
                   "low_freq_factor", c->rope_low_freq, "high_freq_factor", c->rope_high_freq,
                   "original_max_position_embeddings", (json_int_t)c->rope_original);
}

/* The keys as the published files have them, which every version of transformers reads. NULL if
 * there is no memory. */
static json_t *config_json(const struct config *c)
{
  json_t *o = json_pack("{s:[s], s:s, s:b, s:s, s:f, s:f, s:b, s:s, s:b}", "architectures",
                        architecture[c->family], "model_type", model_type[c->family],
                        "attention_bias", c->family == CONFIG_QWEN2, "hidden_act", "silu",
                        "rms_norm_eps", c->rms_eps, "rope_theta", c->rope_theta,
                        "tie_word_embeddings", c->tied, "torch_dtype",
                        c->dtype == TENSOR_BF16 ? "bfloat16" : "float32", "use_sliding_window", 0);
  int bad = !o;
  for (size_t i = 0; i < COUNTS && !bad; i++) {
    uint32_t v = *(const uint32_t *)(const void *)((const char *)c + count_field[i].offset);
    bad = json_object_set_new(o, count_field[i].key, json_integer(v));
  }
  if (bad || json_object_set_new(o, "num_key_value_heads", json_integer(c->kv_heads)) ||
      json_object_set_new(o, "head_dim", json_integer(c->head_dim)) ||
      json_object_set_new(o, "bos_token_id", c->bos < 0 ? json_null() : json_integer(c->bos)) ||
      json_object_set_new(o, "eos_token_id", eos_json(c)) ||
      json_object_set_new(o, "rope_scaling", rope_json(c))) {
    json_decref(o);
    return NULL;
  }
  return o;
}

int config_write(const char *path, const struct config *c, struct base_error *e)
{
  return fields_write(path, config_json(c), e);
}

/* ------------------------------------------------------------------------------ counts ---- */

int64_t config_parameters(const struct config *c)
{
  int64_t h = c->hidden, q = (int64_t)c->q_heads * c->head_dim;
  int64_t kv = (int64_t)c->kv_heads * c->head_dim;
  int64_t layer = h * (q + 2 * kv) + q * h + 3 * h * (int64_t)c->intermediate + 2 * h;
  if (c->qk_norm)
    layer += 2 * (int64_t)c->head_dim;
  if (c->qkv_bias)
    layer += q + 2 * kv;
  return c->layers * layer + (c->tied ? 1 : 2) * h * (int64_t)c->vocab + h;
}

int64_t config_kv_bytes(const struct config *c, size_t element_bytes)
{
  return 2 * (int64_t)c->layers * c->kv_heads * c->head_dim * (int64_t)element_bytes;
}
