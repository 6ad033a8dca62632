/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/experiment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/experiment_bench.h"
#include "sim/ledger/verdict.h"

/* What a walk over arms, candidates and seeds carries along. */
struct walk {
  struct experiment *x;
  const struct experiment_options *options;
  uint64_t runs, done; /* in all, finished */
  lull_time window;
  char what[160]; /* the run at work */
};

/* Passes progress on as a fraction of all runs; a run counts as near its end when its window is
 * over, since the length of the drain is not known. */
static void tell(struct walk *w, double of_run)
{
  const struct experiment_options *o = w->options;

  if (o->progress && w->runs)
    o->progress(o->progress_ctx, w->what, ((double)w->done + of_run) / (double)w->runs);
}

/* The world's progress callback. */
static void on_progress(void *ctx, lull_time now, uint64_t ended)
{
  struct walk *w = ctx;
  double f = w->window > 0 ? (double)now / (double)w->window : 1;

  (void)ended;
  tell(w, f < 1 ? 0.95 * f : 0.95);
}

/* A decision log that goes to the digest and to whoever asked for it. */
struct log_tap {
  const struct walk *w;
  struct world_config digest; /* whose log and log_ctx it came from */
  int arm, candidate;
  uint64_t seed;
};

static void on_line(void *ctx, const struct world_log_line *line)
{
  struct log_tap *t = ctx;
  const struct experiment_options *o = t->w->options;

  t->digest.log(t->digest.log_ctx, line);
  o->log(o->log_ctx, t->w->x->scenario, t->arm, t->candidate, t->seed, line);
}

/* Ends of requests that go to the summary and to whoever asked for them. */
struct end_tap {
  struct summary_collector *collector;
  const struct experiment_sink *sink;
};

static void on_ended(void *ctx, lull_id id, const struct world_record *r)
{
  struct end_tap *t = ctx;

  summary_collect(t->collector, id, r);
  t->sink->ended(t->sink->ctx, id, r);
}

/* The world's run on the device of the caller, or on one of its own. */
static int run_on_device(struct bench *bench, const struct experiment_place *place,
                         const struct experiment_device *device, struct world_result *out,
                         struct base_error *e)
{
  struct lull_device *dev;
  const struct lull_device_ops *ops;

  if (!device)
    return bench_simulate(bench, e) || world_run(&bench->config, bench->device, &simdev_ops, out, e)
               ? -1
               : 0;
  if (device->open(device->ctx, place, bench->gpu, &dev, &ops, e))
    return -1;
  int rc = world_run(&bench->config, dev, ops, out, e);
  return device->close(device->ctx, dev, !rc && !out->partial, e) ? -1 : rc;
}

/* The world's run between the sink's begin and end. */
static int run_world(struct bench *bench, const struct experiment_place *place,
                     const struct experiment_options *o, struct summary_collector *collector,
                     struct world_result *out, struct base_error *e)
{
  const struct experiment_sink *sink = o->sink;
  struct end_tap tap = {collector, sink};

  collector->cfg = &bench->config;
  bench->config.drop_records = 1;
  bench->config.ended = sink ? on_ended : summary_collect;
  bench->config.ended_ctx = sink ? (void *)&tap : collector;
  if (sink && sink->begin(sink->ctx, place, e))
    return -1;
  if (run_on_device(bench, place, o->device, out, e))
    return -1;
  return sink ? sink->end(sink->ctx, out, e) : 0;
}

/* What the arm's background jobs did. */
static int keep_jobs(struct experiment_run *run, const struct scenario_arm *arm,
                     const struct world_result *r, struct base_error *e)
{
  if (!arm->njobs)
    return 0;
  run->job = malloc(arm->njobs * sizeof *run->job);
  if (!run->job)
    return base_fail_memory(e);
  memcpy(run->job, r->job, arm->njobs * sizeof *run->job);
  return 0;
}

