/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a user reads: tables and files, on hand-made runs whose figures are known. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/outfile.h"
#include "sim/report/move.h"
#include "sim/report/report.h"
#include "tests/report_fixture.h"
#include "tests/suite.h"

static char *text;
static size_t text_size;

/* No line wider than the page, nothing but ASCII. */
static void check_page(void)
{
  const char *line = text;

  while (*line) {
    size_t n = strcspn(line, "\n");

    ck_assert_msg(n <= REPORT_WIDTH, "%zu columns: %.*s", n, (int)n, line);
    for (size_t i = 0; i < n; i++)
      ck_assert((unsigned char)line[i] >= ' ' && (unsigned char)line[i] < 127);
    line += n + (line[n] == '\n');
  }
}

static void print_table(void)
{
  FILE *out = open_memstream(&text, &text_size);
  struct base_error e = {0};

  ck_assert_ptr_nonnull(out);
  ck_assert_int_eq(report_table(&f.x, out, &e), 0);
  fclose(out);
  check_page();
}

static void says(const char *what)
{
  if (!strstr(text, what))
    fprintf(stderr, "%s", text);
  ck_assert_msg(strstr(text, what) != NULL, "'%s' is not in the text", what);
}

START_TEST(table_says)
{
  reach();
  print_table();
  says("80.00      49.54 +61.5%");
  says("baseline");
  says("1.6000x, consistent with 1.5066x of report 014 (+6.2%); not a prediction");
  says("live rate");
  says("PASS");
  says("Student-t 95% interval [1.3516, 1.8484]");
  says("live useful");
  says("25.00%");
  says("k3");
  free(text);
}
END_TEST

/* Pooled over the seeds, by kind; an arm without any has no such line. */
START_TEST(steps_outside)
{
  for (uint32_t i = 0; i < SEEDS; i++) {
    struct summary *s = &f.xarm[SHARED].run[i].sum;
    s->steps = 1000;
    s->misses = (struct cost_misses){.steps = 7, .several = 3};
    s->misses.beyond[2] = 5;
    s->misses.below[3] = 4;
  }
  reach();
  print_table();
  says("shared: 21 of 3000 steps were costed outside what was measured (rows 15, context below "
       "12).");
  ck_assert_ptr_null(strstr(text, "dedicated: 0"));
  free(text);
}
END_TEST

START_TEST(table_of_nothing)
{
  for (int a = 0; a < 2; a++)
    for (uint32_t i = 0; i < f.xarm[a].ncandidates * SEEDS; i++)
      f.xarm[a].run[i].sum = (struct summary){.runs = 1, .ngpus = 1, .partial = i == 2};
  f.x.partial = 1;
  reach();
  print_table();
  says("no completed requests");
  says("PARTIAL");
  says("INCONCLUSIVE");
  ck_assert_ptr_null(strstr(text, "nan"));
  free(text);
}
END_TEST

START_TEST(full_stream)
{
  FILE *out = fopen("/dev/full", "w");
  struct base_error e = {0};

  ck_assert_ptr_nonnull(out);
  reach();
  ck_assert_int_eq(report_table(&f.x, out, &e), -1);
  ck_assert_int_eq(e.code, BASE_ENV);
  fclose(out);
}
END_TEST

/* Two values: the ratio falls from 1.6 at l/b 1/4 to 1.4 at 1/2, so 1.5066 is passed between. */
static struct report_sweep hand_sweep(struct scenario_sweep *w, struct report_sweep_point *p,
                                      struct report_sweep_arm arm[2][2])
{
  static const char *value[] = {"12/s", "18/s"};

  *w = (struct scenario_sweep){
      "curve", "The ratio over l/b", "/s:scenario/s:class/@rate", SWEEP_CURVE, 2, value, "A note."};
  for (int i = 0; i < 2; i++) {
    arm[i][SHARED] = (struct report_sweep_arm){1, 1, 52e6, 1.6 - 0.2 * i, 1 - 0.02 * i, 0.04, 1e4};
    arm[i][DEDICATED] = (struct report_sweep_arm){1, 1, 32e6 + i, NAN, 1, 0.03, 1e4};
    p[i] = (struct report_sweep_point){value[i], arm[i], 3000, 12000, 0.25 * (i + 1), 1.0};
  }
  return (struct report_sweep){&f.s, w, SHARED, 2, p, 0, 0, SHARED, 1, 52e6 / (32e6 + 1)};
}

