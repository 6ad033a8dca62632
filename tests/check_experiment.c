/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A small scenario through every room: read, frozen, run, judged, reported; and run again. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/outfile.h"
#include "sim/ledger/verdict.h"
#include "sim/report/report.h"
#include "tests/suite.h"

static const char *const file = "check_experiment.xml";

/* %s: the window. */
static const char *const body =
    "<scenario xmlns='urn:lull:scenario:1' version='1' id='small'>"
    "<title>Small</title><run window='%s' seeds='17 29'/>"
    "<machine><analytic base='3ms' per-token='20us' per-context='10ns' kv-per-token='64KiB'/>"
    "</machine>"
    "<engine max-seqs='64' token-budget='512tok' block='16tok' kv-blocks='4000'"
    " host-link='20GB/s' max-context='8192tok'/>"
    "<class id='live' kind='live'><arrivals process='poisson' rate='8/s'/>"
    "<prompt dist='lognormal' mean='100tok' sigma='0.5' max='512tok'/>"
    "<output dist='lognormal' mean='60tok' sigma='0.5' max='256tok'/>"
    "<slo ttft='100ms' tpot='30ms'/></class>"
    "<class id='batch' kind='batch'><arrivals process='backlog' below='32'/>"
    "<prompt dist='constant' mean='128tok'/><output dist='constant' mean='128tok'/></class>"
    "<arm id='shared' policy='priority'><server id='s' gpu='0' classes='live batch'/></arm>"
    "<arm id='fcfs' policy='fcfs'><server id='s' gpu='0' classes='live batch'/></arm>"
    "<arm id='dedicated' policy='dedicated' baseline='yes' qualify='99%%'>"
    "<server id='l' gpu='0' classes='live'/><server id='b' gpu='1' classes='batch'/>"
    "<candidate id='narrow'><set server='b' attribute='max-seqs' value='8'/></candidate>"
    "<candidate id='wide'><set server='b' attribute='max-seqs' value='64'/></candidate></arm>"
    "<gate id='gain' arm='shared' metric='ratio' min='1.2'/>"
    "<gate id='slo' arm='shared' metric='attainment' min='0.9'/>"
    "<parameter target=\"s:class[@id='live']/s:arrivals/@rate\" class='inferred'>Said.</parameter>"
    "<parameter target=\"s:class[@id='batch']/s:arrivals/@below\" class='fitted'>R.</parameter>"
    "<parameter target='s:run/@seeds' class='set'>Given.</parameter>"
    "<sweep id='r' kind='best' target=\"s:class[@id='batch']/s:arrivals/@below\""
    " values='8 32'/>"
    "</scenario>";

static struct scenario *scenario;

/* Writes the scenario with a window and opens it. */
static void open_with(const char *window)
{
  struct base_errors errors = {0};
  FILE *out = fopen(file, "w");

  ck_assert_ptr_nonnull(out);
  ck_assert_int_gt(fprintf(out, body, window), 0);
  ck_assert_int_eq(fclose(out), 0);
  scenario = scenario_open(file, NULL, &errors);
  ck_assert_msg(scenario != NULL, "%s", errors.n ? errors.item[0].text : "no error");
  base_errors_free(&errors);
}

static void close_all(void)
{
  scenario_close(scenario);
  unlink(file);
}

static struct experiment *run(const struct experiment_options *o)
{
  struct base_error e = {0};
  struct experiment *x = experiment_run(scenario, o, &e);

  ck_assert_msg(x != NULL, "%d %s", e.code, e.text);
  return x;
}

START_TEST(judged)
{
  struct experiment *x;

  open_with("20s");
  x = run(NULL);
  ck_assert_int_eq(x->exit_code, BASE_OK);
  ck_assert_int_eq(x->partial, 0);
  for (int k = 0; k < 2; k++) {
    ck_assert_int_eq(x->arm[2].best[k], 1); /* wide */
    ck_assert_double_gt(x->arm[0].ratio[k], 1.2);
    /* Common random numbers: one plan for all arms. */
    ck_assert_str_eq(x->arm[0].run[k].plan_digest, x->arm[2].run[2 + k].plan_digest);
    ck_assert_uint_eq(strlen(x->arm[0].run[k].log_digest), 32);
  }
  ck_assert_str_ne(x->arm[0].run[0].plan_digest, x->arm[0].run[1].plan_digest);
  ck_assert_str_ne(x->arm[0].run[0].log_digest, x->arm[0].run[1].log_digest);
  experiment_free(x);
  close_all();
}
END_TEST

