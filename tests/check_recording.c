/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What was recorded replays to the same decision log, ledger and records, for random runs of every
 * built-in policy on a simulated device, on one that reports as it likes and on one that is late;
 * and a recording that is bad, or of another run, says so.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "models/recording.h"
#include "sim/policies.h"
#include "tests/fuzz_device.h"
#include "tests/outcome.h"
#include "tests/random_scenario.h"
#include "tests/scratch.h"
#include "tests/suite.h"

enum { SEEDS = 120, NAP_PS = 1000000 };

static struct recording_run run_of(const struct random_scenario *s)
{
  return (struct recording_run){
      .arm = s->cfg.policy->name, .candidate = "", .seed = s->seed, .plan = "0123abcd"};
}

static struct world_config config_of(struct random_scenario *s, struct outcome *o)
{
  struct world_config cfg = s->cfg;
  memset(o, 0, sizeof *o);
  cfg.log = outcome_line;
  cfg.log_ctx = o;
  random_scenario_rewind(s);
  return cfg;
}

static const char *const kind_name[] = {"sim", "fuzzed", "late"};

/* Runs a scenario and records it as `kind` says. */
static void record(struct random_scenario *s, int kind, struct recorder *rec, struct outcome *o)
{
  struct world_config cfg = config_of(s, o);
  struct lull_device *sim = simdev_create(s->gpu, (int)cfg.ngpus, &o->e), *dev;
  struct fuzz_device fuzz = {
      .inner = sim, .word = s->seed, .nap = NAP_PS * s->tempo, .late = kind == 2};
  const struct lull_device_ops *ops;
  const struct recording_run run = run_of(s);
  ck_assert_ptr_nonnull(sim);
  ck_assert_int_eq(recorder_begin(rec, &run, kind ? (struct lull_device *)&fuzz : sim,
                                  kind ? &fuzz_device_ops : &simdev_ops, &dev, &ops, &o->e),
                   0);
  ck_assert_int_eq(kind != 0, ops->request != NULL);
  o->rc = world_run(&cfg, dev, ops, &o->r, &o->e);
  ck_assert_int_eq(recorder_end(rec, &o->e), 0);
  fuzz_rows_free(&fuzz.rows);
  simdev_destroy(sim);
}

static void replay(struct random_scenario *s, struct replay *rp, struct outcome *o)
{
  struct world_config cfg = config_of(s, o);
  struct lull_device *dev;
  const struct lull_device_ops *ops;
  const struct recording_run run = run_of(s);
  ck_assert_msg(!replay_begin(rp, &run, &dev, &ops, &o->e), "%s", o->e.text);
  o->rc = world_run(&cfg, dev, ops, &o->r, &o->e);
  if (!o->rc)
    ck_assert_msg(!replay_end(rp, &o->e), "%s", o->e.text);
}

static struct recorder *open_recorder(const char *path)
{
  struct base_error e = {0};
  struct recorder *rec = recorder_open(path, "s", "toy", &e);
  ck_assert_msg(rec != NULL, "%s", e.text);
  return rec;
}

static void close_recorder(struct recorder *rec)
{
  struct base_error e = {0};
  ck_assert_msg(!recorder_close(rec, &e), "%s", e.text);
}

/* Each seed's run on each device in a file of its own. */
START_TEST(replays_are_equal)
{
  size_t n;
  const struct lull_policy *const *builtin = policies_builtin(&n);
  unsigned seen = 0, good = 0;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct base_error e = {0};
    struct random_scenario *s = random_scenario_create(seed, &e);
    ck_assert_ptr_nonnull(s);
    for (size_t i = 0; i < n; i++)
      seen |= (unsigned)(s->cfg.policy == builtin[i]) << i;
    for (int kind = 0; kind < 3; kind++) {
      struct outcome a, b;
      char why[1400];
      const char *path = scratch_path("run.lull");
      struct recorder *rec = open_recorder(path);
      record(s, kind, rec, &a);
      close_recorder(rec);
      struct replay *rp = replay_open(path, "s", &e);
      ck_assert_msg(rp != NULL, "%s:%u %s", e.file, e.line, e.text);
      ck_assert_str_eq(replay_device(rp), "toy");
      replay(s, rp, &b);
      ck_assert_msg(!outcome_differ(&a, &b, &s->cfg, 0, why, sizeof why), "seed %d, %s: %s",
                    (int)seed, kind_name[kind], why);
      good += !a.rc;
      outcome_free(&a);
      outcome_free(&b);
      replay_close(rp);
    }
    random_scenario_destroy(s);
  }
  for (size_t i = 0; i < n; i++)
    ck_assert_msg(seen >> i & 1, "no run of policy %s", builtin[i]->name);
  ck_assert_uint_gt(good, SEEDS * 5 / 2);
}
END_TEST

