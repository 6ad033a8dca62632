/* SPDX-License-Identifier: GPL-3.0-or-later */
/* LoRA adapters: configurations, round trips, and adapters of another base, rank or kind. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/adapter.h"
#include "backend/safetensors.h"
#include "tests/changed_json.h"
#include "tests/suite.h"
#include "tests/tiny_model.h"

enum { ALL = (1 << LORA_TARGETS) - 1 };

static struct base_error e;

static void setup(void)
{
  e = (struct base_error){0};
  scratch_open();
}

static void said(const char *what)
{
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_msg(strstr(e.text, what) != NULL, "'%s' is not in '%s'", what, e.text);
}

/* ------------------------------------------------------------------------ configuration ---- */

/* What PEFT writes, with one member set, or removed if it is null. */
static int parse(const char *change, struct adapter_config *c)
{
  static const char text[] =
      "{\"alpha_pattern\": {}, \"auto_mapping\": null, \"base_model_name_or_path\": \"tiny\","
      "\"bias\": \"none\", \"exclude_modules\": null, \"fan_in_fan_out\": false,"
      "\"inference_mode\": true, \"init_lora_weights\": true, \"layer_replication\": null,"
      "\"layers_pattern\": null, \"layers_to_transform\": null, \"loftq_config\": {},"
      "\"lora_alpha\": 32, \"lora_bias\": false, \"lora_dropout\": 0.05, \"megatron_config\": null,"
      "\"modules_to_save\": null, \"peft_type\": \"LORA\", \"r\": 16, \"rank_pattern\": {},"
      "\"revision\": null, \"target_modules\": [\"v_proj\", \"q_proj\"], \"task_type\":"
      "\"CAUSAL_LM\", \"use_dora\": false, \"use_rslora\": false}";
  char *changed = changed_json(text, change);
  e = (struct base_error){0};
  int bad = adapter_config_parse(changed, strlen(changed), "a.json", c, &e);
  free(changed);
  return bad;
}

START_TEST(configurations)
{
  struct adapter_config c;
  ck_assert_int_eq(parse("{}", &c), 0);
  ck_assert(c.rank == 16 && c.scale == 2 && c.targets == (1 << LORA_Q | 1 << LORA_V));
  ck_assert_int_eq(parse("{\"use_rslora\": true}", &c), 0);
  ck_assert_float_eq(c.scale, 8);
  ck_assert_int_eq(parse("{\"target_modules\": \"down_proj\", \"lora_alpha\": 2.5}", &c), 0);
  ck_assert(c.targets == 1 << LORA_DOWN && c.scale == 2.5f / 16);
  ck_assert_int_eq(parse("{\"target_modules\": \"all-linear\"}", &c), 0);
  ck_assert_uint_eq(c.targets, ALL);
}
END_TEST

static const struct {
  const char *change, *said;
} wrong[] = {
    {"{\"r\": 0}", "'r' is 0, but must be a whole number from 1 to 4096"},
    {"{\"r\": null}", "there is no 'r'"},
    {"{\"lora_alpha\": -1}", "'lora_alpha' is -1, but must be a number from 0"},
    {"{\"lora_alpha\": null}", "there is no 'lora_alpha'"},
    {"{\"peft_type\": \"IA3\"}", "'peft_type' is \"IA3\", but only LORA is built"},
    {"{\"peft_type\": null}", "there is no 'peft_type'"},
    {"{\"bias\": \"all\"}", "'bias' is \"all\", but trained biases are not built"},
    {"{\"use_dora\": true}", "'use_dora' is true, but DoRA is not built"},
    {"{\"lora_bias\": true}", "'lora_bias' is true"},
    {"{\"fan_in_fan_out\": true}", "'fan_in_fan_out' is true"},
    {"{\"modules_to_save\": [\"lm_head\"]}", "'modules_to_save' is [\"lm_head\"], but modules"},
    {"{\"rank_pattern\": {\"q_proj\": 4}}", "'rank_pattern' is {\"q_proj\":4}, but only one rank"},
    {"{\"alpha_pattern\": {\"q_proj\": 4}}", "'alpha_pattern' is"},
    {"{\"layers_to_transform\": [0]}", "'layers_to_transform' is [0]"},
    {"{\"use_rslora\": 1}", "'use_rslora' is 1, but must be true or false"},
    {"{\"target_modules\": null}", "there is no 'target_modules'"},
    {"{\"target_modules\": []}", "'target_modules' is [], but must be a list of names"},
    {"{\"target_modules\": [3]}", "'target_modules' is [3], but must be names"},
    {"{\"target_modules\": {\"q_proj\": 1}}", "must be a list of names, or one name"},
    {"{\"target_modules\": [\"q_proj\", \"qproj\"]}",
     "'target_modules' names 'qproj'; did you mean 'q_proj'?"},
    {"{\"target_modules\": \".*[qv]_proj\"}", "'target_modules' names '.*[qv]_proj'"},
    {"{\"target_modules\": [\"lm_head\"]}", "'target_modules' names 'lm_head'"},
};

