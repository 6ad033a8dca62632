/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Calibration files, and making them from published tables. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/outfile.h"
#include "calib/calib.h"
#include "models/calibration.h"
#include "models/gpu.h"
#include "models/llm.h"
#include "tests/scratch.h"
#include "tests/suite.h"

static const char *const shipped[] = {"h200-sxm-qwen3-8b-fp8", "h200-sxm-qwen3-8b-bf16"};

static struct calibration *c;
static void setup(void)
{
  struct base_error e = {0};
  scratch_open();
  c = calibration_open(shipped[0], &e);
  ck_assert_msg(c != NULL, "%s", e.text);
}

static void teardown(void)
{
  scratch_close();
  calibration_free(c);
}

static void write_file(const char *path, const void *data, size_t n)
{
  FILE *f = fopen(path, "wb");
  ck_assert_ptr_nonnull(f);
  ck_assert_uint_eq(fwrite(data, 1, n, f), n);
  ck_assert_int_eq(fclose(f), 0);
}

/* ------------------------------------------------------------------------------------ files --- */

START_TEST(test_shipped)
{
  struct base_error e = {0};
  struct calibration *s = calibration_open(shipped[_i], &e);
  ck_assert_msg(s != NULL, "%s", e.text);
  ck_assert_str_eq(s->name, shipped[_i]);
  ck_assert_str_eq(s->model, "qwen3-8b");
  ck_assert_str_eq(s->gpu, "h200-sxm");
  ck_assert_str_eq(s->engine, "VLLM 0.24.0");
  ck_assert_str_eq(s->weight_dtype, _i ? "bfloat16" : "fp8");
  ck_assert_uint_eq(s->layers, 36);
  ck_assert_int_eq(s->kv_bytes_per_token, _i ? 147456 : 73728);
  ck_assert_int_eq(s->gpu_memory_bytes, INT64_C(141) << 30);
  ck_assert_uint_eq(s->nsources, 3);
  for (uint32_t i = 0; i < 3; i++) {
    ck_assert_str_eq(s->source[i].licence, "Apache-2.0");
    ck_assert_uint_eq(strlen(s->source[i].sha256), 64);
    ck_assert_ptr_nonnull(strstr(s->source[i].url, "095f58a51c4c"));
  }
  ck_assert_uint_ge(s->nresiduals, 5);
  calibration_free(s);
}
END_TEST

START_TEST(test_names)
{
  struct base_error e = {0}, f = {0}, g = {0};
  ck_assert_ptr_null(calibration_open("h200-sxm-qwen3-8b-fp", &e));
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_ptr_nonnull(strstr(e.text, "did you mean 'h200-sxm-qwen3-8b-fp8'"));
  ck_assert_ptr_null(calibration_open("./no-such-file.h5", &f));
  ck_assert_ptr_nonnull(strstr(f.text, "no-such-file"));
  write_file(scratch_path("a.h5"), "\211HDF\r\n\032\n", 8);
  ck_assert_ptr_null(calibration_open(scratch_path("a.h5"), &g));
  ck_assert_int_eq(g.code, BASE_INPUT);
  ck_assert_ptr_nonnull(strstr(g.text, "envelope"));
}
END_TEST

/* Everything comes back; two writes are equal bytes. */
START_TEST(test_round_trip)
{
  struct base_error e = {0};
  char a[65], b[65];
  c->residual[0].p50 = 1.0 / 3;
  c->residual[0].p95 = c->residual[0].max = 0.5;
  strcpy(c->source[1].file, "caf\303\251.csv");
  calibration_seal(c);
  ck_assert_msg(!calibration_write(c, scratch_path("a.h5"), &e), "%s", e.text);
  ck_assert_int_eq(calibration_write(c, scratch_path("b.h5"), &e), 0);
  ck_assert_int_eq(base_sha256_file(scratch_path("a.h5"), a, &e), 0);
  ck_assert_int_eq(base_sha256_file(scratch_path("b.h5"), b, &e), 0);
  ck_assert_str_eq(a, b);
  struct calibration *r = calibration_open(scratch_path("a.h5"), &e);
  ck_assert_msg(r != NULL, "%s", e.text);
  ck_assert_str_eq(r->digest, c->digest);
  ck_assert_str_eq(r->source[1].file, c->source[1].file);
  ck_assert(r->residual[0].p50 == 1.0 / 3);
  calibration_seal(r); /* over what was read, not what was stated */
  ck_assert_str_eq(r->digest, c->digest);
  calibration_free(r);
}
END_TEST

