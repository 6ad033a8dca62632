/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Timed steps to a calibration. Where the times are those of a law, the tables must be that law;
 * where they are the engine's, the file must be a calibration that a server can be costed by.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/assemble.h"
#include "calib/bench_engine.h"
#include "calib/measure.h"
#include "models/calibration.h"
#include "models/cost.h"
#include "tests/engine_fixture.h"
#include "tests/scratch.h"
#include "tests/suite.h"

enum { LAYERS = 4, SEQS = 16, BUDGET = 128, CONTEXT = 256 };
#define US INT64_C(1000000) /* ps */

static const struct measure_limits limits = {
    .max_seqs = SEQS, .token_budget = BUDGET, .max_context = CONTEXT};

/* ---------------------------------------------------------------------------------- a law ---- */

/* A machine whose steps take so long as the law says, by a clock that nothing else moves. */
struct toy {
  struct bench bench;
  int64_t now_ns;
  uint64_t steps;
  uint32_t spoilt;         /* every so many steps one takes ten times as long; 0: none */
  uint64_t slow_from;      /* from this step on all take 30% longer; 0: never */
  uint64_t fails_at, most; /* this step fails; the stop flag is set after so many; 0: never */
  volatile int stop;
};

static int64_t law_host(void)
{
  return 40 * US;
}
static int64_t law_once(int64_t tokens)
{
  return 2 * US + tokens * US / 100;
}
static int64_t law_layer(int64_t tokens)
{
  return 3 * US + tokens * US / 2;
}
static int64_t law_head(int64_t positions)
{
  return US + positions * US;
}
static int64_t law_row(int64_t ctx)
{
  return US / 5 + ctx * US / 50;
}
static int64_t law_chunk(int64_t start, int64_t tokens)
{
  return tokens * US / 10 + (tokens * start + tokens * (tokens + 1) / 2) * US / 200;
}

static struct bench_times law(const struct bench_step *s)
{
  struct bench_times t = {.host = law_host()};
  int64_t tokens = s->rows;
  for (uint32_t i = 0; i < s->rows; i++)
    t.attention += LAYERS * law_row(s->ctx[i]);
  for (uint32_t i = 0; i < s->chunks; i++) {
    t.attention += LAYERS * law_chunk(s->chunk[i].start, s->chunk[i].tokens);
    tokens += s->chunk[i].tokens;
  }
  t.once = law_once(tokens);
  t.layers = LAYERS * law_layer(tokens);
  t.head = law_head(s->rows + s->chunks);
  return t;
}

static void stretch(struct bench_times *t, int64_t percent)
{
  int64_t *const part[] = {&t->host, &t->once, &t->layers, &t->attention, &t->head};
  for (int i = 0; i < 5; i++)
    *part[i] = *part[i] * percent / 100;
}

static int toy_step(void *ctx, const struct bench_step *s, struct bench_times *out,
                    struct base_error *e)
{
  struct toy *t = ctx;
  *out = law(s);
  t->steps++;
  if (t->fails_at && t->steps == t->fails_at)
    return base_fail(e, BASE_ENV, "the toy is broken");
  if (t->spoilt && t->steps % t->spoilt == 0)
    stretch(out, 1000);
  if (t->slow_from && t->steps >= t->slow_from)
    stretch(out, 130);
  t->now_ns += bench_total(out) / 1000;
  t->stop = t->most && t->steps >= t->most;
  return 0;
}

static int64_t toy_clock(void *ctx)
{
  return ((struct toy *)ctx)->now_ns;
}

static void toy_open(struct toy *t)
{
  *t = (struct toy){.bench = {t, toy_step, toy_clock}};
}

static const struct llm toy_model = {.name = "toy",
                                     .hidden = 64,
                                     .layers = LAYERS,
                                     .q_heads = 4,
                                     .kv_heads = 2,
                                     .head_dim = 16,
                                     .intermediate = 128,
                                     .vocab = 100,
                                     .max_position = 4096};
static const struct gpu toy_gpu = {.name = "cpu-toy-t1", .memory_bytes = 1 << 30};