START_TEST(sweep_tables)
{
  struct scenario_sweep w;
  struct report_sweep_point p[2];
  struct report_sweep_arm arm[2][2];
  struct report_sweep t = hand_sweep(&w, p, arm);
  struct base_error e = {0};
  FILE *out = open_memstream(&text, &text_size);

  ck_assert_int_eq(report_sweep_print(&t, out, &e), 0);
  w.kind = SWEEP_BEST;
  ck_assert_int_eq(report_sweep_print(&t, out, &e), 0);
  fclose(out);
  check_page();
  says("l + b = 18267 tokens/s");
  says("passes that ratio at l/b = 0.367");
  says("1.6000        1.6000"); /* measured, formula 2 * 1 / 1.25 */
  says("Best against best: 1.6250x");
  says("A note.");
  free(text);
}
END_TEST

START_TEST(explain_table)
{
  struct report_explain_row row[2] = {
      {&f.parameter[0], {1, "16.2/s", 1.62, 0.0125}, {1, "20/s", NAN, NAN}},
      {&f.parameter[1], {.figure = NAN}, {.figure = NAN}}};
  struct report_explain t = {&f.s, SHARED, METRIC_RATIO, 1.6, 2, row, 0};
  struct base_error e = {0};
  FILE *out = open_memstream(&text, &text_size);

  ck_assert_int_eq(report_explain_print(&t, out, &e), 0);
  fclose(out);
  check_page();
  says("+1.2%");
  says("(at 20/s) undefined");
  says("inferred");
  says("decides l/b");
  free(text);
}
END_TEST

/* What a tenth makes of a text; NULL: nothing. */
static const struct move_case {
  const char *from, *down, *up, *whole_down, *whole_up;
} moves[] = {
    {"18/s", "16.2/s", "19.8/s", "16/s", "20/s"},
    {"1.5", "1.35", "1.65", NULL, NULL},
    {"0.69", "0.621", "0.759", NULL, NULL},
    {"99%", "89.1%", "108.9%", "89%", "109%"},
    {"100ms", "90ms", "110ms", "90ms", "110ms"},
    {"3", "2.7", "3.3", "2", "4"},
    {"92", "82.8", "101.2", "83", "101"},
    {"4.8TB/s", "4.32TB/s", "5.28TB/s", NULL, NULL},
    {"0", NULL, NULL, NULL, NULL},
    {"fp8", NULL, NULL, NULL, NULL},
    {"17 29 43", NULL, NULL, NULL, NULL},
    {"", NULL, NULL, NULL, NULL},
    {"123456789012345678901", NULL, NULL, NULL, NULL},
};

static void check_move(int rc, const char *got, const char *want)
{
  ck_assert_int_eq(rc, want ? 0 : -1);
  if (want)
    ck_assert_str_eq(got, want);
}

START_TEST(moves_of_text)
{
  const struct move_case *m = &moves[_i];
  char buf[64];

  check_move(move_exact(m->from, -1, buf, sizeof buf), buf, m->down);
  check_move(move_exact(m->from, 1, buf, sizeof buf), buf, m->up);
  check_move(move_whole(m->from, -1, buf, sizeof buf), buf, m->whole_down);
  check_move(move_whole(m->from, 1, buf, sizeof buf), buf, m->whole_up);
}
END_TEST

static char *slurp(const char *path, size_t *size)
{
  struct base_error e = {0};
  char *bytes = base_read_file(path, 1 << 24, size, &e);

  ck_assert_msg(bytes != NULL, "%s", e.text);
  return bytes;
}

/* Pooled over the seeds and the classes in the table, by class in the JSON file; where no server
 * has a prefix cache neither says a word of one. */
START_TEST(cache_hits)
{
  struct base_error e = {0};
  size_t n;

  reach();
  print_table();
  ck_assert_ptr_null(strstr(text, "Prefix cache"));
  free(text);
  for (uint32_t i = 0; i < SEEDS; i++) {
    struct summary *s = &f.xarm[SHARED].run[i].sum;
    s->looked_up_tokens[0] = 300;
    s->looked_up_tokens[1] = 100;
    s->cached_tokens[0] = 50;
    s->cached_tokens[1] = 40;
  }
  reach();
  print_table();
  says("Prefix cache hits, %");
  says("22.5");
  free(text);
  ck_assert_int_eq(report_json(&f.x, NULL, 0, NULL, "check_report_3.json", &e), 0);
  text = slurp("check_report_3.json", &n);
  says("\"looked_up_tokens\": 1200");
  says("\"cached_tokens\": 120");
  says("\"hit_rate\": 0.22500000000000001");
  free(text);
  unlink("check_report_3.json");
}
END_TEST

