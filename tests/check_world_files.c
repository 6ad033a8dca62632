/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The scenario that is written of a random seed is that seed: read and run as `lull run` does, it
 * gives the outputs of the direct run byte by byte, records, ledger, gaps and decision log.
 */
#include <check.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/experiment.h"
#include "tests/outcome.h"
#include "tests/random_scenario.h"
#include "tests/suite.h"

enum { SEEDS = 200, MORE_ITEMS = 16, LONGEST_SECONDS = 120 };

static char folder[] = "check_world_files_XXXXXX", modules[PATH_MAX];

static void make_folder(void)
{
  ck_assert_ptr_nonnull(mkdtemp(folder));
  ck_assert_ptr_nonnull(realpath("tests", modules));
}

static const char *in_folder(const char *name)
{
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void remove_files(void)
{
  static const char *const name[] = {"scenario.xml",   "red.csv",       "green.csv",
                                     "blue.csv",       "red-items.csv", "green-items.csv",
                                     "blue-items.csv", RANDOM_TABLES};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++)
    unlink(in_folder(name[i]));
}

static void remove_folder(void)
{
  remove_files();
  ck_assert_int_eq(rmdir(folder), 0);
}

static void run_direct(struct random_scenario *s, uint64_t max_repeat, struct outcome *o)
{
  struct world_config cfg = s->cfg;
  *o = (struct outcome){0};
  cfg.max_repeat = max_repeat;
  cfg.log = outcome_line;
  cfg.log_ctx = o;
  random_scenario_rewind(s);
  struct lull_device *dev = simdev_create(s->gpu, (int)cfg.ngpus, &o->e);
  ck_assert_ptr_nonnull(dev);
  o->rc = world_run(&cfg, dev, &simdev_ops, &o->r, &o->e);
  simdev_destroy(dev);
}

/* The run of the files, as it goes on. */
struct replay {
  struct outcome got;
  const struct outcome *wanted;
  const struct world_config *cfg;
  int ran, differs;
  char *why;
  size_t size;
  struct world_record *record; /* [room] by id */
  uint64_t room;
};

static void on_line(void *ctx, const struct scenario *s, int arm, int candidate, uint64_t seed,
                    const struct world_log_line *line)
{
  struct replay *p = ctx;
  (void)s, (void)arm, (void)candidate, (void)seed;
  outcome_line(&p->got, line);
}

static int on_begin(void *ctx, const struct experiment_place *place, struct base_error *e)
{
  (void)ctx, (void)place, (void)e;
  return 0;
}

/* Ends come in any order of ids. */
static void on_ended(void *ctx, lull_id id, const struct world_record *r)
{
  struct replay *p = ctx;
  while ((uint64_t)id >= p->room) {
    p->room = p->room ? 2 * p->room : 1024;
    p->record = realloc(p->record, p->room * sizeof *p->record);
    ck_assert_ptr_nonnull(p->record);
  }
  p->record[id] = *r;
}

/* The result is the run's: it is looked at here and not kept. */
static int on_end(void *ctx, const struct world_result *r, struct base_error *e)
{
  struct replay *p = ctx;
  (void)e;
  p->got.r = *r;
  p->got.r.record = p->record;
  p->ran = 1;
  p->differs = outcome_differ(&p->got, p->wanted, p->cfg, 0, p->why, p->size);
  p->got.r = (struct world_result){0};
  return 0;
}

/* A failure says which run it was of, in front of the world's own words. */
static int same_failure(const struct replay *p)
{
  const struct outcome *a = &p->got, *b = p->wanted;
  return a->e.code == b->e.code && strstr(a->e.text, b->e.text) && a->size == b->size &&
         !memcmp(a->log, b->log, a->size);
}

/* 1 and the first difference in p->why, or 0. */
static int replay_files(uint64_t max_repeat, struct replay *p)
{
  struct base_errors errors = {0};
  struct scenario *s = scenario_open(in_folder("scenario.xml"), NULL, &errors);
  const struct base_error *first = errors.n ? &errors.item[0] : NULL;
  ck_assert_msg(s != NULL, "%s line %u: %s", first ? first->file : "", first ? first->line : 0,
                first ? first->text : "no error");
  struct experiment_sink sink = {p, on_begin, on_ended, on_end};
  struct experiment_options o = {
      .max_repeat = max_repeat, .sink = &sink, .log = on_line, .log_ctx = p};
  struct experiment *x = experiment_run(s, &o, &p->got.e);
  int differs = p->differs;
  if (!x != !p->ran || p->wanted->rc != (x ? 0 : -1) || (!x && !same_failure(p))) {
    snprintf(p->why, p->size, "it ended with %d '%s', not with %d '%s'", p->got.e.code,
             p->got.e.text, p->wanted->e.code, p->wanted->e.text);
    differs = 1;
  }
  free(p->record);
  p->record = NULL;
  p->room = 0;
  experiment_free(x);
  scenario_close(s);
  base_errors_free(&errors);
  return differs;
}

static uint64_t failed, jobs, backlogs, calibrated, modular, speculating;

static void count(const struct random_scenario *s, const struct outcome *o)
{
  failed += o->rc != 0;
  jobs += s->cfg.njobs > 0;
  backlogs += o->r.released > 0;
  calibrated += s->calibration != NULL;
  modular += !strncmp(s->cfg.policy->name, "nasty", 5);
  speculating += s->server[0].row_tokens > 1;
}

START_TEST(files_are_the_seed)
{
  char why[1400] = "";
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct base_error e = {0};
    struct outcome direct;
    struct random_scenario *s = random_scenario_create(seed, &e);
    ck_assert_msg(s != NULL, "seed %" PRIu64 ": %s", seed, e.text);
    run_direct(s, seed & 1, &direct);
    remove_files();
    ck_assert_msg(!random_scenario_write(s, folder, modules, direct.r.released + MORE_ITEMS, &e),
                  "seed %" PRIu64 ": %s", seed, e.text);
    struct replay p = {.wanted = &direct, .cfg = &s->cfg, .why = why, .size = sizeof why};
    ck_assert_msg(!replay_files(seed & 1, &p), "seed %" PRIu64 ", written and direct: %s", seed,
                  why);
    count(s, &direct);
    free(p.got.log);
    outcome_free(&direct);
    random_scenario_destroy(s);
  }
  ck_assert_msg(failed < SEEDS / 8 && jobs > SEEDS / 8 && backlogs > SEEDS / 8 &&
                    calibrated > SEEDS / 20 && modular > SEEDS / 4 && speculating > SEEDS / 8,
                "the seeds no longer reach what they are for: %" PRIu64 " failed, %" PRIu64
                " jobs, %" PRIu64 " backlogs, %" PRIu64 " calibrated, %" PRIu64 " modules, %" PRIu64
                " speculating",
                failed, jobs, backlogs, calibrated, modular, speculating);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("world files");
  TCase *t = tcase_create("written");
  tcase_set_timeout(t, LONGEST_SECONDS);
  tcase_add_unchecked_fixture(t, make_folder, remove_folder);
  tcase_add_test(t, files_are_the_seed);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
