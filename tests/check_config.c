/* SPDX-License-Identifier: GPL-3.0-or-later */
/* config.json: the three families, what is refused and how it is said, counts, round trips. */
#include <stdlib.h>
#include <string.h>

#include "backend/config.h"
#include "tests/changed_json.h"
#include "tests/scratch.h"
#include "tests/suite.h"

static const char qwen3_8b[] =
    "{\"architectures\": [\"Qwen3ForCausalLM\"], \"attention_bias\": false,"
    " \"bos_token_id\": 151643, \"eos_token_id\": 151645, \"head_dim\": 128,"
    " \"hidden_act\": \"silu\", \"hidden_size\": 4096, \"intermediate_size\": 12288,"
    " \"max_position_embeddings\": 40960, \"max_window_layers\": 36, \"model_type\": \"qwen3\","
    " \"num_attention_heads\": 32, \"num_hidden_layers\": 36, \"num_key_value_heads\": 8,"
    " \"rms_norm_eps\": 1e-06, \"rope_scaling\": null, \"rope_theta\": 1000000,"
    " \"sliding_window\": null, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\","
    " \"use_sliding_window\": false, \"vocab_size\": 151936}";

static const char llama[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"torch_dtype\": \"bfloat16\","
    " \"head_dim\": null, \"hidden_size\": 4096, \"intermediate_size\": 14336,"
    " \"num_attention_heads\": 32, \"num_hidden_layers\": 32, \"num_key_value_heads\": 8,"
    " \"max_position_embeddings\": 131072, \"rms_norm_eps\": 1e-05, \"rope_theta\": 500000.0,"
    " \"bos_token_id\": 128000, \"eos_token_id\": [128001, 128008, 128009],"
    " \"rope_scaling\": {\"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0,"
    "   \"original_max_position_embeddings\": 8192, \"rope_type\": \"llama3\"},"
    " \"vocab_size\": 128256}";

static struct base_error e;

/* Parses `text` with the members of `change` set; a member that is null there is removed. */
static int parse(const char *text, const char *change, struct config *c)
{
  char *changed = changed_json(text, change);
  e = (struct base_error){0};
  int bad = config_parse(changed, strlen(changed), "c.json", c, &e);
  free(changed);
  return bad;
}

static void refused(const char *text, const char *change, const char *said)
{
  struct config c;
  ck_assert_int_eq(parse(text, change, &c), -1);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_str_eq(e.file, "c.json");
  ck_assert_msg(strstr(e.text, said) != NULL, "'%s' is not in '%s'", said, e.text);
}

START_TEST(qwen3)
{
  struct config c;
  ck_assert_int_eq(parse(qwen3_8b, "{}", &c), 0);
  ck_assert_int_eq(c.family, CONFIG_QWEN3);
  ck_assert(c.hidden == 4096 && c.layers == 36 && c.q_heads == 32 && c.kv_heads == 8);
  ck_assert(c.head_dim == 128 && c.intermediate == 12288 && c.vocab == 151936);
  ck_assert(c.max_position == 40960 && c.dtype == TENSOR_BF16);
  ck_assert(c.rms_eps == 1e-6 && c.rope_theta == 1e6 && c.rope_factor == 0);
  ck_assert(!c.tied && c.qk_norm && !c.qkv_bias);
  ck_assert(c.bos == 151643 && c.neos == 1 && c.eos[0] == 151645);
}
END_TEST

START_TEST(llama3)
{
  struct config c;
  ck_assert_int_eq(parse(llama, "{}", &c), 0);
  ck_assert_int_eq(c.family, CONFIG_LLAMA);
  ck_assert(c.head_dim == 128 && !c.qk_norm && !c.qkv_bias && !c.tied);
  ck_assert(c.rope_factor == 8 && c.rope_low_freq == 1 && c.rope_high_freq == 4);
  ck_assert(c.rope_original == 8192 && c.rope_theta == 5e5);
  ck_assert(c.neos == 3 && c.eos[2] == 128009);
  ck_assert_int_eq(config_parameters(&c), 8030261248);
  ck_assert_int_eq(config_kv_bytes(&c, 2), 131072);
}
END_TEST

START_TEST(qwen2)
{
  struct config c;
  const char *change = "{\"architectures\": null, \"model_type\": \"qwen2\", \"head_dim\": null,"
                       "\"use_sliding_window\": false, \"sliding_window\": 131072}";
  ck_assert_int_eq(parse(qwen3_8b, change, &c), 0);
  ck_assert(c.family == CONFIG_QWEN2 && c.qkv_bias && !c.qk_norm && c.head_dim == 128);
}
END_TEST

/* Newer files have theta among RoPE's parameters, and `dtype`. */
START_TEST(newer_keys)
{
  struct config c;
  const char *change = "{\"rope_theta\": null, \"rope_scaling\": null, \"torch_dtype\": null,"
                       "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 5e6},"
                       "\"dtype\": \"float32\"}";
  ck_assert_int_eq(parse(qwen3_8b, change, &c), 0);
  ck_assert(c.rope_theta == 5e6 && c.rope_factor == 0 && c.dtype == TENSOR_F32);
  change = "{\"rope_scaling\": null, \"rope_theta\": null, \"rope_parameters\": {\"rope_type\":"
           "\"llama3\", \"rope_theta\": 7e5, \"factor\": 4, \"low_freq_factor\": 1,"
           "\"high_freq_factor\": 2, \"original_max_position_embeddings\": 4096}}";
  ck_assert_int_eq(parse(llama, change, &c), 0);
  ck_assert(c.rope_theta == 7e5 && c.rope_factor == 4 && c.rope_original == 4096);
}
END_TEST

START_TEST(missing_members)
{
  struct config c;
  ck_assert_int_eq(parse(qwen3_8b, "{\"head_dim\": null, \"rms_norm_eps\": null}", &c), 0);
  ck_assert(c.head_dim == 128 && c.rms_eps == 1e-6);
  ck_assert_int_eq(parse(qwen3_8b, "{\"eos_token_id\": null, \"bos_token_id\": null}", &c), 0);
  ck_assert(c.bos == -1 && c.neos == 0);
  ck_assert_int_eq(parse(llama, "{\"num_key_value_heads\": null}", &c), 0);
  ck_assert_uint_eq(c.kv_heads, 32);
  refused(llama, "{\"num_attention_heads\": 24, \"num_key_value_heads\": 8}",
          "there is no 'head_dim', and hidden_size 4096 is no multiple");
  refused(qwen3_8b, "{\"vocab_size\": null}", "there is no 'vocab_size'");
  refused(qwen3_8b, "{\"architectures\": null, \"model_type\": null}",
          "there is no 'architectures'");
}
END_TEST

static const struct {
  const char *change, *said;
} wrong[] = {
    {"{\"architectures\": [\"MixtralForCausalLM\"]}",
     "'architectures' is [\"MixtralForCausalLM\"], but Qwen3ForCausalLM"},
    {"{\"architectures\": []}", "'architectures' is []"},
    {"{\"architectures\": null, \"model_type\": \"gemma\"}", "'model_type' is \"gemma\""},
    {"{\"hidden_size\": 0}", "'hidden_size' is 0, but must be a whole number from 1 to 131072"},
    {"{\"hidden_size\": -1}", "'hidden_size' is -1"},
    {"{\"hidden_size\": 4096.0}", "'hidden_size' is 4096.0, but"},
    {"{\"num_hidden_layers\": 1025}", "from 1 to 1024"},
    {"{\"vocab_size\": 99999999999}", "'vocab_size' is 99999999999, but"},
    {"{\"num_key_value_heads\": 33}", "from 1 to 32"},
    {"{\"num_key_value_heads\": 5}", "must divide num_attention_heads"},
    {"{\"head_dim\": 127}", "head_dim is 127, but must be even"},
    {"{\"rope_theta\": 0}", "'rope_theta' is 0, but must be a number from 1"},
    {"{\"rope_theta\": \"1e6\"}", "'rope_theta' is \"1e6\", but"},
    {"{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4}}", "only llama3 is built"},
    {"{\"rope_scaling\": {\"factor\": 4}}", "only llama3 is built"},
    {"{\"rope_scaling\": 4}", "'rope_scaling' is 4, but must be an object"},
    {"{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 4}}",
     "there is no 'low_freq_factor'"},
    {"{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 4, \"low_freq_factor\": 4,"
     "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 9}}",
     "must be more than low_freq_factor"},
    {"{\"partial_rotary_factor\": 0.5}", "only whole heads are rotated"},
    {"{\"rms_norm_eps\": 1}", "'rms_norm_eps' is 1, but"},
    {"{\"torch_dtype\": \"int8\"}", "must be bfloat16, float32 or float16"},
    {"{\"hidden_act\": \"gelu\"}", "only silu is built"},
    {"{\"attention_bias\": true}", "a bias of the output projection is not built"},
    {"{\"attention_bias\": 1}", "must be true or false"},
    {"{\"mlp_bias\": true}", "a bias of the MLP is not built"},
    {"{\"quantization_config\": {\"bits\": 4}}", "quantised weights are not built"},
    {"{\"use_sliding_window\": true, \"sliding_window\": 4096, \"max_window_layers\": 28}",
     "a sliding window that is in use is not built"},
    {"{\"layer_types\": [\"full_attention\", \"sliding_attention\"]}", "only full_attention"},
    {"{\"use_sliding_window\": true, \"sliding_window\": 0}", "'sliding_window' is 0, but"},
    {"{\"eos_token_id\": 151936}", "'eos_token_id' is 151936, but must be ids of the vocabulary"},
    {"{\"eos_token_id\": [1, -2]}", "must be ids of the vocabulary"},
    {"{\"eos_token_id\": [1, 2, 3, 4, 5, 6, 7, 8, 9]}", "may be 8 ids at most"},
    {"{\"bos_token_id\": \"a\"}", "'bos_token_id' is \"a\", but"},
    {"{\"tie_word_embeddings\": \"no\"}", "'tie_word_embeddings' is \"no\", but must be true or"},
};

START_TEST(refusals)
{
  refused(qwen3_8b, wrong[_i].change, wrong[_i].said);
}
END_TEST

/* A window that never closes is no window. */
START_TEST(windows_not_in_use)
{
  struct config c;
  const char *wide = "{\"use_sliding_window\": true, \"sliding_window\": 40960,"
                     "\"max_window_layers\": 0}";
  const char *above = "{\"use_sliding_window\": true, \"sliding_window\": 8}";
  ck_assert_int_eq(parse(qwen3_8b, wide, &c), 0);
  ck_assert_int_eq(parse(qwen3_8b, above, &c), 0);
  ck_assert_int_eq(parse(qwen3_8b, "{\"use_sliding_window\": true}", &c), 0);
}
END_TEST

START_TEST(not_json)
{
  static const char *const text[] = {"", "[1]", "{\"a\": 1", "{\"a\": 1, \"a\": 2}", "\xff\xfe"};
  struct config c;
  e = (struct base_error){0};
  ck_assert_int_eq(config_parse(text[_i], strlen(text[_i]), "c.json", &c, &e), -1);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_str_eq(e.file, "c.json");
}
END_TEST

/* The table of published models; the head counted once where it is tied. */
START_TEST(published_counts)
{
  static const struct {
    const char *change;
    int64_t parameters, kv;
  } model[] = {
      {"{\"hidden_size\": 1024, \"num_hidden_layers\": 28, \"num_attention_heads\": 16,"
       "\"intermediate_size\": 3072, \"tie_word_embeddings\": true}",
       596049920, 114688},
      {"{\"hidden_size\": 2048, \"num_hidden_layers\": 28, \"num_attention_heads\": 16,"
       "\"intermediate_size\": 6144, \"tie_word_embeddings\": true}",
       1720574976, 114688},
      {"{}", 8190735360, 147456},
  };
  struct config c;
  ck_assert_int_eq(parse(qwen3_8b, model[_i].change, &c), 0);
  ck_assert_int_eq(config_parameters(&c), model[_i].parameters);
  ck_assert_int_eq(config_kv_bytes(&c, 2), model[_i].kv);
}
END_TEST

START_TEST(written_and_read)
{
  static const char *const text[] = {qwen3_8b, llama};
  struct config c, again;
  memset(&c, 0, sizeof c);
  ck_assert_int_eq(parse(text[_i], "{\"rms_norm_eps\": 1.25e-6}", &c), 0);
  ck_assert_int_eq(config_write(scratch_path("config.json"), &c, &e), 0);
  ck_assert_int_eq(config_read(scratch_path("config.json"), &again, &e), 0);
  ck_assert(c.family == again.family && c.hidden == again.hidden && c.layers == again.layers);
  ck_assert(c.q_heads == again.q_heads && c.kv_heads == again.kv_heads);
  ck_assert(c.head_dim == again.head_dim && c.intermediate == again.intermediate);
  ck_assert(c.vocab == again.vocab && c.max_position == again.max_position);
  ck_assert(c.rms_eps == again.rms_eps && c.rope_theta == again.rope_theta);
  ck_assert(c.rope_factor == again.rope_factor && c.rope_low_freq == again.rope_low_freq);
  ck_assert(c.rope_high_freq == again.rope_high_freq && c.rope_original == again.rope_original);
  ck_assert(c.tied == again.tied && c.qk_norm == again.qk_norm && c.qkv_bias == again.qkv_bias);
  ck_assert(c.dtype == again.dtype && c.bos == again.bos && c.neos == again.neos);
  ck_assert_mem_eq(c.eos, again.eos, sizeof c.eos);
}
END_TEST

START_TEST(no_file)
{
  struct config c;
  e = (struct base_error){0};
  ck_assert_int_eq(config_read(scratch_path("none.json"), &c, &e), -1);
  ck_assert_int_eq(e.code, BASE_INPUT);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("config");
  TCase *t = tcase_create("config");
  tcase_add_checked_fixture(t, scratch_open, scratch_close);
  tcase_add_test(t, qwen3);
  tcase_add_test(t, llama3);
  tcase_add_test(t, qwen2);
  tcase_add_test(t, newer_keys);
  tcase_add_test(t, missing_members);
  tcase_add_loop_test(t, refusals, 0, sizeof wrong / sizeof wrong[0]);
  tcase_add_test(t, windows_not_in_use);
  tcase_add_loop_test(t, not_json, 0, 5);
  tcase_add_loop_test(t, published_counts, 0, 3);
  tcase_add_loop_test(t, written_and_read, 0, 2);
  tcase_add_test(t, no_file);
  suite_add_tcase(s, t);
  return suite_run(s);
}
