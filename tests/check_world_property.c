/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Random small runs: the world merging steps, the world step by step, the world on a device that
 * reports as it likes, and the naive world must agree on every output, byte by byte; and what comes
 * out must add up.
 *
 *   LULL_PROPERTY_N=20000     how many seeds (2000; 500 with sanitizers; 10 times as many where
 *                             LULL_TEST_LONG is set)
 *   LULL_PROPERTY_FROM=1000   the first one (1)
 *   LULL_PROPERTY_SEED=77     this one alone
 *   LULL_PROPERTY_STOP=1      stop at the first seed that fails
 *
 * The first seed that fails is printed with its scenario and the command that runs it again.
 */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz_device.h"
#include "tests/naive_world.h"
#include "tests/random_scenario.h"

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
enum { LONG_FACTOR = 10, LONGEST_SECONDS = 600, NAP_PS = 1000000 };

enum { MERGED, STEPWISE, FUZZED, NAIVE, WORLDS, CONTEXT_LINES = 25 };
static const char *const world_name[WORLDS] = {"merged", "stepwise", "fuzzed", "naive"};

struct outcome {
  int rc;
  struct base_error e;
  struct world_result r;
  char *log; /* owned, a line each; NULL before */
  size_t size, cap, lines;
  uint64_t pieces; /* reports that the fuzzed device made up */
};

static void take_line(void *ctx, const struct world_log_line *l)
{
  static const char *const kind[] = {"event",   "plan",  "chunk",  "preempt", "resume",
                                     "planned", "route", "reject", "abort",   "timer",
                                     "forced",  "text",  "train"};
  struct outcome *o = ctx;
  if (o->size + 256 > o->cap) {
    o->cap = o->cap ? 2 * o->cap : 1 << 16;
    o->log = realloc(o->log, o->cap);
    if (!o->log)
      abort();
  }
  o->size += (size_t)snprintf(o->log + o->size, 256,
                              "%" PRId64 " server %d %s %" PRId64 " %" PRId64 " %s\n", l->time,
                              l->server, kind[l->kind], l->a, l->b, l->text ? l->text : "");
  o->lines++;
}

static void run_one(struct random_scenario *s, int which, struct outcome *o)
{
  struct world_config cfg = s->cfg;
  memset(o, 0, sizeof *o);
  cfg.max_repeat = which == STEPWISE;
  cfg.log = take_line;
  cfg.log_ctx = o;
  random_scenario_rewind(s);
  if (which == NAIVE) {
    o->rc = naive_run(&cfg, s->gpu, &o->r, &o->e);
    return;
  }
  struct lull_device *dev = simdev_create(s->gpu, (int)cfg.ngpus, &o->e);
  ck_assert_ptr_nonnull(dev);
  struct fuzz_device fuzz = {.inner = dev, .word = s->seed, .nap = NAP_PS * s->tempo};
  o->rc = which == FUZZED
              ? world_run(&cfg, (struct lull_device *)&fuzz, &fuzz_device_ops, &o->r, &o->e)
              : world_run(&cfg, dev, &simdev_ops, &o->r, &o->e);
  o->pieces = fuzz.pieces;
  simdev_destroy(dev);
}

static void free_outcome(struct outcome *o)
{
  world_result_free(&o->r);
  free(o->log);
}

/* ------------------------------------------------------------------------------- differences ---
 */

/* For a seed that is run alone: what the worlds still agreed on. */
static void show_context(const char *log, size_t end)
{
  size_t from = end;
  for (int lines = 0; from && lines <= CONTEXT_LINES; from--)
    lines += log[from - 1] == '\n';
  if (getenv("LULL_PROPERTY_SEED"))
    fprintf(stderr, "%.*s", (int)(end - from), log + from);
}

static int differ_log(const struct outcome *a, const struct outcome *b, char *why, size_t size)
{
  size_t n = a->size < b->size ? a->size : b->size, line = 0, i = 0;
  int whole = !(a->rc &&
                b->rc); /* where both failed, one may have noticed earlier in the instant */
  if ((a->size == b->size || !whole) && (!n || !memcmp(a->log, b->log, n)))
    return 0;
  size_t number = 1;
  while (i < n && a->log[i] == b->log[i])
    if (a->log[i++] == '\n') {
      line = i;
      number++;
    }
  show_context(a->log, line);
  snprintf(why, size, "log line %zu: '%.*s' and '%.*s'", number,
           line < a->size ? (int)strcspn(a->log + line, "\n") : 0, a->log ? a->log + line : "",
           line < b->size ? (int)strcspn(b->log + line, "\n") : 0, b->log ? b->log + line : "");
  return 1;
}

