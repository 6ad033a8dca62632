/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Files of tensors: what is found in a good one, and each way in which one is bad. */
#include <string.h>

#include "backend/safetensors.h"
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

static const char two[] = "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
                          "\"__metadata__\":{\"who\":\"me\"},"
                          "\"a\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[8,14]},"
                          "\"none\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[8,8]},"
                          "\"one\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[14,15]}}  ";

START_TEST(tensors_by_name)
{
  tiny_safetensors("x", two, 15);
  struct safetensors *f = safetensors_open(scratch_path("x"), &e);
  ck_assert_msg(f != NULL, "%s", e.text);
  ck_assert_uint_eq(f->n, 4);
  const struct safetensors_tensor *a = safetensors_find(f, "a"), *b = safetensors_find(f, "b");
  ck_assert(a && b && safetensors_find(f, "one") && safetensors_find(f, "none"));
  ck_assert_ptr_null(safetensors_find(f, "c"));
  ck_assert(a->dtype == SAFETENSORS_BF16 && a->ndims == 1 && a->shape[0] == 3 && a->bytes == 6);
  ck_assert(b->dtype == SAFETENSORS_F32 && b->ndims == 2 && b->shape[1] == 1 && b->bytes == 8);
  ck_assert_int_eq(((const char *)a->data)[0], 8);
  ck_assert_int_eq(((const char *)b->data)[7], 7);
  safetensors_close(f);
}
END_TEST

static const struct {
  const char *header;
  size_t size;
  const char *said;
} bad_file[] = {
    {"", 0, "no JSON object"},
    {" {}", 0, "no JSON object"},
    {"[]", 0, "no JSON object"},
    {"{\"a\":1}", 0, "tensor 'a' has no dtype"},
    {"{\"a\":{\"dtype\":\"F31\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "one that is not known"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":3,\"data_offsets\":[0,4]}}", 4, "has no shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4,
     "not of whole numbers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4,
     "not of whole numbers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
     "more than 8 dimensions"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}", 4,
     "a shape that no file can hold"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "no data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "no data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "no data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7,
     "truncated: tensor 'a' ends at byte 8 of the data, of which there are 7"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
     "tensor 'a' has 4 bytes, but its type and shape need 8"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}",
     6, "tensor 'b' overlaps another one"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4, "tensor 'b' overlaps another one"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
     12, "tensor 'b' lies behind bytes that are of no tensor"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 6,
     "2 bytes behind the last tensor are of none"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     8, "duplicate"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "must be a map of texts"},
    {"{\"__metadata__\":[]}", 0, "must be a map of texts"},
};

START_TEST(bad_files)
{
  tiny_safetensors("x", bad_file[_i].header, bad_file[_i].size);
  ck_assert_ptr_null(safetensors_open(scratch_path("x"), &e));
  said(BASE_INPUT, bad_file[_i].said);
  ck_assert_ptr_nonnull(strchr(e.file, '/'));
}
END_TEST

START_TEST(cut_headers)
{
  tiny_put("x", "", 0);
  ck_assert_ptr_null(safetensors_open(scratch_path("x"), &e));
  said(BASE_INPUT, "truncated: it has 0 bytes");
  e = (struct base_error){0};
  tiny_put("x", "\7\0\0\0\0\0\0", 7);
  ck_assert_ptr_null(safetensors_open(scratch_path("x"), &e));
  said(BASE_INPUT, "truncated: it has 7 bytes");
  e = (struct base_error){0};
  tiny_put("x", "\3\0\0\0\0\0\0\0{}", 10);
  ck_assert_ptr_null(safetensors_open(scratch_path("x"), &e));
  said(BASE_INPUT, "its header is of 3 bytes, but 2 are there");
  e = (struct base_error){0};
  tiny_put("x", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
  ck_assert_ptr_null(safetensors_open(scratch_path("x"), &e));
  said(BASE_INPUT, "the header is of 18446744073709551615 bytes");
  e = (struct base_error){0};
  ck_assert_ptr_null(safetensors_open(scratch_path("y"), &e));
  said(BASE_INPUT, "cannot read");
}
END_TEST

/* 100,000,000 bytes are allowed, so one more are too many though the file has them. */
START_TEST(header_of_100_megabytes)
{
  tiny_put("x", "\x01\xe1\xf5\x05\0\0\0\0{", 9);
  tiny_resize("x", 150000000);
  ck_assert_ptr_null(safetensors_open(scratch_path("x"), &e));
  said(BASE_INPUT, "the header is of 100000001 bytes, but 100000000 are allowed");
}
END_TEST

/* Too few bytes put are a defect of the writer's caller, and no file. */
START_TEST(unfinished)
{
  struct safetensors_tensor t = {.name = "a", .dtype = SAFETENSORS_F32, .ndims = 1, .shape = {2}};
  struct safetensors_writer w;
  float x = 1;
  ck_assert_int_eq(safetensors_create(&w, scratch_path("x"), &t, 1, &e), 0);
  ck_assert_int_eq(safetensors_put(&w, &x, sizeof x, &e), 0);
  ck_assert_int_eq(safetensors_commit(&w, &e), -1);
  said(BASE_INVARIANT, "was not given the bytes that its header promises");
  ck_assert_int_ne(access(scratch_path("x"), F_OK), 0);
}
END_TEST

START_TEST(written)
{
  struct safetensors_tensor t[] = {
      {.name = "z", .dtype = SAFETENSORS_BF16, .ndims = 2, .shape = {1, 3}},
      {.name = "a", .dtype = SAFETENSORS_F32, .ndims = 1, .shape = {2}},
  };
  struct safetensors_writer w;
  ck_assert_int_eq(safetensors_create(&w, scratch_path("x"), t, 2, &e), 0);
  ck_assert_int_eq(safetensors_put(&w, "zz", 2, &e), 0);
  ck_assert_int_eq(safetensors_put(&w, "ZZZZaaaaAAAA", 12, &e), 0);
  ck_assert_int_eq(safetensors_commit(&w, &e), 0);
  struct safetensors *f = safetensors_open(scratch_path("x"), &e);
  ck_assert_msg(f != NULL && f->n == 2, "%s", e.text);
  ck_assert_mem_eq(safetensors_find(f, "z")->data, "zzZZZZ", 6);
  ck_assert_mem_eq(safetensors_find(f, "a")->data, "aaaaAAAA", 8);
  ck_assert_uint_eq((uintptr_t)safetensors_find(f, "z")->data % 64, 0);
  safetensors_close(f);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("safetensors");
  TCase *t = tcase_create("safetensors");
  tcase_add_checked_fixture(t, setup, scratch_close);
  tcase_add_test(t, tensors_by_name);
  tcase_add_loop_test(t, bad_files, 0, sizeof bad_file / sizeof bad_file[0]);
  tcase_add_test(t, cut_headers);
  tcase_add_test(t, header_of_100_megabytes);
  tcase_add_test(t, written);
  tcase_add_test(t, unfinished);
  suite_add_tcase(s, t);
  return suite_run(s);
}
