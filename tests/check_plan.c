/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Frozen plans: they have the statistics that the scenario asks for, are the same for the same
 * seed, and one class's draws do not depend on another's.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/scenario/reader.h"
#include "tests/suite.h"

#define HEAD "<scenario xmlns=\"urn:lull:scenario:1\" version=\"1\" id=\"x\">\n"

static const char *source(const char *below)
{
  static char path[1024];
  const char *dir = getenv("srcdir");
  snprintf(path, sizeof path, "%s/%s", dir && dir[0] ? dir : ".", below);
  return path;
}

static void print_errors(const struct base_errors *errors)
{
  char text[1400];
  for (size_t i = 0; i < errors->n; i++)
    fprintf(stderr, "  %s\n", base_error_format(&errors->item[i], text, sizeof text));
}

static struct plan *freeze(const struct scenario *s, uint64_t seed)
{
  struct base_error e = {0};
  struct plan *p = plan_freeze(s, seed, &e);
  if (!p)
    ck_abort_msg("%s", e.text);
  return p;
}

/* Sums over the rows of one class. */
struct sums {
  double n, gap, gap2, prompt, output, accept, accept2, phase;
  uint32_t prompt_min, prompt_max;
};

static struct sums sum_rows(const struct plan *p, uint32_t mask)
{
  struct sums s = {.prompt_min = UINT32_MAX};
  struct plan_cursor cursor;
  struct world_source source;
  struct world_arrival a;
  lull_time before = 0;
  int got;
  ck_assert_int_eq(plan_open(p, mask, &cursor, &source, NULL), 0);
  while ((got = source.next(source.ctx, &a, NULL)) == 1) {
    double gap = (double)(a.time - before) / 1e12, accept = a.accept_q16 / 65536.0;
    ck_assert_int_ge(a.time, before);
    ck_assert(a.prompt >= 1 && a.output >= 1 && a.accept_q16 <= 65536 && a.phase_q16 < 65536);
    ck_assert(mask >> a.cls & 1);
    before = a.time;
    s.n++;
    s.gap += gap, s.gap2 += gap * gap;
    s.prompt += a.prompt, s.output += a.output;
    s.accept += accept, s.accept2 += accept * accept;
    s.phase += a.phase_q16 / 65536.0;
    s.prompt_min = a.prompt < s.prompt_min ? a.prompt : s.prompt_min;
    s.prompt_max = a.prompt > s.prompt_max ? a.prompt : s.prompt_max;
  }
  ck_assert_int_eq(got, 0);
  plan_close(&cursor);
  return s;
}

static void check_near(const char *what, double value, double expected, double tolerance)
{
  if (!(fabs(value / expected - 1) <= tolerance))
    ck_abort_msg("%s is %g, expected %g within %g", what, value, expected, tolerance);
}

static const char statistics[] = HEAD
    "<title>t</title><run window=\"20000s\" seeds=\"1\"/>"
    "<machine><analytic base=\"1ms\"/></machine>"
    "<engine max-seqs=\"8\" token-budget=\"512tok\" block=\"16tok\" kv-blocks=\"10000\" "
    "host-link=\"1GB/s\" max-context=\"99999tok\">"
    "<speculation depth=\"3\" accept=\"0.69\" accept-sd=\"0.1\"/></engine>"
    "<class id=\"a\" kind=\"batch\"><arrivals process=\"gamma\" rate=\"18/s\" cv=\"1.5\"/>"
    "<prompt dist=\"lognormal\" mean=\"200tok\" sigma=\"0.8\" max=\"99999tok\"/>"
    "<output dist=\"exponential\" mean=\"500tok\" max=\"99999tok\"/></class>"
    "<class id=\"b\" kind=\"batch\"><arrivals process=\"poisson\" rate=\"10/s\"/>"
    "<prompt dist=\"uniform\" min=\"11tok\" max=\"20tok\"/>"
    "<output dist=\"constant\" mean=\"7tok\"/></class>"
    "<class id=\"c\" kind=\"batch\"><arrivals process=\"constant\" rate=\"3/s\"/>"
    "<prompt dist=\"constant\" mean=\"5tok\"/><output dist=\"constant\" mean=\"1tok\"/></class>"
    "<class id=\"d\" kind=\"batch\"><arrivals process=\"backlog\" below=\"5\"/>"
    "<prompt dist=\"lognormal\" mean=\"100tok\" sigma=\"0.4\" max=\"9999tok\"/>"
    "<output dist=\"constant\" mean=\"1tok\"/></class>"
    "<arm id=\"x\" policy=\"fcfs\"><server id=\"s\" gpu=\"0\" classes=\"a b c d\"/></arm>"
    "</scenario>";