/* Records seed 3 on the fuzzed device; the text of the recording, NUL-ended. */
static char *recorded_text(struct random_scenario *s, size_t *size)
{
  static const size_t room = 1 << 22;
  struct outcome a;
  const char *path = scratch_path("text.lull");
  struct recorder *rec = open_recorder(path);
  record(s, 1, rec, &a);
  close_recorder(rec);
  outcome_free(&a);
  gzFile in = gzopen(path, "rb");
  char *text = calloc(1, room);
  ck_assert(in && text);
  int n = gzread(in, text, (unsigned)room - 1);
  ck_assert_int_gt(n, 0);
  gzclose(in);
  *size = (size_t)n;
  return text;
}

static struct random_scenario *scenario(uint64_t seed)
{
  struct base_error e = {0};
  struct random_scenario *s = random_scenario_create(seed, &e);
  ck_assert_msg(s != NULL, "%s", e.text);
  return s;
}

static void refused(const char *text, size_t size, const char *of, const char *said)
{
  struct base_error e = {0};
  struct replay *r = replay_open_memory(text, size, "bad", of, &e);
  ck_assert_msg(!r, "accepted: %.60s", text);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_msg(strstr(e.text, said) != NULL, "'%s' instead of '%s'", e.text, said);
}

START_TEST(bad_recordings)
{
  struct random_scenario *s = scenario(3);
  size_t size;
  char *text = recorded_text(s, &size);
  struct base_error e = {0};
  for (size_t n = 0; n < size - 1; n += n < 2000 || n > size - 300 ? 1 : 997)
    refused(text, n, "s", n ? "" : "cut");
  refused(text, size, "other", "of scenario 's', not of 'other'");
  refused("{\"lull-recording\":2}\n", 21, NULL, "version 2");
  refused("{\"a\":1}\n", 8, NULL, "no recording");
  refused("{\"lull-recording\":1}\n{\"runs\":1}\n", 32, NULL, "neither a call");
  refused("{\"lull-recording\":1}\n{\"runs\":0}\n[]\n", 35, NULL, "behind the end");
  refused("{\"lull-recording\":1}\n[\"wait\",[1,2],[0,1]]\n", 43, NULL, "no call of a device");
  char *wait = strstr(text, "[\"wait\"");
  ck_assert_ptr_nonnull(wait);
  char *answer = strstr(wait, "],[") + 3;
  char was = *answer;
  *answer = '9';
  refused(text, size, "s", "");
  *answer = 'x';
  refused(text, size, "s", "no line of JSON");
  *answer = was;
  struct replay *rp = replay_open_memory(text, size, "good", NULL, &e);
  ck_assert_msg(rp != NULL, "%s", e.text);
  replay_close(rp);
  FILE *f = fopen(scratch_path("cut.lull"), "wb");
  gzFile z = gzopen(scratch_path("text.lull"), "rb");
  ck_assert(f && z);
  gzclose(z);
  z = NULL;
  FILE *in = fopen(scratch_path("text.lull"), "rb");
  char half[600];
  ck_assert_uint_eq(fread(half, 1, sizeof half, in), sizeof half);
  ck_assert_uint_eq(fwrite(half, 1, sizeof half, f), sizeof half);
  fclose(in);
  fclose(f);
  ck_assert_ptr_null(replay_open(scratch_path("cut.lull"), "s", &e));
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_msg(strstr(e.text, "cut") != NULL, "%s", e.text);
  e = (struct base_error){0};
  ck_assert_ptr_null(replay_open(scratch_path("none.lull"), "s", &e));
  ck_assert_int_eq(e.code, BASE_ENV);
  free(text);
  random_scenario_destroy(s);
}
END_TEST