/* The digest is over every part of the content. */
START_TEST(test_digest)
{
  char before[65];
  int64_t *number[] = {&c->weight_bytes,     &c->body.x[3],       &c->head.y[5],
                       &c->draft_layer.y[0], &c->decode.y[100],   &c->decode.ctx_measured[2],
                       &c->prefill.x[1],     &c->prefill_token_fs};
  strcpy(before, c->digest);
  for (size_t i = 0; i < sizeof number / sizeof number[0]; i++) {
    ++*number[i];
    calibration_seal(c);
    ck_assert_str_ne(c->digest, before);
    --*number[i];
  }
  c->q_heads++;
  calibration_seal(c);
  ck_assert_str_ne(c->digest, before);
  c->q_heads--;
  c->source[2].url[0]++;
  calibration_seal(c);
  ck_assert_str_ne(c->digest, before);
  c->source[2].url[0]--;
  c->residual[1].max *= 1.5;
  calibration_seal(c);
  ck_assert_str_ne(c->digest, before);
}
END_TEST

/* Content that no calibration may have. */
static void spoil(int which)
{
  switch (which) {
  case 0:
    c->body.x[5] = c->body.x[4];
    break;
  case 1:
    c->head.y[0] = -1;
    break;
  case 2:
    c->decode.y[1] = c->decode.y[0] - 1;
    break;
  case 3:
    c->prefill.y[1] = c->prefill.y[0] - 1;
    break;
  case 4:
    c->prefill.x[0] = 1;
    break;
  case 5:
    c->layers = 0;
    break;
  case 6:
    c->decode.ctx_measured[0] = 2;
    break;
  case 7:
    c->residual[0].max = NAN;
    break;
  case 8:
    c->engine[0] = 0;
    break;
  case 9:
    strcpy(c->name, "a\nb");
    break;
  case 10:
    c->draft_layer.n = 1;
    break;
  case 11:
    c->body.y[0] = INT64_MAX;
    break;
  default:
    c->kv_bytes_per_token = -1;
    break;
  }
}
enum { SPOILS = 13 };

START_TEST(test_refused_content)
{
  struct base_error e = {0};
  spoil(_i);
  calibration_seal(c);
  ck_assert_int_eq(calibration_write(c, scratch_path("a.h5"), &e), -1);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_int_ne(access(scratch_path("a.h5"), F_OK), 0);
}
END_TEST

START_TEST(test_unsealed)
{
  struct base_error e = {0};
  c->body.y[7]++;
  ck_assert_int_eq(calibration_write(c, scratch_path("a.h5"), &e), -1);
  ck_assert_ptr_nonnull(strstr(e.text, "digest"));
}
END_TEST

START_TEST(test_write_fails)
{
  struct base_error e = {0}, f = {0};
  ck_assert_int_eq(calibration_write(c, scratch_path("none/a.h5"), &e), -1);
  ck_assert_int_eq(e.code, BASE_ENV);
  if (access("/dev/full", W_OK) == 0) {
    ck_assert_int_eq(calibration_write(c, "/dev/full", &f), -1);
    ck_assert_int_eq(f.code, BASE_ENV);
  }
}
END_TEST

/* A damaged or cut file is an error, never a crash, and never another calibration. */
START_TEST(test_damaged)
{
  struct base_error e = {0};
  size_t n;
  ck_assert_int_eq(calibration_write(c, scratch_path("a.h5"), &e), 0);
  char *data = base_read_file(scratch_path("a.h5"), 1 << 22, &n, &e);
  ck_assert_ptr_nonnull(data);
  const char *path = scratch_path("b.h5");
  for (size_t i = 0; i < n; i += 1 + i / 16 + i % 3) {
    data[i] ^= (char)(1 << (i % 8));
    write_file(path, data, n);
    data[i] ^= (char)(1 << (i % 8));
    struct base_error why = {0};
    ck_assert_msg(!calibration_open(path, &why), "a flip at %zu was not seen", i);
    ck_assert_int_eq(why.code, BASE_INPUT);
    write_file(path, data, i);
    struct base_error cut = {0};
    ck_assert_ptr_null(calibration_open(path, &cut));
    ck_assert_int_eq(cut.code, BASE_INPUT);
  }
  free(data);
}
END_TEST

/* ---------------------------------------------------------------------------------- importer ---
 */

/* Small tables of a toy model in the published form: what a sample costs is a formula. */
static const struct llm toy = {.name = "toy",
                               .hidden = 64,
                               .layers = 2,
                               .q_heads = 4,
                               .kv_heads = 2,
                               .head_dim = 16,
                               .intermediate = 128,
                               .vocab = 4096,
                               .max_position = 512,
                               .source = "test"};
