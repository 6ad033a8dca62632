/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/script_policy.h"

#include <stdlib.h>
#include <string.h>

#include "models/cost.h"

/* A policy knows nothing of the test but its parameters: the script's address is one of them. */
struct script {
  const struct stage *stage;
  uint32_t classes;
  int plans, arrivals;
};

static const char *create(void *st, const struct lull_host *h, const int64_t *params)
{
  struct script *t = st;
  t->stage = (const struct stage *)(intptr_t)params[0];
  t->classes = h->classes;
  return NULL;
}

static void event(void *st, const struct lull_host *h, const struct lull_event *ev)
{
  struct script *t = st;
  if (ev->kind == LULL_EV_ARRIVED && t->arrivals++ && t->stage->abort_on_arrival)
    h->abort_step(h->ctx, 0);
}

static void play(const struct act *a, const struct lull_host *h, struct lull_plan *p)
{
  if (a->kind == ACT_PREEMPT)
    h->preempt(h->ctx, p, a->id, a->arg);
  else if (a->kind == ACT_RESUME)
    h->resume(h->ctx, p, a->id);
  else if (a->kind == ACT_TRAIN)
    h->train(h->ctx, (lull_job_id)a->id, a->arg);
  else
    p->wake_steps = (uint64_t)a->arg;
}

static void chunks(const struct script *t, const struct lull_host *h, struct lull_plan *p,
                   int state)
{
  for (uint32_t c = 0; c < t->classes; c++)
    for (lull_id id = h->first(h->ctx, p->server, state, (int)c); id >= 0;) {
      const struct lull_request *r = h->request(h->ctx, id);
      id = r->next;
      h->chunk(h->ctx, p, r->id, UINT32_MAX);
    }
}

static void plan(void *st, const struct lull_host *h, const struct lull_server *s,
                 struct lull_plan *p)
{
  struct script *t = st;
  t->plans++;
  for (int i = 0; i < t->stage->nacts; i++)
    if (t->stage->acts[i].plan == t->plans)
      play(&t->stage->acts[i], h, p);
  chunks(t, h, p, LULL_PREFILL);
  if (p->blocks_left >= 0)
    chunks(t, h, p, LULL_WAITING);
}

static const struct lull_param params[] = {{.name = "stage",
                                            .kind = LULL_PARAM_COUNT,
                                            .preset = "0",
                                            .max = INT64_MAX,
                                            .doc = "what to do"}};
static const struct lull_policy script = {.size = sizeof script,
                                          .abi = LULL_POLICY_ABI,
                                          .name = "script",
                                          .summary = "does what a test wrote down",
                                          .params = params,
                                          .nparams = 1,
                                          .state_size = sizeof(struct script),
                                          .create = create,
                                          .event = event,
                                          .plan = plan};

static int next_row(void *ctx, struct world_arrival *out, struct base_error *e)
{
  struct stage *s = ctx;
  if (s->cursor == s->narrivals)
    return 0;
  *out = s->arrival[s->cursor++];
  out->time *= LULL_TICK_PS;
  return 1;
}

static int refill_row(void *ctx, int cls, uint64_t index, struct world_arrival *out,
                      struct base_error *e)
{
  const struct stage *s = ctx;
  *out = (struct world_arrival){.prompt = s->backlog_prompt, .output = s->backlog_output};
  return 1;
}

static void keep_line(void *ctx, const struct world_log_line *line)
{
  struct stage *s = ctx;
  if (s->lines < STAGE_LINES)
    s->line[s->lines++] = *line;
}

struct stage stage(const struct world_arrival *arrival, uint32_t n)
{
  enum { TICK = LULL_TICK_PS };
  return (struct stage){
      .cls = {{.name = "live", .interactive = 1, .slo_ttft = 500 * TICK, .slo_tpot = 120 * TICK},
              {.name = "batch"}},
      .server = {.class_mask = 3,
                 .max_seqs = 8,
                 .token_budget = 64,
                 .block_tokens = 4,
                 .kv_blocks = 10,
                 .layers = 4,
                 .row_tokens = 1,
                 .model_limit = 1000000,
                 .block_bytes = 6400},
      .arrival = arrival,
      .narrivals = n,
      .base = 100,
      .per_token = 10,
      .per_ctx = 1,
      .window = 1000,
      .drain = -1,
      .copy_block = 50};
}

