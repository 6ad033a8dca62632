/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Importers of vidur and splitwise, the roofline, and all importers on the published tables. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calib/assemble.h"
#include "calib/collective.h"
#include "calib/gemm_fit.h"
#include "calib/grid_fit.h"
#include "models/cost.h"
#include "tests/scratch.h"
#include "tests/suite.h"
#include "tests/toy_tables.h"

/* A file of tests/data beside the operators'. */
static const char *data_path(const char *name)
{
  static char path[8][600];
  static unsigned next;
  next = (next + 1) % 8;
  snprintf(path[next], sizeof path[next], "%.*s../%s",
           (int)(strlen(toy_path("")) > 500 ? 500 : strlen(toy_path(""))), toy_path(""), name);
  return path[next];
}

/* -------------------------------------------------------------------------------------- vidur --
 */

START_TEST(test_vidur)
{
  const char *const path[] = {data_path("vidur/attention.csv"), data_path("vidur/mlp.csv")};
  struct llm m;
  struct gpu g;
  struct base_error e = {0};
  const struct calib_input in = toy_input(path, 2, &m, &g);
  struct calibration *c = calib_fit_vidur(&in, NULL, &e);
  ck_assert_msg(c != NULL, "%s:%u: %s", e.file, e.line, e.text);
  ck_assert_str_eq(c->name, "box-toy-bf16");
  ck_assert_uint_eq(c->body.n, 5);
  for (int i = 0; i < 5; i++) { /* operators 2 to 10 us, and 1 + 2 once, of 1 + tokens / 100 */
    int same = i == 1;          /* 2 tokens cost as 4 */
    double times = 1 + (double)c->body.x[i + same] / 100;
    ck_assert_int_eq(c->body.y[i], toy_us(54 * times));
    ck_assert_int_eq(c->once.y[i], toy_us(3 * times));
  }
  ck_assert_int_eq(toy_at(&c->prompt, 64, 64, 0, 0), toy_us(6 + 64 * (64 + 32) / 256.0));
  const struct lattice decode = calibration_grid_lattice(&c->decode);
  ck_assert_int_eq(toy_at(&decode, 4, 128, 0, 0), toy_us(5 + 4 * 128 / 64.0));
  ck_assert_int_eq(toy_at(&c->mixed, 64, 64, 4, 128),
                   toy_at(&c->prompt, 64, 64, 0, 0) + toy_at(&decode, 4, 128, 0, 0));
  ck_assert_ptr_nonnull(strstr(c->derived, "LM head"));
  ck_assert_ptr_null(strstr(c->derived, "attention,"));
  calibration_free(c);
}
END_TEST

/* A group: the rows of its size, and all-reduce among as many GPUs of one node. */
START_TEST(test_vidur_group)
{
  const char *const path[] = {data_path("vidur/mlp.csv"), data_path("vidur/all_reduce.csv")};
  struct llm m;
  struct gpu g;
  struct base_error e = {0};
  struct calib_input in = toy_input(path, 2, &m, &g);
  in.tp = 2;
  in.derive = 1;
  struct calibration *c = calib_fit_vidur(&in, NULL, &e);
  ck_assert_msg(c != NULL, "%s:%u: %s", e.file, e.line, e.text);
  ck_assert_int_eq(c->body.y[0], toy_us(27 * 1.01));
  ck_assert_uint_eq(c->collective.n, 3);
  ck_assert_int_eq(c->collective.y[0], toy_us(10));
  ck_assert_str_eq(c->collective_note, "measured");
  ck_assert_ptr_nonnull(strstr(c->derived, "attention"));
  calibration_free(c);
  in.derive = 0; /* never in silence */
  ck_assert_ptr_null(calib_fit_vidur(&in, NULL, &e));
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_ptr_nonnull(strstr(e.text, "--derive"));
}
END_TEST

/* ---------------------------------------------------------------------------------- splitwise --
 */

