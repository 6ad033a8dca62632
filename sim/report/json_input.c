/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the experiment was given: scenario, calibration, parameters. */
#include <string.h>

#include "models/calibration.h"
#include "sim/policies.h"
#include "sim/report/json.h"
#include "sim/report/parts.h"

/* Classes and their targets. */
static json_t *classes(struct json_doc *d, const struct scenario *s)
{
  json_t *list = json_doc_array(d);

  for (uint32_t c = 0; c < s->nclasses; c++) {
    json_t *o = json_doc_object(d);

    json_doc_text(d, o, "id", s->cls[c].id);
    json_doc_text(d, o, "kind", s->cls[c].interactive ? "live" : "batch");
    if (s->cls[c].interactive) {
      json_doc_count(d, o, "slo_ttft_ps", (uint64_t)s->cls[c].slo_ttft);
      json_doc_count(d, o, "slo_tpot_ps", (uint64_t)s->cls[c].slo_tpot);
    }
    json_doc_put(d, list, NULL, o);
  }
  return list;
}

/* Attributes that were changed before reading. */
static json_t *overrides(struct json_doc *d, const struct scenario *s)
{
  json_t *list = json_doc_array(d);

  for (uint32_t i = 0; i < s->noverrides; i++) {
    json_t *o = json_doc_object(d);

    json_doc_text(d, o, "target", s->override[i].target);
    json_doc_text(d, o, "value", s->override[i].value);
    json_doc_put(d, list, NULL, o);
  }
  return list;
}

json_t *json_scenario(struct json_doc *d, const struct experiment *x)
{
  const struct scenario *s = x->scenario;
  json_t *o = json_doc_object(d), *seeds = json_doc_array(d);

  json_doc_text(d, o, "id", s->id);
  json_doc_text(d, o, "campaign", s->campaign);
  json_doc_text(d, o, "title", s->title);
  json_doc_text(d, o, "note", s->note);
  json_doc_text(d, o, "gpu", s->gpu);
  json_doc_text(d, o, "model", s->model);
  json_doc_text(d, o, "baseline", s->baseline < 0 ? NULL : s->arm[s->baseline].id);
  json_doc_real(d, o, "qualify_attainment", s->qualify_attainment);
  json_doc_count(d, o, "window_ps", (uint64_t)s->window);
  if (s->drain == LULL_NEVER)
    json_doc_text(d, o, "drain_ps", NULL);
  else
    json_doc_count(d, o, "drain_ps", (uint64_t)s->drain);
  for (uint32_t k = 0; k < x->nseeds; k++)
    json_doc_count(d, seeds, NULL, x->seed[k]);
  json_doc_put(d, o, "seeds", seeds);
  json_doc_put(d, o, "seed_by_hand", json_boolean(x->seed_by_hand));
  json_doc_put(d, o, "changed_by_hand", overrides(d, s));
  json_doc_put(d, o, "classes", classes(d, s));
  return o;
}

/* Held-out errors, relative. */
static json_t *residuals(struct json_doc *d, const struct calibration *c)
{
  json_t *list = json_doc_array(d);

  for (uint32_t i = 0; i < c->nresiduals; i++) {
    json_t *o = json_doc_object(d);

    json_doc_text(d, o, "curve", c->residual[i].curve);
    json_doc_count(d, o, "samples", c->residual[i].samples);
    json_doc_count(d, o, "heldout", c->residual[i].heldout);
    json_doc_real(d, o, "p50", c->residual[i].p50);
    json_doc_real(d, o, "p95", c->residual[i].p95);
    json_doc_real(d, o, "max", c->residual[i].max);
    json_doc_put(d, list, NULL, o);
  }
  return list;
}

/* Where the measurements come from. */
static json_t *sources(struct json_doc *d, const struct calibration *c)
{
  json_t *list = json_doc_array(d);

  for (uint32_t i = 0; i < c->nsources; i++) {
    json_t *o = json_doc_object(d);

    json_doc_text(d, o, "file", c->source[i].file);
    json_doc_text(d, o, "sha256", c->source[i].sha256);
    json_doc_text(d, o, "engine", c->source[i].engine);
    json_doc_text(d, o, "kernel", c->source[i].kernel);
    json_doc_text(d, o, "licence", c->source[i].licence);
    json_doc_text(d, o, "url", c->source[i].url);
    json_doc_put(d, list, NULL, o);
  }
  return list;
}

static const char *provenance(const struct calibration *c)
{
  if (c->host_step_ps)
    return "measured";
  return strcmp(c->derived, CALIBRATION_ALL) ? "imported" : "derived";
}

json_t *json_calibration(struct json_doc *d, const struct calibration *c)
{
  json_t *o;

  if (!c)
    return json_null();
  o = json_doc_object(d);
  json_doc_text(d, o, "name", c->name);
  json_doc_text(d, o, "digest", c->digest);
  json_doc_text(d, o, "model", c->model);
  json_doc_text(d, o, "gpu", c->gpu);
  json_doc_text(d, o, "weight_dtype", c->weight_dtype);
  json_doc_text(d, o, "kv_dtype", c->kv_dtype);
  json_doc_text(d, o, "engine", c->engine);
  json_doc_text(d, o, "provenance", provenance(c));
  if (c->law == CALIBRATION_TABLES) {
    json_doc_count(d, o, "tensor_parallel", c->tp);
    json_doc_text(d, o, "collectives", c->collective_note);
    json_doc_text(d, o, "derived_parts", c->derived[0] ? c->derived : NULL);
    json_doc_put(d, o, "uneven_batches_measured", json_boolean(c->skew_decode.n > 0));
  }
  json_doc_put(d, o, "sources", sources(d, c));
  json_doc_put(d, o, "heldout_errors", residuals(d, c));
  return o;
}

json_t *json_parameters(struct json_doc *d, const struct scenario *s)
{
  json_t *list = json_doc_array(d);

  for (uint32_t i = 0; i < s->nparameters; i++) {
    json_t *o = json_doc_object(d);

    json_doc_text(d, o, "name", s->parameter[i].name);
    json_doc_text(d, o, "target", s->parameter[i].target);
    json_doc_text(d, o, "value", s->parameter[i].value);
    json_doc_text(d, o, "class", parts_origin(s->parameter[i].origin));
    json_doc_text(d, o, "reason", s->parameter[i].reason);
    json_doc_put(d, list, NULL, o);
  }
  return list;
}

json_t *json_params(struct json_doc *d, const struct scenario_arm *arm)
{
  json_t *o = json_doc_object(d);
  char text[64];

  for (uint32_t i = 0; arm->policy && arm->params && i < arm->policy->nparams; i++)
    json_doc_text(d, o, arm->policy->params[i].name,
                  policies_format(&arm->policy->params[i], arm->params[i], text, sizeof text));
  return o;
}