static struct scenario *open_text(const char *text, const struct scenario_options *o)
{
  struct base_errors errors = {0};
  struct scenario *s = scenario_open_memory("text.xml", NULL, text, strlen(text), o, &errors);
  print_errors(&errors);
  ck_assert_ptr_nonnull(s);
  return s;
}

START_TEST(plan_statistics)
{
  struct scenario *s = open_text(statistics, NULL);
  struct plan *p = freeze(s, 17);
  struct sums a = sum_rows(p, 1), b = sum_rows(p, 2), c = sum_rows(p, 4);
  double mean = a.gap / a.n, accept = a.accept / a.n;
  check_near("rate of a", a.n / 20000, 18, 0.02);
  check_near("cv of a", sqrt(a.gap2 / a.n - mean * mean) / mean, 1.5, 0.02);
  check_near("prompts of a", a.prompt / a.n, 200, 0.02);
  check_near("outputs of a", a.output / a.n, 500, 0.02);
  check_near("acceptance", accept, 0.69, 0.005);
  check_near("its spread", sqrt(a.accept2 / a.n - accept * accept), 0.1, 0.02);
  check_near("phase", a.phase / a.n, 0.5, 0.02);
  mean = b.gap / b.n;
  check_near("rate of b", b.n / 20000, 10, 0.02);
  check_near("cv of b", sqrt(b.gap2 / b.n - mean * mean) / mean, 1, 0.02);
  check_near("prompts of b", b.prompt / b.n, 15.5, 0.02);
  ck_assert_uint_eq(b.prompt_min, 11);
  ck_assert_uint_eq(b.prompt_max, 20);
  ck_assert_double_eq(b.output, 7 * b.n);
  ck_assert_double_eq(c.n, 59999); /* k / 3 s for k = 1 ..., before 20,000 s */
  ck_assert_double_eq(a.n + b.n + c.n, (double)plan_rows(p));
  ck_assert_double_eq(sum_rows(p, 8).n, 0);
  plan_free(p);
  scenario_close(s);
}
END_TEST

START_TEST(plan_digests)
{
  struct scenario *s = open_text(statistics, NULL);
  struct plan *p = freeze(s, 17), *again = freeze(s, 17), *other = freeze(s, 29);
  ck_assert_uint_eq(strlen(plan_digest(p)), 32);
  ck_assert_str_eq(plan_digest(p), plan_digest(again));
  ck_assert_str_ne(plan_digest(p), plan_digest(other));
  plan_free(p);
  plan_free(again);
  plan_free(other);
  scenario_close(s);
}
END_TEST

/* Rows of a class in one sequence of numbers. */
static uint64_t hash_rows(const struct plan *p, uint32_t mask, int with_time)
{
  uint64_t h = 14695981039346656037u;
  struct plan_cursor cursor;
  struct world_source source;
  struct world_arrival a;
  ck_assert_int_eq(plan_open(p, mask, &cursor, &source, NULL), 0);
  for (int i = 0; i < 5000 && source.next(source.ctx, &a, NULL) == 1; i++) {
    uint64_t v[] = {with_time ? (uint64_t)a.time : 0, a.prompt, a.output, a.accept_q16,
                    a.phase_q16};
    for (size_t k = 0; k < sizeof v / sizeof *v; k++)
      h = (h ^ v[k]) * 1099511628211u;
  }
  plan_close(&cursor);
  return h;
}

