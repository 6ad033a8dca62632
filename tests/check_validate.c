/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Validation: statistics and comparisons worked by hand, gates, a small arm whose latencies are
 * known exactly, and, where LULL_DATA names the folder of public data sets, the golden latencies
 * of a measured run.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/report/text.h"
#include "sim/validate/stats.h"
#include "sim/validate/validate.h"
#include "tests/suite.h"

static void close_to(double got, double wanted)
{
  ck_assert_msg(fabs(got - wanted) <= 1e-12 * (1 + fabs(wanted)), "%.17g instead of %.17g", got,
                wanted);
}

/* ----------------------------------------------------------------------------- statistics ---- */

START_TEST(ks)
{
  static const int64_t a[] = {1, 2, 3, 4}, b[] = {3, 4, 5, 6}, c[] = {1, 1, 2}, d[] = {1, 2, 2};
  close_to(stats_ks(a, 4, b, 4), 0.5);     /* at 2: 2/4 - 0 */
  close_to(stats_ks(a, 4, a, 4), 0);       /* ties count on both sides at once */
  close_to(stats_ks(c, 3, d, 3), 1.0 / 3); /* at 1: 2/3 - 1/3 */
  close_to(stats_ks(a, 4, c, 3), 0.5);     /* at 2: 2/4 - 1 */
  close_to(stats_ks(a, 2, b, 2), 1);       /* disjoint */
  ck_assert(isnan(stats_ks(a, 0, b, 2)) && isnan(stats_ks(a, 2, b, 0)));
}
END_TEST

START_TEST(ks_of_histograms)
{
  struct base_hist a = {0}, b = {0};
  ck_assert(isnan(stats_ks_hist(&a, &b)));
  ck_assert_int_eq(base_hist_init(&a) | base_hist_init(&b), 0);
  base_hist_add(&a, 10, 3);
  base_hist_add(&a, 20, 1);
  base_hist_add(&b, 10, 1);
  base_hist_add(&b, 30, 1);
  close_to(stats_ks_hist(&a, &b), 0.5); /* at 20: 1 - 1/2 */
  base_hist_free(&a);
  base_hist_free(&b);
}
END_TEST

START_TEST(correlation)
{
  static const int64_t x[] = {1, 2, 3, 4}, y[] = {1, 3, 2, 4}, down[] = {9, 7, 5, 3},
                       same[] = {5, 5, 5, 5};
  close_to(stats_correlation(x, x, 4), 1);
  close_to(stats_correlation(x, down, 4), -1);
  close_to(stats_correlation(x, y, 4), 0.8); /* 4 / sqrt(5 * 5) */
  ck_assert(isnan(stats_correlation(x, same, 4)) && isnan(stats_correlation(x, y, 1)));
}
END_TEST

START_TEST(bias)
{
  static const int64_t x[] = {10, 0, 20}, y[] = {11, 5, 18};
  close_to(stats_bias(x, y, 3), 0);    /* (+0.1 - 0.1) / 2: nothing is relative to 0 */
  close_to(stats_error(x, y, 3), 0.1); /* (0.1 + 0.1) / 2 */
  close_to(stats_bias(x, y, 1), 0.1);
  close_to(stats_mean(y, 3), 34.0 / 3);
  ck_assert(isnan(stats_bias(x + 1, y + 1, 1)) && isnan(stats_mean(x, 0)));
}
END_TEST

/* ----------------------------------------------------------------------------- comparison ---- */

/* Three requests; the simulated side ends the first one a second late. */
static struct validate_request measured_request[] = {
    {0, 1000000000000, 3000000000000, 3},
    {500000000000, 1500000000000, 2500000000000, 2},
    {2000000000000, 2500000000000, 2500000000000, 1}};
static struct validate_request simulated_request[] = {
    {0, 1000000000000, 4000000000000, 3},
    {500000000000, 1500000000000, 2500000000000, 2},
    {2000000000000, 2500000000000, 2500000000000, 1}};

static void expect(const struct validate_figures *f, int side, uint64_t n, double mean, double p50,
                   double p90, double p95, double p99)
{
  ck_assert_uint_eq(f->n[side], n);
  close_to(f->figure[side][VALIDATE_MEAN], mean);
  close_to(f->figure[side][VALIDATE_P50], p50);
  close_to(f->figure[side][VALIDATE_P90], p90);
  close_to(f->figure[side][VALIDATE_P95], p95);
  close_to(f->figure[side][VALIDATE_P99], p99);
}