/* Again, and step by step instead of fast-forward: the same bytes. */
START_TEST(same_bytes)
{
  static const char *const name[] = {"check_experiment_0.json", "check_experiment_1.json",
                                     "check_experiment_2.json"};
  char *bytes[3];
  size_t size[3];
  struct base_error e = {0};

  open_with("20s");
  for (int i = 0; i < 3; i++) {
    struct experiment_options o = {.max_repeat = i == 2};
    struct experiment *x = run(&o);

    ck_assert_int_eq(report_json(x, NULL, 0, NULL, name[i], &e), 0);
    experiment_free(x);
    bytes[i] = base_read_file(name[i], 1 << 24, &size[i], &e);
    ck_assert_ptr_nonnull(bytes[i]);
    ck_assert_uint_eq(size[i], size[0]);
    ck_assert_mem_eq(bytes[i], bytes[0], size[0]);
  }
  for (int i = 0; i < 3; i++) {
    free(bytes[i]);
    unlink(name[i]);
  }
  close_all();
}
END_TEST

START_TEST(one_arm)
{
  struct experiment_options o = {.only_arm = "fcfs", .has_seed = 1, .seed = 5};
  struct base_error e = {0};
  struct experiment *x;

  open_with("5s");
  x = run(&o);
  ck_assert_int_eq(x->arm[0].skipped, 1);
  ck_assert_int_eq(x->arm[1].skipped, 0);
  ck_assert_int_eq(x->arm[2].skipped, 1);
  ck_assert_uint_eq(x->nseeds, 1);
  ck_assert_uint_eq(x->seed[0], 5);
  ck_assert_int_eq(x->exit_code, BASE_OK);
  experiment_free(x);
  o.only_arm = "shared"; /* its ratio gate needs the baseline */
  x = run(&o);
  ck_assert_int_eq(x->arm[1].skipped, 1);
  ck_assert_int_eq(x->arm[2].skipped, 0);
  ck_assert(!isnan(x->arm[0].ratio_pooled));
  experiment_free(x);
  o.only_arm = "sharde";
  ck_assert_ptr_null(experiment_run(scenario, &o, &e));
  ck_assert_int_eq(e.code, BASE_USAGE);
  ck_assert_ptr_nonnull(strstr(e.text, "did you mean 'shared'"));
  close_all();
}
END_TEST

/* A horizon shorter than the first arrival. */
START_TEST(nothing_arrives)
{
  struct base_error e = {0};
  char *text;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  struct experiment *x;

  open_with("1us");
  x = run(NULL);
  ck_assert_int_eq(x->gate[1].outcome, OUTCOME_INCONCLUSIVE);
  ck_assert_int_eq(x->exit_code, BASE_INCONCLUSIVE);
  ck_assert_int_eq(report_table(x, out, &e), 0);
  fclose(out);
  ck_assert_ptr_nonnull(strstr(text, "no completed live requests"));
  ck_assert_ptr_null(strstr(text, "nan"));
  free(text);
  experiment_free(x);
  close_all();
}
END_TEST

static volatile int stop;

/* A sink that takes nothing. */
static int begin_any(void *ctx, const struct experiment_place *run, struct base_error *e)
{
  return 0;
}

static void take_none(void *ctx, lull_id id, const struct world_record *r)
{
}

static int stop_after_first(void *ctx, const struct world_result *r, struct base_error *e)
{
  ++*(int *)ctx;
  stop = 1;
  return 0;
}