START_TEST(refusals)
{
  struct adapter_config c;
  ck_assert_int_eq(parse(wrong[_i].change, &c), -1);
  ck_assert_str_eq(e.file, "a.json");
  said(wrong[_i].said);
}
END_TEST

/* -------------------------------------------------------------------------------- files ---- */

static struct adapter *made(uint32_t rank, float alpha, unsigned targets, int dtype)
{
  struct config c = tiny_config();
  struct adapter *a = adapter_random(&c, rank, alpha, targets, 9, dtype, &e);
  ck_assert_msg(a != NULL, "%s", e.text);
  return a;
}

static void write_made(uint32_t rank, float alpha, unsigned targets, int dtype)
{
  struct adapter *a = made(rank, alpha, targets, dtype);
  ck_assert_msg(!adapter_write(a, scratch_folder, &e), "%s", e.text);
  adapter_free(a);
}

static void assert_same(const struct tensor *a, const struct tensor *b)
{
  ck_assert(a->rows == b->rows && a->cols == b->cols && !a->data == !b->data);
  if (!a->data)
    return;
  ck_assert_int_eq(a->dtype, b->dtype);
  ck_assert_mem_eq(a->data, b->data, tensor_bytes(a));
}

START_TEST(fresh)
{
  struct adapter *a = made(4, 8, ALL, _i);
  double square = 0;
  size_t n = 0;
  ck_assert(a->rank == 4 && a->layers == 2 && a->scale == 2);
  for (uint32_t i = 0; i < a->layers * LORA_TARGETS; i++) {
    const struct tensor *m = &a->pair[i].a, *z = &a->pair[i].b;
    ck_assert(m->rows == 4 && z->cols == 4 && m->dtype == _i && z->dtype == _i);
    for (size_t k = 0; k < (size_t)z->rows * z->cols; k++)
      ck_assert_float_eq(tensor_get(z, k), 0);
    for (size_t k = 0; k < (size_t)m->rows * m->cols; k++, n++)
      square += pow(tensor_get(m, k), 2);
  }
  ck_assert_double_lt(fabs(sqrt(square / (double)n) * 4 - 1), 0.1);
  adapter_free(a);
}
END_TEST

START_TEST(round_trip)
{
  static const unsigned targets[] = {ALL, 1 << LORA_Q | 1 << LORA_V, 1 << LORA_DOWN, 1 << LORA_O};
  struct config c = tiny_config();
  float alpha = _i < 4 ? 16 : 7.3f;
  struct adapter *a = made(3, alpha, targets[_i % 4], _i & 1);
  ((char *)a->pair[LORA_TARGETS + (_i % 4 == 2   ? LORA_DOWN
                                   : _i % 4 == 3 ? LORA_O
                                                 : LORA_Q)]
       .b.data)[5] = 1;
  ck_assert_msg(!adapter_write(a, scratch_folder, &e), "%s", e.text);
  struct adapter *r = adapter_open(scratch_folder, &c, &e);
  ck_assert_msg(r != NULL, "%s", e.text);
  ck_assert(r->rank == 3 && r->layers == 2);
  ck_assert_float_eq(r->scale, a->scale);
  for (uint32_t i = 0; i < a->layers * LORA_TARGETS; i++) {
    assert_same(&a->pair[i].a, &r->pair[i].a);
    assert_same(&a->pair[i].b, &r->pair[i].b);
    ck_assert_int_eq(r->pair[i].a.data != NULL, (targets[_i % 4] >> i % LORA_TARGETS) & 1);
  }
  adapter_free(r);
  adapter_free(a);
}
END_TEST

START_TEST(names)
{
  write_made(2, 2, ALL, TENSOR_F32);
  struct safetensors *f = safetensors_open(scratch_path("adapter_model.safetensors"), &e);
  ck_assert_msg(f != NULL, "%s", e.text);
  ck_assert_uint_eq(f->n, 2 * 2 * LORA_TARGETS);
  const struct safetensors_tensor *a = safetensors_find(
      f, "base_model.model.model.layers.1.self_attn.o_proj.lora_A.weight");
  const struct safetensors_tensor *b = safetensors_find(
      f, "base_model.model.model.layers.0.mlp.down_proj.lora_B.weight");
  ck_assert(a && a->ndims == 2 && a->shape[0] == 2 && a->shape[1] == 24);
  ck_assert(b && b->ndims == 2 && b->shape[0] == 16 && b->shape[1] == 2);
  safetensors_close(f);
}
END_TEST