struct line_of {
  char text[512];
};

static const char *record_text(const struct world_record *r, struct line_of *l)
{
  snprintf(l->text, sizeof l->text,
           "arrival %" PRId64 " chunk %" PRId64 " first %" PRId64 " last %" PRId64
           " prompt %u output %u generated %u preempts %u discarded %" PRIu64 " share %" PRId64
           " wasted %" PRId64 " server %d class %d fate %d met %d",
           r->arrival, r->first_chunk, r->first_token, r->last_token, r->prompt, r->output,
           r->generated, r->preempts, r->discarded, r->share, r->wasted, r->server, r->cls, r->fate,
           r->met);
  return l->text;
}

static int differ_records(const struct outcome *a, const struct outcome *b, char *why, size_t size)
{
  struct line_of x, y;
  if (a->r.records != b->r.records) {
    snprintf(why, size, "records: %" PRIu64 " and %" PRIu64, a->r.records, b->r.records);
    return 1;
  }
  for (uint64_t i = 0; i < a->r.records; i++)
    if (strcmp(record_text(&a->r.record[i], &x), record_text(&b->r.record[i], &y))) {
      snprintf(why, size, "record %" PRIu64 ": '%s' and '%s'", i, x.text, y.text);
      return 1;
    }
  return 0;
}

/* One number of a result, by name. */
static int differ_number(const char *what, int i, base_int128 x, base_int128 y, char *why,
                         size_t size)
{
  if (x == y)
    return 0;
  snprintf(why, size, "%s %d: %" PRId64 " and %" PRId64, what, i, (int64_t)x, (int64_t)y);
  return 1;
}

static int differ_hist(const struct base_hist *a, const struct base_hist *b, int c, char *why,
                       size_t size)
{
  if (differ_number("gaps of class", c, a->n, b->n, why, size) ||
      differ_number("gap sum of class", c, a->sum, b->sum, why, size))
    return 1;
  if (a->n && (differ_number("least gap of class", c, a->min, b->min, why, size) ||
               differ_number("largest gap of class", c, a->max, b->max, why, size)))
    return 1;
  for (size_t i = 0; i < BASE_HIST_BINS; i++)
    if (differ_number("gap bin of class", c, a->bin[i], b->bin[i], why, size))
      return 1;
  return 0;
}

static int differ_class(const struct world_class_result *a, const struct world_class_result *b,
                        int c, char *why, size_t size)
{
  const base_int128 x[] = {a->offered,       a->finished,      a->failed,     a->rejected,
                           a->cancelled,     a->expired,       a->unfinished, a->met,
                           a->output_tokens, a->useful_tokens, a->preempts,   a->discarded,
                           a->share,         a->residue};
  const base_int128 y[] = {b->offered,       b->finished,      b->failed,     b->rejected,
                           b->cancelled,     b->expired,       b->unfinished, b->met,
                           b->output_tokens, b->useful_tokens, b->preempts,   b->discarded,
                           b->share,         b->residue};
  static const char *const name[] = {
      "offered of class",       "finished of class",  "failed of class",
      "rejected of class",      "cancelled of class", "expired of class",
      "unfinished of class",    "met of class",       "output tokens of class",
      "useful tokens of class", "preempts of class",  "discarded of class",
      "share of class",         "residue of class"};
  for (size_t i = 0; i < sizeof x / sizeof *x; i++)
    if (differ_number(name[i], c, x[i], y[i], why, size))
      return 1;
  return differ_hist(&a->itl, &b->itl, c, why, size);
}

static int differ_totals(const struct world_result *a, const struct world_result *b,
                         const struct world_config *cfg, char *why, size_t size)
{
  const base_int128 x[] = {a->end,   a->paid,   a->steps,    a->plans,  a->forced,
                           a->swaps, a->aborts, a->released, a->partial};
  const base_int128 y[] = {b->end,   b->paid,   b->steps,    b->plans,  b->forced,
                           b->swaps, b->aborts, b->released, b->partial};
  static const char *const name[] = {"end",   "paid",   "steps",    "plans",  "forced",
                                     "swaps", "aborts", "released", "partial"};
  for (size_t i = 0; i < sizeof x / sizeof *x; i++)
    if (differ_number(name[i], 0, x[i], y[i], why, size))
      return 1;
  for (uint32_t g = 0; g < cfg->ngpus; g++) {
    if (differ_number("busy time of GPU", (int)g, a->gpu_busy[g], b->gpu_busy[g], why, size))
      return 1;
    for (int k = 0; k < WORLD_ACCOUNTS; k++)
      if (differ_number(world_account_name[k], (int)g, a->gpu_account[g][k], b->gpu_account[g][k],
                        why, size))
        return 1;
  }
  for (uint32_t i = 0; i < cfg->njobs; i++)
    if (differ_number("micro-steps of job", (int)i, a->job[i].micro_steps, b->job[i].micro_steps,
                      why, size) ||
        differ_number("busy time of job", (int)i, a->job[i].busy, b->job[i].busy, why, size))
      return 1;
  for (int k = 0; k < WORLD_ACCOUNTS; k++)
    if (differ_number(world_account_name[k], -1, a->account[k], b->account[k], why, size))
      return 1;
  return 0;
}