/* A GPU that only trains beside one that serves: micro-steps are told, their time is training. */
START_TEST(training)
{
  static const char *const text =
      "<scenario xmlns='urn:lull:scenario:1' version='1' id='job'><title>Job</title>"
      "<run window='1s' drain='0' seeds='1 2'/><machine><analytic base='3ms'/></machine>"
      "<engine max-seqs='4' token-budget='64tok' block='16tok' kv-blocks='100'"
      " host-link='20GB/s' max-context='100tok'/>"
      "<class id='live' kind='live'><arrivals process='none'/><slo ttft='1s' tpot='1s'/></class>"
      "<arm id='both' policy='fcfs'><server id='a' gpu='0' classes='live'/>"
      "<server id='b' gpu='1' classes=''/><job id='tuning' gpu='1' micro-step='64ms'"
      " contention='2'/></arm></scenario>";
  struct base_errors errors = {0};
  struct base_error e = {0};
  char *printed = NULL;
  size_t size = 0;
  FILE *out = fopen(file, "w");
  ck_assert_ptr_nonnull(out);
  fputs(text, out);
  ck_assert_int_eq(fclose(out), 0);
  scenario = scenario_open(file, NULL, &errors);
  ck_assert_msg(scenario != NULL, "%s", errors.n ? errors.item[0].text : "no error");
  struct experiment *x = run(NULL);
  for (int k = 0; k < 2; k++) {
    const struct experiment_run *r = &x->arm[0].run[k];
    ck_assert_uint_eq(r->job[0].micro_steps, 15);
    ck_assert_int_eq(r->job[0].busy, 1000000000000);
    ck_assert_double_eq_tol(r->sum.account[WORLD_TRAINING], 1, 1e-12);
  }
  ck_assert_int_eq(report_json(x, NULL, 0, NULL, "check_experiment_0.json", &e), 0);
  char *json = base_read_file("check_experiment_0.json", 1 << 24, NULL, &e);
  ck_assert_ptr_nonnull(strstr(json, "\"micro_steps\": 15"));
  free(json);
  unlink("check_experiment_0.json");
  out = open_memstream(&printed, &size);
  ck_assert_int_eq(report_table(x, out, &e), 0);
  ck_assert_int_eq(fclose(out), 0);
  ck_assert_ptr_nonnull(strstr(printed, "\ntuning            both                 1              30"
                                        "          2.00\n"));
  free(printed);
  experiment_free(x);
  close_all();
}
END_TEST

START_TEST(stopped)
{
  int runs = 0;
  const struct experiment_sink sink = {&runs, begin_any, take_none, stop_after_first};
  struct experiment_options o = {.stop = &stop, .sink = &sink};
  struct experiment *x;

  open_with("5s");
  stop = 0;
  x = run(&o);
  ck_assert_int_eq(runs, 1);
  ck_assert_int_eq(x->partial, 1);
  ck_assert_int_eq(x->exit_code, BASE_INCOMPLETE);
  ck_assert_int_eq(x->gate[0].outcome, OUTCOME_INCONCLUSIVE);
  experiment_free(x);
  stop = 0;
  close_all();
}
END_TEST

static int refuse_begin(void *ctx, const struct experiment_place *run, struct base_error *e)
{
  return base_fail(e, BASE_ENV, "the disk is full");
}

static int refuse_end(void *ctx, const struct world_result *r, struct base_error *e)
{
  return base_fail(e, BASE_ENV, "the disk is full");
}

START_TEST(records_refused)
{
  const struct experiment_sink sinks[] = {{NULL, refuse_begin, take_none, refuse_end},
                                          {NULL, begin_any, take_none, refuse_end}};

  open_with("5s");
  for (int i = 0; i < 2; i++) {
    struct experiment_options o = {.sink = &sinks[i]};
    struct base_error e = {0};
    ck_assert_ptr_null(experiment_run(scenario, &o, &e));
    ck_assert_int_eq(e.code, BASE_ENV);
    ck_assert_ptr_nonnull(strstr(e.text, "shared seed 17: the disk is full"));
  }
  close_all();
}
END_TEST

/* What a sink is told: every run in its order, every request of it once. */
struct told {
  int begun, ended;
  uint64_t requests; /* of the run at work */
  char order[256];
};

