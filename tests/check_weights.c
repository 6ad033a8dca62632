/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Weights: round trips, copies, random ones, shards, and folders that are not what they say. */
#include <math.h>
#include <string.h>

#include "backend/draw.h"
#include "backend/safetensors.h"
#include "backend/weights.h"
#include "tests/suite.h"
#include "tests/tiny_model.h"

static struct base_error e;

static void setup(void)
{
  e = (struct base_error){0};
  scratch_open();
}

static void said(int code, const char *what)
{
  ck_assert_int_eq(e.code, code);
  ck_assert_msg(strstr(e.text, what) != NULL, "'%s' is not in '%s'", what, e.text);
}

/* --------------------------------------------------------------------------------- weights ---- */

struct compare {
  char name[64][64];
  struct tensor tensor[64];
  size_t n, at;
};

static int keep(void *ctx, const char *name, struct tensor *t)
{
  struct compare *c = ctx;
  ck_assert_uint_lt(c->n, 64);
  strcpy(c->name[c->n], name);
  c->tensor[c->n++] = *t;
  return 0;
}

static int same(void *ctx, const char *name, struct tensor *t)
{
  struct compare *c = ctx;
  const struct tensor *o = &c->tensor[c->at];
  ck_assert_str_eq(name, c->name[c->at++]);
  ck_assert(t->rows == o->rows && t->cols == o->cols && t->data);
  ck_assert_uint_eq((uintptr_t)t->data % tensor_dtype_bytes(t->dtype), 0);
  for (size_t i = 0; i < (size_t)t->rows * t->cols; i++) {
    float x = tensor_get(t, i), y = tensor_get(o, i);
    ck_assert(t->dtype == o->dtype ? x == y : fabsf(x - y) <= fabsf(x) / 256);
  }
  return 0;
}

/* Same tensors, and values as far as their types hold them. */
static void assert_same(struct weights *a, struct weights *b)
{
  struct compare c = {.n = 0};
  weights_visit(b, keep, &c);
  ck_assert_int_eq(weights_visit(a, same, &c), 0);
  ck_assert_uint_eq(c.at, c.n);
}

static struct weights *made(const struct config *c, int dtype)
{
  struct weights *w = weights_random(c, 5, dtype, &e);
  ck_assert_msg(w != NULL, "%s", e.text);
  return w;
}

/* A folder of random weights of the tiny model. */
static void write_tiny(int dtype)
{
  struct config c = tiny_config();
  struct weights *w = made(&c, dtype);
  ck_assert_msg(!weights_write(w, scratch_folder, &e), "%s", e.text);
  weights_free(w);
}

static void fails(int scan, int code, const char *what)
{
  e = (struct base_error){0};
  struct weights *w = weights_open(scratch_folder, scan, &e);
  ck_assert_ptr_null(w);
  said(code, what);
}

static void write_config(const struct config *c)
{
  ck_assert_int_eq(config_write(scratch_path("config.json"), c, &e), 0);
}

/* Tied and untied, with biases and without, both types. */
START_TEST(round_trip)
{
  struct config c = tiny_config();
  c.tied = _i & 1;
  if (_i & 2) {
    c.family = CONFIG_QWEN2;
    c.qk_norm = 0;
    c.qkv_bias = 1;
  }
  int dtype = _i & 4 ? TENSOR_BF16 : TENSOR_F32;
  struct weights *w = made(&c, dtype);
  ck_assert_msg(!weights_write(w, scratch_folder, &e), "%s", e.text);
  struct weights *r = weights_open(scratch_folder, 1, &e);
  ck_assert_msg(r != NULL, "%s", e.text);
  assert_same(w, r);
  ck_assert(r->dtype == dtype && r->config.dtype == dtype);
  ck_assert_int_eq(r->head.data == r->embed.data, c.tied);
  ck_assert_int_eq(r->layer[1].q_bias.data != NULL, c.qkv_bias);
  ck_assert_int_eq(r->layer[1].k_norm.data != NULL, c.qk_norm);
  ck_assert(r->layer[0].o.rows == 16 && r->layer[0].o.cols == 24);
  ck_assert(r->layer[0].k.rows == 12 && r->head.rows == 50);
  weights_free(r);
  weights_free(w);
}
END_TEST

