/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From measured requests to a plan, through an experiment, to what is compared. */
#include <stdlib.h>
#include <string.h>

#include "sim/ledger/verdict.h"
#include "sim/validate/pair.h"

/* Longest run, ns: the horizon of simulated time. */
static const int64_t horizon_ns = INT64_C(106) * 86400 * 1000000000;

void validate_side_free(struct validate_side *s)
{
  free(s->request);
  if (s->itl.bin)
    base_hist_free(&s->itl);
  *s = (struct validate_side){0};
}

static int side_open(struct validate_side *s, uint64_t n, struct base_error *e)
{
  *s = (struct validate_side){.n = n};
  s->request = calloc(n + 1, sizeof *s->request);
  if (!s->request || base_hist_init(&s->itl))
    return base_fail_memory(e);
  return 0;
}

/* The measured side, ns to ps. */
static int take_measured(const struct measured *m, const char *name, struct validate_side *s,
                         struct base_error *e)
{
  if (side_open(s, m->n, e))
    return -1;
  for (uint64_t i = 0; i < m->n; i++) {
    const struct measured_request *q = &m->row[i];
    if (q->arrival_ns > horizon_ns || q->e2e_ns > horizon_ns - q->arrival_ns)
      return base_fail_at(e, BASE_INPUT, name, q->line,
                          "the request ends over 106 days from the first arrival; correct its "
                          "times");
    s->request[i] = (struct validate_request){.arrival = q->arrival_ns * 1000,
                                              .first = (q->arrival_ns + q->ttft_ns) * 1000,
                                              .last = (q->arrival_ns + q->e2e_ns) * 1000,
                                              .output = q->output};
  }
  for (size_t i = 0; i < m->ngaps; i++)
    base_hist_add(&s->itl, m->gap_ns[i] < horizon_ns ? m->gap_ns[i] * 1000 : INT64_MAX, 1);
  return 0;
}

/* ------------------------------------------------------------------------------------ arm ---- */

