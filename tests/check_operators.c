/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Importing tables of operators, and the files that come of it. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/outfile.h"
#include "calib/grid_fit.h"
#include "calib/operator_sum.h"
#include "calib/operators.h"
#include "tests/scratch.h"
#include "tests/suite.h"
#include "tests/toy_tables.h"

static const char *const table[] = {"dense.csv", "per_sequence.csv", "attention.csv", "skew.csv"};
enum { TABLES = 4 };

static void write_file(const char *path, const char *data, size_t n)
{
  FILE *f = fopen(path, "wb");
  ck_assert_ptr_nonnull(f);
  ck_assert_uint_eq(fwrite(data, 1, n, f), n);
  ck_assert_int_eq(fclose(f), 0);
}

/* Removes every line that begins with `start`. */
static void drop_lines(char *text, const char *start)
{
  char *to = text;
  for (char *line = text, *next; *line; line = next) {
    char *end = strchr(line, '\n');
    next = end ? end + 1 : line + strlen(line);
    if (strncmp(line, start, strlen(start))) {
      memmove(to, line, (size_t)(next - line));
      to += next - line;
    }
  }
  *to = 0;
}

/*
 * Copies the tables to the folder, one of them changed: the first `from` becomes `to`; "-": every
 * line that begins with `from` goes; NULL: the file ends there.
 */
static void copy_tables(int which, const char *from, const char *to)
{
  for (int i = 0; i < TABLES; i++) {
    size_t n;
    struct base_error e = {0};
    char *text = base_read_file(toy_path(table[i]), 1 << 20, &n, &e), *at, changed[65536];
    ck_assert_msg(text != NULL, "%s", e.text);
    snprintf(changed, sizeof changed, "%s", text);
    if (i == which && to && strcmp(to, "-") == 0) {
      drop_lines(changed, from);
    } else if (i == which) {
      at = strstr(text, from);
      ck_assert_msg(at != NULL, "'%s' is not in %s", from, table[i]);
      snprintf(changed + (at - text), sizeof changed - (size_t)(at - text), "%s%s", to ? to : "",
               to ? at + strlen(from) : "");
    }
    write_file(scratch_path(table[i]), changed, strlen(changed));
    free(text);
  }
}

static struct calibration *import_copies(FILE *talk, struct base_error *e)
{
  const char *path[TABLES];
  for (int i = 0; i < TABLES; i++)
    path[i] = scratch_path(table[i]);
  return toy_import(path, TABLES, 1, talk, e);
}

/* ---------------------------------------------------------------------------------- what is made
 */

static int64_t us(double v)
{
  return (int64_t)(v * 1e6 + 0.5);
}

START_TEST(test_import)
{
  struct calibration *c = toy_calibration();
  ck_assert_str_eq(c->name, "box-toy-bf16");
  ck_assert_str_eq(c->engine, "vLLM, version not stated");
  ck_assert_int_eq(c->law, CALIBRATION_TABLES);
  ck_assert_uint_eq(c->body.n, 5); /* 2 tokens cost as 4 */
  ck_assert_int_eq(c->body.x[3], 64);
  ck_assert_int_eq(c->body.y[3], us(76)); /* layernorm twice */
  ck_assert_int_eq(c->once.y[4], us(15));
  ck_assert_int_eq(c->head.y[1], us(69));
  ck_assert_int_eq(c->decode.y[3 * 3 + 1], us(12)); /* 8 rows of 64 */
  ck_assert_int_eq(c->prompt.y[1 * 3 + 2], us(77)); /* chunk 64 behind 256 */
  ck_assert_int_eq(c->mixed.y[15], us(427));
  ck_assert_uint_eq(c->skew_decode.n, 2);
  ck_assert_int_eq(c->skew_decode.y[0], 200000);
  ck_assert_int_eq(c->skew_mixed.y[1], 250000);
  ck_assert_uint_eq(c->nsources, 4);
  ck_assert_str_eq(c->source[0].licence, "MIT");
  ck_assert_uint_eq(c->nsamples, 13);
  ck_assert_str_eq(c->sample[11].name, "attention");
  ck_assert_uint_eq(c->sample[11].n, 37);
  ck_assert_int_eq(c->sample[11].v[4], us(4.25));
  calibration_free(c);
}
END_TEST