/* Changing one class leaves the draws of the others alone, and its own lengths. */
START_TEST(common_random_numbers)
{
  struct scenario_override change = {"s:class[@id='a']/s:arrivals/@rate", "19/s"};
  struct scenario_options o = {.override = &change, .noverrides = 1};
  struct scenario *s = open_text(statistics, NULL), *t = open_text(statistics, &o);
  struct plan *p = freeze(s, 17), *q = freeze(t, 17);
  ck_assert_uint_eq(hash_rows(p, 2, 1), hash_rows(q, 2, 1));
  ck_assert_uint_eq(hash_rows(p, 1, 0), hash_rows(q, 1, 0));
  ck_assert_uint_ne(hash_rows(p, 1, 1), hash_rows(q, 1, 1));
  ck_assert_str_ne(plan_digest(p), plan_digest(q));
  plan_free(p);
  plan_free(q);
  scenario_close(s);
  scenario_close(t);
}
END_TEST

/* A row is known by its place in its class, whichever other classes an arm has. */
START_TEST(ordinals)
{
  struct scenario *s = open_text(statistics, NULL);
  struct plan *p = freeze(s, 17);
  for (uint32_t mask = 1; mask < 8; mask++) {
    struct plan_cursor cursor;
    struct world_source source;
    struct world_arrival a;
    uint32_t seen[LULL_CLASSES] = {0};
    ck_assert_int_eq(plan_open(p, mask, &cursor, &source, NULL), 0);
    while (source.next(source.ctx, &a, NULL) > 0)
      ck_assert_uint_eq(a.ordinal, seen[a.cls]++);
    plan_close(&cursor);
  }
  plan_free(p);
  scenario_close(s);
}
END_TEST

/* Backlog items by index: any order, any cursor, the same item. */
START_TEST(refills)
{
  struct scenario *s = open_text(statistics, NULL);
  struct plan *p = freeze(s, 17);
  struct plan_cursor one, two;
  struct world_source a, b;
  struct world_arrival x, y;
  double sum = 0;
  ck_assert_int_eq(plan_open(p, 15, &one, &a, NULL), 0);
  ck_assert_int_eq(plan_open(p, 8, &two, &b, NULL), 0);
  for (uint64_t i = 0; i < 20000; i++) {
    ck_assert_int_eq(a.refill(a.ctx, 3, i, &x, NULL), 1);
    sum += x.prompt;
    if (i % 100)
      continue;
    ck_assert_int_eq(b.refill(b.ctx, 3, 20000 - i, &y, NULL), 1);
    ck_assert_int_eq(b.refill(b.ctx, 3, i, &y, NULL), 1);
    ck_assert(x.prompt == y.prompt && x.accept_q16 == y.accept_q16 && x.phase_q16 == y.phase_q16);
    ck_assert_int_eq(x.cls, 3);
    ck_assert(x.ordinal == i && y.ordinal == i);
  }
  check_near("prompts of d", sum / 20000, 100, 0.02);
  plan_close(&one);
  plan_close(&two);
  plan_free(p);
  scenario_close(s);
}
END_TEST

static struct scenario *open_file(const char *below)
{
  struct base_errors errors = {0};
  struct scenario *s = scenario_open(source(below), NULL, &errors);
  print_errors(&errors);
  ck_assert_ptr_nonnull(s);
  return s;
}

/* 50 rows 1.000001 ms apart at twice the speed; the window ends with the last one. */
START_TEST(trace_replay)
{
  struct scenario *s = open_file("tests/data/scenarios/good-trace.xml");
  ck_assert_int_eq(s->window, INT64_C(49) * 1000001 * 500 + 1);
  struct plan *p = freeze(s, 1);
  struct plan_cursor cursor;
  struct world_source source_;
  struct world_arrival a;
  ck_assert_uint_eq(plan_rows(p), 50);
  ck_assert_int_eq(plan_open(p, 1, &cursor, &source_, NULL), 0);
  for (int i = 0; i < 50; i++) {
    ck_assert_int_eq(source_.next(source_.ctx, &a, NULL), 1);
    ck_assert_int_eq(a.time, (lull_time)i * 1000001 * 500);
    ck_assert_uint_eq(a.prompt, 10 + i);
    ck_assert_uint_eq(a.output, 5 + i % 3);
  }
  ck_assert_int_eq(source_.next(source_.ctx, &a, NULL), 0);
  plan_close(&cursor);
  plan_free(p);
  scenario_close(s);
}
END_TEST

/* A trace that starts a second later, and a backlog whose 50 lengths come from a file, again from
 * its start at its end; the plan's digest knows them. */