static const struct gpu box = {.name = "box",
                               .device = "TEST GPU",
                               .memory_bytes = 1 << 30,
                               .memory_bytes_per_s = 1000000000000,
                               .bf16_flops = 100000000000000,
                               .fp8_flops = 200000000000000};

#define GEMM_HEAD "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n"
#define ATTENTION_HEAD                                                                             \
  "framework,version,device,op_name,kernel_source,batch_size,isl,num_heads,num_key_value_heads,"   \
  "head_dim,beam_width,attn_dtype,kv_cache_dtype,step,window_size,latency\n"

static double gemm_us(int m, int n, int k)
{
  return 4 + n * 0.01 + k * 0.02 + m * 0.5;
}

static void write_gemms(const char *device)
{
  static const int m[] = {1, 2, 4, 8, 64, 512}, n[] = {64, 192, 512, 1024}, k[] = {64, 256};
  FILE *f = fopen(scratch_path("gemm.csv"), "w");
  ck_assert_ptr_nonnull(f);
  fputs(GEMM_HEAD, f);
  for (size_t i = 0; i < 6 * 4 * 2; i++) {
    int a = m[i % 6], b = n[i / 6 % 4], d = k[i / 24];
    fprintf(f, "E,1,%s,gemm,q,fp8,%d,%d,%d,%.6f\n", device, a, b, d, gemm_us(a, b, d) / 2e3);
    fprintf(f, "E,1,%s,gemm,b,bfloat16,%d,%d,%d,%.6f\n", device, a, b, d, gemm_us(a, b, d) / 1e3);
    fprintf(f, "E,1,%s,gemm,x,fp8_block,%d,%d,%d,%.6f\n", device, a, b, d, 999.0);
  }
  ck_assert_int_eq(fclose(f), 0);
}

/* One kernel of each kind: 10 us + 0.01 us a pair + 0.5 us a token; 5 us + rows * ctx / 100. */
static void write_attention(void)
{
  FILE *f = fopen(scratch_path("context.csv"), "w"),
       *g = fopen(scratch_path("generation.csv"), "w");
  ck_assert(f && g);
  fputs(ATTENTION_HEAD, f);
  fputs(ATTENTION_HEAD, g);
  for (int b = 1; b <= 16; b *= 2)
    for (int t = 2; t <= 1024; t *= 2) {
      double pairs = b * t * (t + 1) / 2.0;
      fprintf(f, "E,1,TEST GPU,c,fa,%d,%d,4,2,16,1,bfloat16,fp8,0,0,%.9f\r\n", b, t,
              (10 + pairs / 100 + b * t * 0.5) / 1e3);
      fprintf(f, "E,1,TEST GPU,c,fa,%d,%d,8,2,16,1,bfloat16,fp8,0,0,1\n", b, t);
      if (b * t <= 4096)
        fprintf(g, "E,1,TEST GPU,g,fa,%d,1,4,2,16,1,bfloat16,fp8,%d,0,%.9f\n", b, t,
                (5 + b * t / 100.0) / 1e3);
    }
  ck_assert_int_eq(fclose(f), 0);
  ck_assert_int_eq(fclose(g), 0);
}

static struct calibration *import_toy(const char *weight, struct base_error *e)
{
  return calib_fit_aiconfigurator(scratch_path("gemm.csv"), scratch_path("context.csv"),
                                  scratch_path("generation.csv"), &toy, &box, weight, "fp8", NULL,
                                  e);
}

static int64_t ps(double us)
{
  return (int64_t)llround(us * 1e6);
}

START_TEST(test_import_formula)
{
  struct base_error e = {0};
  write_gemms("TEST GPU");
  write_attention();
  struct calibration *t = import_toy("fp8", &e);
  ck_assert_msg(t != NULL, "%s:%u: %s", e.file, e.line, e.text);
  ck_assert_str_eq(t->name, "box-toy-fp8");
  ck_assert_str_eq(t->engine, "E 1");
  ck_assert_uint_eq(t->body.n, 6);
  /* n 128 and 256 lie between measured ones, k 128 too, and 4,096 beyond: all on the plane. */
  double body = gemm_us(8, 128, 64) + gemm_us(8, 64, 64) + gemm_us(8, 256, 64) +
                gemm_us(8, 64, 128);
  ck_assert_int_le(llabs(t->body.y[3] - ps(body / 2)), 1000);
  ck_assert_int_le(llabs(t->draft_layer.y[3] - ps(body)), 1000);
  ck_assert_int_le(llabs(t->head.y[5] - ps(gemm_us(512, 4096, 64))), 1000);
  ck_assert_int_eq(t->decode.ctx[t->decode.nctx - 1], 1024);
  ck_assert_int_eq(t->decode.ctx_measured[0], 1024);
  ck_assert_int_eq(t->decode.ctx_measured[4], 256); /* 16 rows; beyond: extended on its line */
  ck_assert_int_le(llabs(t->decode.y[5 * t->decode.nctx - 1] - ps(5 + 16 * 1024 / 100.0)), 10);
  ck_assert_int_le(llabs(t->prefill_token_fs - 500000000), 1000000);
  for (uint32_t i = 0; i < t->prefill.n; i++) {
    double want = 10e6 + (double)t->prefill.x[i] * 1e4;
    ck_assert_double_eq_tol((double)t->prefill.y[i] / want, 1, 0.01);
  }
  for (uint32_t i = 0; i < t->nresiduals; i++)
    ck_assert_double_le(t->residual[i].p50, 0.01);
  calibration_free(t);
}
END_TEST