static struct measure_subject subject(const char *dtype)
{
  return (struct measure_subject){.model = &toy_model,
                                  .gpu = &toy_gpu,
                                  .dtype = dtype,
                                  .weight_bytes = 1234567,
                                  .kv_bytes_per_token = 512,
                                  .engine = "toy 1",
                                  .source = engine_data("qwen3/config.json"),
                                  .kernel = "none"};
}

/* Measures the toy. */
static struct calibration *calibrate(struct toy *t, struct measurement *m, int quick,
                                     struct base_error *e)
{
  struct measure_limits most = limits;
  struct measure_options o;
  const struct measure_subject s = subject("bfloat16");
  most.quick = quick;
  measure_options_default(&o, quick);
  o.stop = &t->stop;
  ck_assert_good(measurement_plan(m, &most, e), e);
  if (measurement_run(m, &t->bench, &o, e))
    return NULL;
  return measurement_fit(m, &s, NULL, e);
}

static struct calibration_residual *residual(const struct calibration *c, const char *curve)
{
  for (uint32_t i = 0; i < c->nresiduals; i++)
    if (!strcmp(c->residual[i].curve, curve))
      return &c->residual[i];
  ck_abort_msg("there is no record of '%s'", curve);
  return NULL;
}

/* Within a part of a million, and a few ps of flooring. */
static void near(int64_t have, int64_t want)
{
  ck_assert_msg(llabs(have - want) <= want / 100000 + 8, "%lld instead of %lld", (long long)have,
                (long long)want);
}

START_TEST(tables_are_the_law)
{
  struct base_error e = {0};
  struct toy t;
  struct measurement m;
  toy_open(&t);
  struct calibration *c = calibrate(&t, &m, _i, &e);
  ck_assert_msg(c != NULL, "%s", e.text);
  ck_assert_int_eq(c->law, CALIBRATION_TABLES);
  ck_assert_str_eq(c->sampled, CALIBRATION_ENDS);
  near(c->host_step_ps, law_host());
  for (uint32_t i = 0; i < c->body.n; i++)
    near(c->body.y[i], law_layer(c->body.x[i]));
  for (uint32_t i = 0; i < c->once.n; i++)
    near(c->once.y[i], law_once(c->once.x[i]));
  for (uint32_t i = 0; i < c->head.n; i++)
    near(c->head.y[i], law_head(c->head.x[i]));
  const struct calibration_grid *g = &c->decode;
  for (uint32_t i = 0; i < g->nrows; i++)
    for (uint32_t j = 0; j < g->nctx; j++)
      near(g->y[(size_t)i * g->nctx + j], g->rows[i] * law_row(g->ctx[j]));
  ck_assert_int_eq(g->rows[g->nrows - 1], SEQS);
  ck_assert_int_eq(c->body.x[0], 1);
  ck_assert(c->body.x[c->body.n - 1] >= BUDGET);
  for (uint32_t i = 0; i < c->prompt.n[0]; i++) /* without history */
    near(c->prompt.y[i * c->prompt.n[1]], law_chunk(0, c->prompt.x[0][i]));
  calibration_free(c);
  measurement_free(&m);
}
END_TEST

START_TEST(held_out_points_of_lines_are_met)
{
  static const char *const lines[] = {"layer over tokens", "once a step over tokens",
                                      "head over positions", "steps of rows alone",
                                      "mixed over both alone"};
  struct base_error e = {0};
  struct toy t;
  struct measurement m;
  toy_open(&t);
  struct calibration *c = calibrate(&t, &m, 0, &e);
  ck_assert_msg(c != NULL, "%s", e.text);
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    const struct calibration_residual *r = residual(c, lines[i]);
    ck_assert_msg(r->heldout > 0 && r->max < 1e-4, "%s: %u held out, %g", lines[i], r->heldout,
                  r->max);
  }
  /* pairs grow with the square of a chunk: between two sizes a line is too high */
  ck_assert(residual(c, "steps of one chunk")->max > 1e-3);
  ck_assert(residual(c, "steps of any make-up")->p95 < 0.05);
  ck_assert_uint_eq(residual(c, "steps of any make-up")->samples, 40);
  ck_assert(residual(c, "noise: one step, before and after")->max == 0);
  calibration_free(c);
  measurement_free(&m);
}
END_TEST