START_TEST(files_of_lengths)
{
  struct scenario *s = open_file("tests/data/scenarios/good-jobs.xml");
  struct plan *p = freeze(s, 1);
  struct plan_cursor cursor;
  struct world_source from;
  struct world_arrival a;
  ck_assert_uint_eq(plan_rows(p), 50);
  ck_assert_int_eq(plan_open(p, 7, &cursor, &from, NULL), 0);
  for (int i = 0; i < 120; i++) {
    ck_assert_int_eq(from.refill(from.ctx, 1, (uint64_t)i, &a, NULL), 1);
    ck_assert_uint_eq(a.prompt, 10 + i % 50);
    ck_assert_uint_eq(a.output, 5 + i % 50 % 3);
    ck_assert_uint_eq(a.cls, 1);
  }
  ck_assert_int_eq(from.refill(from.ctx, 0, 3, &a, NULL), 1);
  ck_assert_uint_eq(a.prompt, 20);
  ck_assert_int_eq(from.next(from.ctx, &a, NULL), 1);
  ck_assert_int_eq(a.time, 1000000000000);
  ck_assert_int_eq(from.next(from.ctx, &a, NULL), 1);
  ck_assert_int_eq(a.time, 1000000000000 + 1000001 * 500);
  plan_close(&cursor);
  struct scenario_override change[] = {{"s:class[@id='batch']/s:items/@href", "parts/few.csv"}};
  struct scenario_options o = {.override = change, .noverrides = 1};
  struct base_errors errors = {0};
  struct scenario *t = scenario_open(source("tests/data/scenarios/good-jobs.xml"), &o, &errors);
  print_errors(&errors);
  ck_assert_ptr_nonnull(t);
  struct plan *q = freeze(t, 1);
  ck_assert_str_ne(plan_digest(p), plan_digest(q));
  plan_free(q);
  scenario_close(t);
  plan_free(p);
  scenario_close(s);
}
END_TEST

/* The first arrival lies beyond the window: an empty plan is a plan. */
START_TEST(empty_plan)
{
  struct scenario_override change[] = {{"s:run/@window", "1us"}};
  struct scenario_options o = {.override = change, .noverrides = 1};
  struct scenario *s = open_text(statistics, &o);
  struct plan *p = freeze(s, 17);
  ck_assert_uint_eq(plan_rows(p), 0);
  plan_free(p);
  scenario_close(s);
}
END_TEST

START_TEST(public_trace)
{
  const char *data = getenv("LULL_DATA");
  struct base_errors errors = {0};
  struct scenario *s = scenario_open(source("scenarios/c4-azure-conv.xml"), NULL, &errors);
  if (!s && (!data || !data[0]) && errors.n == 1 && errors.item[0].code == BASE_ENV) {
    fprintf(stderr, "SKIP: public_trace: LULL_DATA does not name the folder of public data sets\n");
    base_errors_free(&errors);
    return;
  }
  print_errors(&errors);
  ck_assert_ptr_nonnull(s);
  struct plan *p = freeze(s, 17);
  ck_assert_uint_eq(plan_rows(p), 19366);
  check_near("window", (double)s->window / 1e12, 3501.721937, 1e-9);
  struct sums a = sum_rows(p, 1);
  ck_assert_double_eq_tol(a.prompt / a.n, 1154.697408, 1e-6);
  ck_assert_double_eq_tol(a.output / a.n, 211.125942, 1e-6);
  plan_free(p);
  scenario_close(s);
}
END_TEST

static Suite *suite(void)
{
  const struct {
    const char *name;
    const TTest *test;
  } cases[] = {
      {"plan statistics", plan_statistics},
      {"plan digests", plan_digests},
      {"common random numbers", common_random_numbers},
      {"ordinals", ordinals},
      {"refills", refills},
      {"trace replay", trace_replay},
      {"files of lengths", files_of_lengths},
      {"empty plan", empty_plan},
      {"public trace", public_trace},
  };
  Suite *s = suite_create("plan");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    TCase *c = tcase_create(cases[i].name);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, cases[i].test);
    suite_add_tcase(s, c);
  }
  return s;
}

int main(void)
{
  return suite_run(suite());
}