int validate_arm(const struct scenario *s, const char *name, struct base_error *e)
{
  int arm = name ? verdict_arm(s, name) : 0;
  const char *ids[64];
  uint32_t n = s->narms < 64 ? s->narms : 64;
  if (!name && s->narms != 1)
    return base_fail(e, BASE_USAGE, "%s has %u arms; choose one with --arm, for example --arm %s",
                     s->id, s->narms, s->narms ? s->arm[0].id : "NAME");
  if (arm >= 0)
    return arm;
  for (uint32_t i = 0; i < n; i++)
    ids[i] = s->arm[i].id;
  const char *near = base_nearest(name, ids, n);
  return base_fail(e, BASE_USAGE, "%s has no arm '%.60s'%s%s%s", s->id, name,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* The class that the requests belong to: the first that the arm serves. */
static int choose_class(const struct scenario *s, int arm, struct base_error *e)
{
  const struct scenario_arm *a = &s->arm[arm];
  uint32_t mask = 0;
  if (a->ncandidates != 1)
    return base_fail_at(e, BASE_INPUT, s->file, 0,
                        "arm '%s' has %u candidates; keep the one that the measured run used",
                        a->id, a->ncandidates);
  if (a->candidate[0].nbacklogs)
    return base_fail_at(e, BASE_INPUT, s->file, 0,
                        "arm '%s' serves a backlog, which the measured requests do not hold; "
                        "remove that class from its servers",
                        a->id);
  if (a->njobs)
    return base_fail_at(e, BASE_INPUT, s->file, 0,
                        "arm '%s' has a <job> beside its servers, which nobody measured; remove it",
                        a->id);
  for (uint32_t v = 0; v < a->candidate[0].nservers; v++)
    mask |= a->candidate[0].server[v].class_mask;
  for (uint32_t c = 0; c < s->nclasses; c++)
    if (mask >> c & 1)
      return (int)c;
  return base_fail_at(e, BASE_INPUT, s->file, 0, "arm '%s' serves no class", a->id);
}

/* ------------------------------------------------------------------------------- simulate ---- */

/* Takes a run's records: request i of the plan has id i. */
struct record_tap {
  const struct validation *v;
  struct validate_side *out;
  uint64_t unserved; /* the first that did not end well, UINT64_MAX: none */
};

static int begin(void *ctx, const struct experiment_place *place, struct base_error *e)
{
  (void)ctx, (void)place, (void)e;
  return 0;
}

/* A request that the arm did not serve is told of at the end. */
static void take_request(void *ctx, lull_id id, const struct world_record *q)
{
  struct record_tap *t = ctx;
  uint64_t i = (uint64_t)id;
  if (i >= t->v->measured->n)
    return;
  if (q->fate != WORLD_DONE && i < t->unserved)
    t->unserved = i;
  t->out->request[i] = (struct validate_request){q->arrival, q->first_token, q->last_token,
                                                 q->output};
}

static int take_simulated(void *ctx, const struct world_result *r, struct base_error *e)
{
  struct record_tap *t = ctx;
  const struct measured *m = t->v->measured;
  if (r->partial)
    return base_fail(e, BASE_INCOMPLETE, "stopped by a signal; nothing was compared");
  if (r->records != m->n)
    return base_fail(e, BASE_INVARIANT, "%llu requests were simulated instead of %llu",
                     (unsigned long long)r->records, (unsigned long long)m->n);
  if (t->unserved < m->n) {
    const struct measured_request *row = &m->row[t->unserved];
    return base_fail_at(e, BASE_INPUT, t->v->name, row->line,
                        "the arm cannot serve this request (%u + %u tokens); compare its KV pool "
                        "and max-context with the measured server's",
                        row->prompt, row->output);
  }
  if (r->cls[t->v->cls].itl.bin)
    base_hist_merge(&t->out->itl, &r->cls[t->v->cls].itl);
  return 0;
}

static struct plan *plan_of(const struct scenario *s, const struct validation *v, uint64_t seed,
                            struct base_error *e)
{
  const struct measured *m = v->measured;
  struct world_arrival *row = calloc(m->n + 1, sizeof *row);
  if (!row) {
    base_fail_memory(e);
    return NULL;
  }
  for (uint64_t i = 0; i < m->n; i++)
    row[i] = (struct world_arrival){.time = m->row[i].arrival_ns * 1000,
                                    .prompt = m->row[i].prompt,
                                    .output = m->row[i].output};
  struct plan *plan = plan_of_rows(s, seed, v->cls, row, m->n, e);
  free(row);
  return plan;
}

int validate_simulate(struct scenario *as_run, const struct validation *v,
                      const struct experiment_options *run, struct experiment **x,
                      struct validate_side *out, struct base_error *e)
{
  const struct measured *m = v->measured;
  struct experiment_options o = run ? *run : (struct experiment_options){0};
  struct record_tap tap = {v, out, UINT64_MAX};
  const struct experiment_sink sink = {&tap, begin, take_request, take_simulated};
  /* arrivals end with the last one, everything is served, and no gate of `lull run` speaks */
  as_run->window = m->row[m->n - 1].arrival_ns * 1000 + 1;
  as_run->drain = LULL_NEVER;
  as_run->ngates = 0;
  o.only_arm = as_run->arm[v->arm].id;
  uint64_t seed = o.has_seed ? o.seed : as_run->seed[0];
  as_run->nseeds = 1; /* only what speculation draws depends on it */
  o.sink = &sink;
  struct plan *plan = side_open(out, m->n, e) ? NULL : plan_of(as_run, v, seed, e);
  if (!plan)
    return -1;
  o.plan = plan;
  *x = experiment_run(as_run, &o, e);
  plan_free(plan);
  if (*x && (*x)->partial)
    return base_fail(e, BASE_INCOMPLETE, "stopped by a signal; nothing was compared");
  return *x ? 0 : -1;
}

int validate_run(const struct report_source *source, const struct scenario *s,
                 const struct measured *m, const char *name, struct validation *v,
                 struct base_error *e)
{
  const struct experiment_options *run = source->run;
  *v = (struct validation){.name = name, .measured = m, .as_run = *s};
  v->arm = validate_arm(s, run ? run->only_arm : NULL, e);
  v->cls = v->arm < 0 ? -1 : choose_class(s, v->arm, e);
  if (v->cls < 0 || take_measured(m, name, &v->side[VALIDATE_MEASURED], e) ||
      validate_simulate(&v->as_run, v, run, &v->x, &v->side[VALIDATE_SIMULATED], e))
    return -1;
  return validate_compare(&v->side[VALIDATE_MEASURED], &v->side[VALIDATE_SIMULATED], 0, m->n,
                          &v->all, e);
}

void validate_free(struct validation *v)
{
  experiment_free(v->x);
  validate_pair_free(v->pair);
  validate_side_free(&v->side[VALIDATE_MEASURED]);
  validate_side_free(&v->side[VALIDATE_SIMULATED]);
  free(v->gate);
  *v = (struct validation){0};
}