/* Everything comes back; two writes are equal bytes; the digest is over all of it. */
START_TEST(test_round_trip)
{
  struct base_error e = {0};
  char a[65], b[65];
  struct calibration *c = toy_calibration();
  ck_assert_msg(!calibration_write(c, scratch_path("a.h5"), &e), "%s", e.text);
  struct calibration *r = calibration_open(scratch_path("a.h5"), &e);
  ck_assert_msg(r != NULL, "%s", e.text);
  ck_assert_str_eq(r->digest, c->digest);
  calibration_seal(r); /* over what was read, not what was stated */
  ck_assert_str_eq(r->digest, c->digest);
  ck_assert_int_eq(calibration_write(r, scratch_path("b.h5"), &e), 0);
  ck_assert_int_eq(base_sha256_file(scratch_path("a.h5"), a, &e), 0);
  ck_assert_int_eq(base_sha256_file(scratch_path("b.h5"), b, &e), 0);
  ck_assert_str_eq(a, b);
  int64_t *number[] = {&r->once.y[0],         &r->mixed.y[3],       &r->mixed.x[1][0],
                       &r->prompt.y[0],       &r->skew_decode.y[0], &r->skew_mixed.x[0],
                       &r->sample[11].v[100], &r->sample[2].v[0]};
  for (size_t i = 0; i < sizeof number / sizeof number[0]; i++) {
    ++*number[i];
    calibration_seal(r);
    ck_assert_msg(strcmp(r->digest, c->digest) != 0, "number %zu is not in the digest", i);
    --*number[i];
  }
  r->tp = 2;
  calibration_seal(r);
  ck_assert_str_ne(r->digest, c->digest);
  calibration_free(r);
  calibration_free(c);
}
END_TEST

/* A damaged or cut file is an error, never a crash, and never another calibration. */
START_TEST(test_damaged)
{
  struct base_error e = {0};
  size_t n;
  struct calibration *c = toy_calibration();
  ck_assert_int_eq(calibration_write(c, scratch_path("a.h5"), &e), 0);
  char *data = base_read_file(scratch_path("a.h5"), 1 << 24, &n, &e);
  ck_assert_ptr_nonnull(data);
  for (size_t i = 0; i < n; i += 1 + i / 8 + i % 5) {
    struct base_error flip = {0}, cut = {0};
    data[i] ^= 4;
    write_file(scratch_path("b.h5"), data, n);
    data[i] ^= 4;
    ck_assert_msg(!calibration_open(scratch_path("b.h5"), &flip), "a flip at %zu was not seen", i);
    write_file(scratch_path("b.h5"), data, i);
    ck_assert_ptr_null(calibration_open(scratch_path("b.h5"), &cut));
    ck_assert_int_eq(flip.code, BASE_INPUT);
    ck_assert_int_eq(cut.code, BASE_INPUT);
  }
  free(data);
  calibration_free(c);
}
END_TEST

/* Content that no calibration by tables may have. */
static void spoil(struct calibration *c, int which)
{
  switch (which) {
  case 0:
    c->mixed.y[0] = -1;
    break;
  case 1:
    c->mixed.x[3][1] = c->mixed.x[3][0];
    break;
  case 2:
    c->prompt.x[0][0] = 0;
    break;
  case 3:
    c->skew_decode.y[0] = 1000001;
    break;
  case 4:
    c->tp = 0;
    break;
  case 5:
    c->collective_note[0] = 0;
    break;
  case 6:
    c->once.n = 1;
    break;
  case 7:
    c->sample[0].columns[0] = 0;
    break;
  default:
    c->mixed.x[0][1] = (1 << 24) + 1;
    break;
  }
}
enum { SPOILS = 9 };

START_TEST(test_refused_content)
{
  struct base_error e = {0};
  struct calibration *c = toy_calibration();
  spoil(c, _i);
  calibration_seal(c);
  ck_assert_int_eq(calibration_write(c, scratch_path("a.h5"), &e), -1);
  ck_assert_int_eq(e.code, BASE_INPUT);
  calibration_free(c);
}
END_TEST

/* ------------------------------------------------------------------------------------- bad input
 */

