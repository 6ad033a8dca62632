/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One arm on two devices: with another simulated device in place of the real one, all is known.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/cost.h"
#include "sim/validate/pair.h"
#include "tests/suite.h"

static struct scenario *scenario;

static void open_scenario(void)
{
  static struct scenario_override set[] = {{"//s:run/@window", "2s"}};
  const char *srcdir = getenv("srcdir");
  struct base_errors errors = {0};
  char path[1024];
  snprintf(path, sizeof path, "%s/scenarios/ci-live-batch-cpu.xml", srcdir ? srcdir : ".");
  const struct scenario_options o = {.override = set, .noverrides = 1};
  scenario = scenario_open(path, &o, &errors);
  ck_assert_msg(scenario != NULL, "%s", errors.n ? errors.item[0].text : "");
  base_errors_free(&errors);
}

static void close_scenario(void)
{
  scenario_close(scenario);
}

/* ------------------------------------------------------------------- the device beside it ---- */

/* Twice as slow as the scenario says, or as quick; a device that cannot be had. */
struct other {
  struct experiment_device hook;
  struct cost_model *slow;
  int fails, opened, closed;
  int64_t probe[2];
  int probes;
};

static int open_other(void *ctx, const struct experiment_place *place, const struct simdev_gpu *gpu,
                      struct lull_device **dev, const struct lull_device_ops **ops,
                      struct base_error *e)
{
  struct other *o = ctx;
  struct simdev_gpu own[LULL_SERVERS];
  if (o->fails)
    return base_fail(e, BASE_ENV, "there is no such device");
  for (uint32_t g = 0; g < place->config->ngpus; g++) {
    own[g] = gpu[g];
    own[g].cost = o->slow ? o->slow : gpu[g].cost;
  }
  *dev = simdev_create(own, (int)place->config->ngpus, e);
  *ops = &simdev_ops;
  o->opened++;
  return *dev ? 0 : -1;
}

static int close_other(void *ctx, struct lull_device *dev, int ended, struct base_error *e)
{
  (void)ended, (void)e;
  ((struct other *)ctx)->closed++;
  simdev_destroy(dev);
  return 0;
}

static int probe_other(void *ctx, int64_t *ps, struct base_error *e)
{
  struct other *o = ctx;
  (void)e;
  *ps = o->probe[o->probes++ % 2];
  return 0;
}

static void other_open(struct other *o, int slow)
{
  /* the scenario's costs, doubled, in ticks of 64 ps */
  const struct cost_analytic twice = {.base = 2 * 2343750, .per_token = 2 * 187500, .per_ctx = 468};
  struct base_error e = {0};
  *o = (struct other){.hook = {.name = "other", .ctx = o, .open = open_other, .close = close_other}};
  if (slow)
    o->slow = cost_from_analytic(&twice, 1, &e);
}

static int run(struct other *o, const char *arm, uint64_t repeat, struct validation *v,
               struct base_error *e)
{
  const struct experiment_options run = {.only_arm = arm, .max_repeat = repeat};
  const struct report_source source = {NULL, NULL, &run};
  const struct validate_device d = {&o->hook, o->probe[0] ? probe_other : NULL, o};
  return validate_pair(&source, scenario, &d, v, e);
}

static double error_of(const struct validation *v, int metric, int figure)
{
  return validate_relative(&v->all.metric[metric], figure);
}

/* ------------------------------------------------------------------------------- two runs ---- */