START_TEST(copies)
{
  struct config c = tiny_config();
  c.tied = _i & 1;
  struct weights *w = made(&c, _i & 2 ? TENSOR_BF16 : TENSOR_F32);
  struct weights *k = weights_copy(w, _i & 4 ? TENSOR_BF16 : TENSOR_F32, &e);
  ck_assert_msg(k != NULL, "%s", e.text);
  ck_assert_int_eq(k->dtype, _i & 4 ? TENSOR_BF16 : TENSOR_F32);
  assert_same(w, k);
  ck_assert_ptr_ne(w->embed.data, k->embed.data);
  ck_assert_int_eq(k->head.data == k->embed.data, c.tied);
  weights_free(w);
  memset((void *)k->embed.data, 0, tensor_bytes(&k->embed));
  ck_assert(tensor_get(&k->head, 0) == 0 || !c.tied);
  weights_free(k);
}
END_TEST

static int count(void *ctx, const char *name, struct tensor *t)
{
  (void)name;
  *(int64_t *)ctx += (int64_t)t->rows * t->cols;
  return 0;
}

static int stop_at_norm(void *ctx, const char *name, struct tensor *t)
{
  (void)t;
  ++*(int *)ctx;
  return strcmp(name, "model.layers.0.input_layernorm.weight") ? 0 : 7;
}

START_TEST(visits)
{
  struct config c = tiny_config();
  c.tied = _i;
  struct weights *w = made(&c, TENSOR_F32);
  int64_t n = 0;
  int visited = 0;
  ck_assert_int_eq(weights_visit(w, count, &n), 0);
  ck_assert_int_eq(n, config_parameters(&c));
  ck_assert_int_eq(weights_visit(w, stop_at_norm, &visited), 7);
  ck_assert_int_eq(visited, 2);
  weights_free(w);
}
END_TEST

/* Keeps what it hears, which rises; stops at once where it was told a negative fraction. */
static int hear(void *ctx, double fraction)
{
  double *heard = ctx;
  int stop = *heard < 0;
  ck_assert(fraction > 0 && fraction <= 1 && (stop || fraction > *heard));
  *heard = fraction;
  return stop;
}

START_TEST(streamed_bytes)
{
  double heard = 0;
  struct config c = tiny_config();
  char whole[65], streamed[65];
  write_tiny(TENSOR_BF16);
  ck_assert_int_eq(base_sha256_file(scratch_path("model.safetensors"), whole, &e), 0);
  ck_assert_int_eq(weights_random_write(&c, 5, TENSOR_BF16, scratch_folder, hear, &heard, &e), 0);
  ck_assert_int_eq(base_sha256_file(scratch_path("model.safetensors"), streamed, &e), 0);
  ck_assert_str_eq(whole, streamed);
  ck_assert_double_eq(heard, 1);
}
END_TEST

START_TEST(stopped)
{
  struct config c = tiny_config();
  double heard = -1;
  int rc = weights_random_write(&c, 5, TENSOR_BF16, scratch_folder, hear, &heard, &e);
  ck_assert_int_eq(rc, -1);
  said(BASE_INCOMPLETE, "stopped before");
  ck_assert_double_lt(heard, 1);
  ck_assert_int_ne(access(scratch_path("model.safetensors"), F_OK), 0);
  ck_assert_int_ne(access(scratch_path("model.safetensors.tmp0"), F_OK), 0);
  ck_assert_int_ne(access(scratch_path("config.json"), F_OK), 0);
}
END_TEST

