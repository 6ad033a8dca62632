/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Random small runs: the world merging steps, the world step by step, the world on a device that
 * reports as it likes, the world without a log, and the naive world must agree on every output,
 * byte by byte; and what comes out must add up. The latter also on a device that is late.
 *
 *   LULL_PROPERTY_N=20000     how many seeds (2000; 500 with sanitizers; 10 times as many where
 *                             LULL_TEST_LONG is set)
 *   LULL_PROPERTY_FROM=1000   the first one (1)
 *   LULL_PROPERTY_SEED=77     this one alone
 *   LULL_PROPERTY_STOP=1      stop at the first seed that fails
 *   LULL_PROPERTY_PRETEND=77  this one fails, if it comes up
 *   LULL_PROPERTY_FOLDER=/x   where to write the files of a seed that fails (.)
 *
 * The first seed that fails is written as a scenario that `lull run` takes, into failing-SEED; what
 * is printed says how to run it, and how to run this test with that seed alone.
 */
#include <check.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz_device.h"
#include "tests/naive_world.h"
#include "tests/outcome.h"
#include "tests/random_scenario.h"
#include "tests/suite.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
enum { SEEDS = 500 };
#else
enum { SEEDS = 2000 };
#endif
enum { LONG_FACTOR = 10, LONGEST_SECONDS = 600, NAP_PS = 1000000, MORE_ITEMS = 256 };

enum { MERGED, STEPWISE, FUZZED, UNHEARD, NAIVE, LATE, WORLDS };
static const char *const world_name[WORLDS] = {"merged",  "stepwise", "fuzzed",
                                               "unheard", "naive",    "late"};

static void run_one(struct random_scenario *s, int which, struct outcome *o)
{
  struct world_config cfg = s->cfg;
  memset(o, 0, sizeof *o);
  cfg.max_repeat = which == STEPWISE;
  cfg.log = which == UNHEARD ? NULL
                             : outcome_line; /* then some take what is nobody's shorter way */
  cfg.log_ctx = o;
  random_scenario_rewind(s);
  if (which == NAIVE) {
    o->rc = naive_run(&cfg, s->gpu, &o->r, &o->e);
    return;
  }
  struct lull_device *dev = simdev_create(s->gpu, (int)cfg.ngpus, &o->e);
  ck_assert_ptr_nonnull(dev);
  struct fuzz_device fuzz = {
      .inner = dev, .word = s->seed, .nap = NAP_PS * s->tempo, .late = which == LATE};
  o->rc = which == FUZZED || which == LATE || (which == UNHEARD && s->seed % 2)
              ? world_run(&cfg, (struct lull_device *)&fuzz, &fuzz_device_ops, &o->r, &o->e)
              : world_run(&cfg, dev, &simdev_ops, &o->r, &o->e);
  o->pieces = fuzz.pieces;
  fuzz_rows_free(&fuzz.rows);
  simdev_destroy(dev);
}

/* -------------------------------------------------------------------------- what must add up ---
 */

static int odd_class(const struct world_class_result *c, const char **what)
{
  *what = "conservation of requests";
  return c->offered !=
         c->finished + c->failed + c->rejected + c->cancelled + c->expired + c->unfinished;
}

static int odd_ledger(const struct world_result *r, const struct world_config *cfg,
                      const char **what)
{
  base_int128 all = 0;
  *what = "the accounts of a GPU sum to the paid time";
  for (uint32_t g = 0; g < cfg->ngpus; g++) {
    base_int128 sum = 0;
    for (int k = 0; k < WORLD_ACCOUNTS; k++)
      sum += r->gpu_account[g][k];
    if (sum * cfg->ngpus != r->paid)
      return 1;
    all += sum;
  }
  *what = "paid is end times GPUs";
  return all != r->paid || r->paid != (base_int128)12 * r->end * cfg->ngpus;
}

static int odd_record(const struct world_record *r, const char **what)
{
  *what = "a request ends once, with all its tokens or none too many";
  if (r->fate == WORLD_PENDING || r->generated > r->output ||
      (r->fate == WORLD_DONE) != (r->generated == r->output))
    return 1;
  *what = "the times of a request are in order";
  return r->fate == WORLD_DONE &&
         !(r->arrival <= r->first_chunk && r->first_chunk < r->first_token &&
           r->first_token <= r->last_token);
}

/* 1 and what does not hold, or 0. */
static int odd(const struct world_result *r, const struct world_config *cfg, const char **what)
{
  for (uint32_t c = 0; c < cfg->nclasses; c++)
    if (odd_class(&r->cls[c], what))
      return 1;
  for (uint64_t i = 0; i < r->records; i++)
    if (odd_record(&r->record[i], what))
      return 1;
  return odd_ledger(r, cfg, what);
}