static const struct {
  int file;
  const char *from, *to, *says;
  unsigned line;
} bad[] = {
    {0, "time_us", "time_ms", "in microseconds", 1},
    {0, "time_us", "t", "no column 'time_us'", 1},
    {2, "kv_decode", "ctx", "no column 'kv_decode'", 1},
    {3, "t_max_us", "t_max", "in microseconds", 1},
    {0, "act_fn,1,1", "act_fn,1,-1", "time_us='-1'", 26},
    {0, "act_fn,1,1", "act_fn,1,nan", "time_us='nan'", 26},
    {0, "act_fn,1,1", "act_fn,1,0", "above 0", 26},
    {0, "act_fn,1,1", "act_fn,1,1ms", "contradicts the header", 26},
    {0, "act_fn,1,1", "act_fn,0,1", "tokens must be above 0", 26},
    {0, "act_fn,4,1", "act_fn,1,1", "given in line 26", 27},
    {0, "act_fn,1,1", "actfn,1,1", "did you mean 'act_fn'", 26},
    {0, "act_fn,1,1", "qk_norm,1,1", "has no layer 'qk_norm'", 26},
    {0, "o_proj", "-", "no row of layer 'o_proj'", 0},
    {1, "sampler", "-", "no row of layer 'sampler'", 0},
    {2, "64,0,0,0,", "64,0,0,16,", "both be above 0", 17},
    {2, "64,0,0,0,", "0,64,1,16,", "history, but no chunk", 17},
    {2, "64,0,0,0,", "16,64,0,0,", "given in line 15", 17},
    {2, "0,0,", "-", "no row of decode attention", 0},
    {2, "64,256,0,0,77", NULL, "no row of mixed attention", 0},
    {2, "16,0,1,16,11.75", "x,0,1,16,11.75", "prefill_chunk='x'", 23},
    {2, "0,0,1,16,4.25\n", NULL, "no row that fits", 0},
    {0, "layer,tokens", "op,n", "of no table that is known", 1},
};

START_TEST(test_bad_table)
{
  struct base_error e = {0};
  copy_tables(bad[_i].file, bad[_i].from, bad[_i].to);
  struct calibration *c = import_copies(NULL, &e);
  ck_assert_ptr_null(c);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_msg(strstr(e.text, bad[_i].says) != NULL, "%s", e.text);
  ck_assert_msg(e.line == bad[_i].line, "line %u: %s", e.line, e.text);
  ck_assert_msg(strstr(e.file, table[bad[_i].file]) != NULL, "%s", e.file);
}
END_TEST

START_TEST(test_missing_and_double)
{
  struct base_error e = {0}, f = {0}, g = {0};
  const char *const two[] = {toy_path(table[0]), toy_path(table[2])};
  const char *const twice[] = {toy_path(table[0]), toy_path(table[1]), toy_path(table[0])};
  ck_assert_ptr_null(toy_import(two, 2, 1, NULL, &e));
  ck_assert_ptr_nonnull(strstr(e.text, "per_sequence table is missing"));
  ck_assert_ptr_null(toy_import(twice, 3, 1, NULL, &f));
  ck_assert_ptr_nonnull(strstr(f.text, "second dense table"));
  ck_assert_ptr_null(toy_import(two, 2, 3, NULL, &g));
  ck_assert_ptr_nonnull(strstr(g.text, "cannot share the 4 heads"));
}
END_TEST

/* Times that fall as work grows are told with their row, and kept. */
START_TEST(test_falls)
{
  struct base_error e = {0};
  size_t n;
  copy_tables(0, "act_fn,256,6", "act_fn,256,1");
  FILE *talk = fopen(scratch_path("talk"), "w");
  ck_assert_ptr_nonnull(talk);
  struct calibration *c = import_copies(talk, &e);
  ck_assert_int_eq(fclose(talk), 0);
  ck_assert_msg(c != NULL, "%s", e.text);
  char *text = base_read_file(scratch_path("talk"), 1 << 20, &n, &e);
  ck_assert_ptr_nonnull(text);
  ck_assert_msg(strstr(text,
                       "dense.csv: 1 of 36 rows are quicker than their neighbour with less work; "
                       "most: row 29 by 50.0% (than row 28)") != NULL,
                "%s", text);
  free(text);
  calibration_free(c);
}
END_TEST

/* -------------------------------------------------------------------------------- grids and skew
 */

/* Two grids in one table, a coarse and a fine one: their union has holes, which lie on the lines.
 */
