/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The JSON file of a validation: keys sorted, reals with 17 digits, no date, no host, no path. */
#include "sim/report/json.h"

#include <math.h>
#include <string.h>

#include "sim/validate/pair.h"

static const char *const side_name[VALIDATE_SIDES] = {"measured", "simulated"};

/* One metric: its figures by side and their errors, then the distances. */
static json_t *figures(struct json_doc *d, const struct validate_figures *f)
{
  json_t *o = json_doc_object(d), *absolute = json_doc_object(d), *relative = json_doc_object(d);
  for (int side = 0; side < VALIDATE_SIDES; side++) {
    json_t *s = json_doc_object(d);
    for (int k = 0; k < VALIDATE_FIGURES; k++)
      json_doc_real(d, s, validate_statistics[k].name, f->figure[side][k]);
    json_doc_count(d, s, "n", f->n[side]);
    json_doc_put(d, o, side_name[side], s);
  }
  for (int k = 0; k < VALIDATE_FIGURES; k++) {
    json_doc_real(d, absolute, validate_statistics[k].name, validate_absolute(f, k));
    json_doc_real(d, relative, validate_statistics[k].name, validate_relative(f, k));
  }
  json_doc_put(d, o, "absolute_error", absolute);
  json_doc_put(d, o, "relative_error", relative);
  json_doc_real(d, o, "ks", f->ks);
  json_doc_real(d, o, "correlation", f->correlation);
  json_doc_real(d, o, "bias", f->bias);
  return o;
}

/* The first `metrics` of them. */
static json_t *comparison(struct json_doc *d, const struct validate_comparison *c, int metrics)
{
  json_t *o = json_doc_object(d);
  for (int m = 0; m < metrics; m++)
    json_doc_put(d, o, validate_metrics[m].name, figures(d, &c->metric[m]));
  return o;
}

static json_t *fit(struct json_doc *d, const struct validation *v)
{
  const struct validate_fit *f = &v->fit;
  json_t *o = json_doc_object(d);
  json_doc_text(d, o, "scalar", "host time a step");
  json_doc_text(d, o, "objective",
                "mean of |error| / measured over the first half: of E2E and of TPOT, half of each");
  json_doc_count(d, o, "first_half_requests", f->split);
  json_doc_count(d, o, "simulations", f->runs);
  json_doc_count(d, o, "given_ps", (uint64_t)f->given);
  json_doc_count(d, o, "fitted_ps", (uint64_t)f->host);
  json_doc_real(d, o, "objective_given", f->objective_given);
  json_doc_real(d, o, "objective_fitted", f->objective);
  json_doc_flag(d, o, "at_bound", f->at_bound);
  json_doc_put(d, o, "second_half_given", comparison(d, &f->second_given, VALIDATE_SINGLE));
  json_doc_put(d, o, "second_half_fitted", comparison(d, &f->second, VALIDATE_SINGLE));
  return o;
}

static json_t *gates(struct json_doc *d, const struct validation *v)
{
  static const char *const outcome[] = {
      [OUTCOME_PASS] = "pass", [OUTCOME_FAIL] = "fail", [OUTCOME_INCONCLUSIVE] = "inconclusive"};
  json_t *list = json_doc_array(d);
  for (uint32_t i = 0; i < v->ngates; i++) {
    const struct validate_gate *g = &v->gate[i];
    json_t *o = json_doc_object(d);
    json_doc_text(d, o, "id", g->id);
    json_doc_text(d, o, "metric", validate_metrics[g->metric].name);
    json_doc_text(d, o, "statistic", validate_statistics[g->statistic].name);
    json_doc_text(d, o, "on", g->fitted ? "second half, fitted" : "all requests");
    json_doc_real(d, o, "min", g->has_min ? g->min : NAN);
    json_doc_real(d, o, "max", g->has_max ? g->max : NAN);
    json_doc_real(d, o, "judged", g->value);
    json_doc_text(d, o, "outcome", outcome[g->outcome]);
    json_doc_put(d, list, NULL, o);
  }
  return list;
}

static json_t *measured(struct json_doc *d, const struct validation *v)
{
  const struct measured *m = v->measured;
  json_t *o = json_doc_object(d);
  json_doc_text(d, o, "format", m->format);
  json_doc_count(d, o, "requests", m->n);
  json_doc_count(d, o, "failed_left_out", m->failed);
  json_doc_count(d, o, "sorted_rows", m->moved);
  json_doc_count(d, o, "token_gaps", m->ngaps);
  return o;
}

static json_t *simulated(struct json_doc *d, const struct validation *v)
{
  const struct scenario_arm *arm = &v->as_run.arm[v->arm];
  const struct experiment_run *run = &v->x->arm[v->arm].run[0];
  const struct scenario_engine *g = &arm->candidate[0].server[0].engine;
  json_t *o = json_doc_object(d);
  json_doc_text(d, o, "arm", arm->id);
  if (arm->engine)
    json_doc_text(d, o, "engine", arm->engine);
  json_doc_text(d, o, "policy", arm->policy->name);
  json_doc_put(d, o, "policy_parameters", json_params(d, arm));
  json_doc_text(d, o, "class", v->as_run.cls[v->cls].id);
  json_doc_count(d, o, "seed", v->x->seed[0]);
  json_doc_count(d, o, "host_step_ps", (uint64_t)g->cost.host_step);
  json_doc_count(d, o, "host_overlapped_ps", (uint64_t)g->cost.host_overlapped);
  json_doc_count(d, o, "graph_tokens", g->cost.graph_tokens);
  json_doc_count(d, o, "launches_ps", (uint64_t)g->cost.launches);
  json_doc_flag(d, o, "async_scheduling", g->async);
  json_doc_count(d, o, "kv_blocks", g->kv_blocks);
  json_doc_count(d, o, "steps", run->sum.steps);
  json_doc_count(d, o, "preemptions", run->sum.preempts);
  json_doc_put(d, o, "steps_outside_measured", json_misses(d, &run->sum.misses));
  json_doc_text(d, o, "plan_digest", run->plan_digest);
  json_doc_text(d, o, "log_digest", run->log_digest);
  return o;
}