START_TEST(test_splitwise)
{
  const char *const path[] = {data_path("splitwise/perf_model.csv")};
  struct llm m;
  struct gpu g;
  struct base_error e = {0};
  const struct calib_input in = toy_input(path, 1, &m, &g);
  struct calibration *c = calib_fit_splitwise(&in, NULL, &e);
  ck_assert_msg(c != NULL, "%s:%u: %s", e.file, e.line, e.text);
  ck_assert_uint_eq(c->nsamples, 1);
  ck_assert_uint_eq(c->sample[0].n, 27); /* not that of the other model */
  const struct cost_settings s = {.max_rows = 32, .max_tokens = 4096};
  struct cost_model *cost = cost_from_calibration(c, &s, &e);
  ck_assert_msg(cost != NULL, "%s", e.text);
  struct cost_shape prompt = {.chunk_tokens = 256,
                              .chunks = 1,
                              .chunk_ends = 1,
                              .chunk_work = 256 * 257 / 2},
                    rows = {.rows = 8, .ctx_q16 = INT64_C(8 * 80) << 16};
  struct cost_step step;
  cost_eval(cost, &prompt, &step); /* a whole step costs what was measured: 10 + 0.1 * 256 ms */
  ck_assert_double_eq_tol((double)step.ticks * LULL_TICK_PS / 1e9, 35.6, 0.01);
  cost_eval(cost, &rows, &step); /* 5 + 0.5 * 8 + 0.001 * 8 * 80 ms */
  ck_assert_double_eq_tol((double)step.ticks * LULL_TICK_PS / 1e9, 9.64, 0.01);
  lull_ticks alone = step.ticks;
  rows.chunk_tokens = 64;
  rows.chunks = 1;
  rows.chunk_work = 64 * 65 / 2;
  cost_eval(cost, &rows, &step);
  ck_assert_int_gt(step.ticks, alone);
  cost_free(cost);
  calibration_free(c);
}
END_TEST

/* ------------------------------------------------------------------------------------ refusals --
 */

/* A table with one text replaced, and what is said of it. */
static const struct bad {
  const char *file, *from, *to;
  unsigned line; /* 0: the file as a whole */
  const char *says;
} bad[] = {
    {"vidur/mlp.csv", "num_tokens", "tokens", 1, "no column 'num_tokens'"},
    {"vidur/mlp.csv", "time_stats.add.median", "time_stats.add.mean", 1, "no column"},
    {"vidur/mlp.csv", "add.median", "add.median_us", 1, "these tables are in milliseconds"},
    {"vidur/mlp.csv", "0.00356,", "-0.00356,", 2, "not a number in range"},
    {"vidur/mlp.csv", "0.00356,", "nan,", 2, "not a number in range"},
    {"vidur/mlp.csv", "0.00356,", "0.00356ms,", 2, "unit of its own"},
    {"vidur/mlp.csv", "0.00356,", "0,", 2, "must be above 0"},
    {"vidur/mlp.csv", "4,2,256,512,32768,True,64,1", "4,2,128,512,32768,True,64,1", 3, "n_embd"},
    {"vidur/mlp.csv", "True,256,1", "False,256,1", 2, "gated"},
    {"vidur/mlp.csv", "True,256,1", "True,0,1", 2, "num_tokens must be above 0"},
    {"vidur/attention.csv", "1,16,0,True", "2,16,0,True", 2, "batch_size must be 1"},
    {"vidur/attention.csv", "1,16,0,True", "1,16,0,Maybe", 2, "must be True or False"},
    {"vidur/attention.csv", "kv_cache_size", "kv", 1, "no column 'kv_cache_size'"},
    {"splitwise/perf_model.csv", "prompt_time", "prompt_time_us", 1, "in milliseconds"},
    {"splitwise/perf_model.csv", "tensor_parallel", "tp", 1, "no column 'tensor_parallel'"},
    {"splitwise/perf_model.csv", "16.39", "-16.39", 2, "not a number in range"},
    {"splitwise/perf_model.csv", "16.39", "inf", 2, "not a number in range"},
    {"splitwise/perf_model.csv", "toy,box,64,1,32", "toy,box,0,1,32", 2, "must be above 0"},
    {"splitwise/perf_model.csv", "toy", "toys", 0, "no row of model 'toy'"},
};