static int told_begin(void *ctx, const struct experiment_place *run, struct base_error *e)
{
  struct told *t = ctx;
  const struct scenario_arm *arm = &run->scenario->arm[run->arm];
  size_t n = strlen(t->order);

  ck_assert_int_eq(t->begun++, t->ended);
  ck_assert_uint_eq(strlen(run->plan_digest), 32);
  ck_assert_uint_eq(run->config->nclasses, 2);
  snprintf(t->order + n, sizeof t->order - n, "%s/%s/%llu ", arm->id,
           arm->candidate[run->candidate].id, (unsigned long long)run->seed);
  t->requests = 0;
  return 0;
}

static void told_request(void *ctx, lull_id id, const struct world_record *r)
{
  ((struct told *)ctx)->requests++;
  ck_assert_int_ne(r->fate, WORLD_PENDING);
}

static int told_end(void *ctx, const struct world_result *r, struct base_error *e)
{
  struct told *t = ctx;

  ck_assert_int_eq(++t->ended, t->begun);
  ck_assert_uint_gt(t->requests, 0);
  ck_assert_uint_eq(t->requests, r->records);
  ck_assert_ptr_null(r->record);
  return 0;
}

START_TEST(sink_told)
{
  struct told told = {0};
  const struct experiment_sink sink = {&told, told_begin, told_request, told_end};
  struct experiment_options o = {.sink = &sink};

  open_with("5s");
  experiment_free(run(&o));
  ck_assert_str_eq(told.order, "shared//17 fcfs//17 dedicated/narrow/17 dedicated/wide/17 "
                               "shared//29 fcfs//29 dedicated/narrow/29 dedicated/wide/29 ");
  close_all();
}
END_TEST

static void count_progress(void *ctx, const char *what, double fraction)
{
  double *last = ctx;

  ck_assert(fraction >= *last - 1e-12 && fraction <= 1 + 1e-12);
  *last = fraction;
}

START_TEST(second_tables)
{
  double last = 0;
  struct experiment_options o = {.progress = count_progress, .progress_ctx = &last};
  struct report_source source = {file, NULL, &o};
  struct report_explain explain;
  struct report_sweep sweep;
  struct base_error e = {0};
  struct experiment *x;

  open_with("5s");
  x = run(&o);
  last = 0;
  ck_assert_int_eq(report_sweep(&source, scenario, 0, &sweep, &e), 0);
  ck_assert_uint_eq(sweep.n, 2);
  ck_assert_int_eq(sweep.best_point, 1);
  ck_assert_int_eq(sweep.base_point, 1);
  ck_assert_double_eq(sweep.point[1].arm[0].ratio, x->arm[0].ratio_pooled);
  ck_assert_double_eq_tol(2 * sweep.point[0].gain / (1 + sweep.point[0].share),
                          sweep.point[0].arm[0].ratio, 1e-9);
  last = 0;
  ck_assert_int_eq(report_explain(&source, x, &explain, &e), 0);
  ck_assert_uint_eq(explain.n, 3);
  ck_assert_str_eq(explain.row[0].up.value, "8.8/s");
  ck_assert_str_eq(explain.row[1].down.value, "29");
  ck_assert_int_eq(explain.row[2].up.moved, 0);
  ck_assert_double_lt(explain.row[0].up.change, 0);
  report_explain_free(&explain);
  report_sweep_free(&sweep);
  experiment_free(x);
  close_all();
}
END_TEST

int main(void)
{
  Suite *s = suite_create("experiment");
  TCase *t = tcase_create("experiment");

  tcase_set_timeout(t, 60);
  tcase_add_test(t, judged);
  tcase_add_test(t, same_bytes);
  tcase_add_test(t, one_arm);
  tcase_add_test(t, nothing_arrives);
  tcase_add_test(t, training);
  tcase_add_test(t, stopped);
  tcase_add_test(t, records_refused);
  tcase_add_test(t, sink_told);
  tcase_add_test(t, second_tables);
  suite_add_tcase(s, t);
  return suite_run(s);
}
