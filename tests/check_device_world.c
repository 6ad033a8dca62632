/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The world on the real device, in real time, under policies that are nasty. The engine is a toy
 * whose tokens are known; all that is asked of the device is held to what a device must find true;
 * and each run is recorded and replayed.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "backend/device.h"
#include "models/recording.h"
#include "tests/fuzz_rows.h"
#include "tests/outcome.h"
#include "tests/random_scenario.h"
#include "tests/scratch.h"
#include "tests/suite.h"
#include "tests/toy_engine.h"

#define MS ((lull_time)1000000000) /* ps */

/* The real device, held to what a device must find true. */
static struct fuzz_rows rows;

static int spy_request(struct lull_device *d, lull_id id, const struct lull_device_request *who)
{
  if (fuzz_rows_request(&rows, id, who))
    return LULL_DEV_IO;
  return device_ops.request(d, id, who);
}

static void spy_forget(struct lull_device *d, lull_id id, int how)
{
  fuzz_rows_forget(&rows, id, how);
  device_ops.forget(d, id, how);
}

static int spy_submit(struct lull_device *d, const struct lull_work *w)
{
  if (fuzz_rows_submit(&rows, w))
    return LULL_DEV_IO;
  return device_ops.submit(d, w);
}

static int spy_wait(struct lull_device *d, lull_time until, struct lull_completion *c, int max)
{
  int n = device_ops.wait(d, until, c, max);
  for (int i = 0; i < n; i++)
    fuzz_rows_completed(&rows, &c[i]);
  return n;
}

static const char *spy_why(struct lull_device *d)
{
  return rows.wrong[0] ? rows.wrong : device_ops.why(d);
}

/* What finished under a key is what the toy says, whatever became of it on the way. */
static void finished(void *ctx, uint64_t key, const int32_t *token, uint32_t prompt, uint32_t n)
{
  int *good = ctx;
  for (uint32_t i = 0; i < n; i++)
    *good &= token[i] == (i < prompt ? device_prompt_token(9, key, i, 997) : toy_token(key, i));
}

static int trains(void *ctx, const volatile int *stop, struct base_error *e)
{
  (void)ctx, (void)stop, (void)e;
  return 0;
}

struct real_run {
  struct outcome o;
  struct device_stats stats;
  int good;
};

static void run_real(struct random_scenario *s, struct recorder *rec, const struct toy_options *toy,
                     struct real_run *x)
{
  static const struct device_trainer trainer = {.micro_step = trains};
  struct device_gpu gpu[RANDOM_SERVERS] = {{0}};
  struct world_config cfg = s->cfg;
  struct lull_device_ops spy = device_ops;
  struct lull_device *real, *dev;
  const struct lull_device_ops *ops;
  *x = (struct real_run){.good = 1};
  for (uint32_t i = 0; i < cfg.nservers; i++) {
    const struct world_server *v = &s->server[i];
    struct toy_options o = *toy;
    o.engine = (struct engine_options){.block_tokens = v->block_tokens,
                                       .pages = v->kv_blocks,
                                       .host_pages = 1 << 20,
                                       .max_tokens = v->token_budget + v->max_seqs,
                                       .max_seqs = v->max_seqs};
    gpu[v->gpu] = (struct device_gpu){.engine = toy_engine_create(&o),
                                      .vocab = 997,
                                      .max_seqs = v->max_seqs,
                                      .memory_bytes = s->gpu[v->gpu].memory_bytes,
                                      .trainer = &trainer};
    ck_assert_ptr_nonnull(gpu[v->gpu].engine);
  }
  const struct device_options options = {.seed = 9, .finished = finished, .finished_ctx = &x->good};
  real = device_create(gpu, (int)cfg.ngpus, &options, &x->o.e);
  ck_assert_ptr_nonnull(real);
  rows = (struct fuzz_rows){0};
  spy.request = spy_request;
  spy.forget = spy_forget;
  spy.submit = spy_submit;
  spy.wait = spy_wait;
  spy.why = spy_why;
  dev = real;
  ops = &spy;
  const struct recording_run run = {"a", "", s->seed, "p"};
  if (rec)
    ck_assert_int_eq(recorder_begin(rec, &run, real, &spy, &dev, &ops, &x->o.e), 0);
  cfg.log = outcome_line;
  cfg.log_ctx = &x->o;
  random_scenario_rewind(s);
  x->o.rc = world_run(&cfg, dev, ops, &x->o.r, &x->o.e);
  if (rec)
    ck_assert_int_eq(recorder_end(rec, &x->o.e), 0);
  device_get_stats(real, &x->stats);
  device_destroy(real);
  for (uint32_t i = 0; i < cfg.nservers; i++) {
    ck_assert_uint_eq(toy_sequences(gpu[i].engine), 0);
    engine_destroy(gpu[i].engine);
  }
  fuzz_rows_free(&rows);
}

/* Neither speculation nor shared blocks: an engine has none. */
static int is_plain(const struct random_scenario *s)
{
  for (uint32_t i = 0; i < s->cfg.nservers; i++) {
    if (s->server[i].row_tokens > 1 || s->server[i].prefix_caching)
      return 0;
  }
  return 1;
}

static void check_sums(const struct world_result *r, const struct world_config *cfg)
{
  base_int128 all = 0;
  for (int k = 0; k < WORLD_ACCOUNTS; k++)
    all += r->account[k];
  ck_assert(all == r->paid && r->paid == (base_int128)12 * r->end * cfg->ngpus);
  for (uint64_t i = 0; i < r->records; i++) {
    const struct world_record *q = &r->record[i];
    ck_assert((q->fate == WORLD_DONE) == (q->generated == q->output));
    ck_assert(q->fate != WORLD_DONE ||
              (q->arrival <= q->first_chunk && q->first_chunk < q->first_token &&
               q->first_token <= q->last_token));
  }
}