/* Runs one candidate of one arm on the frozen plan of a seed, and summarises it. */
static int run_one(struct walk *w, const struct plan *plan, uint32_t arm, uint32_t candidate,
                   uint32_t seed, struct base_error *e)
{
  const struct scenario *s = w->x->scenario;
  const struct experiment_options *o = w->options;
  struct experiment_run *run = &w->x->arm[arm].run[(size_t)candidate * w->x->nseeds + seed];
  struct world_result result = {0};
  struct summary_collector collector = {0};
  struct bench bench;
  int rc = -1;

  if (bench_open(&bench, s, &s->arm[arm], &s->arm[arm].candidate[candidate], plan, e))
    return -1;
  bench.config.max_repeat = o->max_repeat;
  bench.config.stop = o->stop;
  bench.config.progress = o->progress ? on_progress : NULL;
  bench.config.progress_ctx = w;
  struct log_tap tap = {w, bench.config, (int)arm, (int)candidate, w->x->seed[seed]};
  if (o->log) {
    bench.config.log = on_line;
    bench.config.log_ctx = &tap;
  }
  const struct experiment_place place = {
      s, (int)arm, (int)candidate, w->x->seed[seed], plan_digest(plan), &bench.config};
  if (run_world(&bench, &place, o, &collector, &result, e) ||
      summary_of(&collector, &result, &run->sum, e) || keep_jobs(run, &s->arm[arm], &result, e))
    goto done;
  snprintf(run->plan_digest, sizeof run->plan_digest, "%s", plan_digest(plan));
  bench_digest(&bench, run->log_digest);
  w->x->partial |= result.partial;
  rc = 0;
done:
  summary_collector_free(&collector);
  world_result_free(&result);
  bench_close(&bench);
  return rc;
}

/* Says which run a failure came from, in front of its text. */
static int name_failure(const struct walk *w, struct base_error *e)
{
  char text[sizeof e->text];

  if (!e || e->code == BASE_OK || w->what[0] == '\0')
    return -1;
  snprintf(text, sizeof text, "%s", e->text);
  snprintf(e->text, sizeof e->text, "%.150s: %.600s", w->what, text);
  return -1;
}

/* Is the run to end here? */
static int stopped(const struct walk *w)
{
  return w->x->partial || (w->options->stop && *w->options->stop);
}

/* All arms and candidates of one seed, on one plan. */
static int run_seed(struct walk *w, uint32_t seed, struct base_error *e)
{
  const struct scenario *s = w->x->scenario;
  struct plan *frozen = w->options->plan ? NULL : plan_freeze(s, w->x->seed[seed], e);
  const struct plan *plan = w->options->plan ? w->options->plan : frozen;
  int rc = 0;

  if (!plan)
    return -1;
  for (uint32_t a = 0; a < s->narms && !rc; a++) {
    for (uint32_t c = 0; c < s->arm[a].ncandidates && !rc; c++) {
      const char *candidate = s->arm[a].candidate[c].id;

      if (w->x->arm[a].skipped)
        continue;
      if (stopped(w))
        break;
      snprintf(w->what, sizeof w->what, "%.60s%s%.40s seed %llu", s->arm[a].id,
               candidate && *candidate ? " " : "", candidate ? candidate : "",
               (unsigned long long)w->x->seed[seed]);
      tell(w, 0);
      rc = run_one(w, plan, a, c, seed, e) ? name_failure(w, e) : 0;
      w->done++;
      tell(w, 0);
    }
  }
  plan_free(frozen);
  return rc;
}

/* Must the baseline run although only `arm` was asked for? */
static int baseline_needed(const struct scenario *s, const char *arm)
{
  for (uint32_t g = 0; g < s->ngates; g++)
    if (s->gate[g].arm && !strcmp(s->gate[g].arm, arm) &&
        summary_metric_by_name(s->gate[g].metric) == METRIC_RATIO)
      return 1;
  return 0;
}

int experiment_runs(const struct scenario *s, const char *only, uint32_t arm)
{
  return !only || !strcmp(s->arm[arm].id, only) ||
         ((int)arm == s->baseline && baseline_needed(s, only));
}

