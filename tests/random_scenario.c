/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/random_scenario.h"

#include <stdlib.h>
#include <string.h>

#include "models/calibration.h"
#include "models/cost.h"
#include "sim/policies.h"
#include "tests/nasty_policy.h"
#include "tests/toy_tables.h"

enum { GRID_PS = 640, GRID_TICKS = GRID_PS / LULL_TICK_PS, MOST_ARRIVALS = 32, HASTY_TICKS = 12 };
/* A calibrated step lasts so many times longer than an analytic one of here. */
enum { CALIBRATED_TEMPO = 25000 };

struct dice {
  uint64_t word;
};

static uint64_t roll(struct dice *d)
{
  uint64_t x = d->word += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* low .. high, both included */
static uint32_t between(struct dice *d, uint32_t low, uint32_t high)
{
  return low + (uint32_t)((roll(d) >> 32) * (high - low + 1) >> 32);
}

static int one_in(struct dice *d, uint32_t n)
{
  return between(d, 1, n) == 1;
}

/* A length: often whole blocks, sometimes a token beside. */
static uint32_t length(struct dice *d, uint32_t block, uint32_t most)
{
  uint32_t n = between(d, 1, most);
  if (!one_in(d, 3))
    n = (n + block - 1) / block * block;
  if (one_in(d, 4) && n > 1)
    n--;
  else if (one_in(d, 4))
    n++;
  return n;
}

static void draw_request(const struct random_scenario *s, struct dice *d, struct world_arrival *a)
{
  uint32_t block = s->server[0].block_tokens, roof = s->roof;
  a->prompt = length(d, block, roof / 2 ? roof / 2 : 1);
  a->output = one_in(d, 6) ? 1 : length(d, one_in(d, 2) ? block : 1, roof / 3 ? roof / 3 : 1);
  if (one_in(d, 25))
    a->prompt += roof; /* never fits, or just so */
  a->accept_q16 = one_in(d, 8) ? 0 : one_in(d, 8) ? LULL_Q16_ONE : between(d, 0, LULL_Q16_ONE);
  a->phase_q16 = one_in(d, 4) ? 0 : between(d, 0, LULL_Q16_ONE - 1);
}

static int next_row(void *ctx, struct world_arrival *out, struct base_error *e)
{
  struct random_scenario *s = ctx;
  (void)e;
  if (s->cursor >= s->narrivals)
    return 0;
  *out = s->arrival[s->cursor++];
  return 1;
}

void random_scenario_item(const struct random_scenario *s, int cls, uint64_t index,
                          struct world_arrival *out)
{
  struct dice d = {s->seed ^ (uint64_t)(cls + 1) << 40 ^ index << 8};
  roll(&d);
  *out = (struct world_arrival){.cls = (uint8_t)cls};
  draw_request(s, &d, out);
}

static int refill_row(void *ctx, int cls, uint64_t index, struct world_arrival *out,
                      struct base_error *e)
{
  (void)e;
  random_scenario_item(ctx, cls, index, out);
  return 1;
}

static int draw_cost(struct random_scenario *s, struct dice *d, uint32_t gpu, uint32_t row_tokens,
                     struct base_error *e)
{
  uint32_t unit = one_in(d, 4) ? 7 : GRID_TICKS; /* off the grid, or on it */
  struct cost_analytic a = {.base = (lull_ticks)unit * between(d, 20, 300)};
  if (!one_in(d, 4))
    a.per_token = (lull_ticks)unit * between(d, 0, 30);
  if (!one_in(d, 3))
    a.per_row = (lull_ticks)unit * between(d, 0, 40);
  if (one_in(d, 2))
    a.per_ctx = (lull_ticks)unit * between(d, 1, 4);
  if (one_in(d, 3)) /* whole ps: a tick, or 21 of its 64 */
    a.per_pair_q16 = (lull_ticks)unit * between(d, 1, 3) * (one_in(d, 2) ? 65536 : 21504);
  if (one_in(d, 20))
    a = (struct cost_analytic){.base = one_in(d, 2) ? 1 : between(d, 2, HASTY_TICKS)};
  s->hasty |= a.base <= HASTY_TICKS;
  s->analytic[gpu] = a;
  s->cost[gpu] = cost_from_analytic(&a, row_tokens, e);
  return s->cost[gpu] ? 0 : -1;
}

static void draw_classes(struct random_scenario *s, struct dice *d)
{
  static const char *const name[RANDOM_CLASSES] = {"red", "green", "blue"};
  s->cfg.nclasses = between(d, 1, RANDOM_CLASSES);
  for (uint32_t c = 0; c < s->cfg.nclasses; c++)
    s->cls[c] = (struct world_class){
        .name = name[c],
        .interactive = (uint8_t)one_in(d, 2),
        .slo_ttft = (lull_time)between(d, 1, one_in(d, 2) ? 300 : 5000) * GRID_PS,
        .slo_tpot = (lull_time)between(d, 20, 1000) * GRID_PS};
}

static int draw_server(struct random_scenario *s, struct dice *d, uint32_t i, struct base_error *e)
{
  uint32_t gpu = s->cfg.nservers - 1 - i;
  struct world_server *v = &s->server[i];
  *v = (struct world_server){.gpu = (int)gpu,
                             .class_mask = one_in(d, 3) ? between(d, 0, 7) : 7,
                             .max_seqs = between(d, 1, 8),
                             .token_budget = one_in(d, 2) ? between(d, 1, 8) : between(d, 8, 64),
                             .block_tokens = 1u << between(d, 0, 4),
                             .kv_blocks = between(d, 3, 20),
                             .watermark_blocks = one_in(d, 2) ? 0 : between(d, 0, 3),
                             .layers = between(d, 1, 9),
                             .row_tokens = one_in(d, 3) ? between(d, 2, 4) : 1,
                             .model_limit = one_in(d, 6) ? between(d, 10, 200) : 100000,
                             .block_bytes = (int64_t)GRID_PS * between(d, 1, 400)};
  if (v->token_budget < v->row_tokens)
    v->token_budget = v->row_tokens;
  if (i && one_in(d, 2))
    v->block_tokens = s->server[0].block_tokens;
  if (draw_cost(s, d, gpu, v->row_tokens, e))
    return -1;
  v->cost = s->cost[gpu];
  s->gpu[gpu] = (struct simdev_gpu){.memory_bytes = INT64_C(1) << 40,
                                    .copy_bytes_per_s = one_in(d, 4)   ? 777777777777
                                                        : one_in(d, 3) ? 100000000000
                                                                       : 1000000000000,
                                    .cost = v->cost,
                                    .layers = v->layers};
  uint32_t pool = v->kv_blocks * v->block_tokens;
  if (!i || pool < s->roof)
    s->roof = pool;
  return 0;
}

/* Opened once. */
static const struct calibration *fp8(struct base_error *e)
{
  static struct calibration *c;
  if (!c)
    c = calibration_open(RANDOM_CALIBRATION, e);
  return c;
}

static const struct calibration *toy(void)
{
  static struct calibration *c;
  if (!c)
    c = toy_calibration();
  return c;
}

/* A KV block has the model's size then; the host link is so fast that copies last as drawn. */
static void fit_copies(struct random_scenario *s, struct world_server *v,
                       const struct calibration *c)
{
  int64_t bytes = c->kv_bytes_per_token * v->block_tokens;
  struct simdev_gpu *g = &s->gpu[v->gpu];
  g->copy_bytes_per_s = (int64_t)((base_int128)g->copy_bytes_per_s * bytes / v->block_bytes /
                                  s->tempo);
  v->block_bytes = bytes;
  v->layers = g->layers = c->layers;
}

static int calibrate_server(struct random_scenario *s, struct world_server *v, struct base_error *e)
{
  struct cost_settings set = s->settings;
  set.max_rows = v->max_seqs;
  set.max_tokens = v->token_budget + v->max_seqs * v->row_tokens;
  const struct calibration *c = s->calibration;
  struct cost_model *m = cost_from_calibration(c, &set, e);
  if (!m)
    return -1;
  cost_free(s->cost[v->gpu]);
  s->cost[v->gpu] = m;
  v->cost = s->gpu[v->gpu].cost = m;
  fit_copies(s, v, c);
  return 0;
}

/* Drawn apart, so that the rest of a seed does not depend on it. */
static int maybe_calibrate(struct random_scenario *s, struct base_error *e)
{
  struct dice d = {s->seed * 0x9e3779b97f4a7c15u + 7};
  s->tempo = 1;
  for (uint32_t i = 0; i < s->cfg.nservers; i++)
    if (s->server[i].row_tokens > 1)
      return 0;
  if (!one_in(&d, 4))
    return 0;
  s->calibration = fp8(e);
  if (!s->calibration)
    return -1;
  s->hasty = 0;
  s->tempo = CALIBRATED_TEMPO;
  s->settings = (struct cost_settings){
      .host_step = one_in(&d, 3) ? 0 : 1000000 * (lull_time)between(&d, 1, 3000),
      .elementwise_kernels = between(&d, 0, 5),
      .elementwise_launch = 2500000,
      .elementwise_bytes_per_s = 3500000000000};
  if (one_in(&d, 2)) /* or no step waits for the host */
    s->settings.host_overlapped = 1000000 * (lull_time)between(&d, 1, 12000);
  if (one_in(&d, 2)) { /* or every step is a graph's */
    s->settings.graph_tokens = between(&d, 0, 300);
    s->settings.launches = 1000000 * (lull_time)between(&d, 1, 50);
  }
  if (one_in(&d, 2)) {
    s->calibration = toy();
    s->settings = (struct cost_settings){.host_step = s->settings.host_step / 5,
                                         .host_overlapped = s->settings.host_overlapped / 20,
                                         .graph_tokens = s->settings.graph_tokens / 4,
                                         .launches = s->settings.launches};
  }
  for (uint32_t i = 0; i < s->cfg.nservers; i++)
    if (calibrate_server(s, &s->server[i], e))
      return -1;
  for (uint32_t c = 0; c < s->cfg.nclasses; c++) {
    s->cls[c].slo_ttft *= s->tempo;
    s->cls[c].slo_tpot *= s->tempo;
  }
  return 0;
}

/* The order of a frozen plan; the phase stands for the row. */
static int by_time(const void *a, const void *b)
{
  const struct world_arrival *x = a, *y = b;
  if (x->time != y->time)
    return x->time < y->time ? -1 : 1;
  if (x->cls != y->cls)
    return x->cls < y->cls ? -1 : 1;
  return (x->phase_q16 > y->phase_q16) - (x->phase_q16 < y->phase_q16);
}

static int draw_arrivals(struct random_scenario *s, struct dice *d, struct base_error *e)
{
  uint32_t odd = one_in(d, 4) ? 2 : 24; /* one in so many arrives off the grid */
  s->narrivals = between(d, 0, MOST_ARRIVALS);
  s->arrival = calloc(s->narrivals + 1, sizeof *s->arrival);
  if (!s->arrival)
    return base_fail_memory(e);
  lull_time grid = GRID_PS * s->tempo;
  uint32_t span = (uint32_t)(s->cfg.window / grid);
  for (uint32_t i = 0; i < s->narrivals; i++) {
    struct world_arrival *a = &s->arrival[i];
    draw_request(s, d, a);
    a->cls = (uint8_t)between(d, 0, s->cfg.nclasses - 1);
    a->time = (lull_time)between(d, 0, one_in(d, 3) ? span / 8 : span) * grid;
    if (one_in(d, odd))
      a->time += between(d, 1, GRID_PS - 1); /* within a tick, as a rule */
    if (one_in(d, 8))
      a->time = 0;
    else if (i && one_in(d, 4))
      a->time = s->arrival[i - 1].time;
    if (a->time >= s->cfg.window) /* nothing arrives then */
      a->time = s->cfg.window - 1;
  }
  qsort(s->arrival, s->narrivals, sizeof *s->arrival, by_time);
  return 0;
}

static void draw_backlogs(struct random_scenario *s, struct dice *d)
{
  s->cfg.nbacklogs = one_in(d, 2) ? between(d, 1, RANDOM_BACKLOGS) : 0;
  for (uint32_t i = 0; i < s->cfg.nbacklogs; i++) {
    struct world_backlog *b = &s->backlog[i];
    *b = (struct world_backlog){.cls = (uint8_t)between(d, 0, s->cfg.nclasses - 1),
                                .server = (int)between(d, 0, s->cfg.nservers - 1),
                                .below = between(d, 1, 5)};
    /* or no item would ever fit, and 10,000 of them be lost */
    struct world_server *v = &s->server[b->server];
    v->class_mask |= 1u << b->cls;
    if (v->model_limit < 1000)
      v->model_limit = 1000;
    if (v->kv_blocks * v->block_tokens < 4 + 2 * v->row_tokens)
      v->kv_blocks = 4 + 2 * v->row_tokens;
  }
}

/* Jobs in a third of the scenarios; most micro-steps end on the grid, as steps do. */
static void draw_jobs(struct random_scenario *s, struct dice *d)
{
  static const char *const name[RANDOM_SERVERS] = {"tuning", "distilling", "ranking"};
  if (!one_in(d, 3))
    return;
  s->cfg.job = s->job;
  for (uint32_t g = 0; g < s->cfg.ngpus; g++) {
    if (g && one_in(d, 3))
      continue;
    s->gpu[g].contended_ps = one_in(d, 5) ? LULL_TICK_PS
                                          : between(d, LULL_TICK_PS, 3 * LULL_TICK_PS);
    if (one_in(d, 3))
      s->gpu[g].contended_ps = 2 * LULL_TICK_PS;
    uint32_t grid = between(d, 20, one_in(d, 2) ? 200 : 3000);
    s->job[s->cfg.njobs++] = (struct world_job){
        .name = name[g],
        .gpu = (int)g,
        .micro_steps = one_in(d, 2) ? 0 : between(d, 1, 20),
        .micro_ticks = (lull_ticks)grid * GRID_TICKS * s->tempo + (one_in(d, 4) ? 3 : 0),
        .paused = one_in(d, 4)};
  }
}

/* A third of the scenarios has servers that plan a step ahead. */
static void draw_async(struct random_scenario *s)
{
  struct dice d = {s->seed ^ UINT64_C(0x6173796e63)};
  int any = one_in(&d, 3);
  for (uint32_t i = 0; i < s->cfg.nservers; i++)
    s->server[i].async = any && !one_in(&d, 4);
}

static struct world_prefix *draw_prefix(struct dice *d, uint32_t tokens)
{
  enum { IDS = 24 };
  struct world_prefix *p = calloc(1, sizeof *p + IDS * sizeof *p->id);
  if (!p)
    return NULL;
  p->tokens = tokens;
  p->n = between(d, 1, IDS);
  for (uint32_t i = 0; i < p->n; i++)
    p->id[i] = one_in(d, 6) ? 1 : 0;
  return p;
}

/* A third of the scenarios has servers with prefix caching; there most prompts begin with the same
 * few ids, which stand for a block or so. */
static int draw_prefixes(struct random_scenario *s, struct base_error *e)
{
  struct dice d = {s->seed ^ UINT64_C(0x707265666978)};
  if (!one_in(&d, 3))
    return 0;
  for (uint32_t i = 0; i < s->cfg.nservers; i++)
    s->server[i].prefix_caching = !one_in(&d, 5);
  uint32_t tokens = one_in(&d, 2) ? s->server[0].block_tokens : 1u << between(&d, 0, 5);
  if (one_in(&d, 8))
    tokens = between(&d, 1, 12);
  for (uint32_t i = 0; i < RANDOM_PREFIXES; i++) {
    s->prefix[i] = draw_prefix(&d, tokens);
    if (!s->prefix[i])
      return base_fail_memory(e);
  }
  for (uint32_t i = 0; i < s->narrivals; i++)
    if (!one_in(&d, 5))
      s->arrival[i].prefix = s->prefix[between(&d, 0, RANDOM_PREFIXES - 1)];
  return 0;
}

/* What `dedicated` asks for; no class may be left without a server. */
static void one_class_a_server(struct random_scenario *s)
{
  if (s->cfg.nclasses > s->cfg.nservers)
    s->cfg.nclasses = s->cfg.nservers;
  for (uint32_t i = 0; i < s->narrivals; i++)
    s->arrival[i].cls = (uint8_t)(s->arrival[i].cls % s->cfg.nclasses);
  qsort(s->arrival, s->narrivals, sizeof *s->arrival, by_time);
  for (uint32_t i = 0; i < s->cfg.nservers; i++)
    s->server[i].class_mask = 1u << i % s->cfg.nclasses;
  for (uint32_t i = 0; i < s->cfg.nbacklogs; i++)
    s->backlog[i].cls = (uint8_t)((uint32_t)s->backlog[i].server % s->cfg.nclasses);
}

/* Any choice, and small counts. */
static int draw_params(struct random_scenario *s, struct dice *d, struct base_error *e)
{
  const struct lull_policy *p = s->cfg.policy;
  if (policies_defaults(p, s->params, e))
    return -1;
  for (uint32_t i = 0; i < p->nparams; i++) {
    if (p->params[i].kind == LULL_PARAM_CHOICE || p->params[i].kind == LULL_PARAM_COUNT)
      s->params[i] = p->params[i].min +
                     between(d, 0,
                             p->params[i].max > p->params[i].min + 4
                                 ? 4
                                 : (uint32_t)(p->params[i].max - p->params[i].min));
  }
  return 0;
}

/* A rule set of an engine refuses what the engine cannot do: then the policy keeps its own. */
static int draw_rules(struct random_scenario *s, struct base_error *e)
{
  const struct lull_policy *p = s->cfg.policy;
  int64_t own[RANDOM_PARAMS] = {0};
  int speculates = 0, cut = 0;
  for (uint32_t i = 0; i < s->cfg.nservers; i++) {
    const struct world_server *v = &s->server[i];
    speculates |= v->row_tokens > 1;
    cut |= (uint64_t)v->max_seqs * v->row_tokens > v->token_budget;
  }
  if (policies_defaults(p, own, e))
    return -1;
  for (uint32_t i = 0; i < p->nparams; i++) {
    if (strcmp(p->params[i].name, "rules") || s->params[i] == own[i])
      continue;
    int sarathi = !strcmp(p->name, "fcfs");
    if (sarathi ? speculates : cut)
      s->params[i] = own[i];
    else if (policies_set(p, s->params, "preempt", "recompute", e) ||
             (!sarathi && policies_set(p, s->params, "evict", "no", e)))
      return -1;
  }
  return 0;
}

static int draw_policy(struct random_scenario *s, struct dice *d, struct base_error *e)
{
  static const struct lull_policy *const nasty[] = {&nasty_random, &nasty_random,  &nasty_random,
                                                    &nasty_greedy, &nasty_harvest, &nasty_swapper};
  size_t n;
  const struct lull_policy *const *builtin = policies_builtin(&n);
  if (n && one_in(d, 3)) {
    s->cfg.policy = builtin[between(d, 0, (uint32_t)n - 1)];
    if (s->cfg.policy->nparams > RANDOM_PARAMS)
      return base_fail(e, BASE_INVARIANT, "policy %s has too many parameters", s->cfg.policy->name);
    if (!strcmp(s->cfg.policy->name, "dedicated"))
      one_class_a_server(s);
    return draw_params(s, d, e) || draw_rules(s, e) ? -1 : 0;
  }
  s->cfg.policy = nasty[between(d, 0, 5)];
  s->params[0] = (int64_t)(roll(d) >> 1);
  s->params[1] = GRID_PS * s->tempo;
  s->params[2] = s->cfg.window;
  return 0;
}

/* Every class has a server; a server may have none. */
static void cover_classes(struct random_scenario *s)
{
  uint32_t all = (1u << s->cfg.nclasses) - 1, served = 0;
  for (uint32_t i = 0; i < s->cfg.nservers; i++)
    served |= s->server[i].class_mask &= all;
  for (uint32_t c = 0; c < s->cfg.nclasses; c++)
    if (!(served >> c & 1))
      s->server[c % s->cfg.nservers].class_mask |= 1u << c;
}

static int draw_all(struct random_scenario *s, struct base_error *e)
{
  struct dice d = {s->seed * 0x2545f4914f6cdd1du + 1};
  draw_classes(s, &d);
  s->cfg.nservers = s->cfg.ngpus = between(&d, 1, RANDOM_SERVERS);
  for (uint32_t i = 0; i < s->cfg.nservers; i++)
    if (draw_server(s, &d, i, e))
      return -1;
  cover_classes(s);
  if (maybe_calibrate(s, e))
    return -1;
  uint32_t longest = s->hasty ? 150 : 20000; /* of the order of 1000 steps */
  s->cfg.window = (lull_time)between(&d, longest / 40, longest) * GRID_PS * s->tempo;
  s->cfg.drain = one_in(&d, 2) ? LULL_NEVER : (lull_time)between(&d, 0, 4000) * GRID_PS * s->tempo;
  s->cfg.max_preempts = one_in(&d, 8) ? between(&d, 1, 6) : 200;
  draw_backlogs(s, &d);
  struct dice own = {s->seed ^ UINT64_C(0x6a6f6273)};
  draw_jobs(s, &own);
  draw_async(s);
  return draw_arrivals(s, &d, e) || draw_policy(s, &d, e) || draw_prefixes(s, e) ? -1 : 0;
}

struct random_scenario *random_scenario_create(uint64_t seed, struct base_error *e)
{
  struct random_scenario *s = calloc(1, sizeof *s);
  if (!s) {
    base_fail_memory(e);
    return NULL;
  }
  s->seed = seed;
  s->cfg.cls = s->cls;
  s->cfg.server = s->server;
  s->cfg.backlog = s->backlog;
  s->cfg.params = s->params;
  s->cfg.source = (struct world_source){.ctx = s, .next = next_row, .refill = refill_row};
  if (draw_all(s, e)) {
    random_scenario_destroy(s);
    return NULL;
  }
  return s;
}

void random_scenario_rewind(struct random_scenario *s)
{
  s->cursor = 0;
}

void random_scenario_destroy(struct random_scenario *s)
{
  if (!s)
    return;
  for (int i = 0; i < RANDOM_SERVERS; i++)
    cost_free(s->cost[i]);
  for (int i = 0; i < RANDOM_PREFIXES; i++)
    free(s->prefix[i]);
  free(s->arrival);
  free(s);
}