START_TEST(test_import_wrong_gpu)
{
  struct base_error e = {0};
  write_gemms("OTHER GPU");
  write_attention();
  ck_assert_ptr_null(import_toy("fp8", &e));
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_uint_eq(e.line, 2);
  ck_assert_ptr_nonnull(strstr(e.text, "OTHER GPU"));
}
END_TEST

START_TEST(test_import_wrong_type)
{
  struct base_error e = {0}, f = {0};
  ck_assert_ptr_null(import_toy("fp8_block", &e));
  ck_assert_ptr_nonnull(strstr(e.text, "launch"));
  ck_assert_ptr_null(import_toy("int4", &f));
  ck_assert_ptr_nonnull(strstr(f.text, "use fp8 or bfloat16"));
}
END_TEST

/* Tables that cannot be read: what stands in the GEMM file, what is said, in which line. */
#define ROW "E,1,TEST GPU,gemm,b,bfloat16,"
static const struct {
  const char *text, *says;
  unsigned line;
} bad_tables[] = {
    {"", "empty", 0},
    {"a,b\n", "no column 'gemm_dtype'", 1},
    {GEMM_HEAD, "no row of type", 0},
    {GEMM_HEAD ROW "1,2\n", "cells", 2},
    {GEMM_HEAD ROW "1,2,3,x\n", "latency='x'", 2},
    {GEMM_HEAD ROW "1,2,3,-1\n", "latency='-1'", 2},
    {GEMM_HEAD ROW "1,2,3,0\n", "above 0", 2},
    {GEMM_HEAD ROW "1,2,3,nan\n", "latency='nan'", 2},
    {GEMM_HEAD ROW "1,2,99999999999999999999,1\n", "k='9999", 2},
    {GEMM_HEAD ROW "1,64,64,1\n" ROW "2,64,64,1", "last line is not ended", 3},
    {GEMM_HEAD ROW "1,64,64,1\n", "lacks GEMMs near the shapes", 0},
    {GEMM_HEAD ROW "1,64,64,1\nF,1,TEST GPU,gemm,b,bfloat16,2,64,64,1\n", "of engine 'F 1'", 3},
    {GEMM_HEAD "\"E\"" ROW "1,2,3,4\n", "quoted", 2},
};

START_TEST(test_bad_table)
{
  struct base_error e = {0};
  write_attention();
  write_file(scratch_path("gemm.csv"), bad_tables[_i].text, strlen(bad_tables[_i].text));
  ck_assert_ptr_null(import_toy("fp8", &e));
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_msg(strstr(e.text, bad_tables[_i].says) != NULL, "%s", e.text);
  ck_assert_uint_eq(e.line, bad_tables[_i].line);
}
END_TEST

START_TEST(test_cut_gzip)
{
  struct base_error e = {0};
  size_t n;
  write_attention();
  gzFile z = gzopen(scratch_path("gemm.csv"), "wb");
  gzputs(z, GEMM_HEAD);
  for (int i = 0; i < 3000; i++)
    gzprintf(z, ROW "%d,64,64,0.%d\n", i, i * 7919 % 9973 + 1);
  ck_assert_int_eq(gzclose(z), Z_OK);
  char *data = base_read_file(scratch_path("gemm.csv"), 1 << 22, &n, &e);
  ck_assert_ptr_nonnull(data);
  write_file(scratch_path("gemm.csv"), data, n / 2);
  free(data);
  ck_assert_ptr_null(import_toy("bfloat16", &e));
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_msg(strstr(e.text, "cut short") != NULL, "%s", e.text);
}
END_TEST

/* ------------------------------------------------------------------- made again, where it can ---
 */

