/* SPDX-License-Identifier: GPL-3.0-or-later */
/* AIConfigurator's tables as a calibration of tables: surfaces, the GEMM law, collectives,
 * attention. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/assemble.h"
#include "calib/collective.h"
#include "calib/gemm_fit.h"
#include "calib/grid_fit.h"
#include "tests/scratch.h"
#include "tests/suite.h"
#include "tests/toy_tables.h"

/* ----------------------------------------------------------------------- surfaces and GEMMs --- */

static double plane(const void *arg, const int64_t *x)
{
  (void)arg;
  return 100 + 3.0 * (double)x[0] + 5.0 * (double)x[1] + 7.0 * (double)x[2];
}

/* Where the points are a multiple of the law, every estimate is, too, on the grid and off it. */
START_TEST(test_surface_follows_law)
{
  struct surface s = {.rank = 3, .law = plane};
  struct base_error e = {0};
  s.point = calloc(27, sizeof *s.point);
  ck_assert_ptr_nonnull(s.point);
  for (int i = 0; i < 27; i++) {
    struct surface_point *p = &s.point[s.n];
    *p = (struct surface_point){{1 + i / 9 * 10, 2 + i / 3 % 3 * 20, 3 + i % 3 * 30}, 0};
    p->ps = 2 * llround(plane(NULL, p->x));
    s.n += i != 13; /* the one in the middle is missing */
  }
  ck_assert_int_eq(surface_index(&s, &e), 0);
  const int64_t asked[][3] = {{1, 2, 3},  {11, 22, 33}, {11, 2, 40}, {5, 10, 33},
                              {5, 10, 7}, {100, 2, 3},  {0, 2, 3}};
  for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
    ck_assert_int_eq(surface_ps(&s, asked[i]), 2 * llround(plane(NULL, asked[i])));
  surface_free(&s);
}
END_TEST

/* A measured point has its time, whatever the law says of it. */
START_TEST(test_surface_keeps_measured)
{
  struct surface s = {.rank = 1, .law = plane};
  struct base_error e = {0};
  s.point = calloc(4, sizeof *s.point);
  ck_assert_ptr_nonnull(s.point);
  s.point[s.n++] = (struct surface_point){{10, 0, 0}, 999};
  s.point[s.n++] = (struct surface_point){{20, 0, 0}, 500};
  s.point[s.n++] = (struct surface_point){{20, 0, 0}, 400}; /* the quicker of two stays */
  ck_assert_int_eq(surface_index(&s, &e), 0);
  ck_assert_uint_eq(s.n, 2);
  const int64_t x[][3] = {{10, 0, 0}, {20, 0, 0}, {15, 0, 0}};
  ck_assert_int_eq(surface_ps(&s, x[0]), 999);
  ck_assert_int_eq(surface_ps(&s, x[1]), 400);
  double ratio = (999 / 130.0 + 400 / 160.0) / 2;
  ck_assert_int_eq(surface_ps(&s, x[2]), llround(ratio * 145));
  s.held = SURFACE_POINTS; /* none of two is inner */
  ck_assert_int_eq(surface_ps(&s, x[0]), 999);
  surface_free(&s);
}
END_TEST

#define GEMM_HEAD "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n"
static const struct gemm_law known = {80.0 /* per ps: 80 TFLOP/s */, 0.8, 4e6, 2};

/* A table by the law, all its times `times` as long. */
static void write_gemms(double times)
{
  static const int size[] = {64, 128, 256, 512, 1024, 2048}, m[] = {1, 4, 16, 64, 256, 1024};
  FILE *f = fopen(scratch_path("gemm.csv"), "w");
  ck_assert_ptr_nonnull(f);
  fputs(GEMM_HEAD, f);
  for (int i = 0; i < 216; i++) {
    const int64_t x[] = {size[i / 36], size[i / 6 % 6], m[i % 6]};
    fprintf(f, "E,1,TEST GPU,gemm,b,bfloat16,%d,%d,%d,%.9f\n", m[i % 6], size[i / 6 % 6],
            size[i / 36], times * gemm_law_ps(&known, x) / 1e9);
  }
  ck_assert_int_eq(fclose(f), 0);
}

/* The fit finds the law that made the table, and prices shapes that it does not have. */
START_TEST(test_gemm_fit)
{
  struct gemm_table t;
  struct gemm_fit f;
  struct calibration_residual r[4];
  struct base_error e = {0};
  write_gemms(1);
  ck_assert_msg(!gemm_load(&t, scratch_path("gemm.csv"), "bfloat16", "TEST GPU", &e), "%s", e.text);
  ck_assert_msg(!gemm_fit_make(&f, &t, TABLE_BF16, 2, "GEMM", r, &e), "%s", e.text);
  ck_assert_double_eq_tol(f.law.flops / known.flops, 1, 0.01);
  ck_assert_double_eq_tol(f.law.bytes / known.bytes, 1, 0.01);
  ck_assert_double_eq_tol(f.law.fixed / known.fixed, 1, 0.01);
  const int64_t off[] = {1500, 700, 64};
  ck_assert_double_eq_tol((double)gemm_fit_ps(&f, 64, 700, 1500) / gemm_law_ps(&known, off), 1,
                          0.01);
  ck_assert_str_eq(r[0].curve, "GEMM");
  ck_assert_str_eq(r[3].curve, "GEMM, new shapes");
  ck_assert_double_lt(r[3].p95, 0.02);
  ck_assert_uint_eq(r[0].heldout, 3); /* of 16 wide points with m on both sides */
  gemm_fit_free(&f);
  gemm_free(&t);
}
END_TEST