static struct random_scenario *scenario(uint64_t seed)
{
  struct base_error e = {0};
  struct random_scenario *s = random_scenario_create(seed, &e);
  ck_assert_msg(s != NULL, "%s", e.text);
  return s;
}

/* The text of a watchdog: real time may drive a nasty policy where simulated time does not. */
static int is_watchdog(const struct base_error *e)
{
  return strstr(e->text, "stalled") || strstr(e->text, "makes no progress") ||
         strstr(e->text, "only waits") || strstr(e->text, "come to rest");
}

/* The run again, from its recording: the same to the last byte. */
static void check_replay(struct random_scenario *s, const char *path, const struct outcome *real)
{
  struct base_error e = {0};
  struct outcome again = {0};
  struct lull_device *dev;
  const struct lull_device_ops *ops;
  const struct recording_run run = {"a", "", s->seed, "p"};
  struct world_config cfg = s->cfg;
  char why[1400];
  struct replay *rp = replay_open(path, "s", &e);
  ck_assert_msg(rp != NULL, "%s", e.text);
  cfg.log = outcome_line;
  cfg.log_ctx = &again;
  random_scenario_rewind(s);
  ck_assert_int_eq(replay_begin(rp, &run, &dev, &ops, &e), 0);
  again.rc = world_run(&cfg, dev, ops, &again.r, &again.e);
  ck_assert_msg(again.rc || !replay_end(rp, &e), "%s", e.text);
  ck_assert_msg(!outcome_differ(real, &again, &s->cfg, 0, why, sizeof why), "seed %d: %s",
                (int)s->seed, why);
  replay_close(rp);
  outcome_free(&again);
}

/* What all runs reach. */
static struct {
  uint64_t runs, steps, aborts, copies, finished, micro;
} seen;

static void count(const struct real_run *x, const struct world_config *cfg)
{
  seen.runs++;
  seen.steps += x->stats.steps;
  seen.aborts += x->o.r.aborts;
  seen.copies += x->stats.copies;
  seen.finished += x->stats.finished;
  for (uint32_t i = 0; i < cfg->njobs; i++)
    seen.micro += x->o.r.job[i].micro_steps;
}

static void check_seed(struct random_scenario *s)
{
  const struct toy_options toy = {.step_ns = 20000, .copy_ns = 20000, .layers = 2};
  const char *path = scratch_path("real.lull");
  struct base_error e = {0};
  struct real_run x;
  struct recorder *rec = recorder_open(path, "s", "toy", &e);
  ck_assert_ptr_nonnull(rec);
  if (s->cfg.drain != LULL_NEVER)
    s->cfg.drain = 100 * MS;
  run_real(s, rec, &toy, &x);
  ck_assert_int_eq(recorder_close(rec, &e), 0);
  ck_assert_msg(!x.o.rc || is_watchdog(&x.o.e), "seed %d: %s", (int)s->seed, x.o.e.text);
  ck_assert_msg(x.good, "seed %d: other tokens", (int)s->seed);
  if (!x.o.rc) {
    check_sums(&x.o.r, &s->cfg);
    count(&x, &s->cfg);
  }
  check_replay(s, path, &x.o);
  outcome_free(&x.o);
}

START_TEST(world_on_it)
{
  enum { SEEDS = 150 };
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct random_scenario *s = scenario(seed);
    if (is_plain(s))
      check_seed(s);
    random_scenario_destroy(s);
  }
  ck_assert_msg(seen.runs > SEEDS / 6 && seen.steps > 20 * seen.runs && seen.aborts &&
                    seen.copies > seen.runs / 4 && seen.finished > seen.runs && seen.micro,
                "%d runs, %d steps, %d aborts, %d copies, %d finished, %d micro-steps",
                (int)seen.runs, (int)seen.steps, (int)seen.aborts, (int)seen.copies,
                (int)seen.finished, (int)seen.micro);
}
END_TEST

/* A run whose engine fails, or whose thread ends, fails: it does not hang. */
START_TEST(world_fails)
{
  const struct toy_options toy[] = {{.step_ns = 20000, .layers = 2, .fail_at = 5},
                                    {.step_ns = 20000, .layers = 2, .exit_at = 5}};
  const char *const said[] = {"the toy is broken at work 5", "the thread of its lane has ended"};
  uint64_t seed = 1;
  struct random_scenario *s = scenario(seed);
  while (!is_plain(s) || s->cfg.nservers > 1 || s->narrivals < 5) {
    random_scenario_destroy(s);
    s = scenario(++seed);
  }
  for (int i = 0; i < 2; i++) {
    struct real_run x;
    run_real(s, NULL, &toy[i], &x);
    ck_assert_int_eq(x.o.rc, -1);
    ck_assert_int_eq(x.o.e.code, BASE_ENV);
    ck_assert_msg(strstr(x.o.e.text, said[i]) != NULL, "%s", x.o.e.text);
    outcome_free(&x.o);
  }
  random_scenario_destroy(s);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("device world");
  TCase *world = tcase_create("world");
  tcase_add_checked_fixture(world, scratch_open, scratch_close);
  tcase_set_timeout(world, 240);
  tcase_add_test(world, world_on_it);
  tcase_add_test(world, world_fails);
  suite_add_tcase(suite, world);
  return suite_run(suite);
}