static void compare(uint64_t from, struct validate_comparison *c)
{
  struct validate_side a = {.request = measured_request, .n = 3};
  struct validate_side b = {.request = simulated_request, .n = 3};
  struct base_error e = {0};
  ck_assert_int_eq(validate_compare(&a, &b, from, 3, c, &e), 0);
}

START_TEST(latencies)
{
  struct validate_comparison c;
  compare(0, &c);
  const struct validate_figures *f = &c.metric[VALIDATE_E2E];
  /* 0.5 2 3 against 0.5 2 4 */
  expect(f, VALIDATE_MEASURED, 3, 5.5 / 3, 2, 2.8, 2.9, 2.98);
  expect(f, VALIDATE_SIMULATED, 3, 6.5 / 3, 2, 3.6, 3.8, 3.96);
  close_to(validate_absolute(f, VALIDATE_MEAN), 1.0 / 3);
  close_to(validate_relative(f, VALIDATE_MEAN), 1 / 5.5);
  close_to(f->ks, 1.0 / 3);
  close_to(f->bias, 1.0 / 9);
  f = &c.metric[VALIDATE_TPOT]; /* the third request has one token, and no TPOT */
  expect(f, VALIDATE_MEASURED, 2, 1, 1, 1, 1, 1);
  expect(f, VALIDATE_SIMULATED, 2, 1.25, 1.25, 1.45, 1.475, 1.495);
  close_to(f->bias, 0.25);
  ck_assert(isnan(f->correlation)); /* the measured side does not vary */
  f = &c.metric[VALIDATE_TTFT];
  expect(f, VALIDATE_SIMULATED, 3, 2.5 / 3, 1, 1, 1, 1);
  close_to(f->correlation, 1);
  close_to(f->ks, 0);
  ck_assert(isnan(c.metric[VALIDATE_ITL].ks));
}
END_TEST

/* Seconds 0, 1 and 2 (and 3): tokens 0 2 3 (0), presence 1.5 2 2 (1). The first request's middle
 * token comes at 2 s, or at 2.5 s. */
START_TEST(over_time)
{
  struct validate_comparison c;
  compare(0, &c);
  const struct validate_figures *f = &c.metric[VALIDATE_THROUGHPUT];
  expect(f, VALIDATE_MEASURED, 3, 2, 2, 2.8, 2.9, 2.98);
  expect(f, VALIDATE_SIMULATED, 4, 1.5, 1, 2.7, 2.85, 2.97);
  close_to(f->ks, 0.5 - 1.0 / 3);
  close_to(f->correlation, 1);
  close_to(f->bias, 0);
  f = &c.metric[VALIDATE_CONCURRENCY];
  expect(f, VALIDATE_MEASURED, 3, 5.5 / 3, 2, 2, 2, 2);
  expect(f, VALIDATE_SIMULATED, 4, 6.5 / 4, 1.75, 2, 2, 2);
  compare(1, &c); /* a part has latencies only */
  ck_assert_uint_eq(c.metric[VALIDATE_E2E].n[VALIDATE_MEASURED], 2);
  ck_assert(isnan(c.metric[VALIDATE_THROUGHPUT].ks));
}
END_TEST

START_TEST(sign_of_a_small_error)
{
  ck_assert_str_eq(text_error(-0.0004).s, "-0.0%");
  ck_assert_str_eq(text_error(0.0004).s, "+0.0%");
  ck_assert_str_eq(text_error(0).s, "+0.0%");
  ck_assert_str_eq(text_error(-0.013).s, "-1.3%");
  ck_assert_str_eq(text_error(NAN).s, "-");
  ck_assert_str_eq(text_change(-0.0004).s, "+0.0%");
}
END_TEST

/* ---------------------------------------------------------------------------------- gates ---- */

