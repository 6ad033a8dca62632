/* SPDX-License-Identifier: GPL-3.0-or-later */
/* adapter_config.json. PEFT has many kinds of adapters: what is not plain LoRA is refused. */
#include <math.h>
#include <string.h>

#include "backend/adapter_layout.h"
#include "backend/fields.h"

static const char *const module_name[LORA_TARGETS] = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                      "gate_proj", "up_proj", "down_proj"};

const char *adapter_module(int target)
{
  return module_name[target];
}

/* Features that change the result, and hence must be off: null, false, or empty. */
static const struct feature {
  const char *key, *text;
} feature[] = {
    {"use_dora", "DoRA is not built"},
    {"lora_bias", "a bias beside the low-rank matrices is not built"},
    {"use_qalora", "QALoRA is not built"},
    {"fan_in_fan_out", "transposed weights are not built"},
    {"modules_to_save", "modules that are trained in full are not built"},
    {"rank_pattern", "only one rank for all layers is built"},
    {"alpha_pattern", "only one alpha for all layers is built"},
    {"layers_to_transform", "only adapters of all layers are built"},
    {"layer_replication", "repeated layers are not built"},
    {"exclude_modules", "only a list of targets is built"},
    {"target_parameters", "only adapters of linear layers are built"},
    {"trainable_token_indices", "trained tokens are not built"},
};

static int is_off(const json_t *value)
{
  return !value || json_is_null(value) || json_is_false(value) ||
         (json_is_array(value) && !json_array_size(value)) ||
         (json_is_object(value) && !json_object_size(value));
}

static int check_features(const struct fields *f)
{
  const char *kind = NULL, *bias = "none";
  int have = fields_text(f, "peft_type", &kind);
  if (have < 1)
    return have ? -1 : fields_missing(f, "peft_type");
  if (strcmp(kind, "LORA"))
    return fields_refuse(f, "peft_type", "only LORA is built");
  if (fields_text(f, "bias", &bias) < 0)
    return -1;
  if (strcmp(bias, "none"))
    return fields_refuse(f, "bias", "trained biases are not built; only none is");
  for (size_t i = 0; i < sizeof feature / sizeof feature[0]; i++)
    if (!is_off(json_object_get(f->object, feature[i].key)))
      return fields_refuse(f, feature[i].key, feature[i].text);
  return 0;
}

static int add_target(const struct fields *f, const char *name, unsigned *targets)
{
  for (int i = 0; i < LORA_TARGETS; i++) {
    if (strcmp(module_name[i], name))
      continue;
    *targets |= 1u << i;
    return 0;
  }
  if (!fields_is_plain(name))
    return fields_refuse(f, "target_modules", "must be names of linear layers");
  const char *near = base_nearest(name, module_name, LORA_TARGETS);
  return base_fail_at(f->e, BASE_INPUT, f->file, 0,
                      "'target_modules' names '%.64s'%s%s%s; built are q_proj, k_proj, v_proj, "
                      "o_proj, gate_proj, up_proj and down_proj",
                      name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* A list of names, or one text: a name, or all. Other texts are regular expressions to PEFT. */
static int read_targets(const struct fields *f, unsigned *targets)
{
  const json_t *value = fields_get(f, "target_modules"), *one;
  size_t i;
  *targets = 0;
  if (!value)
    return fields_missing(f, "target_modules");
  if (json_is_string(value) && !strcmp(json_string_value(value), "all-linear")) {
    *targets = (1u << LORA_TARGETS) - 1;
    return 0;
  }
  if (json_is_string(value))
    return add_target(f, json_string_value(value), targets);
  json_array_foreach(value, i, one)
  {
    if (!json_is_string(one))
      return fields_refuse(f, "target_modules", "must be names");
    if (add_target(f, json_string_value(one), targets))
      return -1;
  }
  return *targets ? 0 : fields_refuse(f, "target_modules", "must be a list of names, or one name");
}

static int read_all(const struct fields *f, struct adapter_config *c)
{
  double alpha;
  int root = 0, have = fields_count(f, "r", 1, ADAPTER_RANK_MAX, &c->rank);
  if (have < 1)
    return have ? -1 : fields_missing(f, "r");
  have = fields_real(f, "lora_alpha", 0, 1e6, &alpha);
  if (have < 1)
    return have ? -1 : fields_missing(f, "lora_alpha");
  if (fields_flag(f, "use_rslora", &root) < 0 || check_features(f) || read_targets(f, &c->targets))
    return -1;
  c->scale = (float)(alpha / (root ? sqrt(c->rank) : c->rank));
  return 0;
}

int adapter_config_parse(const char *text, size_t size, const char *name, struct adapter_config *c,
                         struct base_error *e)
{
  struct adapter_config got;
  json_t *root = fields_parse(text, size, name, e);
  struct fields f = {root, name, e};
  int bad = !root || read_all(&f, &got);
  json_decref(root);
  if (!bad)
    *c = got;
  return bad ? -1 : 0;
}

/* The alpha that gives this scale again when it is read: a whole number if there is one. */
static double alpha_of(float scale, uint32_t rank)
{
  double alpha = (double)scale * rank, whole = nearbyint(alpha);
  return (float)(whole / rank) == scale ? whole : alpha;
}

int adapter_config_write(const char *path, const struct adapter_config *c, struct base_error *e)
{
  double alpha = alpha_of(c->scale, c->rank);
  json_t *targets = json_array();
  for (int i = 0; i < LORA_TARGETS; i++)
    if (c->targets & 1u << i)
      json_array_append_new(targets, json_string(module_name[i]));
  json_t *o = json_pack(
      "{s:n, s:s, s:b, s:b, s:o, s:s, s:i, s:o, s:s, s:b, s:b}", "base_model_name_or_path", "bias",
      "none", "fan_in_fan_out", 0, "inference_mode", 1, "lora_alpha",
      alpha == nearbyint(alpha) ? json_integer((json_int_t)alpha) : json_real(alpha), "peft_type",
      "LORA", "r", (int)c->rank, "target_modules", targets, "task_type", "CAUSAL_LM", "use_dora", 0,
      "use_rslora", 0);
  return fields_write(path, o, e);
}
