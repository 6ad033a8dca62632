/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/speed_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "models/calibration.h"
#include "models/simdev.h"
#include "sim/experiment_bench.h"
#include "sim/ledger/summary.h"
#include "sim/policies.h"

enum { MAX_SERVERS = 4, MAX_PARAMS = 8 };

/* ---- what is kept of the requests: what `lull run` keeps of them ---- */

struct witness {
  struct summary_collector collector;
  struct speed_figures *out;
};

static void on_ended(void *ctx, lull_id id, const struct world_record *r)
{
  struct witness *w = ctx;
  summary_collect(&w->collector, id, r);
  w->out->requests++;
  if (r->last_token == LULL_NEVER)
    return;
  w->out->digest += speed_mix((uint64_t)id, r->last_token);
  if (r->last_token > w->out->last)
    w->out->last = r->last_token;
}

/* ---- the decision log, hashed ---- */

struct log_hash {
  XXH3_state_t *state;
  size_t n;
  struct {
    int64_t time, a, b, server_kind;
  } line[512];
};

static void hash_lines(struct log_hash *h)
{
  XXH3_64bits_update(h->state, h->line, h->n * sizeof h->line[0]);
  h->n = 0;
}

static void on_log(void *ctx, const struct world_log_line *line)
{
  struct log_hash *h = ctx;
  h->line[h->n].time = line->time;
  h->line[h->n].a = line->a;
  h->line[h->n].b = line->b;
  h->line[h->n].server_kind = (int64_t)line->server * 256 + line->kind;
  if (++h->n == sizeof h->line / sizeof h->line[0])
    hash_lines(h);
}

/* ---- the run ---- */

static void count(const struct world_result *r, struct speed_figures *out)
{
  out->steps = r->steps;
  out->plans = r->plans;
  /* Arrival and end of each request; evictions, ends of copies, and DRAIN. These policies set no
   * timers. */
  out->events = r->forced + r->swaps + 1;
  for (uint32_t c = 0; c < r->nclasses; c++) {
    const struct world_class_result *k = &r->cls[c];
    out->events += k->offered + k->finished + k->rejected;
    out->tokens += k->output_tokens;
    out->preempts += k->preempts;
  }
}

/* What a report asks of the latencies; a sum, so that no one is left out. */
static double percentiles(const struct summary *s)
{
  static const double p[] = {0.5, 0.9, 0.95, 0.99};
  double sum = 0;
  for (size_t i = 0; i < sizeof p / sizeof *p; i++)
    sum += base_sample_percentile(&s->ttft, p[i]) + base_sample_percentile(&s->tpot, p[i]) +
           base_sample_percentile(&s->e2e, p[i]);
  return sum;
}

/* The time is that of the run, of its summary and of the percentiles. */
static int timed(struct world_config *cfg, struct lull_device *dev, struct speed_figures *out,
                 struct base_error *e)
{
  struct witness w = {.collector = {.cfg = cfg}, .out = out};
  struct world_result r = {0};
  struct summary sum = {0};
  cfg->drop_records = 1;
  cfg->ended = on_ended;
  cfg->ended_ctx = &w;
  double start = speed_cpu_seconds();
  int rc = world_run(cfg, dev, &simdev_ops, &r, e);
  if (!rc)
    rc = summary_of(&w.collector, &r, &sum, e);
  out->latencies = rc ? 0 : percentiles(&sum);
  out->seconds = speed_cpu_seconds() - start;
  count(&r, out);
  summary_free(&sum);
  summary_collector_free(&w.collector);
  world_result_free(&r);
  return rc;
}

static struct cost_model *calibrated(uint32_t max_seqs, struct base_error *e)
{
  const struct cost_settings s = {.max_rows = max_seqs,
                                  .max_tokens = SPEED_TOKEN_BUDGET + max_seqs,
                                  .host_step = 1000000000,
                                  .elementwise_kernels = 5,
                                  .elementwise_launch = 2500000,
                                  .elementwise_bytes_per_s = 3500000000000};
  struct calibration *c = calibration_open("h200-sxm-qwen3-8b-fp8", e);
  struct cost_model *m = c ? cost_from_calibration(c, &s, e) : NULL;
  calibration_free(c);
  return m;
}

/* All that a run of a table's workload stands on. */
struct stand {
  struct world_config cfg;
  struct world_class cls[2];
  struct world_server server[MAX_SERVERS];
  struct world_backlog backlog;
  struct simdev_gpu gpu[MAX_SERVERS];
  int64_t params[MAX_PARAMS];
  struct speed_load load;
  struct cost_model *cost;
  struct lull_device *dev;
  struct log_hash log;
};

static void fill_servers(struct stand *t, const struct speed_spec *spec)
{
  for (uint32_t i = 0; i < spec->servers; i++) {
    t->gpu[i] = (struct simdev_gpu){.memory_bytes = INT64_C(1) << 60,
                                    .copy_bytes_per_s = INT64_C(55000000000),
                                    .cost = t->cost,
                                    .layers = SPEED_LAYERS};
    t->server[i] = (struct world_server){.gpu = (int)i,
                                         .class_mask = 3,
                                         .max_seqs = spec->max_seqs,
                                         .token_budget = SPEED_TOKEN_BUDGET,
                                         .block_tokens = SPEED_BLOCK_TOKENS,
                                         .kv_blocks = spec->kv_blocks,
                                         .layers = SPEED_LAYERS,
                                         .row_tokens = 1,
                                         .model_limit = 1 << 20,
                                         .block_bytes = 2359296,
                                         .cost = t->cost};
  }
}