static void fails(const struct config *c, const char *what)
{
  e = (struct base_error){0};
  ck_assert_ptr_null(adapter_open(scratch_folder, c, &e));
  said(what);
}

START_TEST(another_base)
{
  struct config c = tiny_config();
  write_made(3, 6, 1 << LORA_Q | 1 << LORA_DOWN, TENSOR_BF16);
  c.hidden = 32;
  fails(&c, "layers.0.self_attn.q_proj.lora_A.weight' is 16 wide, but the model needs 32: the "
            "adapter is of another base");
  c = tiny_config(), c.q_heads = 2;
  fails(&c, "layers.0.self_attn.q_proj.lora_B.weight' is 24 wide, but the model needs 12");
  c = tiny_config(), c.layers = 3;
  fails(&c, "layers.2.self_attn.q_proj.lora_A.weight' is missing: the adapter is of another base");
  c = tiny_config(), c.layers = 1;
  fails(&c, "layers.1.mlp.down_proj.lora_A.weight' has no place: the adapter is of another base, "
            "with more than 1 layers");
}
END_TEST

START_TEST(another_rank)
{
  struct config c = tiny_config();
  write_made(3, 6, ALL, TENSOR_BF16);
  ck_assert_int_eq(tiny_replace("adapter_config.json", "\"r\": 3", "\"r\": 4"), 1);
  fails(&c, "q_proj.lora_A.weight' is of rank 3, but adapter_config.json says 4");
}
END_TEST

START_TEST(other_targets)
{
  struct config c = tiny_config();
  write_made(3, 6, 1 << LORA_Q, TENSOR_BF16);
  ck_assert_int_eq(tiny_replace("adapter_config.json", "q_proj", "k_proj"), 1);
  fails(&c, "k_proj.lora_A.weight' is missing");
  write_made(3, 6, 1 << LORA_Q | 1 << LORA_K, TENSOR_BF16);
  ck_assert_int_eq(tiny_replace("adapter_config.json", "k_proj", "q_proj"), 1);
  fails(&c, "layers.0.self_attn.k_proj.lora_A.weight' has no place");
}
END_TEST

START_TEST(no_numbers)
{
  struct config c = tiny_config();
  struct adapter *a = made(3, 6, ALL, TENSOR_F32);
  ((float *)a->pair[LORA_UP].b.data)[4] = NAN;
  ck_assert_int_eq(adapter_write(a, scratch_folder, &e), 0);
  adapter_free(a);
  fails(&c, "layers.0.mlp.up_proj.lora_B.weight' is NaN at row 1, column 1");
}
END_TEST

START_TEST(other_dtype)
{
  struct config c = tiny_config();
  write_made(3, 6, ALL, TENSOR_F32);
  ck_assert_int_gt(tiny_replace("adapter_model.safetensors", "\"F32\"", "\"U32\""), 0);
  fails(&c, "is of U32, but must be of BF16, F32 or F16");
}
END_TEST

START_TEST(no_files)
{
  struct config c = tiny_config();
  fails(&c, "adapter_config.json");
  write_made(3, 6, ALL, TENSOR_F32);
  ck_assert_int_eq(unlink(scratch_path("adapter_model.safetensors")), 0);
  fails(&c, "adapter_model.safetensors");
}
END_TEST

/* PEFT's configuration has one list of targets for all layers. */
START_TEST(uneven_layers)
{
  struct adapter *a = made(3, 6, ALL, TENSOR_F32);
  a->pair[LORA_TARGETS + LORA_K].a.data = NULL;
  ck_assert_int_eq(adapter_write(a, scratch_folder, &e), -1);
  said("layers 0 and 1 differ in k_proj");
  adapter_free(a);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("adapter");
  TCase *t = tcase_create("adapter");
  tcase_add_checked_fixture(t, setup, scratch_close);
  tcase_add_test(t, configurations);
  tcase_add_loop_test(t, refusals, 0, sizeof wrong / sizeof wrong[0]);
  tcase_add_loop_test(t, fresh, 0, 2);
  tcase_add_loop_test(t, round_trip, 0, 8);
  tcase_add_test(t, names);
  tcase_add_test(t, another_base);
  tcase_add_test(t, another_rank);
  tcase_add_test(t, other_targets);
  tcase_add_test(t, no_numbers);
  tcase_add_test(t, other_dtype);
  tcase_add_test(t, no_files);
  tcase_add_test(t, uneven_layers);
  suite_add_tcase(s, t);
  return suite_run(s);
}