static const struct gate_text {
  const char *text;
  int n; /* -1: refused */
  int metric, statistic, has_min;
  double bound;
  const char *hint;
} gate_texts[] = {
    {"ttft.p95<=5%", 1, VALIDATE_TTFT, VALIDATE_P95, 0, 0.05, NULL},
    {"e2e.correlation>=0.9", 1, VALIDATE_E2E, VALIDATE_CORRELATION, 1, 0.9, NULL},
    {"concurrency.ks<=0", 1, VALIDATE_CONCURRENCY, VALIDATE_KS, 0, 0, NULL},
    {"tpot<=0.5%", 5, VALIDATE_TPOT, VALIDATE_MEAN, 0, 0.005, NULL},
    {" ttft.p95 <=\t5% ", 1, VALIDATE_TTFT, VALIDATE_P95, 0, 0.05, NULL},
    {"e2e.correlation >= 0.9", 1, VALIDATE_E2E, VALIDATE_CORRELATION, 1, 0.9, NULL},
    {"ttft.p95>=5%", -1, 0, 0, 0, 0, "write <="},
    {"e2e.ks>=0.1", -1, 0, 0, 0, 0, "write <="},
    {"e2e.correlation<=0.9", -1, 0, 0, 0, 0, "write >="},
    {"ttft.p95<=5", -1, 0, 0, 0, 0, "5"},
    {"ttft.p95<=0.05", -1, 0, 0, 0, 0, "in percent"},
    {"ttft.bias<=0.05", -1, 0, 0, 0, 0, "in percent"},
    {"ttft.p95 < = 5%", -1, 0, 0, 0, 0, "is not METRIC.STATISTIC<=BOUND"},
    {"ttft", -1, 0, 0, 0, 0, "ttft.p95<=5%"},
    {"ttft.p95<5%", -1, 0, 0, 0, 0, "is not METRIC.STATISTIC<=BOUND"},
    {"<=5%", -1, 0, 0, 0, 0, "is not METRIC.STATISTIC<=BOUND"},
    {"tftt.p95<=5%", -1, 0, 0, 0, 0, "did you mean 'ttft'?"},
    {"ttft.p59<=5%", -1, 0, 0, 0, 0, "did you mean 'p50'?"},
    {"ttft.p95<=5ms", -1, 0, 0, 0, 0, "5ms"},
    {"ttft.p95<=-5%", -1, 0, 0, 0, 0, "-5%"},
};

START_TEST(gate_text)
{
  const struct gate_text *t = &gate_texts[_i];
  struct validate_gate g[VALIDATE_FIGURES];
  struct base_error e = {0};
  ck_assert_int_eq(validate_gate_parse(t->text, g, &e), t->n);
  if (t->n < 0) {
    ck_assert_int_eq(e.code, BASE_USAGE);
    ck_assert_msg(strstr(e.text, t->hint) != NULL, "%s", e.text);
    return;
  }
  ck_assert_int_eq(g[0].metric, t->metric);
  ck_assert_int_eq(g[0].statistic, t->statistic);
  ck_assert_int_eq(g[0].has_min, t->has_min);
  ck_assert_int_eq(g[0].has_max, !t->has_min);
  close_to(t->has_min ? g[0].min : g[0].max, t->bound);
  ck_assert_int_eq(g[t->n - 1].statistic, t->n > 1 ? VALIDATE_P99 : t->statistic);
}
END_TEST

START_TEST(judged)
{
  struct validate_comparison c = {0};
  struct validate_figures *f = &c.metric[VALIDATE_TTFT];
  f->figure[VALIDATE_MEASURED][VALIDATE_P95] = 10;
  f->figure[VALIDATE_SIMULATED][VALIDATE_P95] = 9;
  f->ks = 0.25;
  f->correlation = -0.5;
  f->bias = -0.125;
  close_to(validate_judged(&c, VALIDATE_TTFT, VALIDATE_P95), 0.1);
  close_to(validate_judged(&c, VALIDATE_TTFT, VALIDATE_KS), 0.25);
  close_to(validate_judged(&c, VALIDATE_TTFT, VALIDATE_CORRELATION), -0.5);
  close_to(validate_judged(&c, VALIDATE_TTFT, VALIDATE_BIAS), 0.125);
  ck_assert(isnan(validate_judged(&c, VALIDATE_TTFT, VALIDATE_MEAN))); /* measured 0 */
}
END_TEST

/* ----------------------------------------------------------------------------------- runs ---- */

static const char *const file = "check_validate.xml";