static void same_numbers(const char *what, const int64_t *a, const int64_t *b, size_t n,
                         double tolerance)
{
  for (size_t i = 0; i < n; i++) {
    double d = fabs((double)a[i] - (double)b[i]);
    ck_assert_msg(d <= 1 + tolerance * (double)a[i], "%s[%zu]: %lld is not %lld", what, i,
                  (long long)b[i], (long long)a[i]);
  }
}

static void same_curve(const char *what, const struct calibration_curve *a,
                       const struct calibration_curve *b, double tolerance)
{
  ck_assert_uint_eq(a->n, b->n);
  same_numbers(what, a->x, b->x, a->n, 0);
  same_numbers(what, a->y, b->y, a->n, tolerance);
}

static void same_grid(const struct calibration_grid *a, const struct calibration_grid *b)
{
  ck_assert_uint_eq(a->nrows, b->nrows);
  ck_assert_uint_eq(a->nctx, b->nctx);
  same_numbers("rows", a->rows, b->rows, a->nrows, 0);
  same_numbers("ctx", a->ctx, b->ctx, a->nctx, 0);
  same_numbers("ctx_measured", a->ctx_measured, b->ctx_measured, a->nrows, 0);
  same_numbers("decode", a->y, b->y, (size_t)a->nrows * a->nctx, 0);
}

/* The shipped files come from the tables: made again, by value (the robust fit uses libm). */
START_TEST(test_remake)
{
  const char *data = getenv("LULL_DATA"), *dtype = _i ? "bfloat16" : "fp8";
  static const char *const kind[] = {"gemm", "context-attention", "generation-attention"};
  char path[3][1024];
  struct llm model;
  struct gpu gpu;
  struct base_error e = {0};
  for (int i = 0; i < 3; i++)
    snprintf(path[i], sizeof path[i], "%s/kernels/aic-h200-vllm0.24.0-%s.csv.gz", data, kind[i]);
  ck_assert_int_eq(llm_open("qwen3-8b", &model, &e), 0);
  ck_assert_int_eq(gpu_open("h200-sxm", &gpu, &e), 0);
  struct calibration *made = calib_fit_aiconfigurator(path[0], path[1], path[2], &model, &gpu,
                                                      dtype, dtype, NULL, &e);
  ck_assert_msg(made != NULL, "%s:%u: %s", e.file, e.line, e.text);
  struct calibration *ours = calibration_open(shipped[_i], &e);
  ck_assert_ptr_nonnull(ours);
  ck_assert_str_eq(made->name, ours->name);
  same_curve("body", &ours->body, &made->body, 0);
  same_curve("head", &ours->head, &made->head, 0);
  same_curve("draft_layer", &ours->draft_layer, &made->draft_layer, 0);
  same_grid(&ours->decode, &made->decode);
  same_curve("prefill", &ours->prefill, &made->prefill, 1e-6);
  same_numbers("token", &ours->prefill_token_fs, &made->prefill_token_fs, 1, 1e-6);
  ck_assert_int_eq(ours->weight_bytes, made->weight_bytes);
  for (uint32_t i = 0; i < ours->nsources; i++)
    ck_assert_str_eq(ours->source[i].sha256, made->source[i].sha256);
  for (uint32_t i = 0; i < ours->nresiduals; i++)
    ck_assert_double_eq_tol(ours->residual[i].p95, made->residual[i].p95, 1e-4);
  calibration_free(ours);
  calibration_free(made);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *s = suite_create("calibration");
  TCase *f = tcase_create("files"), *i = tcase_create("import");
  tcase_add_checked_fixture(f, setup, teardown);
  tcase_add_loop_test(f, test_shipped, 0, 2);
  tcase_add_test(f, test_names);
  tcase_add_test(f, test_round_trip);
  tcase_add_test(f, test_digest);
  tcase_add_loop_test(f, test_refused_content, 0, SPOILS);
  tcase_add_test(f, test_unsealed);
  tcase_add_test(f, test_write_fails);
  tcase_add_test(f, test_damaged);
  tcase_add_checked_fixture(i, setup, teardown);
  tcase_add_test(i, test_import_formula);
  tcase_add_test(i, test_import_wrong_gpu);
  tcase_add_test(i, test_import_wrong_type);
  tcase_add_loop_test(i, test_bad_table, 0, sizeof bad_tables / sizeof bad_tables[0]);
  tcase_add_test(i, test_cut_gzip);
  if (getenv("LULL_DATA"))
    tcase_add_loop_test(i, test_remake, 0, 2);
  else
    puts("# SKIP test_remake: LULL_DATA does not name the folder of the published kernel tables");
  suite_add_tcase(s, f);
  suite_add_tcase(s, i);
  return s;
}

int main(void)
{
  return suite_run(make_suite());
}
