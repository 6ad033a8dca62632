/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/validate/pair.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ledger/verdict.h"
#include "sim/validate/stats.h"

const char *const validate_steps_name[STEPS_KINDS] = {"all", "rows alone", "chunks alone", "both"};

/* -------------------------------------------------------------------------------- a run ---- */

/* What is taken of a run as it goes. */
struct take {
  const struct validation *v;
  const struct experiment_device *device; /* NULL: simulated */
  struct tap tap;
  struct lull_device *inner;
  struct decisions decisions;
  struct validate_side side;
  unsigned char *good; /* [side.n] did it end well? */
  size_t room;
  int no_memory;
};

static int open_device(void *ctx, const struct experiment_place *place,
                       const struct simdev_gpu *gpu, struct lull_device **dev,
                       const struct lull_device_ops **ops, struct base_error *e)
{
  struct take *t = ctx;
  const struct lull_device_ops *inner = &simdev_ops;
  if (t->device) {
    if (t->device->open(t->device->ctx, place, gpu, &t->inner, &inner, e))
      return -1;
  } else {
    t->inner = simdev_create(gpu, (int)place->config->ngpus, e);
    if (!t->inner)
      return -1;
  }
  tap_begin(&t->tap, place->config, t->inner, inner);
  *dev = tap_device(&t->tap);
  *ops = &tap_ops;
  return 0;
}

static int close_device(void *ctx, struct lull_device *dev, int ended, struct base_error *e)
{
  struct take *t = ctx;
  (void)dev;
  if (t->device)
    return t->device->close(t->device->ctx, t->inner, ended, e);
  simdev_destroy(t->inner);
  return 0;
}

static int begin(void *ctx, const struct experiment_place *place, struct base_error *e)
{
  struct take *t = ctx;
  (void)place;
  return base_hist_init(&t->side.itl) ? base_fail_memory(e) : 0;
}

static void take_request(void *ctx, lull_id id, const struct world_record *q)
{
  struct take *t = ctx;
  (void)id;
  if (q->cls != t->v->cls)
    return;
  if (t->side.n == t->room) {
    size_t room = t->room ? 2 * t->room : 64;
    void *request = realloc(t->side.request, room * sizeof *t->side.request);
    t->side.request = request ? request : t->side.request;
    void *good = realloc(t->good, room);
    t->good = good ? good : t->good;
    if (!request || !good) {
      t->no_memory = 1;
      return;
    }
    t->room = room;
  }
  t->good[t->side.n] = q->fate == WORLD_DONE;
  t->side.request[t->side.n++] = (struct validate_request){q->arrival, q->first_token,
                                                           q->last_token, q->output};
}

static int take_result(void *ctx, const struct world_result *r, struct base_error *e)
{
  struct take *t = ctx;
  if (t->no_memory)
    return base_fail_memory(e);
  if (r->cls[t->v->cls].itl.bin)
    base_hist_merge(&t->side.itl, &r->cls[t->v->cls].itl);
  return 0;
}

static void take_line(void *ctx, const struct scenario *s, int arm, int candidate, uint64_t seed,
                      const struct world_log_line *line)
{
  struct take *t = ctx;
  (void)s, (void)arm, (void)candidate, (void)seed;
  decisions_add(&t->decisions, line);
}

static void take_free(struct take *t)
{
  validate_side_free(&t->side);
  decisions_free(&t->decisions);
  tap_free(&t->tap);
  free(t->good);
}

static int run(struct validation *v, const struct experiment_options *run, struct take *t,
               struct experiment **x, struct base_error *e)
{
  struct experiment_options o = run ? *run : (struct experiment_options){0};
  const struct experiment_sink sink = {t, begin, take_request, take_result};
  struct experiment_device hook = {.ctx = t, .open = open_device, .close = close_device};
  if (t->device) {
    hook.name = t->device->name;
    hook.fact = t->device->fact;
    hook.nfacts = t->device->nfacts;
  }
  o.only_arm = v->as_run.arm[v->arm].id;
  o.device = &hook;
  o.sink = &sink;
  o.log = take_line;
  o.log_ctx = t;
  *x = experiment_run(&v->as_run, &o, e);
  if (!*x)
    return -1;
  (*x)->device = t->device; /* the hook is gone */
  if ((*x)->partial)
    return base_fail(e, BASE_INCOMPLETE, "stopped by a signal; nothing was compared");
  return decisions_name(&t->decisions, &t->tap, e);
}