/* A step takes 10 ms whatever it holds. */
static const char *const body =
    "<scenario xmlns='urn:lull:scenario:1' version='1' id='v'>"
    "<title>v</title><run window='1s' seeds='1 2'/><machine><analytic base='10ms'/></machine>"
    "<engine max-seqs='2' token-budget='64tok' block='16tok' kv-blocks='8' host-link='20GB/s'"
    " max-context='100tok'/>"
    "<class id='live' kind='live'><arrivals process='poisson' rate='1/s'/>"
    "<prompt dist='constant' mean='9tok'/><output dist='constant' mean='9tok'/>"
    "<slo ttft='1s' tpot='1s'/></class>"
    "<class id='batch' kind='batch'><arrivals process='backlog' below='1'/>"
    "<prompt dist='constant' mean='9tok'/><output dist='constant' mean='9tok'/></class>"
    "<arm id='a' policy='fcfs'><server id='s' gpu='0' classes='live'/></arm>"
    "<arm id='b' policy='fcfs'><server id='s' gpu='0' classes='live batch'/></arm>"
    "<arm id='c' policy='fcfs'><server id='s' gpu='0' classes='live'/>"
    "<candidate id='x'/><candidate id='y'/></arm>"
    "<gate id='run' arm='a' metric='errors' max='0'/>"
    "<gate id='v1' arm='a' metric='ttft' statistic='p50' max='30%%'/>"
    "<gate id='v2' arm='b' metric='ttft' statistic='p50' max='0'/>"
    "%s</scenario>";

static struct scenario *scenario;
static struct base_errors errors;

static void open_with(const char *more)
{
  FILE *out = fopen(file, "w");
  ck_assert_ptr_nonnull(out);
  ck_assert_int_gt(fprintf(out, body, more), 0);
  ck_assert_int_eq(fclose(out), 0);
  errors = (struct base_errors){0};
  scenario = scenario_open(file, NULL, &errors);
}

static void close_all(void)
{
  scenario_close(scenario);
  base_errors_free(&errors);
  unlink(file);
}

#define HEADER "arrival_ns,prompt_tokens,output_tokens,ttft_ns,e2e_ns,itl_ns\n"

/* Two requests; the second waits for the step that is under way when it comes. */
static const char exact[] = HEADER "100000000,9,3,10000000,30000000,10000000 10000000\n"
                                   "104000000,9,2,16000000,26000000,10000000\n";

static int validate(const char *text, const char *arm, struct measured **m, struct validation *v,
                    struct base_error *e)
{
  const struct experiment_options run = {.only_arm = arm};
  const struct report_source source = {file, NULL, &run};
  *m = measured_open_memory(text, strlen(text), "memory", e);
  ck_assert_msg(*m != NULL, "%s", e->text);
  return validate_run(&source, scenario, *m, "memory", v, e);
}

START_TEST(simulated)
{
  struct validation v = {0};
  struct measured *m;
  struct base_error e = {0};
  open_with("");
  ck_assert_msg(scenario != NULL, "%s", errors.n ? errors.item[0].text : "");
  ck_assert_msg(validate(exact, "a", &m, &v, &e) == 0, "%s", e.text);
  for (int k = 0; k < VALIDATE_SINGLE; k++) {
    if (k == VALIDATE_THROUGHPUT || k == VALIDATE_CONCURRENCY)
      continue; /* shorter than a second: means only */
    ck_assert(v.all.metric[k].n[VALIDATE_SIMULATED] >= 2);
    for (int i = 0; i < VALIDATE_FIGURES; i++)
      close_to(validate_relative(&v.all.metric[k], i), 0);
    close_to(v.all.metric[k].ks, 0);
  }
  close_to(v.all.metric[VALIDATE_THROUGHPUT].figure[VALIDATE_SIMULATED][VALIDATE_MEAN], 5 / 0.03);
  close_to(v.all.metric[VALIDATE_CONCURRENCY].figure[VALIDATE_SIMULATED][VALIDATE_MEAN],
           0.056 / 0.03);
  close_to(v.all.metric[VALIDATE_TTFT].correlation, 1);
  ck_assert_int_eq(validate_judge(&v, NULL, 0, &e), 0);
  ck_assert_uint_eq(v.ngates, 1); /* neither the other arm's nor the run's */
  ck_assert_str_eq(v.gate[0].id, "v1");
  ck_assert_int_eq(v.exit_code, BASE_OK);
  validate_free(&v);
  measured_close(m);
  close_all();
}
END_TEST