static struct world_config config_of(struct stage *s, const struct world_server *server,
                                     const int64_t *value, int stepwise)
{
  return (struct world_config){.nclasses = 2,
                               .nservers = s->twins ? 2 : 1,
                               .nbacklogs = s->nbacklogs,
                               .ngpus = s->twins ? 2 : 1,
                               .njobs = s->njobs,
                               .job = &s->job,
                               .cls = s->cls,
                               .server = server,
                               .backlog = &s->backlog,
                               .policy = s->policy ? s->policy : &script,
                               .params = value,
                               .source = {.ctx = s, .next = next_row, .refill = refill_row},
                               .window = s->window * LULL_TICK_PS,
                               .drain = s->drain < 0 ? LULL_NEVER : s->drain * LULL_TICK_PS,
                               .max_repeat = stepwise ? 1 : 0,
                               .log = s->unheard ? NULL : keep_line,
                               .log_ctx = s};
}

/* -------------------------------------------------------------------------- a late device ---- */

static lull_time grid_ps; /* of the one that runs */

/* All that was told until the next multiple of the grid. */
static int late_wait(struct lull_device *d, lull_time until, struct lull_completion *out, int max)
{
  lull_time now = simdev_ops.now(d);
  int n = 0;
  if (until > now && until < LULL_NEVER - grid_ps) {
    until = (until + grid_ps - 1) / grid_ps * grid_ps;
  } else if (until > now) { /* to the grid behind the first completion */
    n = simdev_ops.wait(d, until, out, max);
    now = simdev_ops.now(d);
    until = (now + grid_ps - 1) / grid_ps * grid_ps;
  }
  for (int more = 0; n >= 0 && (!more || simdev_ops.now(d) < until); n += more) {
    more = simdev_ops.wait(d, until, out + n, max - n);
    if (more < 0)
      return more;
    if (!more && simdev_ops.now(d) == until)
      break;
  }
  return n;
}

int stage_run(struct stage *s, int stepwise)
{
  int64_t value[16] = {s->policy ? 0 : (int64_t)(intptr_t)s};
  struct cost_analytic a = {.base = s->base, .per_token = s->per_token, .per_ctx = s->per_ctx};
  struct cost_model *cost = cost_from_analytic(&a, s->server.row_tokens, &s->e);
  if (!cost)
    return -1;
  s->server.cost = cost;
  s->cursor = s->lines = 0;
  struct world_server server[2] = {s->server, s->server};
  server[1].gpu = 1;
  struct world_config cfg = config_of(s, server, value, stepwise);
  const struct simdev_gpu one = {.memory_bytes = INT64_C(1) << 40,
                                 .copy_bytes_per_s = s->server.block_bytes *
                                                     INT64_C(1000000000000) /
                                                     (s->copy_block * LULL_TICK_PS),
                                 .cost = cost,
                                 .layers = s->server.layers,
                                 .contended_ps = s->contended_ps};
  const struct simdev_gpu gpu[2] = {one, one};
  struct lull_device *dev = simdev_create(gpu, (int)cfg.ngpus, &s->e);
  struct lull_device_ops ops = simdev_ops;
  grid_ps = s->grid * LULL_TICK_PS;
  if (grid_ps)
    ops.wait = late_wait;
  int rc = dev ? world_run(&cfg, dev, &ops, &s->r, &s->e) : -1;
  simdev_destroy(dev);
  cost_free(cost);
  return rc;
}

void stage_end(struct stage *s)
{
  world_result_free(&s->r);
}

const struct world_log_line *stage_line(const struct stage *s, int kind, int nth)
{
  for (uint32_t i = 0; i < s->lines; i++)
    if (s->line[i].kind == kind && nth-- == 0)
      return &s->line[i];
  return NULL;
}