START_TEST(what_disturbs_few_steps_is_left_out)
{
  struct base_error e = {0};
  struct toy quiet, loud;
  struct measurement m, n;
  toy_open(&quiet);
  toy_open(&loud);
  loud.spoilt = 7;
  struct calibration *a = calibrate(&quiet, &m, 1, &e), *b = calibrate(&loud, &n, 1, &e);
  ck_assert_msg(a && b, "%s", e.text);
  ck_assert_int_eq(a->host_step_ps, b->host_step_ps);
  ck_assert_uint_eq(a->body.n, b->body.n);
  ck_assert_mem_eq(a->body.y, b->body.y, a->body.n * sizeof *a->body.y);
  ck_assert_mem_eq(a->decode.y, b->decode.y,
                   (size_t)a->decode.nrows * a->decode.nctx * sizeof *a->decode.y);
  calibration_free(a);
  calibration_free(b);
  measurement_free(&m);
  measurement_free(&n);
}
END_TEST

START_TEST(a_machine_that_slows_down_is_told_of)
{
  struct base_error e = {0};
  struct toy t;
  struct measurement m;
  char doubts[300];
  toy_open(&t);
  struct calibration *c = calibrate(&t, &m, 1, &e);
  ck_assert_ptr_nonnull(c);
  ck_assert(!calibration_doubts(c, doubts, sizeof doubts) && !doubts[0]);
  calibration_free(c);
  uint64_t all = t.steps;
  measurement_free(&m);
  toy_open(&t);
  t.slow_from = all - 20; /* the probe at the end */
  c = calibrate(&t, &m, 1, &e);
  ck_assert_ptr_nonnull(c);
  ck_assert_double_eq_tol(measurement_noise(&m), 0.3, 0.01);
  ck_assert_double_eq_tol(residual(c, "noise: one step, before and after")->p50, 0.3, 0.01);
  ck_assert(calibration_doubts(c, doubts, sizeof doubts));
  ck_assert_str_eq(doubts, "the machine was not quiet: one step took 30% longer once than another "
                           "time; measure again, with nothing else running");
  residual(c, "steps of any make-up")->p95 = 0.26;
  ck_assert(calibration_doubts(c, doubts, sizeof doubts));
  ck_assert_ptr_nonnull(
      strstr(doubts, " time; steps of any make-up are met within 26% only (p95, held out); "));
  residual(c, CALIBRATION_NOISE)->p50 = 0.1;
  ck_assert(calibration_doubts(c, doubts, sizeof doubts));
  ck_assert_ptr_eq(strstr(doubts, "steps of any make-up"), doubts);
  c->host_step_ps = 0; /* of whole steps only */
  ck_assert(!calibration_doubts(c, doubts, sizeof doubts));
  calibration_free(c);
  measurement_free(&m);
}
END_TEST

START_TEST(rounds_end_with_the_budget)
{
  struct base_error e = {0};
  struct toy t;
  struct measurement m;
  struct measure_options o = {.budget_ns = 1, .least = 4, .most = 50};
  toy_open(&t);
  ck_assert_good(measurement_plan(&m, &limits, &e), &e);
  ck_assert_good(measurement_run(&m, &t.bench, &o, &e), &e);
  ck_assert_uint_eq(m.rounds, 4);
  measurement_free(&m);
  o.budget_ns = INT64_MAX;
  o.most = 6;
  ck_assert_good(measurement_plan(&m, &limits, &e), &e);
  ck_assert_good(measurement_run(&m, &t.bench, &o, &e), &e);
  ck_assert_uint_eq(m.rounds, 6);
  measurement_free(&m);
}
END_TEST