/* Copies a file with every `from` (or, with a line, the first) replaced. */
static void spoil(const struct bad *b, const char *to_path)
{
  FILE *in = fopen(data_path(b->file), "r"), *out = fopen(to_path, "w");
  char line[4096];
  int done = 0;
  ck_assert(in && out);
  while (fgets(line, sizeof line, in)) {
    char *p = done && b->line ? NULL : strstr(line, b->from);
    if (p) {
      fprintf(out, "%.*s%s%s", (int)(p - line), line, b->to, p + strlen(b->from));
      done = 1;
    } else
      fputs(line, out);
  }
  ck_assert_msg(done, "'%s' is not in %s", b->from, b->file);
  fclose(in);
  ck_assert_int_eq(fclose(out), 0);
}

START_TEST(test_bad_tables)
{
  const struct bad *b = &bad[_i];
  int vidur = strncmp(b->file, "vidur", 5) == 0, attention = strstr(b->file, "attention") != NULL;
  const char *const path[] = {scratch_path("gemm.csv"),
                              data_path(attention ? "vidur/mlp.csv" : "vidur/attention.csv")};
  struct llm m;
  struct gpu g;
  struct base_error e = {0};
  spoil(b, path[0]);
  const struct calib_input in = toy_input(path, vidur ? 2 : 1, &m, &g);
  struct calibration *c = vidur ? calib_fit_vidur(&in, NULL, &e)
                                : calib_fit_splitwise(&in, NULL, &e);
  ck_assert_msg(!c, "%s with '%s' was taken", b->file, b->to);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_msg(strstr(e.text, b->says) != NULL, "%s", e.text);
  if (b->line) {
    ck_assert_str_eq(e.file, path[0]);
    ck_assert_uint_eq(e.line, b->line);
  }
}
END_TEST

/* ------------------------------------------------------------------------------------ roofline --
 */

START_TEST(test_roofline)
{
  struct llm m;
  struct gpu g;
  struct base_error e = {0};
  const struct calib_input in = toy_input(NULL, 0, &m, &g);
  const struct roofline r = {&m, &g, 2, 2};
  /* 2 * 1000^3 operations at 80% of 100 TFLOP/s; 2 * (1000 + 1) * 2 * 1000 B at 80% of 1 TB/s */
  ck_assert_int_eq(roofline_gemm(&r, 2, 1000, 1000, 1000), toy_us(4) + toy_us(25));
  ck_assert_int_eq(roofline_gemm(&r, 2, 1, 1000, 1000), toy_us(4) + toy_us(2.5 + 0.005));
  struct calibration *c = calib_fit_roofline(&in, NULL, &e);
  ck_assert_msg(c != NULL, "%s", e.text);
  ck_assert_str_eq(c->derived, CALIBRATION_ALL);
  ck_assert_uint_gt(c->nresiduals, 10); /* errors to expect, from published tables */
  ck_assert_uint_eq(c->nsources, 0);
  ck_assert_int_eq(calibration_write(c, scratch_path("a.h5"), &e), 0);
  calibration_free(c);
}
END_TEST

START_TEST(test_shard)
{
  struct llm m, part;
  struct base_error e = {0};
  ck_assert_int_eq(llm_open("llama-3.1-70b", &m, &e), 0);
  ck_assert_int_eq(llm_shard(&m, 8, &part, &e), 0);
  ck_assert_uint_eq(part.q_heads, 8);
  ck_assert_uint_eq(part.kv_heads, 1);
  ck_assert_uint_eq(part.intermediate, 3584);
  ck_assert_uint_eq(part.hidden, 8192);
  ck_assert_int_eq(llm_shard(&m, 16, &part, &e), 0);
  ck_assert_uint_eq(part.kv_heads, 1); /* each is held twice */
  ck_assert_int_eq(llm_shard(&m, 3, &part, &e), -1);
  ck_assert_int_eq(e.code, BASE_INPUT);
}
END_TEST

/* ------------------------------------------------------------------------------ published data --
 */

static const char *published(const char *name)
{
  static char path[8][1024];
  static unsigned next;
  next = (next + 1) % 8;
  snprintf(path[next], sizeof path[next], "%s/kernels/%s", getenv("LULL_DATA"), name);
  return path[next];
}