/* Names, units and meanings, so that the file explains itself. */
static json_t *glossary(struct json_doc *d, int metrics)
{
  json_t *o = json_doc_object(d);
  for (int m = 0; m < metrics; m++) {
    json_t *entry = json_doc_object(d);
    json_doc_text(d, entry, "unit", validate_metrics[m].unit);
    json_doc_text(d, entry, "meaning", validate_metrics[m].doc);
    json_doc_put(d, o, validate_metrics[m].name, entry);
  }
  for (int s = 0; s < VALIDATE_STATISTICS; s++) {
    json_t *entry = json_doc_object(d);
    json_doc_text(d, entry, "meaning", validate_statistics[s].doc);
    json_doc_put(d, o, validate_statistics[s].name, entry);
  }
  return o;
}

static json_t *steps(struct json_doc *d, const struct validate_pair *p)
{
  json_t *o = json_doc_object(d);
  for (int k = 0; k < STEPS_KINDS; k++) {
    const struct validate_step_errors *s = &p->steps[k];
    json_t *kind = json_doc_object(d);
    json_doc_count(d, kind, "n", s->n);
    json_doc_real(d, kind, "real", s->seconds);
    json_doc_real(d, kind, "predicted", s->predicted);
    json_doc_real(d, kind, "mean_error", s->bias);
    json_doc_real(d, kind, "absolute_error_p50", s->p50);
    json_doc_real(d, kind, "absolute_error_p95", s->p95);
    json_doc_put(d, o, validate_steps_name[k], kind);
  }
  return o;
}

static json_t *decisions(struct json_doc *d, const struct validation *v)
{
  const struct decisions_compared *c = &v->pair->decisions;
  static const char *const side[] = {"first_real", "first_simulated"};
  json_t *o = json_doc_object(d);
  json_doc_count(d, o, "real", c->n[0]);
  json_doc_count(d, o, "simulated", c->n[1]);
  json_doc_count(d, o, "agreed", c->agreed);
  json_doc_count(d, o, "moved", c->moved);
  json_doc_count(d, o, "real_alone", c->alone[0]);
  json_doc_count(d, o, "simulated_alone", c->alone[1]);
  for (int k = 0; k < 2; k++) {
    char text[160];
    decision_text(&c->first[k], &v->as_run, text, sizeof text);
    json_doc_text(d, o, side[k], c->differ ? text : NULL);
  }
  return o;
}

/* The run on the real device, and what is known of its steps and decisions. */
static json_t *real(struct json_doc *d, const struct validation *v)
{
  const struct validate_pair *p = v->pair;
  const struct experiment_run *run = &p->real->arm[v->arm].run[0];
  json_t *o = json_doc_object(d), *device = json_doc_object(d);
  json_doc_text(d, device, "name", p->device->name);
  for (uint32_t i = 0; i < p->device->nfacts; i++)
    json_doc_text(d, device, p->device->fact[i].name, p->device->fact[i].value);
  json_doc_put(d, o, "device", device);
  json_doc_count(d, o, "requests_left_out", p->left_out);
  json_doc_text(d, o, "plan_digest", run->plan_digest);
  json_doc_text(d, o, "log_digest", run->log_digest);
  json_doc_put(d, o, "steps", steps(d, p));
  json_doc_put(d, o, "decisions", decisions(d, v));
  json_doc_real(d, o, "noise", p->noise);
  return o;
}

int validate_json(const struct validation *v, const char *path, struct base_error *e)
{
  struct json_doc d = {0};
  json_t *o = json_doc_object(&d);
  json_doc_text(&d, o, "format", "lull-validation");
  json_doc_count(&d, o, "version", 1);
  json_doc_count(&d, o, "exit_code", (uint64_t)v->exit_code);
  json_doc_put(&d, o, "scenario", json_scenario(&d, v->x));
  json_doc_put(&d, o, "calibration", json_calibration(&d, v->as_run.calib));
  json_doc_put(&d, o, "parameters", json_parameters(&d, &v->as_run));
  if (v->pair)
    json_doc_put(&d, o, "real", real(&d, v));
  else
    json_doc_put(&d, o, "measured", measured(&d, v));
  json_doc_put(&d, o, "simulated", simulated(&d, v));
  json_doc_put(&d, o, "metrics",
               comparison(&d, &v->all, v->pair ? VALIDATE_METRICS : VALIDATE_SINGLE));
  json_doc_put(&d, o, "glossary", glossary(&d, v->pair ? VALIDATE_METRICS : VALIDATE_SINGLE));
  json_doc_put(&d, o, "fit", v->fit.done ? fit(&d, v) : json_null());
  json_doc_put(&d, o, "gates", gates(&d, v));
  return json_doc_write(&d, o, path, e);
}