START_TEST(draws)
{
  enum { N = 200000 };
  static float x[N], part[8];
  double sum = 0, square = 0, fourth = 0;
  draw_normal(3, "stream", 0, N, 0.02, TENSOR_F32, x);
  for (int i = 0; i < N; i++) {
    double z = x[i] / 0.02;
    sum += z, square += z * z, fourth += z * z * z * z;
    ck_assert(fabs(z) < 4.9);
  }
  ck_assert_double_lt(fabs(sum / N), 4 / sqrt(N));
  ck_assert_double_lt(fabs(square / N - 1), 4 * sqrt(2.0 / N));
  ck_assert_double_lt(fabs(fourth / N - (3 - 1.2 / 8)), 0.1);
  draw_normal(3, "stream", 777, 8, 0.02, TENSOR_F32, part);
  ck_assert_mem_eq(part, x + 777, sizeof part);
  draw_normal(3, "other", 777, 8, 0.02, TENSOR_F32, part);
  ck_assert_float_ne(part[0], x[777]);
}
END_TEST

/* Without the blank that pads the header, no tensor is aligned. */
START_TEST(unaligned)
{
  struct config c = tiny_config();
  struct weights *w = made(&c, _i);
  size_t size;
  write_tiny(_i);
  char *text = base_read_file(scratch_path("model.safetensors"), 1 << 24, &size, &e);
  char *blank = strstr(text + 8, "}} "); /* the header has no NUL */
  ck_assert_ptr_nonnull(blank);
  memmove(blank + 2, blank + 3, size - (size_t)(blank + 3 - text));
  ck_assert_int_ne(text[0]--, 0);
  tiny_put("model.safetensors", text, size - 1);
  free(text);
  struct weights *r = weights_open(scratch_folder, 1, &e);
  ck_assert_msg(r != NULL, "%s", e.text);
  assert_same(w, r);
  weights_free(r);
  weights_free(w);
}
END_TEST

/* Halves become fp32, and a configuration of halves expects that. */
START_TEST(halves)
{
  static const uint16_t half[] = {0x3c00, 0xc000, 0x0001, 0x83ff, 0x7bff, 0x0000, 0x3555, 0x0400};
  static const float value[] = {1, -2, 0x1p-24f, -0x3ffp-24f, 65504, 0, 0x1.554p-2f, 0x1p-14f};
  struct config c = tiny_config();
  struct weights *w = made(&c, TENSOR_BF16);
  memcpy((void *)w->embed.data, half, sizeof half);
  ck_assert_int_eq(weights_write(w, scratch_folder, &e), 0);
  weights_free(w);
  ck_assert_int_gt(tiny_replace("model.safetensors", "\"dtype\":\"BF16\"", "\"dtype\": \"F16\""),
                   0);
  fails(0, BASE_INPUT, "tensor 'model.embed_tokens.weight' is of F16, but config.json says bfloat");
  ck_assert_int_eq(tiny_replace("config.json", "\"bfloat16\"", "\"float16\" "), 1);
  e = (struct base_error){0};
  w = weights_open(scratch_folder, 0, &e);
  ck_assert_msg(w != NULL, "%s", e.text);
  ck_assert_int_eq(w->dtype, TENSOR_F32);
  for (size_t i = 0; i < 8; i++)
    ck_assert_float_eq(tensor_get(&w->embed, i), value[i]);
  weights_free(w);
}
END_TEST

/* ------------------------------------------------------------------------------- bad input ---- */

START_TEST(other_configurations)
{
  struct config c = tiny_config();
  write_tiny(TENSOR_BF16);
  c.intermediate = 32;
  write_config(&c);
  fails(0, BASE_INPUT,
        "tensor 'model.layers.0.mlp.gate_proj.weight' is of shape [24, 16], but the configuration "
        "makes it [32, 16]");
  c = tiny_config(), c.layers = 3;
  write_config(&c);
  fails(0, BASE_INPUT,
        "tensor 'model.layers.2.input_layernorm.weight' is missing in model.safetensors");
  c = tiny_config(), c.layers = 1;
  write_config(&c);
  fails(0, BASE_INPUT,
        "tensor 'model.layers.1.input_layernorm.weight' of model.safetensors is none of the model");
  c = tiny_config(), c.dtype = TENSOR_F32;
  write_config(&c);
  fails(0, BASE_INPUT,
        "tensor 'model.embed_tokens.weight' is of BF16, but config.json says float32");
  c = tiny_config(), c.tied = 0;
  write_config(&c);
  fails(0, BASE_INPUT, "tensor 'lm_head.weight' is missing");
  c = tiny_config(), c.family = CONFIG_QWEN2, c.qk_norm = 0, c.qkv_bias = 1;
  write_config(&c);
  fails(0, BASE_INPUT, "tensor 'model.layers.0.self_attn.q_proj.bias' is missing");
}
END_TEST

