/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The second tables as JSON. */
#include "sim/ledger/verdict.h"
#include "sim/report/json.h"
#include "sim/report/parts.h"

/* Arms at one value. */
static json_t *sweep_arms(struct json_doc *d, const struct report_sweep *t,
                          const struct report_sweep_point *p)
{
  json_t *arms = json_doc_object(d);

  for (uint32_t a = 0; a < t->scenario->narms; a++) {
    json_t *o;

    if (!p->arm[a].run)
      continue;
    o = json_doc_object(d);
    json_doc_flag(d, o, "qualified", p->arm[a].qualified);
    json_doc_real(d, o, "useful-tokens-per-gpu-hour", p->arm[a].rate);
    json_doc_real(d, o, "ratio", p->arm[a].ratio);
    json_doc_real(d, o, "attainment", p->arm[a].attainment);
    json_doc_real(d, o, "ttft-p95", p->arm[a].ttft_p95);
    json_doc_put(d, arms, t->scenario->arm[a].id, o);
  }
  return arms;
}

/* The winners of a sweep for the best. */
static json_t *sweep_best(struct json_doc *d, const struct report_sweep *t)
{
  const struct scenario *s = t->scenario;
  json_t *o = json_doc_object(d);

  json_doc_text(d, o, "arm", t->best_arm < 0 ? NULL : s->arm[t->best_arm].id);
  json_doc_text(d, o, "value", t->best_point < 0 ? NULL : t->point[t->best_point].value);
  json_doc_text(d, o, "baseline_value", t->base_point < 0 ? NULL : t->point[t->base_point].value);
  json_doc_real(d, o, "ratio", t->best_ratio);
  return o;
}

json_t *json_sweep(struct json_doc *d, const struct report_sweep *t)
{
  static const char *const kind[] = {
      [SWEEP_RATIO] = "ratio", [SWEEP_CURVE] = "curve", [SWEEP_BEST] = "best"};
  json_t *o = json_doc_object(d), *points = json_doc_array(d);

  json_doc_text(d, o, "id", t->sweep->id);
  json_doc_text(d, o, "kind", kind[t->sweep->kind]);
  json_doc_text(d, o, "target", t->sweep->target);
  json_doc_flag(d, o, "partial", t->partial);
  json_doc_text(d, o, "headline_arm", t->headline < 0 ? NULL : t->scenario->arm[t->headline].id);
  for (uint32_t i = 0; i < t->n; i++) {
    json_t *p = json_doc_object(d);

    json_doc_text(d, p, "value", t->point[i].value);
    json_doc_real(d, p, "live_tokens_per_second", t->point[i].live);
    json_doc_real(d, p, "batch_tokens_per_second", t->point[i].batch);
    json_doc_real(d, p, "live_over_batch", t->point[i].share);
    json_doc_real(d, p, "c", t->point[i].gain);
    json_doc_put(d, p, "arms", sweep_arms(d, t, &t->point[i]));
    json_doc_put(d, points, NULL, p);
  }
  json_doc_put(d, o, "points", points);
  if (t->sweep->kind == SWEEP_BEST)
    json_doc_put(d, o, "best", sweep_best(d, t));
  return o;
}

/* A parameter's move; null where it cannot be moved. */
static json_t *moved(struct json_doc *d, const struct report_move *m)
{
  json_t *o;

  if (!m->moved)
    return json_null();
  o = json_doc_object(d);
  json_doc_text(d, o, "value", m->value);
  json_doc_real(d, o, "figure", m->figure);
  json_doc_real(d, o, "change", m->change);
  return o;
}

json_t *json_explain(struct json_doc *d, const struct report_explain *t)
{
  json_t *o = json_doc_object(d), *rows = json_doc_array(d);

  json_doc_text(d, o, "arm", t->arm < 0 ? NULL : t->scenario->arm[t->arm].id);
  json_doc_text(d, o, "metric", summary_metrics[t->metric].name);
  json_doc_real(d, o, "figure", t->figure);
  json_doc_flag(d, o, "partial", t->partial);
  for (uint32_t i = 0; i < t->n; i++) {
    json_t *r = json_doc_object(d);

    json_doc_text(d, r, "name", t->row[i].parameter->name);
    json_doc_text(d, r, "target", t->row[i].parameter->target);
    json_doc_put(d, r, "down", moved(d, &t->row[i].down));
    json_doc_put(d, r, "up", moved(d, &t->row[i].up));
    json_doc_put(d, rows, NULL, r);
  }
  json_doc_put(d, o, "parameters", rows);
  return o;
}