START_TEST(a_signal_or_a_failure_leaves_nothing)
{
  struct base_error e = {0};
  struct toy t;
  struct measurement m;
  toy_open(&t);
  t.most = 100;
  ck_assert_ptr_null(calibrate(&t, &m, 1, &e));
  ck_assert_int_eq(e.code, BASE_INCOMPLETE);
  measurement_free(&m);
  e = (struct base_error){0};
  toy_open(&t);
  t.fails_at = 50;
  ck_assert_ptr_null(calibrate(&t, &m, 1, &e));
  ck_assert_int_eq(e.code, BASE_ENV);
  ck_assert_str_eq(e.text, "the toy is broken");
  measurement_free(&m);
}
END_TEST

START_TEST(sizes_that_make_no_sense)
{
  static const struct measure_limits bad[] = {
      {.max_seqs = 1, .token_budget = 64, .max_context = 64},
      {.max_seqs = 70000, .token_budget = 80000, .max_context = 64},
      {.max_seqs = 8, .token_budget = 4, .max_context = 64},
      {.max_seqs = 8, .token_budget = 2000000, .max_context = 64},
      {.max_seqs = 8, .token_budget = 64, .max_context = 7},
      {.max_seqs = 8, .token_budget = 64, .max_context = UINT32_MAX}};
  struct base_error e = {0};
  struct measurement m;
  ck_assert_int_eq(measurement_plan(&m, &bad[_i], &e), -1);
  ck_assert_int_eq(e.code, BASE_USAGE);
  measurement_free(&m);
}
END_TEST

/* The smallest sizes that are taken, and odd ones, plan steps within them. */
START_TEST(steps_are_within_the_sizes)
{
  static const struct measure_limits good[] = {
      {.max_seqs = 2, .token_budget = 2, .max_context = 8},
      {.max_seqs = 5, .token_budget = 7, .max_context = 9},
      {.max_seqs = 3, .token_budget = 300, .max_context = 11, .quick = 1},
      {.max_seqs = 300, .token_budget = 300, .max_context = 5000, .quick = 1},
      {.max_seqs = 96, .token_budget = 256, .max_context = 512}};
  const struct measure_limits *most = &good[_i];
  struct base_error e = {0};
  struct measurement m;
  ck_assert_good(measurement_plan(&m, most, &e), &e);
  ck_assert_uint_gt(m.n, 10);
  for (size_t i = 0; i < m.n; i++) {
    const struct measure_point *p = &m.point[i];
    const struct bench_step *s = &p->step;
    ck_assert_uint_ge(s->rows + s->chunks, 1);
    ck_assert_uint_le(s->rows, most->max_seqs);
    ck_assert_uint_le(s->rows + s->chunks, most->max_seqs + 1);
    ck_assert_uint_le(p->tokens, most->token_budget + most->max_seqs);
    for (uint32_t k = 0; k < s->rows; k++)
      ck_assert(s->ctx[k] >= 1 && s->ctx[k] + 2 <= most->max_context);
    for (uint32_t k = 0; k < s->chunks; k++)
      ck_assert(s->chunk[k].tokens >= 1 &&
                s->chunk[k].start + s->chunk[k].tokens < most->max_context + 1);
  }
  measurement_free(&m);
}
END_TEST

/* ------------------------------------------------------------------------------------ files ----
 */

static const char *output(void)
{
  return scratch_path("made.h5");
}

START_TEST(a_file_holds_it_all)
{
  struct base_error e = {0};
  struct toy t;
  struct measurement m;
  toy_open(&t);
  struct calibration *c = calibrate(&t, &m, 1, &e);
  ck_assert_ptr_nonnull(c);
  ck_assert_good(calibration_write(c, output(), &e), &e);
  struct calibration *d = calibration_open(output(), &e);
  ck_assert_msg(d != NULL, "%s", e.text);
  ck_assert_str_eq(c->digest, d->digest);
  ck_assert_int_eq(c->host_step_ps, d->host_step_ps);
  ck_assert_str_eq(d->sampled, CALIBRATION_ENDS);
  ck_assert_str_eq(d->gpu, "cpu-toy-t1");
  ck_assert_str_eq(d->name, "cpu-toy-t1-toy-bf16");
  ck_assert_int_eq(d->weight_bytes, 1234567);
  ck_assert_uint_eq(d->nsamples, c->nsamples);
  calibration_free(c);
  calibration_free(d);
  measurement_free(&m);
}
END_TEST