/* 1 and the first difference in `why`, or 0. */
static int differ(const struct outcome *a, const struct outcome *b, const struct world_config *cfg,
                  char *why, size_t size)
{
  if (differ_log(a, b, why, size))
    return 1;
  if (a->rc != b->rc || a->e.code != b->e.code) {
    snprintf(why, size, "end: %d, code %d '%s' and %d, code %d '%s'", a->rc, a->e.code, a->e.text,
             b->rc, b->e.code, b->e.text);
    return 1;
  }
  if (a->rc)
    return 0;
  if (differ_records(a, b, why, size))
    return 1;
  for (uint32_t c = 0; c < cfg->nclasses; c++)
    if (differ_class(&a->r.cls[c], &b->r.cls[c], (int)c, why, size))
      return 1;
  return differ_totals(&a->r, &b->r, cfg, why, size);
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
  uint64_t runs, failed, calibrated, pieces;
  uint64_t steps, preempts, swaps, aborts, forced, unfinished, micro, shared;
} seen;

static void count(const struct outcome *o, const struct random_scenario *s, uint64_t pieces)
{
  const struct world_config *cfg = &s->cfg;
  seen.runs++;
  seen.calibrated += s->calibrated != 0;
  seen.pieces += pieces;
  seen.failed += o->rc != 0;
  if (o->rc)
    return;
  seen.steps += o->r.steps;
  seen.swaps += o->r.swaps;
  seen.aborts += o->r.aborts;
  seen.forced += o->r.forced;
  for (uint32_t i = 0; i < cfg->njobs; i++) {
    seen.micro += o->r.job[i].micro_steps;
    seen.shared += o->r.gpu_account[cfg->job[i].gpu][WORLD_TRAINING] !=
                   12 * (base_int128)o->r.job[i].busy;
  }
  for (uint32_t c = 0; c < cfg->nclasses; c++) {
    seen.preempts += o->r.cls[c].preempts;
    seen.unfinished += o->r.cls[c].unfinished;
  }
}

/* Runs a seed in all worlds; 1 if something is wrong, said in `why`. */
static int wrong(uint64_t seed, char *why, size_t size)
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
    } else if (i != NAIVE && differ(&o[i], &o[NAIVE], &s->cfg, text, sizeof text)) {
      snprintf(why, size, "seed %" PRIu64 ", policy %s, %s and naive: %s", seed,
               s->cfg.policy->name, world_name[i], text);
      bad = 1;
    }
  }
  count(&o[NAIVE], s, o[FUZZED].pieces);
  for (int i = 0; i < WORLDS; i++)
    free_outcome(&o[i]);
  random_scenario_destroy(s);
  return bad;
}

static uint64_t setting(const char *name, uint64_t preset)
{
  const char *text = getenv(name);
  return text && *text ? (uint64_t)strtoull(text, NULL, 10) : preset;
}

/* What somebody needs who is to find out why. */
static void show_seed(uint64_t seed, const char *why)
{
  struct base_error e = {0};
  struct random_scenario *s = random_scenario_create(seed, &e);
  fprintf(stderr, "%s\nagain, with the log before it: ", why);
  fprintf(stderr, "LULL_PROPERTY_SEED=%" PRIu64 " tests/check_world_property\n", seed);
  if (s)
    random_scenario_print(s, stderr);
  random_scenario_destroy(s);
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
               {"calibrated costs", seen.calibrated, n / 16},
               {"reports within a ticket", seen.pieces, n},
               {"micro-steps", seen.micro, n},
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
    if (wrong(seed, why, sizeof why)) {
      if (!bad++) {
        memcpy(first, why, sizeof first);
        show_seed(seed, why);
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
  TCase *t = tcase_create("four worlds");
  tcase_set_timeout(t, LONGEST_SECONDS);
  tcase_add_test(t, worlds_agree);
  suite_add_tcase(suite, t);
  SRunner *r = srunner_create(suite);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