START_TEST(the_same_device_has_no_error)
{
  struct base_error e = {0};
  struct validation v;
  struct other o;
  other_open(&o, 0);
  ck_assert_msg(!run(&o, "shared-priority", _i ? 1 : 0, &v, &e), "%s", e.text);
  ck_assert_int_eq(o.opened, 1);
  ck_assert_int_eq(o.closed, 1);
  for (int m = 0; m < VALIDATE_METRICS; m++)
    for (int k = 0; k < VALIDATE_FIGURES; k++) {
      double x = error_of(&v, m, k);
      ck_assert_msg(isnan(x) || x == 0, "%s: %g", validate_metrics[m].name, x);
    }
  ck_assert(!isnan(error_of(&v, VALIDATE_TTFT, VALIDATE_P95)));
  ck_assert(!isnan(error_of(&v, VALIDATE_USEFUL, VALIDATE_MEAN)));
  ck_assert(v.all.metric[VALIDATE_STEPS].figure[VALIDATE_MEASURED][VALIDATE_MEAN] > 100);
  const struct decisions_compared *d = &v.pair->decisions;
  ck_assert_uint_gt(d->agreed, 100);
  ck_assert_uint_eq(d->agreed, d->n[0]);
  ck_assert_uint_eq(d->agreed, d->n[1]);
  ck_assert(!d->differ && !d->moved && !d->alone[0] && !d->alone[1]);
  const struct validate_step_errors *s = &v.pair->steps[STEPS_ALL];
  ck_assert_uint_gt(s->n, 10);
  if (_i) /* step by step, all are told */
    ck_assert_double_eq((double)s->n,
                        v.all.metric[VALIDATE_STEPS].figure[VALIDATE_MEASURED][VALIDATE_MEAN]);
  ck_assert(s->bias == 0 && s->p95 == 0);
  ck_assert_uint_eq(s->n, v.pair->steps[STEPS_ROWS].n + v.pair->steps[STEPS_CHUNKS].n +
                              v.pair->steps[STEPS_BOTH].n);
  ck_assert(isnan(v.pair->noise));
  validate_free(&v);
}
END_TEST

START_TEST(a_slower_device_is_seen)
{
  struct base_error e = {0};
  struct validation v;
  struct other o;
  other_open(&o, 1);
  ck_assert_msg(!run(&o, "shared-fcfs", 1, &v, &e), "%s", e.text);
  const struct validate_step_errors *s = &v.pair->steps[STEPS_ROWS];
  ck_assert_double_eq_tol(s->bias, -0.5, 1e-3);
  ck_assert_double_eq_tol(s->p50, 0.5, 1e-3);
  ck_assert_double_eq_tol(s->predicted / s->seconds, 0.5, 1e-3);
  ck_assert(error_of(&v, VALIDATE_TPOT, VALIDATE_P50) < -0.3);
  ck_assert(error_of(&v, VALIDATE_STEPS, VALIDATE_MEAN) > 0.5);
  const struct decisions_compared *d = &v.pair->decisions;
  ck_assert(d->differ && d->agreed < d->n[0]);
  ck_assert_uint_eq(d->agreed + d->moved + d->alone[0], d->n[0]);
  ck_assert_uint_eq(d->agreed + d->moved + d->alone[1], d->n[1]);
  validate_free(&v);
  cost_free(o.slow);
}
END_TEST

static void judge(struct validation *v, int64_t before, int64_t after, const char *gate)
{
  struct validate_gate g[VALIDATE_FIGURES];
  struct base_error e = {0};
  struct other o;
  other_open(&o, 0);
  o.probe[0] = before;
  o.probe[1] = after;
  ck_assert_msg(!run(&o, "shared-priority", 0, v, &e), "%s", e.text);
  int n = validate_gate_parse(gate, g, &e);
  ck_assert_int_gt(n, 0);
  ck_assert_int_eq(validate_judge(v, g, (uint32_t)n, &e), 0);
  validate_pair_judge(v);
}

START_TEST(on_a_noisy_machine_no_gate_speaks)
{
  struct validation v;
  judge(&v, 1000, 1050, "ttft<=10%");
  ck_assert_double_eq_tol(v.pair->noise, 0.05, 1e-9);
  ck_assert_uint_eq(v.ngates, 5);
  ck_assert_int_eq(v.exit_code, BASE_OK);
  validate_free(&v);
  judge(&v, 1200, 1000, "useful-tokens<=0%");
  ck_assert_double_eq_tol(v.pair->noise, 0.2, 1e-9);
  ck_assert_uint_eq(v.ngates, 1); /* a run has one figure of it */
  ck_assert_int_eq(v.exit_code, BASE_INCONCLUSIVE);
  ck_assert_int_eq(v.gate[0].outcome, OUTCOME_INCONCLUSIVE);
  validate_free(&v);
}
END_TEST