/* Answers that would lead a world astray: each is the good one with a line changed. */
START_TEST(impossible_answers)
{
  static const char head[] = "{\"lull-recording\":1,\"scenario\":\"s\",\"device\":\"toy\"}\n"
                             "{\"run\":{\"arm\":\"a\"},\"rows\":true}\n";
  static const char *const good[] = {"[\"open\",[0,0],[0]]\n",
                                     "[\"repeat\",[],[1]]\n",
                                     "[\"submit\",[0,0,3,0,0,5,0],[0]]\n",
                                     "[\"wait\",[100,4],[0,50]]\n",
                                     "[\"progress\",[0],[2,40]]\n",
                                     "[\"wait\",[100,4],[1,90,5,0,0,1,0,0,3,60,10,0,80,80,70]]\n",
                                     "[\"wait\",[100,4],[0,95]]\n"};
  static const struct {
    int line;
    const char *text;
  } bad[] = {
      {0, "[\"open\",[0,0],[1]]\n"},              /* lanes are numbered from 0 on */
      {1, "[\"repeat\",[],[0]]\n"},               /* no step at all */
      {2, "[\"submit\",[0,0,3,0,0,5,0],[-2]]\n"}, /* refused, and yet completed */
      {2, "[\"submit\",[0,0,3,0,0,6,0],[0]]\n"},  /* another's tag */
      {2, "[\"submit\",[1,0,3,0,0,5,0],[0]]\n"},  /* another kind */
      {2, "[\"submit\",[0,0],[0]]\n"},
      {3, "[\"wait\",[100,4],[0,99]]\n"}, /* time goes back at the next one */
      {4, "[\"progress\",[0],[4,40]]\n"}, /* of 3 */
      {4, "[\"progress\",[0],[2,51]]\n"}, /* of the future */
      {4, "[\"progress\",[256],[0,0]]\n"},
      {5, "[\"wait\",[100,4],[1,90,5,0,0,1,0,0,4,60,10,0,80,80,70]]\n"}, /* 4 steps of 3 */
      {6, "[\"wait\",[100,4],[1,95,5,0,0,1,0,0,0,0,0,0,0,95,0]]\n"},     /* once more */
  };
  char text[2000];
  for (int i = -1; i < (int)(sizeof bad / sizeof *bad); i++) {
    struct base_error e = {0};
    snprintf(text, sizeof text, "%s", head);
    for (int k = 0; k < 7; k++)
      strcat(text, i >= 0 && bad[i].line == k ? bad[i].text : good[k]);
    strcat(text, "{\"calls\":7}\n{\"runs\":1}\n");
    struct replay *r = replay_open_memory(text, strlen(text), "t", NULL, &e);
    ck_assert_msg(!r == (i >= 0), "%d: %s", i, e.text);
    ck_assert(r || (e.code == BASE_INPUT && strstr(e.text, "no device answers")));
    replay_close(r);
  }
}
END_TEST

/* A world that asks something else: the first call that differs is named. */
START_TEST(other_runs)
{
  struct random_scenario *s = scenario(3), *t = scenario(3);
  size_t size;
  char *text = recorded_text(s, &size);
  struct base_error e = {0};
  struct outcome o;
  struct lull_device *dev;
  const struct lull_device_ops *ops;
  struct replay *rp = replay_open_memory(text, size, "good", "s", &e);
  ck_assert_ptr_nonnull(rp);
  struct recording_run run = run_of(s);
  run.arm = "another";
  ck_assert_int_eq(replay_begin(rp, &run, &dev, &ops, &e), -1);
  ck_assert(e.code == BASE_INPUT && strstr(e.text, "no run of arm 'another'"));
  e = (struct base_error){0};
  run = run_of(s);
  run.plan = "fedc";
  ck_assert_int_eq(replay_begin(rp, &run, &dev, &ops, &e), -1);
  ck_assert(e.code == BASE_INPUT && strstr(e.text, "on other requests"));
  t->server[0].kv_blocks++;
  struct world_config cfg = config_of(t, &o);
  run = run_of(s);
  ck_assert_int_eq(replay_begin(rp, &run, &dev, &ops, &o.e), 0);
  ck_assert_int_eq(world_run(&cfg, dev, ops, &o.r, &o.e), -1);
  ck_assert_int_eq(o.e.code, BASE_INPUT);
  ck_assert_msg(strstr(o.e.text, "call 4 of the run is reserve(") &&
                    strstr(o.e.text, "but reserve("),
                "%s", o.e.text);
  outcome_free(&o);
  t->server[0].kv_blocks--;
  cfg = config_of(t, &o);
  cfg.window /= 2; /* it ends earlier */
  ck_assert_int_eq(replay_begin(rp, &run, &dev, &ops, &o.e), 0);
  int rc = world_run(&cfg, dev, ops, &o.r, &o.e);
  ck_assert(rc || replay_end(rp, &o.e));
  ck_assert_int_eq(o.e.code, BASE_INPUT);
  outcome_free(&o);
  replay_close(rp);
  free(text);
  random_scenario_destroy(s);
  random_scenario_destroy(t);
}
END_TEST