START_TEST(names_of_columns_are_never_cut)
{
  struct calibration_samples room[2] = {{.n = 0}};
  struct calibration c = {.sample = room};
  struct base_error e = {0};
  char columns[sizeof room->columns + 1] = "";
  memset(columns, 'a', sizeof columns - 1);
  ck_assert_ptr_null(assemble_samples(&c, "wide", columns, 1, 1, &e));
  ck_assert_int_eq(e.code, BASE_INVARIANT);
  ck_assert_ptr_nonnull(strstr(e.text, "samples 'wide': the names of their columns"));
  ck_assert_uint_eq(c.nsamples, 0);
  columns[sizeof room->columns - 1] = '\0';
  ck_assert_ptr_nonnull(assemble_samples(&c, "wide", columns, 1, 1, &e));
  ck_assert_str_eq(room->columns, columns);
  free(room->v);
}
END_TEST

/* Only chunks that end their prompt cost a head; the host's time is in no table. */
START_TEST(a_step_costs_as_the_law_says)
{
  struct base_error e = {0};
  struct toy t;
  struct measurement m;
  toy_open(&t);
  struct calibration *c = calibrate(&t, &m, 0, &e);
  ck_assert_ptr_nonnull(c);
  const struct cost_settings s = {
      .max_rows = SEQS, .max_tokens = BUDGET + SEQS, .host_step = c->host_step_ps};
  struct cost_model *model = cost_from_calibration(c, &s, &e);
  ck_assert_msg(model != NULL, "%s", e.text);
  struct cost_shape shape = {.chunks = 1, .chunk_tokens = 64, .chunk_work = 64 * 65 / 2};
  struct cost_step step;
  cost_eval(model, &shape, &step);
  int64_t want = law_host() + law_once(64) + LAYERS * (law_layer(64) + law_chunk(0, 64));
  ck_assert_int_lt(llabs(step.ticks * LULL_TICK_PS - want), want / 1000);
  shape.chunk_ends = 1;
  cost_eval(model, &shape, &step);
  want += law_head(1);
  ck_assert_int_lt(llabs(step.ticks * LULL_TICK_PS - want), want / 1000);
  ck_assert_int_eq(step.host, law_host() / LULL_TICK_PS);
  cost_free(model);
  calibration_free(c);
  measurement_free(&m);
}
END_TEST

/* What the bench cannot know is host time, and nothing else. */
START_TEST(the_worlds_time_is_the_hosts)
{
  struct base_error e = {0};
  struct toy t;
  struct measurement m;
  const struct measure_subject s = subject("bfloat16");
  toy_open(&t);
  struct calibration *a = calibrate(&t, &m, 1, &e);
  ck_assert_ptr_nonnull(a);
  m.world_ps = 5 * US;
  struct calibration *b = measurement_fit(&m, &s, NULL, &e);
  ck_assert_msg(b != NULL, "%s", e.text);
  ck_assert_int_eq(b->host_step_ps, a->host_step_ps + 5 * US);
  ck_assert_mem_eq(a->body.y, b->body.y, a->body.n * sizeof *a->body.y);
  ck_assert_mem_eq(a->decode.y, b->decode.y,
                   (size_t)a->decode.nrows * a->decode.nctx * sizeof *a->decode.y);
  ck_assert_double_eq_tol(residual(a, "steps of any make-up")->p95,
                          residual(b, "steps of any make-up")->p95, 1e-6);
  calibration_free(a);
  calibration_free(b);
  measurement_free(&m);
}
END_TEST

START_TEST(values_that_no_file_has)
{
  struct base_error e = {0};
  struct toy t;
  struct measurement m;
  toy_open(&t);
  struct calibration *c = calibrate(&t, &m, 1, &e);
  ck_assert_ptr_nonnull(c);
  if (_i == 0)
    strcpy(c->sampled, "some");
  else
    c->host_step_ps = _i == 1 ? -1 : INT64_C(1000000000001);
  calibration_seal(c);
  struct calibration *d = NULL;
  if (!calibration_write(c, output(), &e))
    d = calibration_open(output(), &e);
  ck_assert_ptr_null(d);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_ptr_nonnull(strstr(e.text, _i == 0 ? "sampled" : "host_step_ps"));
  calibration_free(c);
  measurement_free(&m);
}
END_TEST