/* Marks what was not asked for. */
static int select_arms(struct experiment *x, const char *only, struct base_error *e)
{
  const struct scenario *s = x->scenario;
  const char **ids, *near;

  if (!only)
    return 0;
  if (verdict_arm(s, only) >= 0) {
    for (uint32_t a = 0; a < s->narms; a++)
      x->arm[a].skipped = !experiment_runs(s, only, a);
    return 0;
  }
  ids = malloc((s->narms + 1) * sizeof *ids);
  if (!ids)
    return base_fail_memory(e);
  for (uint32_t a = 0; a < s->narms; a++)
    ids[a] = s->arm[a].id;
  near = base_nearest(only, ids, s->narms);
  base_fail(e, BASE_USAGE, "%s has no arm '%s'%s%s%s", s->id, only, near ? "; did you mean '" : "",
            near ? near : "", near ? "'?" : "");
  free(ids);
  return -1;
}

/* Room for the results of every arm, candidate and seed. */
static int allot(struct experiment *x, struct base_error *e)
{
  const struct scenario *s = x->scenario;

  x->arm = calloc(s->narms + 1, sizeof *x->arm);
  x->gate = calloc(s->ngates + 1, sizeof *x->gate);
  if (!x->arm || !x->gate)
    return base_fail_memory(e);
  for (uint32_t a = 0; a < s->narms; a++) {
    struct experiment_arm *arm = &x->arm[a];

    arm->ncandidates = s->arm[a].ncandidates;
    arm->run = calloc((size_t)arm->ncandidates * x->nseeds + 1, sizeof *arm->run);
    arm->best = calloc(x->nseeds + 1, sizeof *arm->best);
    arm->ratio = calloc(x->nseeds + 1, sizeof *arm->ratio);
    if (!arm->run || !arm->best || !arm->ratio)
      return base_fail_memory(e);
  }
  return 0;
}

/* The seeds: the scenario's, or the one asked for. */
static int take_seeds(struct experiment *x, const struct experiment_options *o,
                      struct base_error *e)
{
  const struct scenario *s = x->scenario;

  x->nseeds = o->has_seed ? 1 : s->nseeds;
  x->seed_by_hand = o->has_seed;
  x->seed = calloc(x->nseeds + 1, sizeof *x->seed);
  if (!x->seed)
    return base_fail_memory(e);
  for (uint32_t k = 0; k < x->nseeds; k++)
    x->seed[k] = o->has_seed ? o->seed : s->seed[k];
  return 0;
}

/* An experiment with nothing run yet. */
static struct experiment *prepare(const struct scenario *s, const struct experiment_options *o,
                                  struct base_error *e)
{
  struct experiment *x = calloc(1, sizeof *x);

  if (!x) {
    base_fail_memory(e);
    return NULL;
  }
  x->scenario = s;
  x->device = o->device;
  if (take_seeds(x, o, e) || allot(x, e) || select_arms(x, o->only_arm, e)) {
    experiment_free(x);
    return NULL;
  }
  return x;
}

struct experiment *experiment_run(const struct scenario *s, const struct experiment_options *o,
                                  struct base_error *e)
{
  static const struct experiment_options none = {0};
  struct walk w = {.options = o ? o : &none, .window = s->window};

  w.x = prepare(s, w.options, e);
  if (!w.x)
    return NULL;
  for (uint32_t a = 0; a < s->narms; a++)
    w.runs += w.x->arm[a].skipped ? 0 : (uint64_t)s->arm[a].ncandidates * w.x->nseeds;
  for (uint32_t k = 0; k < w.x->nseeds && !stopped(&w); k++)
    if (run_seed(&w, k, e))
      goto failed;
  w.x->partial |= w.done < w.runs;
  if (verdict_reach(w.x, e))
    goto failed;
  return w.x;

failed:
  experiment_free(w.x);
  return NULL;
}

void experiment_free(struct experiment *x)
{
  if (!x)
    return;
  for (uint32_t a = 0; x->arm && a < x->scenario->narms; a++) {
    struct experiment_arm *arm = &x->arm[a];

    for (size_t i = 0; arm->run && i < (size_t)arm->ncandidates * x->nseeds; i++) {
      summary_free(&arm->run[i].sum);
      free(arm->run[i].job);
    }
    summary_free(&arm->pooled);
    free(arm->run);
    free(arm->best);
    free(arm->ratio);
  }
  free(x->arm);
  free(x->gate);
  free(x->seed);
  free(x);
}