/* -------------------------------------------------------------------- adapters and sleep ---- */

static int yes_submit(struct lull_device *d, const struct lull_work *w)
{
  (void)d, (void)w;
  return LULL_DEV_OK;
}

static int yes_request(struct lull_device *d, lull_id id, const struct lull_device_request *who)
{
  (void)d, (void)id, (void)who;
  return LULL_DEV_OK;
}

static void yes_forget(struct lull_device *d, lull_id id, int how)
{
  (void)d, (void)id, (void)how;
}

/* Takes everything. */
static const struct lull_device_ops yes_ops = {.size = sizeof yes_ops,
                                               .abi = LULL_DEVICE_ABI,
                                               .submit = yes_submit,
                                               .request = yes_request,
                                               .forget = yes_forget};

static const struct lull_work a_load = {.size = sizeof a_load,
                                        .kind = LULL_WORK_ADAPTER_LOAD,
                                        .lane = 1,
                                        .slot = 2,
                                        .version = UINT64_MAX};
static const struct lull_work a_sleep = {
    .size = sizeof a_sleep, .kind = LULL_WORK_WEIGHTS_DROP, .level = 2};
static const struct lull_device_request a_request = {
    .size = sizeof a_request, .key = 1, .prompt = 3, .output = 4, .adapter = 2};

/* Call i of three, with one of them changed or (-1) none. */
static int call(const struct lull_device_ops *ops, struct lull_device *dev, int i, int change)
{
  struct lull_work load = a_load, sleep = a_sleep;
  struct lull_device_request who = a_request;
  load.version -= change == 0;
  load.slot += change == 1;
  sleep.level -= change == 2;
  who.adapter = change == 3 ? -1 : change == 4 ? 1 : 2;
  return i == 0   ? ops->submit(dev, &load)
         : i == 1 ? ops->submit(dev, &sleep)
                  : ops->request(dev, 5, &who);
}

/* A replay tells slots, levels and versions apart. */
START_TEST(adapters_and_sleep)
{
  static const int fails_at[] = {0, 0, 1, 2, 2};
  const struct recording_run run = {.arm = "a", .candidate = "", .seed = 1, .plan = "0123abcd"};
  const char *path = scratch_path("adapters.lull");
  struct base_error e = {0};
  struct lull_device *dev;
  const struct lull_device_ops *ops;
  struct recorder *rec = open_recorder(path);
  ck_assert_int_eq(recorder_begin(rec, &run, NULL, &yes_ops, &dev, &ops, &e), 0);
  for (int i = 0; i < 3; i++)
    ck_assert_int_eq(call(ops, dev, i, -1), 0);
  ck_assert_int_eq(recorder_end(rec, &e), 0);
  close_recorder(rec);
  struct replay *rp = replay_open(path, "s", &e);
  ck_assert_msg(rp != NULL, "%s", e.text);
  for (int change = -1; change < 5; change++) {
    ck_assert_int_eq(replay_begin(rp, &run, &dev, &ops, &e), 0);
    for (int i = 0; i < 3; i++) {
      int differs = change >= 0 && i >= fails_at[change];
      ck_assert_int_eq(call(ops, dev, i, change), differs ? LULL_DEV_DIFFERS : 0);
      if (differs)
        break;
    }
    if (change < 0)
      ck_assert_msg(!replay_end(rp, &e), "%s", e.text);
  }
  replay_close(rp);
}
END_TEST

START_TEST(nothing_is_left_behind)
{
  struct base_error e = {0};
  struct recorder *rec = open_recorder(scratch_path("gone.lull"));
  recorder_abandon(rec);
  ck_assert_int_ne(access(scratch_path("gone.lull"), F_OK), 0);
  rec = recorder_open("/dev/full", "s", "toy", &e);
  ck_assert_ptr_nonnull(rec);
  ck_assert_int_eq(recorder_close(rec, &e), -1);
  ck_assert_int_eq(e.code, BASE_ENV);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("recording");
  TCase *t = tcase_create("recording");
  tcase_add_checked_fixture(t, scratch_open, scratch_close);
  tcase_set_timeout(t, 120);
  tcase_add_test(t, replays_are_equal);
  tcase_add_test(t, bad_recordings);
  tcase_add_test(t, impossible_answers);
  tcase_add_test(t, other_runs);
  tcase_add_test(t, adapters_and_sleep);
  tcase_add_test(t, nothing_is_left_behind);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