static const struct calibration_residual *residual(const struct calibration *c, const char *name)
{
  for (uint32_t i = 0; i < c->nresiduals; i++)
    if (!strcmp(c->residual[i].curve, name))
      return &c->residual[i];
  ck_abort_msg("there is no residual '%s'", name);
  return NULL;
}

/* Tables whose held-out errors are aimed at, and the aims: median and p95. */
static const struct aim {
  const char *gpu, *dtype, *files, *expected; /* expected: name in the roofline's errors */
} aims[] = {{"h200-sxm", "bfloat16", "h200-vllm0.24.0", "h200-sxm bf16"},
            {"h200-sxm", "fp8", "h200-vllm0.24.0", "h200-sxm fp8"},
            {"a100-80g", "bfloat16", "a100-vllm0.14.0", "a100-80g bf16"}};

static struct calibration *fit_published(const struct aim *a, struct llm *m, struct gpu *g,
                                         struct base_error *e)
{
  char name[3][128];
  static const char *const kind[] = {"gemm", "context-attention", "generation-attention"};
  const char *path[3];
  for (int i = 0; i < 3; i++) {
    snprintf(name[i], sizeof name[i], "aic-%s-%s.csv.gz", a->files, kind[i]);
    path[i] = published(name[i]);
  }
  ck_assert(!llm_open("llama-3.1-8b", m, e) && !gpu_open(a->gpu, g, e));
  const struct calib_input in = {path, 3, m, g, a->dtype, a->dtype, 1, NULL, 0};
  struct calibration *c = calib_fit_kernels(&in, NULL, e);
  ck_assert_msg(c != NULL, "%s:%u: %s", e->file, e->line, e->text);
  return c;
}

/* Of the roofline's expected errors: they are what comes of comparing again. */
static void check_expected(const struct aim *a, const struct calibration *measured, struct llm *m,
                           struct gpu *g, int parts)
{
  const struct calib_input in = {NULL, 0, m, g, a->dtype, a->dtype, 1, NULL, 0};
  struct base_error e = {0};
  struct calibration_residual r[8];
  struct calibration *derived = calib_fit_roofline(&in, NULL, &e);
  ck_assert_ptr_nonnull(derived);
  int n = calib_compare(measured, derived, r, 8, &e);
  ck_assert_int_eq(n, parts);
  for (int i = 0; i < n; i++) {
    char name[48];
    snprintf(name, sizeof name, "%.20s, %s", r[i].curve, a->expected);
    const struct calibration_residual *want = residual(derived, name);
    ck_assert_uint_eq(want->samples, r[i].samples);
    ck_assert_double_eq_tol(want->p50, r[i].p50, 0.002);
    ck_assert_double_eq_tol(want->p95, r[i].p95, 0.002);
  }
  calibration_free(derived);
}

START_TEST(test_published)
{
  const struct aim *a = &aims[_i];
  struct llm m;
  struct gpu g;
  struct base_error e = {0};
  struct calibration *c = fit_published(a, &m, &g, &e);
  char gemm[48];
  snprintf(gemm, sizeof gemm, "GEMM %s", a->dtype);
  const struct calibration_residual *r = residual(c, gemm);
  ck_assert_double_le(r->p50, 0.05);
  ck_assert_double_le(r->p95, 0.25);
  r = residual(c, "prefill attention");
  ck_assert_double_le(r->p50, 0.03 + 0.0005);
  ck_assert_double_le(r->p95, 0.12);
  r = residual(c, "decode attention");
  ck_assert_double_le(r->p50, 0.03);
  ck_assert_double_le(r->p95, 0.13); /* docs/holdout.md says why not 12% */
  check_expected(a, c, &m, &g, 4);
  calibration_free(c);
}
END_TEST