/* The window ends after all requests: it costs one more instant, however far away. */
static void fill_config(struct stand *t, const struct speed_spec *spec)
{
  uint32_t classes = 0;
  if (speed_has_live(spec))
    t->cls[classes++] = (struct world_class){
        .name = "live", .interactive = 1, .slo_ttft = 1000000000000, .slo_tpot = 50000000000};
  if (spec->below) {
    t->backlog = (struct world_backlog){.cls = (uint8_t)classes, .below = spec->below};
    t->cls[classes++] = (struct world_class){.name = "batch"};
  }
  t->cfg = (struct world_config){
      .nclasses = classes,
      .nservers = spec->servers,
      .nbacklogs = spec->below ? 1 : 0,
      .ngpus = spec->servers,
      .cls = t->cls,
      .server = t->server,
      .backlog = &t->backlog,
      .policy = policies_find(spec->policy, NULL),
      .params = t->params,
      .source = {.ctx = &t->load, .next = speed_load_next, .refill = speed_load_refill},
      .window = LULL_NEVER / 2 + LULL_NEVER / 4 + LULL_NEVER / 8 + LULL_NEVER / 16 +
                LULL_NEVER / 32, /* 103 days */
      .drain = LULL_NEVER};
  for (uint32_t i = 0; i < spec->servers; i++)
    t->server[i].class_mask = (1u << classes) - 1;
}

static int stand_open(struct stand *t, const struct speed_spec *spec, const char *data_dir,
                      uint64_t requests, struct base_error *e)
{
  if (speed_load_open(&t->load, spec, data_dir, requests, e))
    return -1;
  t->cost = spec->flags & SPEED_CALIBRATED ? calibrated(spec->max_seqs, e)
                                           : cost_from_analytic(&speed_cost, 1, e);
  if (!t->cost)
    return -1;
  fill_servers(t, spec);
  fill_config(t, spec);
  if (!t->cfg.policy || t->cfg.policy->nparams > MAX_PARAMS)
    return base_fail(e, BASE_INVARIANT, "no policy '%s' that fits", spec->policy);
  if (policies_defaults(t->cfg.policy, t->params, e))
    return -1;
  t->dev = simdev_create(t->gpu, (int)spec->servers, e);
  if (!t->dev || !(spec->flags & SPEED_LOG))
    return t->dev ? 0 : -1;
  t->log.state = XXH3_createState();
  if (!t->log.state)
    return base_fail_memory(e);
  XXH3_64bits_reset(t->log.state);
  t->cfg.log = on_log;
  t->cfg.log_ctx = &t->log;
  return 0;
}

static void stand_close(struct stand *t)
{
  if (t->log.state)
    hash_lines(&t->log);
  XXH3_freeState(t->log.state);
  if (t->dev)
    simdev_destroy(t->dev);
  cost_free(t->cost);
  speed_load_close(&t->load);
}

static int run_table(const struct speed_spec *spec, const char *data_dir, uint64_t requests,
                     struct speed_figures *out, struct base_error *e)
{
  struct stand *t = calloc(1, sizeof *t);
  if (!t)
    return base_fail_memory(e);
  int rc = stand_open(t, spec, data_dir, requests, e) || timed(&t->cfg, t->dev, out, e) ? -1 : 0;
  stand_close(t);
  free(t);
  return rc;
}

/* ---- the built-in scenario ---- */

static int run_arm(const struct scenario *s, struct speed_figures *out, struct base_error *e)
{
  uint32_t a = 0;
  while (a < s->narms && strcmp(s->arm[a].id, "shared-priority"))
    a++;
  if (a == s->narms)
    return base_fail(e, BASE_INVARIANT, "%s has no arm 'shared-priority'", s->id);
  struct plan *plan = plan_freeze(s, s->seed[0], e);
  struct bench bench;
  int rc = -1;
  if (plan && !bench_open(&bench, s, &s->arm[a], &s->arm[a].candidate[0], plan, e)) {
    bench.config.log = NULL;
    if (!bench_simulate(&bench, e))
      rc = timed(&bench.config, bench.device, out, e);
    bench_close(&bench);
  }
  plan_free(plan);
  return rc;
}

/* About as many requests as asked for: the window decides how many there are. */
static int run_scenario(uint64_t requests, struct speed_figures *out, struct base_error *e)
{
  enum { REQUESTS_A_SECOND = 38 };
  char window[32];
  struct base_errors errors = {0};
  struct scenario_override set = {"s:run/@window", window};
  struct scenario_options options = {.override = &set, .noverrides = 1};
  snprintf(window, sizeof window, "%llus", (unsigned long long)(requests / REQUESTS_A_SECOND + 1));
  struct scenario *s = scenario_open("c4-live-batch", &options, &errors);
  int rc = -1;
  if (s)
    rc = run_arm(s, out, e);
  else if (errors.n)
    *e = errors.item[0];
  base_errors_free(&errors);
  scenario_close(s);
  return rc;
}

int speed_run(const struct speed_spec *spec, const char *data_dir, uint64_t requests,
              struct speed_figures *out, struct base_error *e)
{
  *out = (struct speed_figures){0};
  if (spec->flags & SPEED_SCENARIO)
    return run_scenario(requests, out, e);
  return run_table(spec, data_dir, requests, out, e);
}