/* --------------------------------------------------------------------------------- engine ---- */

START_TEST(steps_of_the_engine_are_timed)
{
  struct base_error e = {0};
  struct weights *w = fixture_weights("qwen3", _i);
  struct ops *ops = fixture_ops(_i, 1, NULL);
  const struct measure_limits most = {
      .max_seqs = 4, .token_budget = 32, .max_context = 64, .quick = 1};
  const struct measure_options o = {.budget_ns = 1, .least = 3, .most = 3};
  struct bench_engine *b = bench_engine_create(
      w, ops, most.max_seqs, most.token_budget + most.max_seqs, most.max_context, &e);
  ck_assert_msg(b != NULL, "%s", e.text);
  struct measurement m;
  ck_assert_good(measurement_plan(&m, &most, &e), &e);
  ck_assert_good(measurement_run(&m, bench_engine_bench(b), &o, &e), &e);
  for (size_t i = 0; i < m.n; i++) {
    const struct bench_times *t = &m.point[i].mid;
    ck_assert(t->host > 0 && t->once > 0 && t->layers > 0 && t->attention > 0 && t->head > 0);
  }
  struct measure_subject s = subject(_i == TENSOR_BF16 ? "bfloat16" : "float32");
  struct calibration *c = measurement_fit(&m, &s, NULL, &e);
  ck_assert_msg(c != NULL, "%s", e.text);
  ck_assert_good(calibration_write(c, output(), &e), &e);
  struct calibration *d = calibration_open(output(), &e);
  ck_assert_msg(d != NULL, "%s", e.text);
  ck_assert_str_eq(d->kv_dtype, _i == TENSOR_BF16 ? "bfloat16" : "float32");
  calibration_free(d);
  calibration_free(c);
  measurement_free(&m);
  bench_engine_destroy(b);
  cpu_ops_destroy(ops);
  weights_free(w);
}
END_TEST

START_TEST(contexts_beyond_the_model)
{
  struct base_error e = {0};
  struct weights *w = fixture_weights("qwen3", TENSOR_BF16);
  struct ops *ops = fixture_ops(TENSOR_BF16, 1, NULL);
  ck_assert_ptr_null(bench_engine_create(w, ops, 4, 32, w->config.max_position + 1, &e));
  ck_assert_int_eq(e.code, BASE_INPUT);
  cpu_ops_destroy(ops);
  weights_free(w);
}
END_TEST

static Suite *calibrate_suite(void)
{
  Suite *s = suite_create("calibrate");
  TCase *t = tcase_create("law");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, scratch_open, scratch_close);
  tcase_add_loop_test(t, tables_are_the_law, 0, 2);
  tcase_add_test(t, held_out_points_of_lines_are_met);
  tcase_add_test(t, what_disturbs_few_steps_is_left_out);
  tcase_add_test(t, a_machine_that_slows_down_is_told_of);
  tcase_add_test(t, rounds_end_with_the_budget);
  tcase_add_test(t, a_signal_or_a_failure_leaves_nothing);
  tcase_add_loop_test(t, sizes_that_make_no_sense, 0, 6);
  tcase_add_loop_test(t, steps_are_within_the_sizes, 0, 5);
  tcase_add_test(t, a_file_holds_it_all);
  tcase_add_test(t, names_of_columns_are_never_cut);
  tcase_add_test(t, a_step_costs_as_the_law_says);
  tcase_add_test(t, the_worlds_time_is_the_hosts);
  tcase_add_loop_test(t, values_that_no_file_has, 0, 3);
  suite_add_tcase(s, t);
  t = tcase_create("engine");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, scratch_open, scratch_close);
  tcase_add_loop_test(t, steps_of_the_engine_are_timed, 0, 2);
  tcase_add_test(t, contexts_beyond_the_model);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return suite_run(calibrate_suite());
}