/* Only points between others are held out: an edge that leaps is nobody's error. */
START_TEST(test_inner_hold_out)
{
  static const uint32_t order[] = {1, 0};
  struct grid_point p[25];
  struct calibration_residual r[3];
  struct base_error e = {0};
  for (int i = 0; i < 25; i++) {
    int corner = (i / 5 == 0 || i / 5 == 4) && (i % 5 == 0 || i % 5 == 4);
    p[i] = (struct grid_point){{1 + i / 5, 1 + i % 5}, corner ? 1000000 : 1000 * (10 + i % 5)};
  }
  ck_assert_int_eq(grid_errors(2, order, p, 25, "toy", r, &e), 0);
  ck_assert_uint_eq(r[0].samples, 25);
  ck_assert_uint_eq(r[0].heldout, 4); /* every fifth of the 21 that are no corner */
  ck_assert_double_lt(r[0].p50, 1e-6);
}
END_TEST

/* ------------------------------------------------------------------------------- collectives -- */

#define REDUCE_HEAD                                                                                \
  "framework,version,device,op_name,kernel_source,allreduce_dtype,num_gpus,message_size,latency,"  \
  "backend\n"
#define NCCL_HEAD                                                                                  \
  "framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n"

static void write_text(const char *name, const char *text)
{
  FILE *f = fopen(scratch_path(name), "w");
  ck_assert_ptr_nonnull(f);
  fputs(text, f);
  ck_assert_int_eq(fclose(f), 0);
}

/* The custom kernel as far as it was measured, NCCL beyond, in whatever order they are given. */
START_TEST(test_collective_tables)
{
  struct base_error e = {0};
  write_text("reduce.csv",
             REDUCE_HEAD "E,1,TEST GPU,all_reduce,custom,bfloat16,2,512,0.004,graph\n"
                         "E,1,TEST GPU,all_reduce,custom,bfloat16,2,512,0.9,eager\n"
                         "E,1,TEST GPU,all_reduce,custom,bfloat16,2,1024,0.006,graph\n");
  write_text("nccl.csv", NCCL_HEAD "N,2,TEST GPU,all_reduce,NCCL,half,2,512,0.02\n"
                                   "N,2,TEST GPU,all_reduce,NCCL,half,2,4096,0.03\n"
                                   "N,2,TEST GPU,all_gather,NCCL,half,2,8192,0.03\n"
                                   "N,2,TEST GPU,all_reduce,NCCL,half,4,8192,0.03\n");
  for (int swap = 0; swap < 2; swap++) {
    const char *const path[] = {scratch_path(swap ? "nccl.csv" : "reduce.csv"),
                                scratch_path(swap ? "reduce.csv" : "nccl.csv")};
    struct operators t = {0};
    ck_assert_msg(!collective_load(&t, path, 2, 2, "TEST GPU", &e), "%s", e.text);
    ck_assert_uint_eq(t.ncollective, 3);
    ck_assert_int_eq(t.collective[0].bytes, 1024);
    ck_assert_int_eq(t.collective[0].ps, toy_us(4));
    ck_assert_int_eq(t.collective[2].bytes, 8192);
    ck_assert_int_eq(t.collective[2].ps, toy_us(30));
    operators_free(&t);
  }
}
END_TEST

/* Derived from the GPUs' own link where the description has one, else from the host's. */
START_TEST(test_collective_derived)
{
  struct calibration c = {.tp = 2};
  struct gpu g = {.name = "box", .host_link_bytes_per_s = 1, .gpu_link_bytes_per_s = 1 << 30};
  struct base_error e = {0};
  ck_assert_int_eq(collective_derive(&c, &g, toy_us(2), NULL, &e), 0);
  ck_assert_int_eq(c.collective.y[0], toy_us(4));
  ck_assert_int_eq(c.collective.y[1],
                   toy_us(4) + INT64_C(4) * 1000000000000); /* 4 GiB at 1 GiB/s */
  ck_assert_ptr_nonnull(strstr(c.collective_note, "derived"));
  free(c.collective.x);
  free(c.collective.y);
}
END_TEST

/* ---------------------------------------------------------------------------- the whole --- */