START_TEST(what_cannot_be_run)
{
  struct base_error e = {0};
  struct validation v;
  struct other o;
  other_open(&o, 0);
  ck_assert(run(&o, NULL, 0, &v, &e)); /* there are three arms */
  ck_assert_int_eq(e.code, BASE_USAGE);
  validate_free(&v);
  e = (struct base_error){0};
  ck_assert(run(&o, "shared", 0, &v, &e));
  ck_assert_int_eq(e.code, BASE_USAGE);
  validate_free(&v);
  e = (struct base_error){0};
  o.fails = 1;
  ck_assert(run(&o, "dedicated", 0, &v, &e));
  ck_assert_int_eq(e.code, BASE_ENV);
  ck_assert_ptr_nonnull(strstr(e.text, "there is no such device"));
  validate_free(&v);
}
END_TEST

/* ------------------------------------------------------------------------------ decisions ---- */

static void say(struct decisions *d, int kind, int64_t id, int64_t value, lull_time time)
{
  const struct world_log_line l = {.kind = (uint8_t)kind, .a = id, .b = value, .time = time};
  decisions_add(d, &l);
}

START_TEST(decisions_by_hand)
{
  struct base_error e = {0};
  struct decisions a = {0}, b = {0};
  struct decisions_compared c;
  struct tap_request ids[] = {{7, 100}, {3, 200}}, other_ids[] = {{1, 200}, {2, 100}};
  const struct tap x = {.request = ids, .nrequests = 2};
  const struct tap y = {.request = other_ids, .nrequests = 2};
  say(&a, WORLD_LOG_EVENT, 7, 0, 1); /* none of these decides anything */
  say(&a, WORLD_LOG_PLAN, 7, 0, 1);
  say(&a, WORLD_LOG_TIMER, 7, 0, 1);
  say(&a, WORLD_LOG_CHUNK, 7, 48, 10);
  say(&a, WORLD_LOG_CHUNK, 3, 16, 20);
  say(&a, WORLD_LOG_PREEMPT, 7, 1, 30);
  say(&a, WORLD_LOG_CHUNK, 3, 5, 40);
  say(&a, WORLD_LOG_REJECT, 9, 0, 50); /* nobody heard of it */
  say(&b, WORLD_LOG_CHUNK, 2, 48, 11);
  say(&b, WORLD_LOG_CHUNK, 1, 5, 21);
  say(&b, WORLD_LOG_CHUNK, 1, 16, 31);
  ck_assert_uint_eq(a.n, 5);
  ck_assert_int_eq(decisions_name(&a, &x, &e) | decisions_name(&b, &y, &e), 0);
  ck_assert_int_eq(decisions_compare(&a, &b, &c, &e), 0);
  ck_assert_uint_eq(c.agreed, 1);
  ck_assert_uint_eq(c.moved, 2);
  ck_assert_uint_eq(c.alone[0], 2);
  ck_assert_uint_eq(c.alone[1], 0);
  ck_assert(c.differ);
  ck_assert_int_eq(c.first[0].value, 16);
  ck_assert_int_eq(c.first[1].value, 5);
  ck_assert_int_eq(c.first[1].time, 21);
  char text[160];
  decision_text(&c.first[0], scenario, text, sizeof text);
  ck_assert_str_eq(text, "chunk live 200, 16, server 0");
  ck_assert_int_eq(decisions_compare(&a, &a, &c, &e), 0);
  ck_assert(!c.differ && c.agreed == 5);
  const struct decisions none = {0};
  ck_assert_int_eq(decisions_compare(&a, &none, &c, &e), 0);
  ck_assert(c.differ && !c.agreed && c.alone[0] == 5 && c.first[1].kind == -1);
  decision_text(&c.first[1], scenario, text, sizeof text);
  ck_assert_str_eq(text, "no more");
  decisions_free(&a);
  decisions_free(&b);
}
END_TEST

static Suite *pair_suite(void)
{
  Suite *s = suite_create("pair");
  TCase *t = tcase_create("pair");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, open_scenario, close_scenario);
  tcase_add_loop_test(t, the_same_device_has_no_error, 0, 2);
  tcase_add_test(t, a_slower_device_is_seen);
  tcase_add_test(t, on_a_noisy_machine_no_gate_speaks);
  tcase_add_test(t, what_cannot_be_run);
  tcase_add_test(t, decisions_by_hand);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return suite_run(pair_suite());
}