START_TEST(json_twice)
{
  struct scenario_sweep w;
  struct report_sweep_point p[2];
  struct report_sweep_arm arm[2][2];
  struct report_sweep t = hand_sweep(&w, p, arm);
  struct base_error e = {0};
  size_t n1, n2;
  char *a, *b;
  json_t *doc;
  double ratio;

  reach();
  ck_assert_int_eq(report_json(&f.x, &t, 1, NULL, "check_report_1.json", &e), 0);
  ck_assert_int_eq(report_json(&f.x, &t, 1, NULL, "check_report_2.json", &e), 0);
  a = slurp("check_report_1.json", &n1);
  b = slurp("check_report_2.json", &n2);
  ck_assert_uint_eq(n1, n2);
  ck_assert_mem_eq(a, b, n1);
  doc = json_loads(a, JSON_REJECT_DUPLICATES, NULL);
  ck_assert_ptr_nonnull(doc);
  ratio = json_real_value(json_object_get(
      json_object_get(json_array_get(json_object_get(doc, "arms"), SHARED), "ratio"), "pooled"));
  ck_assert(ratio == f.xarm[SHARED].ratio_pooled);
  ck_assert(json_is_null(json_object_get(doc, "explain")));
  json_decref(doc);
  free(a);
  free(b);
  unlink("check_report_1.json");
  unlink("check_report_2.json");
}
END_TEST

START_TEST(json_full_disk)
{
  struct base_error e = {0};

  reach();
  ck_assert_int_eq(report_json(&f.x, NULL, 0, NULL, "/dev/full", &e), -1);
  ck_assert_int_eq(e.code, BASE_ENV);
  e = (struct base_error){0};
  ck_assert_int_eq(report_json(&f.x, NULL, 0, NULL, "no-such-folder/x.json", &e), -1);
  ck_assert_int_eq(e.code, BASE_ENV);
}
END_TEST

/* Tells of the hand-made result as the run of an arm, the last request first. */
static int tell_requests(const struct experiment_sink *sink, const struct experiment_place *run,
                         struct base_error *e)
{
  struct world_result r = hand_result();

  if (sink->begin(sink->ctx, run, e))
    return -1;
  for (uint64_t i = r.records; i-- > 0;)
    sink->ended(sink->ctx, (lull_id)i, &r.record[i]);
  return sink->end(sink->ctx, &r, e);
}

static int write_requests(const char *path, struct base_error *e)
{
  struct world_config cfg = {.nclasses = 2, .ngpus = 2, .cls = two_classes};
  struct scenario_server server = {.id = "gpu,0"};
  const struct experiment_place run = {&f.s, SHARED, 0, 17, "", &cfg};
  struct report_requests *file = report_requests_open(path, &f.s, e);
  int rc;

  ck_assert_ptr_nonnull(file);
  shared_candidate[0].server = &server;
  shared_candidate[0].nservers = 1;
  rc = tell_requests(report_requests_sink(file), &run, e);
  shared_candidate[0].server = NULL;
  shared_candidate[0].nservers = 0;
  if (!rc)
    return report_requests_close(file, 0, e);
  report_requests_abandon(file);
  return rc;
}

START_TEST(requests_file)
{
  struct base_error e = {0};
  size_t n;

  ck_assert_int_eq(write_requests("check_report.csv", &e), 0);
  text = slurp("check_report.csv", &n);
  says("arm,candidate,seed,id,class,server,arrival_ps,");
  says("\r\nshared,,17,1,\"li\"\"ve, fast\",\"gpu,0\",0,0,100000000000,180000000000,10,9,9,1,7,6,"
       "finished,1\r\n");
  says("shared,,17,4,\"li\"\"ve, fast\",,0,0,,,10,9,0,0,0,0,unfinished,0\r\n");
  says("shared,,17,5,batch,\"gpu,0\",0,0,100000000,200000000,10,5,5,0,0,0,finished,\r\n");
  free(text);
  unlink("check_report.csv");
}
END_TEST

START_TEST(requests_full_disk)
{
  struct base_error e = {0};

  ck_assert_int_eq(write_requests("/dev/full", &e), -1);
  ck_assert_int_eq(e.code, BASE_ENV);
}
END_TEST
/* Runs the suite. */
int main(void)
{
  Suite *s = suite_create("report");
  TCase *t = tcase_create("report");

  tcase_add_checked_fixture(t, set_up, tear_down);
  tcase_add_test(t, table_says);
  tcase_add_test(t, steps_outside);
  tcase_add_test(t, cache_hits);
  tcase_add_test(t, table_of_nothing);
  tcase_add_test(t, full_stream);
  tcase_add_test(t, sweep_tables);
  tcase_add_test(t, explain_table);
  tcase_add_loop_test(t, moves_of_text, 0, (int)(sizeof moves / sizeof *moves));
  tcase_add_test(t, json_twice);
  tcase_add_test(t, json_full_disk);
  tcase_add_test(t, requests_file);
  tcase_add_test(t, requests_full_disk);
  suite_add_tcase(s, t);
  return suite_run(s);
}