/* A measured TTFT of 8 ms where 10 ms are simulated: +25%. */
START_TEST(failing)
{
  struct validation v = {0};
  struct measured *m;
  struct base_error e = {0};
  struct validate_gate more[] = {{.id = "x", .statistic = VALIDATE_P50, .has_max = 1, .max = 0.2},
                                 {.id = "y", .statistic = VALIDATE_P50, .has_max = 1, .max = 0.25},
                                 {.id = "z", .metric = VALIDATE_ITL, .has_max = 1, .max = 1}};
  open_with("");
  ck_assert_int_eq(validate("arrival_ns,prompt_tokens,output_tokens,ttft_ns,e2e_ns\n"
                            "0,9,3,8000000,30000000\n",
                            "a", &m, &v, &e),
                   0);
  ck_assert_int_eq(validate_judge(&v, more, 3, &e), 0);
  ck_assert_uint_eq(v.ngates, 4);
  ck_assert_int_eq(v.gate[0].outcome, OUTCOME_PASS);
  ck_assert_int_eq(v.gate[1].outcome, OUTCOME_FAIL);
  ck_assert_int_eq(v.gate[2].outcome, OUTCOME_PASS);
  ck_assert_int_eq(v.gate[3].outcome, OUTCOME_INCONCLUSIVE); /* no gaps were measured */
  ck_assert_int_eq(v.exit_code, BASE_GATE);
  validate_free(&v);
  measured_close(m);
  close_all();
}
END_TEST

static const struct refused {
  const char *text, *arm;
  int code;
  unsigned line;
  const char *what;
} refusals[] = {
    {exact, NULL, BASE_USAGE, 0, "3 arms; choose one with --arm"},
    {exact, "aa", BASE_USAGE, 0, "no arm 'aa'"},
    {exact, "b", BASE_INPUT, 0, "serves a backlog"},
    {exact, "c", BASE_INPUT, 0, "2 candidates"},
    {HEADER "0,9,3,1,2,\n0,99,3,1,2,\n", "a", BASE_INPUT, 3, "cannot serve this request"},
    {HEADER "0,9,3,1,2,\n9200000000000000000,9,3,1,2,\n", "a", BASE_INPUT, 3, "106 days"},
};

START_TEST(refused)
{
  const struct refused *r = &refusals[_i];
  struct validation v = {0};
  struct measured *m;
  struct base_error e = {0};
  open_with("");
  ck_assert_int_eq(validate(r->text, r->arm, &m, &v, &e), -1);
  ck_assert_int_eq(e.code, r->code);
  ck_assert_msg(strstr(e.text, r->what) && e.line == r->line, "%u: %s", e.line, e.text);
  validate_free(&v);
  measured_close(m);
  close_all();
}
END_TEST

/* The costs of this scenario are analytic: there is no host time to fit. */
START_TEST(nothing_to_fit)
{
  const struct report_source source = {file, NULL, NULL};
  struct validation v = {0};
  struct measured *m;
  struct base_error e = {0};
  open_with("");
  ck_assert_int_eq(validate(exact, "a", &m, &v, &e), 0);
  ck_assert_int_eq(validate_fit_host(&source, &v, &e), -1);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_msg(strstr(e.text, "s:host/@step") != NULL, "%s", e.text);
  ck_assert_int_eq(v.fit.done, 0);
  validate_free(&v);
  measured_close(m);
  close_all();
}
END_TEST

static const struct bad_gate {
  const char *xml, *what;
} bad_gates[] = {
    {"<gate id='v3' arm='a' metric='ttft-p95' statistic='p95' max='5%'/>", "unknown metric"},
    {"<gate id='v3' arm='a' metric='ttft' statistic='p59' max='5%'/>", "did you mean 'p50'?"},
    {"<gate id='v3' arm='a' metric='ttft' statistic='p95'/>", "needs min or max"},
    {"<gate id='v3' arm='d' metric='ttft' statistic='p95' max='5%'/>", "unknown arm"},
    {"<gate id='v3' arm='a' metric='ttft' statistic='p95' max='5ms'/>", "5ms"},
    {"<gate id='v1' arm='a' metric='ttft' statistic='p95' max='5%'/>", "two gates are named 'v1'"},
    {"<gate id='run' arm='a' metric='ttft' statistic='p95' max='5%'/>", "two gates are named"},
    {"<gate id='v3' arm='a' metric='ttft' statistic='p95' min='6%' max='5%'/>", "nothing passes"},
};