/* -------------------------------------------------------------------------------- requests ---- */

struct placed {
  struct validate_request q;
  int good;
};

/* In order of arrival, which is the same in both runs; requests that arrive together may have any
 * order, so shapes decide. */
static int by_arrival(const void *pa, const void *pb)
{
  const struct validate_request *a = &((const struct placed *)pa)->q;
  const struct validate_request *b = &((const struct placed *)pb)->q;
  if (a->arrival != b->arrival)
    return a->arrival < b->arrival ? -1 : 1;
  return a->output < b->output ? -1 : a->output > b->output;
}

static struct placed *sorted(const struct take *t, struct base_error *e)
{
  struct placed *p = malloc((t->side.n + 1) * sizeof *p);
  if (!p)
    base_fail_memory(e);
  for (uint64_t i = 0; p && i < t->side.n; i++)
    p[i] = (struct placed){t->side.request[i], t->good[i]};
  if (p)
    qsort(p, t->side.n, sizeof *p, by_arrival);
  return p;
}

/* Keeps the requests that ended well in both runs, in order of arrival. */
static int pair_requests(struct take *a, struct take *b, uint64_t *left_out, struct base_error *e)
{
  struct placed *x = sorted(a, e), *y = sorted(b, e);
  uint64_t n = a->side.n < b->side.n ? a->side.n : b->side.n, kept = 0;
  for (uint64_t i = 0; x && y && i < n; i++) {
    if (!x[i].good || !y[i].good)
      continue;
    a->side.request[kept] = x[i].q;
    b->side.request[kept++] = y[i].q;
  }
  *left_out = (a->side.n > b->side.n ? a->side.n : b->side.n) - kept;
  a->side.n = b->side.n = kept;
  int bad = !x || !y;
  free(x);
  free(y);
  return bad ? -1 : 0;
}

/* -------------------------------------------------------------------------------- figures ---- */

static void figure(struct validate_comparison *c, int metric, int side, double value)
{
  struct validate_figures *f = &c->metric[metric];
  f->n[side] = 1;
  f->figure[side][VALIDATE_MEAN] = value;
}

/* Figures that a run has one of. */
static void compare_runs(const struct validation *v, struct validate_comparison *c)
{
  const struct experiment *x[VALIDATE_SIDES] = {
      [VALIDATE_MEASURED] = v->pair->real, [VALIDATE_SIMULATED] = v->x};
  for (int k = 0; k < VALIDATE_SIDES; k++) {
    const struct summary *s = &x[k]->arm[v->arm].pooled;
    figure(c, VALIDATE_USEFUL, k, (double)s->useful_tokens);
    figure(c, VALIDATE_OUTPUT, k, (double)s->output_tokens);
    figure(c, VALIDATE_RATE, k, summary_value(s, METRIC_USEFUL_RATE));
    figure(c, VALIDATE_BUSY, k, summary_value(s, METRIC_DEVICE_BUSY));
    figure(c, VALIDATE_MAKESPAN, k, s->seconds);
    figure(c, VALIDATE_STEPS, k, (double)s->steps);
    figure(c, VALIDATE_PREEMPTIONS, k, (double)s->preempts);
    figure(c, VALIDATE_FINISHED, k, (double)s->finished);
  }
}

static int is_of(const struct tap_step *s, int kind)
{
  int own = s->rows && s->chunk_tokens ? STEPS_BOTH : s->rows ? STEPS_ROWS : STEPS_CHUNKS;
  return kind == STEPS_ALL || kind == own;
}

static int judge_steps(const struct tap *t, int kind, struct validate_step_errors *out,
                       struct base_error *e)
{
  int64_t *ppb = malloc((t->nsteps + 1) * sizeof *ppb);
  *out = (struct validate_step_errors){.bias = NAN, .p50 = NAN, .p95 = NAN};
  if (!ppb)
    return base_fail_memory(e);
  double bias = 0;
  for (size_t i = 0; i < t->nsteps; i++) {
    const struct tap_step *s = &t->step[i];
    if (!is_of(s, kind) || s->ps <= 0)
      continue;
    double error = (double)(s->cost_ps - s->ps) / (double)s->ps;
    bias += error;
    ppb[out->n++] = (int64_t)(fabs(error) * 1e9);
    out->seconds += (double)s->ps * 1e-12;
    out->predicted += (double)s->cost_ps * 1e-12;
  }
  if (out->n) {
    base_sort_int64(ppb, out->n);
    out->bias = bias / (double)out->n;
    out->p50 = base_percentile_sorted(ppb, out->n, 0.5) * 1e-9;
    out->p95 = base_percentile_sorted(ppb, out->n, 0.95) * 1e-9;
  }
  free(ppb);
  return 0;
}