START_TEST(other_dtype)
{
  write_tiny(TENSOR_F32);
  ck_assert_int_gt(tiny_replace("model.safetensors", "\"F32\"", "\"I32\""), 0);
  fails(0, BASE_INPUT,
        "tensor 'model.embed_tokens.weight' is of I32, but must be of BF16, F32 or F16");
}
END_TEST

/* A tied head that is there once more is left out; so are the frequencies of old files. */
START_TEST(spare_tensors)
{
  struct config c = tiny_config();
  c.tied = 0;
  struct weights *w = made(&c, TENSOR_BF16);
  ck_assert_int_eq(weights_write(w, scratch_folder, &e), 0);
  weights_free(w);
  c.tied = 1;
  write_config(&c);
  w = weights_open(scratch_folder, 1, &e);
  ck_assert_msg(w && w->head.data == w->embed.data, "%s", e.text);
  weights_free(w);
}
END_TEST

START_TEST(cut_and_grown)
{
  write_tiny(TENSOR_BF16);
  tiny_resize("model.safetensors", 2);
  fails(0, BASE_INPUT, "2 bytes behind the last tensor are of none");
  tiny_resize("model.safetensors", -3);
  fails(0, BASE_INPUT, "the file is truncated: tensor 'model.norm.weight'");
}
END_TEST

START_TEST(no_numbers)
{
  struct config c = tiny_config();
  struct weights *w = made(&c, _i & 1);
  float bad = _i & 2 ? INFINITY : NAN;
  if (_i & 1)
    ((uint16_t *)w->layer[1].up.data)[5 * 16 + 3] = bf16_from_f32(bad);
  else
    ((float *)w->layer[1].up.data)[5 * 16 + 3] = bad;
  ck_assert_int_eq(weights_write(w, scratch_folder, &e), 0);
  weights_free(w);
  fails(1, BASE_INPUT,
        _i & 2 ? "tensor 'model.layers.1.mlp.up_proj.weight' is infinite at row 5, column 3"
               : "tensor 'model.layers.1.mlp.up_proj.weight' is NaN at row 5, column 3");
  e = (struct base_error){0};
  w = weights_open(scratch_folder, 0, &e);
  ck_assert_ptr_nonnull(w);
  weights_free(w);
}
END_TEST

START_TEST(no_files)
{
  fails(0, BASE_INPUT, "config.json");
  struct config c = tiny_config();
  write_config(&c);
  fails(0, BASE_INPUT, "model.safetensors");
}
END_TEST

/* -------------------------------------------------------------------------------- sharded ---- */

static struct safetensors_tensor shard_entry[2][64];
static size_t shard_n[2];

static int split_entry(void *ctx, const char *name, struct tensor *t)
{
  int which = *(int *)ctx = !*(int *)ctx;
  int vector = t->rows == 1;
  shard_entry[which][shard_n[which]++] = (struct safetensors_tensor){
      .name = strdup(name),
      .dtype = SAFETENSORS_BF16,
      .ndims = vector ? 1 : 2,
      .shape = {vector ? t->cols : t->rows, vector ? 0 : t->cols},
      .data = t->data,
      .bytes = tensor_bytes(t)};
  return 0;
}