/* The published all-reduce and attention of other shapes, in AIConfigurator's form. */
static void write_attention(void)
{
  static const char head[] =
      "framework,version,device,op_name,kernel_source,batch_size,isl,num_heads,num_key_value_heads,"
      "head_dim,beam_width,attn_dtype,kv_cache_dtype,step,window_size,latency\n";
  FILE *f = fopen(scratch_path("context.csv"), "w"),
       *g = fopen(scratch_path("generation.csv"), "w");
  ck_assert(f && g);
  fputs(head, f);
  fputs(head, g);
  for (int b = 1; b <= 16; b *= 2)
    for (int t = 16; t <= 1024; t *= 2) {
      double pairs = b * t * (t + 1) / 2.0;
      fprintf(f, "E,1,TEST GPU,c,fa,%d,%d,4,2,64,1,bfloat16,bfloat16,0,0,%.9f\n", b, t,
              (10 + pairs / 100 + b * t * 0.5) / 1e3);
      fprintf(g, "E,1,TEST GPU,g,fa,%d,1,4,2,64,1,bfloat16,bfloat16,%d,0,%.9f\n", b, t,
              (5 + b * t / 100.0) / 1e3);
    }
  ck_assert_int_eq(fclose(f), 0);
  ck_assert_int_eq(fclose(g), 0);
}

/* GEMMs, attention as measured, what is derived on top, and the file that comes of it. */
START_TEST(test_kernels)
{
  const char *const path[] = {scratch_path("gemm.csv"), scratch_path("context.csv"),
                              scratch_path("generation.csv")};
  struct llm m;
  struct gpu g;
  struct base_error e = {0};
  const struct calib_input in = toy_input(path, 3, &m, &g);
  write_gemms(1);
  write_attention();
  struct calibration *c = calib_fit_kernels(&in, NULL, &e);
  ck_assert_msg(c != NULL, "%s:%u: %s", e.file, e.line, e.text);
  const struct roofline r = {&m, &g, 2, 2};
  /* n 512 (q, k and v), 256, 1,024, 256 and k 256, 256, 256, 512 were measured */
  const int64_t shape[][3] = {{256, 512, 64}, {256, 256, 64}, {256, 1024, 64}, {512, 256, 64}};
  double sum = (double)roofline_elementwise(&r, 64);
  for (int i = 0; i < 4; i++)
    sum += gemm_law_ps(&known, shape[i]);
  ck_assert_int_eq(c->body.x[3], 64);
  ck_assert_double_eq_tol((double)c->body.y[3], sum, 1e3);
  double pairs = 256 * 257 / 2.0;
  ck_assert_int_eq(toy_at(&c->prompt, 256, 0, 0, 0), toy_us(10 + pairs / 100 + 128));
  ck_assert_double_eq_tol((double)toy_at(&c->prompt, 256, 1024, 0, 0),
                          (double)toy_us(10 + (pairs + 256 * 1024) / 100 + 128), 3e7);
  ck_assert_ptr_nonnull(strstr(c->derived, CALIBRATION_HISTORY));
  ck_assert_int_eq(calibration_write(c, scratch_path("a.h5"), &e), 0);
  struct calibration *again = calibration_open(scratch_path("a.h5"), &e);
  ck_assert_msg(again != NULL, "%s", e.text);
  ck_assert_str_eq(again->derived, c->derived);
  ck_assert_str_eq(again->digest, c->digest);
  strcpy(again->derived, "nothing of it"); /* it is part of the digest */
  calibration_seal(again);
  ck_assert_str_ne(again->digest, c->digest);
  calibration_free(again);
  calibration_free(c);
}
END_TEST

/* A table that is quicker than the GPU can be is another GPU's. */
START_TEST(test_kernels_impossible)
{
  const char *const path[] = {scratch_path("gemm.csv"), scratch_path("context.csv"),
                              scratch_path("generation.csv")};
  struct llm m;
  struct gpu g;
  struct base_error e = {0};
  const struct calib_input in = toy_input(path, 3, &m, &g);
  write_gemms(0.01);
  write_attention();
  g.bf16_flops = INT64_C(1000000000000);
  ck_assert_ptr_null(calib_fit_kernels(&in, NULL, &e));
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_ptr_nonnull(strstr(e.text, "multiplications alone"));
}
END_TEST

int main(void)
{
  Suite *s = suite_create("kernel tables");
  TCase *t = tcase_create("tables"), *i = tcase_create("import");
  tcase_add_checked_fixture(t, scratch_open, scratch_close);
  tcase_add_test(t, test_surface_follows_law);
  tcase_add_test(t, test_surface_keeps_measured);
  tcase_add_test(t, test_gemm_fit);
  tcase_add_test(t, test_inner_hold_out);
  tcase_add_test(t, test_collective_tables);
  tcase_add_test(t, test_collective_derived);
  tcase_add_checked_fixture(i, scratch_open, scratch_close);
  tcase_set_timeout(i, 60);
  tcase_add_test(i, test_kernels);
  tcase_add_test(i, test_kernels_impossible);
  suite_add_tcase(s, t);
  suite_add_tcase(s, i);
  return suite_run(s);
}