/* --------------------------------------------------------------------------------- the suite ---
 */

static struct {
  uint64_t runs, failed, calibrated, async, found, caching, uneven, misses, pieces;
  uint64_t steps, preempts, swaps, aborts, forced, unfinished, micro, shared, ruled, late;
} seen;

/* Does the policy keep the rules of an engine? */
static int keeps_rules(const struct world_config *cfg)
{
  const struct lull_policy *p = cfg->policy;
  for (uint32_t i = 0; i < p->nparams; i++)
    if (!strcmp(p->params[i].name, "rules"))
      return cfg->params[i] != 0;
  return 0;
}

static void count(const struct outcome *o, const struct random_scenario *s, uint64_t pieces)
{
  const struct world_config *cfg = &s->cfg;
  seen.runs++;
  seen.calibrated += s->calibration != NULL;
  seen.pieces += pieces;
  seen.failed += o->rc != 0;
  if (o->rc)
    return;
  seen.steps += o->r.steps;
  seen.misses += o->r.misses.steps;
  if (cfg->server[0].async)
    seen.async += o->r.steps;
  if (cost_needs_longest(s->cost[0]))
    seen.uneven += o->r.steps;
  seen.swaps += o->r.swaps;
  seen.aborts += o->r.aborts;
  seen.forced += o->r.forced;
  int rules = keeps_rules(cfg);
  ck_assert_msg(!rules || !o->r.forced, "an engine's rules left it to the host to preempt");
  for (uint32_t i = 0; i < cfg->njobs; i++) {
    seen.micro += o->r.job[i].micro_steps;
    seen.shared += o->r.gpu_account[cfg->job[i].gpu][WORLD_TRAINING] !=
                   12 * (base_int128)o->r.job[i].busy;
  }
  for (uint32_t c = 0; c < cfg->nclasses; c++) {
    seen.preempts += o->r.cls[c].preempts;
    seen.ruled += rules ? o->r.cls[c].preempts : 0;
    seen.found += o->r.cls[c].cached;
    seen.caching += o->r.cls[c].cached > 0;
    seen.unfinished += o->r.cls[c].unfinished;
  }
}

static uint64_t setting(const char *name, uint64_t preset)
{
  const char *text = getenv(name);
  return text && *text ? (uint64_t)strtoull(text, NULL, 10) : preset;
}

/* Writes the seed's files and prints how to run them. A problem in writing is told, not failed on:
 * what went wrong before matters more. */
static void show_files(const struct random_scenario *s, const struct outcome *o)
{
  struct base_error e = {0};
  char folder[512], modules[PATH_MAX];
  const char *below = getenv("LULL_PROPERTY_FOLDER");
  uint64_t items = MORE_ITEMS;
  for (int i = 0; i < WORLDS; i++)
    items = o[i].r.released + MORE_ITEMS > items ? o[i].r.released + MORE_ITEMS : items;
  snprintf(folder, sizeof folder, "%s%sfailing-%" PRIu64, below ? below : "", below ? "/" : "",
           s->seed);
  if (!realpath("tests", modules))
    base_fail_errno(&e, "no folder 'tests' here, which holds the policies; run this where lull is "
                        "built");
  else
    random_scenario_write(s, folder, modules, items, &e);
  fprintf(stderr,
          "again, with the log before it:\n  srcdir=%s LULL_PROPERTY_SEED=%" PRIu64
          " tests/check_world_property\n",
          getenv("srcdir") ? getenv("srcdir") : ".", s->seed);
  if (e.code) {
    fprintf(stderr, "its scenario could not be written: %s\n", e.text);
    return;
  }
  fprintf(stderr,
          "its scenario, merged and step by step:\n"
          "  ./lull run %s/scenario.xml --log %s/a.csv --json %s/a.json\n"
          "  ./lull run %s/scenario.xml --no-fast-forward --log %s/b.csv --json %s/b.json\n",
          folder, folder, folder, folder, folder, folder);
}

/* Did the policy make no progress? On a late device it may do so where else it does. */
static int is_watchdog(const struct base_error *e)
{
  return strstr(e->text, "stalled") || strstr(e->text, "makes no progress");
}

/* Runs a seed in all worlds; 1 if something is wrong, said in `why`. The first one that is has its
 * files written. */