START_TEST(bad_gate)
{
  open_with(bad_gates[_i].xml);
  ck_assert_ptr_null(scenario);
  ck_assert_uint_eq(errors.n, 1);
  ck_assert_msg(strstr(errors.item[0].text, bad_gates[_i].what) != NULL, "%s", errors.item[0].text);
  close_all();
}
END_TEST

/* --------------------------------------------------------------------------------- golden ---- */

/* A figure of e2e-stats.csv, in seconds. */
static double golden_value(const char *csv, const char *run, const char *metric, int figure)
{
  char name[128], line[512];
  FILE *in = fopen(csv, "r");
  ck_assert_msg(in != NULL, "cannot open %s", csv);
  snprintf(name, sizeof name, "%s,%s,", run, metric);
  while (fgets(line, sizeof line, in)) {
    if (strncmp(line, name, strlen(name)))
      continue;
    char *p = line + strlen(name);
    for (int i = 0; i < figure; i++)
      p = strchr(p, ',') + 1;
    fclose(in);
    return strtod(p, NULL) / 1e3;
  }
  ck_abort_msg("%s has no %s", csv, name);
}

START_TEST(golden)
{
  static const struct {
    const char *name;
    int metric;
  } rows[] = {{"ttft_ms", VALIDATE_TTFT}, {"tpot_ms", VALIDATE_TPOT}, {"latency_ms", VALIDATE_E2E}};
  static const char run[] = "rtxpro6000-llama3.1-8b";
  const char *folder = getenv("LULL_DATA");
  char path[1024], csv[1024];
  struct base_error e = {0};
  struct validate_comparison c;
  struct validate_side side = {0};
  if (!folder || !*folder) {
    printf("SKIP: golden %s: LULL_DATA does not name the folder of public data sets\n", run);
    return;
  }
  snprintf(csv, sizeof csv, "%s/e2e-stats.csv", folder);
  snprintf(path, sizeof path, "%s/e2e/llmservingsim-vllm-%s-requests.jsonl.gz", folder, run);
  struct measured *m = measured_open(path, &e);
  ck_assert_msg(m != NULL, "%s", e.text);
  side.n = m->n;
  side.request = calloc(m->n, sizeof *side.request);
  ck_assert_ptr_nonnull(side.request);
  for (uint64_t i = 0; i < m->n; i++)
    side.request[i] = (struct validate_request){0, m->row[i].ttft_ns * 1000,
                                                m->row[i].e2e_ns * 1000, m->row[i].output};
  ck_assert_int_eq(validate_compare(&side, &side, 0, m->n, &c, &e), 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int k = 0; k < VALIDATE_FIGURES; k++) {
      double got = c.metric[rows[i].metric].figure[VALIDATE_MEASURED][k];
      double wanted = golden_value(csv, run, rows[i].name, k);
      ck_assert_msg(fabs(got / wanted - 1) <= 1e-9, "%s %s: %.17g instead of %.17g", rows[i].name,
                    validate_statistics[k].name, got, wanted);
    }
  free(side.request);
  measured_close(m);
}
END_TEST

static Suite *validate_suite(void)
{
  Suite *suite = suite_create("validate");
  TCase *numbers = tcase_create("numbers"), *runs = tcase_create("runs");
  tcase_add_test(numbers, ks);
  tcase_add_test(numbers, sign_of_a_small_error);
  tcase_add_test(numbers, ks_of_histograms);
  tcase_add_test(numbers, correlation);
  tcase_add_test(numbers, bias);
  tcase_add_test(numbers, latencies);
  tcase_add_test(numbers, over_time);
  tcase_add_loop_test(numbers, gate_text, 0, sizeof gate_texts / sizeof *gate_texts);
  tcase_add_test(numbers, judged);
  tcase_add_test(numbers, golden);
  tcase_add_test(runs, simulated);
  tcase_add_test(runs, failing);
  tcase_add_loop_test(runs, refused, 0, sizeof refusals / sizeof *refusals);
  tcase_add_test(runs, nothing_to_fit);
  tcase_add_loop_test(runs, bad_gate, 0, sizeof bad_gates / sizeof *bad_gates);
  suite_add_tcase(suite, numbers);
  suite_add_tcase(suite, runs);
  return suite;
}

int main(void)
{
  return suite_run(validate_suite());
}