/* The tiny model in two files, tensors in turn; the index gets `extra` in its map. */
static void write_shards(struct weights *w, const char *extra)
{
  static const char *const name[] = {"s-0.safetensors", "s-1.safetensors"};
  int which = 0;
  FILE *index = fopen(scratch_path("model.safetensors.index.json"), "w");
  fprintf(index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {%s", extra);
  shard_n[0] = shard_n[1] = 0;
  weights_visit(w, split_entry, &which);
  for (int s = 0; s < 2; s++) {
    struct safetensors_writer out;
    ck_assert_int_eq(
        safetensors_create(&out, scratch_path(name[s]), shard_entry[s], shard_n[s], &e), 0);
    for (size_t i = 0; i < shard_n[s]; i++) {
      const struct safetensors_tensor *t = &shard_entry[s][i];
      ck_assert_int_eq(safetensors_put(&out, t->data, t->bytes, &e), 0);
      fprintf(index, "%s\"%s\": \"%s\"", s || i ? ", " : "", t->name, name[s]);
      free((char *)t->name);
    }
    ck_assert_int_eq(safetensors_commit(&out, &e), 0);
  }
  fputs("}}\n", index);
  ck_assert_int_eq(fclose(index), 0);
  write_config(&w->config);
}

START_TEST(shards)
{
  struct config c = tiny_config();
  struct weights *w = made(&c, TENSOR_BF16);
  write_shards(w, "");
  struct weights *r = weights_open(scratch_folder, 1, &e);
  ck_assert_msg(r != NULL, "%s", e.text);
  assert_same(w, r);
  weights_free(r);
  weights_free(w);
}
END_TEST

START_TEST(bad_shards)
{
  struct config c = tiny_config();
  struct weights *w = made(&c, TENSOR_BF16);
  static const char index[] = "model.safetensors.index.json";
  write_shards(w, "\"x\": \"../s-0.safetensors\", ");
  fails(0, BASE_INPUT, "the file of 'x' must be a name without '/'");
  write_shards(w, "\"x\": \"..\", ");
  fails(0, BASE_INPUT, "the file of 'x' must be a name without '/'");
  write_shards(w, "\"x\": 3, ");
  fails(0, BASE_INPUT, "the file of 'x' must be a name without '/'");
  write_shards(w, "\"x\": \"s-2.safetensors\", ");
  fails(0, BASE_INPUT, "s-2.safetensors");
  write_shards(w, "");
  ck_assert_int_eq(tiny_replace(index, "model.norm.weight", "model.morn.weight"), 1);
  fails(0, BASE_INPUT, "tensor 'model.norm.weight' is missing in the index");
  write_shards(w, "");
  ck_assert_int_eq(tiny_replace("s-1.safetensors", "embed_tokens", "embed_tokenz"), 1);
  fails(0, BASE_INPUT, "tensor 'model.embed_tokens.weight' is missing in s-1.safetensors");
  tiny_put(index, "{}", 2);
  fails(0, BASE_INPUT, "'weight_map' must be an object");
  weights_free(w);
}
END_TEST

START_TEST(unwritable)
{
  struct config c = tiny_config();
  struct weights *w = made(&c, TENSOR_BF16);
  ck_assert_int_eq(weights_write(w, scratch_path("no/where"), &e), -1);
  said(BASE_ENV, "cannot make the folder");
  e = (struct base_error){0};
  tiny_put("file", "", 0);
  ck_assert_int_eq(weights_write(w, scratch_path("file"), &e), -1);
  said(BASE_ENV, "it is no folder");
  weights_free(w);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("weights");
  TCase *t = tcase_create("weights");
  tcase_add_checked_fixture(t, setup, scratch_close);
  tcase_add_loop_test(t, round_trip, 0, 8);
  tcase_add_loop_test(t, copies, 0, 8);
  tcase_add_loop_test(t, visits, 0, 2);
  tcase_add_test(t, streamed_bytes);
  tcase_add_test(t, stopped);
  tcase_add_test(t, draws);
  tcase_add_loop_test(t, unaligned, 0, 2);
  tcase_add_test(t, halves);
  tcase_add_test(t, other_configurations);
  tcase_add_test(t, other_dtype);
  tcase_add_test(t, spare_tensors);
  tcase_add_test(t, cut_and_grown);
  tcase_add_loop_test(t, no_numbers, 0, 4);
  tcase_add_test(t, no_files);
  tcase_add_test(t, shards);
  tcase_add_test(t, bad_shards);
  tcase_add_test(t, unwritable);
  suite_add_tcase(s, t);
  return suite_run(s);
}