static int wrong(uint64_t seed, int first, char *why, size_t size)
{
  struct base_error e = {0};
  struct random_scenario *s = random_scenario_create(seed, &e);
  ck_assert_msg(s != NULL, "seed %" PRIu64 ": %s", seed, e.text);
  struct outcome o[WORLDS];
  int bad = 0;
  for (int i = 0; i < WORLDS; i++)
    run_one(s, i, &o[i]);
  for (int i = 0; i < WORLDS && !bad; i++) {
    const char *what;
    char text[1400];
    if (!o[i].rc && odd(&o[i].r, &s->cfg, &what)) {
      snprintf(why, size, "seed %" PRIu64 ", policy %s, %s: does not hold: %s", seed,
               s->cfg.policy->name, world_name[i], what);
      bad = 1;
    } else if (i == LATE && o[i].rc && !o[NAIVE].rc && !is_watchdog(&o[i].e)) {
      snprintf(why, size, "seed %" PRIu64 ", policy %s, late: %.300s", seed, s->cfg.policy->name,
               o[i].e.text);
      bad = 1;
    } else if (i != NAIVE && i != LATE &&
               outcome_differ(&o[i], &o[NAIVE], &s->cfg, getenv("LULL_PROPERTY_SEED") != NULL, text,
                              sizeof text)) {
      snprintf(why, size, "seed %" PRIu64 ", policy %s, %s and naive: %s", seed,
               s->cfg.policy->name, world_name[i], text);
      bad = 1;
    }
  }
  if (!bad && setting("LULL_PROPERTY_PRETEND", 0) == seed) {
    snprintf(why, size, "seed %" PRIu64 ", policy %s: is said to fail", seed, s->cfg.policy->name);
    bad = 1;
  }
  if (bad && first) {
    fprintf(stderr, "%s\n", why);
    show_files(s, o);
  }
  count(&o[NAIVE], s, o[FUZZED].pieces);
  seen.late += !o[LATE].rc;
  for (int i = 0; i < WORLDS; i++)
    outcome_free(&o[i]);
  random_scenario_destroy(s);
  return bad;
}

/* The worlds agree on nothing but errors if the scenarios reach too little. */
static void check_reach(uint64_t n)
{
  const struct {
    const char *what;
    uint64_t got, least;
  } reach[] = {{"steps", seen.steps, 50 * n},
               {"preemptions", seen.preempts, n},
               {"swaps", seen.swaps, n / 4},
               {"aborts", seen.aborts, n / 16},
               {"forced preemptions", seen.forced, n / 16},
               {"unfinished requests", seen.unfinished, n / 16},
               {"steps planned a step ahead", seen.async, 10 * n},
               {"tokens found in caches", seen.found, 10 * n},
               {"runs that find some", seen.caching, n / 8},
               {"calibrated costs", seen.calibrated, n / 16},
               {"steps where uneven batches cost more", seen.uneven, 4 * n},
               {"steps outside what was measured", seen.misses, n},
               {"reports within a ticket", seen.pieces, n},
               {"preemptions by an engine's rules", seen.ruled, n / 16},
               {"micro-steps", seen.micro, n},
               {"runs on a late device", seen.late, 7 * n / 8},
               {"shared GPUs", seen.shared, n / 8}};
  ck_assert_msg(seen.failed * 10 < seen.runs, "%" PRIu64 " of %" PRIu64 " runs stalled or broke",
                seen.failed, seen.runs);
  for (size_t i = 0; i < sizeof reach / sizeof *reach; i++)
    ck_assert_msg(reach[i].got > reach[i].least,
                  "the scenarios no longer reach what they are for: %s %" PRIu64
                  ", not above %" PRIu64,
                  reach[i].what, reach[i].got, reach[i].least);
}

START_TEST(worlds_agree)
{
  uint64_t usual = getenv("LULL_TEST_LONG") ? LONG_FACTOR * SEEDS : SEEDS;
  uint64_t n = setting("LULL_PROPERTY_N", usual), from = setting("LULL_PROPERTY_FROM", 1), bad = 0;
  int stop = setting("LULL_PROPERTY_STOP", 0) != 0;
  char why[2048], first[2048] = "";
  if (getenv("LULL_PROPERTY_SEED")) {
    from = setting("LULL_PROPERTY_SEED", 1);
    n = 1;
  }
  for (uint64_t seed = from; seed < from + n && !(stop && bad); seed++)
    if (wrong(seed, !bad, why, sizeof why)) {
      if (!bad++) {
        memcpy(first, why, sizeof first);
      } else if (n > SEEDS) {
        fprintf(stderr, "%s\n", why);
      }
    }
  ck_assert_msg(!bad, "%" PRIu64 " of %" PRIu64 " seeds; the first: %s", bad, n, first);
  if (n >= 300)
    check_reach(n);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("world property");
  TCase *t = tcase_create("five worlds");
  tcase_set_timeout(t, LONGEST_SECONDS);
  tcase_add_test(t, worlds_agree);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