START_TEST(test_grid_holes)
{
  static const uint32_t order[] = {1, 0};
  struct grid_point p[32];
  size_t n = 0;
  struct base_error e = {0};
  struct lattice l = {0};
  for (int64_t x = 10; x <= 40; x += 30)
    for (int64_t y = 0; y <= 8; y += 4)
      p[n++] = (struct grid_point){{x, y}, 1000 + 7 * x + 11 * y};
  for (int64_t y = 2; y <= 6; y += 2) /* y = 4 is of both, y = 2 and 6 of this line alone */
    p[n++] = (struct grid_point){{20, y}, 1000 + 7 * 20 + 11 * y};
  ck_assert_int_eq(grid_make(&l, 2, order, p, n, &e), 0);
  ck_assert_uint_eq(lattice_cells(&l), 15);
  for (uint32_t i = 0; i < 3; i++)
    for (uint32_t j = 0; j < 5; j++)
      ck_assert_int_eq(l.y[i * 5 + j], 1000 + 7 * l.x[0][i] + 11 * l.x[1][j]);
  struct lattice_point at[] = {{75, 3}, {13, 2}}; /* 25 and 6.5 */
  ck_assert_int_eq(lattice_value(&l, at), 1000 + 7 * 25 + 71);
  at[0] = (struct lattice_point){100, 1}; /* beyond: the line goes on */
  ck_assert_int_eq(lattice_value(&l, at), 1000 + 7 * 100 + 71);
  at[0] = (struct lattice_point){1, 1}; /* below: the first stays */
  ck_assert_int_eq(lattice_value(&l, at), 1000 + 7 * 10 + 71);
  ck_assert_uint_eq(lattice_outside(&l, at, 0), 1);
  ck_assert_uint_eq(lattice_outside(&l, at, 1), 0);
  lattice_free(&l);
}
END_TEST

/* From 384 to 400, 16 apart, it rises at once; from 400 to 417 on the line; neighbours stay. */
START_TEST(test_plateaus)
{
  const int64_t x[] = {383, 384, 400, 417}, y[] = {50, 51, 67, 84};
  const int64_t want_x[] = {383, 384, 385, 400, 417}, want_y[] = {50, 51, 67, 67, 84};
  struct calibration_curve v = {4, malloc(sizeof x), malloc(sizeof y)};
  struct base_error e = {0};
  ck_assert(v.x && v.y);
  memcpy(v.x, x, sizeof x);
  memcpy(v.y, y, sizeof y);
  ck_assert_int_eq(operator_plateaus(&v, &e), 0);
  ck_assert_uint_eq(v.n, 5);
  ck_assert_mem_eq(v.x, want_x, sizeof want_x);
  ck_assert_mem_eq(v.y, want_y, sizeof want_y);
  free(v.x);
  free(v.y);
}
END_TEST

/* An all-reduce table gives the collectives of a group; rows of other sizes and ways are skipped.
 */
START_TEST(test_collective)
{
  static const char text[] =
      "framework,version,device,op_name,kernel_source,allreduce_dtype,num_gpus,message_size,"
      "latency,backend\n"
      "E,1,TEST GPU,all_reduce,graph,bfloat16,2,256,0.004,graph\n"
      "E,1,TEST GPU,all_reduce,eager,bfloat16,2,256,0.9,eager\n"
      "E,1,TEST GPU,all_reduce,graph,bfloat16,4,256,0.8,graph\n"
      "E,1,TEST GPU,all_reduce,graph,bfloat16,2,65536,0.02,graph\n";
  const char *const path[] = {toy_path(table[0]), toy_path(table[1]), toy_path(table[2]),
                              scratch_path("reduce.csv")};
  struct base_error e = {0}, f = {0};
  write_file(path[3], text, sizeof text - 1);
  struct calibration *c = toy_import(path, 4, 2, NULL, &e);
  ck_assert_msg(c != NULL, "%s", e.text);
  ck_assert_str_eq(c->collective_note, "measured");
  ck_assert_uint_eq(c->collective.n, 2);
  ck_assert_int_eq(c->collective.x[0], 512);
  ck_assert_int_eq(c->collective.y[1], us(20));
  calibration_free(c);
  ck_assert_ptr_null(toy_import(path, 4, 1, NULL, &f)); /* none of one GPU */
  ck_assert_ptr_nonnull(strstr(f.text, "no row that fits"));
}
END_TEST

static Suite *make_suite(void)
{
  Suite *s = suite_create("operators");
  TCase *t = tcase_create("import");
  tcase_add_checked_fixture(t, scratch_open, scratch_close);
  tcase_add_test(t, test_import);
  tcase_add_test(t, test_round_trip);
  tcase_add_test(t, test_damaged);
  tcase_add_loop_test(t, test_refused_content, 0, SPOILS);
  tcase_add_loop_test(t, test_bad_table, 0, sizeof bad / sizeof bad[0]);
  tcase_add_test(t, test_missing_and_double);
  tcase_add_test(t, test_falls);
  tcase_add_test(t, test_grid_holes);
  tcase_add_test(t, test_plateaus);
  tcase_add_test(t, test_collective);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return suite_run(make_suite());
}