/* ---------------------------------------------------------------------------- both runs ---- */

static int probe(const struct validate_device *d, int64_t *ps, struct base_error *e)
{
  *ps = 0;
  return d->probe ? d->probe(d->probe_ctx, ps, e) : 0;
}

static double spread(int64_t a, int64_t b)
{
  int64_t least = a < b ? a : b;
  return least > 0 ? (double)((a < b ? b : a) - least) / (double)least : NAN;
}

static int run_both(const struct report_source *source, const struct validate_device *d,
                    struct validation *v, struct take *real, struct take *simulated,
                    struct base_error *e)
{
  int64_t before, after;
  if (run(v, source->run, simulated, &v->x, e) || probe(d, &before, e) ||
      run(v, source->run, real, &v->pair->real, e) || probe(d, &after, e))
    return -1;
  v->pair->noise = spread(before, after);
  return 0;
}

static int compare_both(struct validation *v, struct take *real, struct take *simulated,
                        struct base_error *e)
{
  struct validate_pair *p = v->pair;
  if (pair_requests(real, simulated, &p->left_out, e) ||
      validate_compare(&real->side, &simulated->side, 0, real->side.n, &v->all, e))
    return -1;
  compare_runs(v, &v->all);
  for (int k = 0; k < STEPS_KINDS; k++)
    if (judge_steps(&real->tap, k, &p->steps[k], e))
      return -1;
  return decisions_compare(&real->decisions, &simulated->decisions, &p->decisions, e);
}

/* The first live class that the arm serves, else the first. */
static int choose_class(const struct scenario *s, int arm, struct base_error *e)
{
  const struct scenario_arm *a = &s->arm[arm];
  uint32_t mask = 0;
  if (a->ncandidates != 1)
    return base_fail_at(e, BASE_INPUT, s->file, 0,
                        "arm '%s' has %u candidates; keep the one that is to be run", a->id,
                        a->ncandidates);
  for (uint32_t v = 0; v < a->candidate[0].nservers; v++)
    mask |= a->candidate[0].server[v].class_mask;
  int first = -1;
  for (uint32_t c = s->nclasses; c-- > 0;)
    if (mask >> c & 1 && (s->cls[c].interactive || first < 0 || !s->cls[first].interactive))
      first = (int)c;
  return first >= 0 ? first
                    : base_fail_at(e, BASE_INPUT, s->file, 0, "arm '%s' serves no class", a->id);
}

int validate_pair(const struct report_source *source, const struct scenario *s,
                  const struct validate_device *device, struct validation *v, struct base_error *e)
{
  const struct experiment_options *o = source->run;
  *v = (struct validation){.name = device->device->name, .as_run = *s};
  v->pair = calloc(1, sizeof *v->pair);
  if (!v->pair)
    return base_fail_memory(e);
  v->pair->device = device->device;
  v->arm = validate_arm(s, o ? o->only_arm : NULL, e);
  v->cls = v->arm < 0 ? -1 : choose_class(s, v->arm, e);
  if (v->cls < 0)
    return -1;
  v->as_run.ngates = 0; /* no gate of `lull run` speaks, so no baseline is needed */
  v->as_run.nseeds = 1;
  struct take real = {.v = v, .device = device->device}, simulated = {.v = v};
  int bad = run_both(source, device, v, &real, &simulated, e) ||
            compare_both(v, &real, &simulated, e);
  take_free(&real);
  take_free(&simulated);
  return bad ? -1 : 0;
}

void validate_pair_judge(struct validation *v)
{
  if (!v->ngates || isnan(v->pair->noise) || v->pair->noise <= VALIDATE_NOISY)
    return;
  v->exit_code = BASE_INCONCLUSIVE;
  for (uint32_t i = 0; i < v->ngates; i++)
    v->gate[i].outcome = OUTCOME_INCONCLUSIVE;
}

void validate_pair_free(struct validate_pair *p)
{
  if (p)
    experiment_free(p->real);
  free(p);
}