/* The roofline against the one table whose kernels are all measured. */
START_TEST(test_published_operators)
{
  static const struct aim a = {"rtx-pro-6000", "bfloat16", NULL, "rtx-pro-6000 bf16"};
  static const char stem[] = "llmservingsim-rtxpro6000-llama3.1-8b-tp1";
  char name[3][128];
  const char *path[3];
  struct llm m;
  struct gpu g;
  struct base_error e = {0};
  static const char *const kind[] = {"dense.csv.gz", "per_sequence.csv", "attention.csv.gz"};
  for (int i = 0; i < 3; i++) {
    snprintf(name[i], sizeof name[i], "%s-%s", stem, kind[i]);
    path[i] = published(name[i]);
  }
  ck_assert(!llm_open("llama-3.1-8b", &m, &e) && !gpu_open(a.gpu, &g, &e));
  const struct calib_operators in = {.path = path, .npaths = 3, .model = &m, .gpu = &g, .tp = 1};
  struct calibration *c = calib_fit_llmservingsim(&in, NULL, &e);
  ck_assert_msg(c != NULL, "%s:%u: %s", e.file, e.line, e.text);
  check_expected(&a, c, &m, &g, 5); /* and mixed */
  ck_assert_str_eq(c->source[0].kernel, "as vLLM chooses");
  calibration_free(c);
  ck_assert(!gpu_open("rtx-4090", &g, &e));
  ck_assert_ptr_null(calib_fit_llmservingsim(&in, NULL, &e));
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_ptr_nonnull(strstr(e.text, "by its SHA-256 this is a table of rtx-pro-6000"));
}
END_TEST

/* Vidur's profile of a fork, with attention, and splitwise's steps. */
START_TEST(test_published_others)
{
  const char *const vidur[] = {published("vidurfork-a30-qwen2-7b-mlp.csv.gz"),
                               published("vidurfork-a30-qwen2-7b-attention.csv.gz")},
                    *const steps[] = {published("splitwise-perf-model.csv.gz")};
  struct llm m;
  struct gpu g;
  struct base_error e = {0};
  ck_assert(!llm_open("qwen2-7b", &m, &e) && !gpu_open("a30", &g, &e));
  const struct calib_input in = {vidur, 2, &m, &g, "bfloat16", "bfloat16", 1, NULL, 0};
  struct calibration *c = calib_fit_vidur(&in, NULL, &e);
  ck_assert_msg(c != NULL, "%s:%u: %s", e.file, e.line, e.text);
  ck_assert_double_le(residual(c, "dense layer over tokens")->p95, 0.08);
  ck_assert_double_le(residual(c, "decode attention")->p95, 0.08);
  ck_assert_double_le(residual(c, "prefill attention")->p95, 0.12);
  calibration_free(c);
  ck_assert(!llm_open("llama-2-70b", &m, &e) && !gpu_open("h100-sxm", &g, &e));
  const struct calib_input whole = {steps, 1, &m, &g, "bfloat16", "bfloat16", 8, NULL, 0};
  c = calib_fit_splitwise(&whole, NULL, &e);
  ck_assert_msg(c != NULL, "%s:%u: %s", e.file, e.line, e.text);
  ck_assert_double_le(residual(c, "whole decode steps")->p50, 0.03);
  ck_assert_double_le(residual(c, "whole decode steps")->p95, 0.12);
  ck_assert_uint_eq(c->sample[0].n, 105);
  calibration_free(c);
}
END_TEST

static Suite *make_suite(void)
{
  Suite *s = suite_create("importers");
  TCase *i = tcase_create("import");
  tcase_add_checked_fixture(i, scratch_open, scratch_close);
  tcase_set_timeout(i, 60);
  tcase_add_test(i, test_vidur);
  tcase_add_test(i, test_vidur_group);
  tcase_add_test(i, test_splitwise);
  tcase_add_loop_test(i, test_bad_tables, 0, sizeof bad / sizeof bad[0]);
  tcase_add_test(i, test_roofline);
  tcase_add_test(i, test_shard);
  if (getenv("LULL_DATA")) {
    tcase_add_loop_test(i, test_published, 0, sizeof aims / sizeof aims[0]);
    tcase_add_test(i, test_published_operators);
    tcase_add_test(i, test_published_others);
  } else
    puts("# SKIP test_published*: LULL_DATA does not name the folder of the published tables");
  suite_add_tcase(s, i);
  return s;
}

int main(void)
{
  return suite_run(make_suite());
}
