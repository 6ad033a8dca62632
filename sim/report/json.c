/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The JSON file: keys sorted, reals with 17 digits, no date, no host, no path. */
#include "sim/report/json.h"

#include <math.h>
#include <string.h>

#include "sim/ledger/verdict.h"
#include "sim/report/parts.h"

/* All metrics of a summary by name, in their units. */
static json_t *metrics(struct json_doc *d, const struct summary *s, double ratio)
{
  json_t *o = json_doc_object(d);

  for (int m = 0; m < METRICS; m++)
    json_doc_real(d, o, summary_metrics[m].name, m == METRIC_RATIO ? ratio : summary_value(s, m));
  return o;
}

/* Counts that metrics are made of. */
static json_t *counts(struct json_doc *d, const struct summary *s)
{
  const struct {
    const char *name;
    uint64_t value;
  } item[] = {{"offered", s->offered},
              {"finished", s->finished},
              {"failed", s->failed},
              {"rejected", s->rejected},
              {"cancelled", s->cancelled},
              {"expired", s->expired},
              {"unfinished", s->unfinished},
              {"live_offered", s->live_offered},
              {"live_met", s->live_met},
              {"live_met_half", s->live_met_half},
              {"live_met_double", s->live_met_double},
              {"live_useful_tokens", s->live_useful_tokens},
              {"batch_useful_tokens", s->batch_useful_tokens},
              {"useful_tokens", s->useful_tokens},
              {"output_tokens", s->output_tokens},
              {"preemptions", s->preempts},
              {"discarded_tokens", s->discarded_tokens},
              {"steps", s->steps},
              {"forced_preemptions", s->forced},
              {"ttft_samples", s->ttft.n},
              {"tpot_samples", s->tpot.n},
              {"token_gap_samples", s->itl.n}};
  json_t *o = json_doc_object(d);

  for (size_t i = 0; i < sizeof item / sizeof *item; i++)
    json_doc_count(d, o, item[i].name, item[i].value);
  return o;
}

/* Steps by kind, of those whose costs were looked up outside what was measured. */
static json_t *kinds(struct json_doc *d, const uint64_t n[COST_KINDS])
{
  json_t *o = json_doc_object(d);

  for (int k = 0; k < COST_KINDS; k++)
    json_doc_count(d, o, cost_outside_name[k], n[k]);
  return o;
}

json_t *json_misses(struct json_doc *d, const struct cost_misses *m)
{
  json_t *o = json_doc_object(d);

  json_doc_count(d, o, "steps", m->steps);
  json_doc_put(d, o, "extrapolated", kinds(d, m->beyond));
  json_doc_put(d, o, "clamped", kinds(d, m->below));
  json_doc_count(d, o, "several_chunks_as_one", m->several);
  return o;
}

/* The ledger in GPU-seconds. */
static json_t *accounts(struct json_doc *d, const struct summary *s)
{
  json_t *o = json_doc_object(d);

  for (int a = 0; a < WORLD_ACCOUNTS; a++)
    json_doc_real(d, o, world_account_name[a], s->account[a]);
  return o;
}

/* What prefix caches were asked for, and held. */
static json_t *hits(struct json_doc *d, uint64_t looked_up, uint64_t cached)
{
  json_t *o = json_doc_object(d);

  json_doc_count(d, o, "looked_up_tokens", looked_up);
  json_doc_count(d, o, "cached_tokens", cached);
  json_doc_real(d, o, "hit_rate", looked_up ? (double)cached / (double)looked_up : NAN);
  return o;
}

/* The same of the run and of each class. */
static json_t *cache(struct json_doc *d, const struct scenario *s, const struct summary *sum)
{
  json_t *o = hits(d, summary_looked_up(sum), summary_cached(sum)), *classes = json_doc_object(d);

  for (uint32_t c = 0; c < s->nclasses; c++)
    json_doc_put(d, classes, s->cls[c].id,
                 hits(d, sum->looked_up_tokens[c], sum->cached_tokens[c]));
  json_doc_put(d, o, "classes", classes);
  return o;
}

/* Figures of a run or of a pool of them. */
static json_t *figures(struct json_doc *d, const struct scenario *of, const struct summary *s,
                       double ratio)
{
  json_t *o = json_doc_object(d);

  json_doc_put(d, o, "metrics", metrics(d, s, ratio));
  json_doc_put(d, o, "counts", counts(d, s));
  json_doc_put(d, o, "accounts_gpu_seconds", accounts(d, s));
  json_doc_put(d, o, "steps_outside_measured", json_misses(d, &s->misses));
  if (summary_looked_up(s))
    json_doc_put(d, o, "prefix_cache", cache(d, of, s));
  json_doc_real(d, o, "seconds", s->seconds);
  json_doc_count(d, o, "gpus", s->ngpus);
  json_doc_count(d, o, "runs", s->runs);
  json_doc_flag(d, o, "partial", s->partial);
  return o;
}

/* Training beside the servers: useful work is whole micro-steps; its time is in the ledger's
 * account of training, halved where a server computed too. */
static json_t *jobs(struct json_doc *d, const struct scenario_arm *arm,
                    const struct experiment_run *r)
{
  json_t *list = json_doc_array(d);

  for (uint32_t i = 0; r->job && i < arm->njobs; i++) {
    json_t *o = json_doc_object(d);

    json_doc_text(d, o, "id", arm->job[i].name);
    json_doc_count(d, o, "gpu", (uint64_t)arm->job[i].gpu);
    json_doc_count(d, o, "micro_steps", r->job[i].micro_steps);
    json_doc_count(d, o, "busy_ps", (uint64_t)r->job[i].busy);
    json_doc_put(d, list, NULL, o);
  }
  return list;
}

/* Every run of an arm, by candidate and seed; what did not run is left out. */
static json_t *runs(struct json_doc *d, const struct experiment *x, uint32_t arm)
{
  const struct experiment_arm *a = &x->arm[arm];
  json_t *list = json_doc_array(d);

  for (uint32_t c = 0; c < a->ncandidates; c++)
    for (uint32_t k = 0; k < x->nseeds; k++) {
      const struct experiment_run *r = &a->run[(size_t)c * x->nseeds + k];
      json_t *o;

      if (!r->sum.runs)
        continue;
      o = figures(d, x->scenario, &r->sum, a->best[k] == (int)c ? a->ratio[k] : NAN);
      json_doc_text(d, o, "candidate", x->scenario->arm[arm].candidate[c].id);
      json_doc_count(d, o, "seed", x->seed[k]);
      json_doc_flag(d, o, "chosen", a->best[k] == (int)c);
      if (x->scenario->arm[arm].njobs)
        json_doc_put(d, o, "jobs", jobs(d, &x->scenario->arm[arm], r));
      json_doc_text(d, o, "plan_digest", r->plan_digest);
      json_doc_text(d, o, "log_digest", r->log_digest);
      json_doc_put(d, list, NULL, o);
    }
  return list;
}

/* One arm. */
static json_t *arm_object(struct json_doc *d, const struct experiment *x, uint32_t arm)
{
  const struct scenario_arm *s = &x->scenario->arm[arm];
  const struct experiment_arm *a = &x->arm[arm];
  json_t *o = json_doc_object(d), *ratio;

  json_doc_text(d, o, "id", s->id);
  json_doc_text(d, o, "title", s->title);
  if (s->engine)
    json_doc_text(d, o, "engine", s->engine);
  json_doc_text(d, o, "policy", s->policy ? s->policy->name : NULL);
  json_doc_put(d, o, "policy_parameters", json_params(d, s));
  json_doc_flag(d, o, "deployable", !(s->policy && s->policy->needs & LULL_NEED_FORESIGHT));
  json_doc_flag(d, o, "baseline", (int)arm == x->scenario->baseline);
  json_doc_flag(d, o, "skipped", a->skipped);
  json_doc_count(d, o, "gpus", s->ngpus);
  if (a->skipped)
    return o;
  ratio = json_doc_object(d);
  json_doc_real(d, ratio, "pooled", a->ratio_pooled);
  json_doc_real(d, ratio, "low", a->ratio_low);
  json_doc_real(d, ratio, "high", a->ratio_high);
  json_doc_put(d, o, "ratio", ratio);
  json_doc_flag(d, o, "qualified", a->qualified);
  json_doc_put(d, o, "pooled", figures(d, x->scenario, &a->pooled, a->ratio_pooled));
  json_doc_put(d, o, "runs", runs(d, x, arm));
  return o;
}

/* Gates as registered and as judged. */
static json_t *gates(struct json_doc *d, const struct experiment *x)
{
  static const char *const outcome[] = {
      [OUTCOME_PASS] = "pass", [OUTCOME_FAIL] = "fail", [OUTCOME_INCONCLUSIVE] = "inconclusive"};
  json_t *list = json_doc_array(d);

  for (uint32_t g = 0; g < x->scenario->ngates; g++) {
    const struct scenario_gate *s = &x->scenario->gate[g];
    json_t *o = json_doc_object(d);

    json_doc_text(d, o, "id", s->id);
    json_doc_text(d, o, "arm", s->arm);
    json_doc_text(d, o, "metric", s->metric);
    json_doc_real(d, o, "min", s->has_min ? s->min : NAN);
    json_doc_real(d, o, "max", s->has_max ? s->max : NAN);
    json_doc_real(d, o, "measured", x->gate[g].value);
    json_doc_text(d, o, "outcome", outcome[x->gate[g].outcome]);
    json_doc_text(d, o, "why", x->gate[g].why);
    json_doc_put(d, list, NULL, o);
  }
  return list;
}

/* Published figures beside ours. */
static json_t *references(struct json_doc *d, const struct experiment *x)
{
  json_t *list = json_doc_array(d);

  for (uint32_t i = 0; i < x->scenario->nreferences; i++) {
    const struct scenario_reference *r = &x->scenario->reference[i];
    int arm = verdict_arm(x->scenario, r->arm), metric = summary_metric_by_name(r->metric);
    double ours = arm < 0 || metric < 0 ? NAN : verdict_value(x, (uint32_t)arm, metric);
    json_t *o = json_doc_object(d);

    json_doc_text(d, o, "arm", r->arm);
    json_doc_text(d, o, "metric", r->metric);
    json_doc_text(d, o, "source", r->source);
    json_doc_real(d, o, "value", r->value);
    json_doc_real(d, o, "measured", ours);
    json_doc_real(d, o, "difference", r->value != 0 ? ours / r->value - 1 : NAN);
    json_doc_put(d, list, NULL, o);
  }
  return list;
}

/* Names, units and meanings of the metrics, so that the file explains itself. */
static json_t *glossary(struct json_doc *d)
{
  json_t *o = json_doc_object(d);

  for (int m = 0; m < METRICS; m++) {
    json_t *entry = json_doc_object(d);

    json_doc_text(d, entry, "unit", summary_metrics[m].unit);
    json_doc_text(d, entry, "meaning", summary_metrics[m].doc);
    json_doc_put(d, o, summary_metrics[m].name, entry);
  }
  return o;
}

/* What jobs learnt. */
static json_t *training(struct json_doc *d, const struct experiment_training *t)
{
  json_t *o = json_doc_object(d);

  json_doc_text(d, o, "arm", t->arm);
  json_doc_text(d, o, "candidate", t->candidate);
  json_doc_count(d, o, "seed", t->seed);
  json_doc_text(d, o, "job", t->job);
  json_doc_count(d, o, "micro_steps", t->micro_steps);
  json_doc_count(d, o, "optimizer_steps", t->steps);
  json_doc_real(d, o, "loss_before", t->loss_before);
  json_doc_real(d, o, "loss_after", t->loss_after);
  json_doc_text(d, o, "adapter", t->digest);
  return o;
}

/* What ran it, where that is not the simulator alone. */
static json_t *device(struct json_doc *d, const struct experiment_device *device)
{
  json_t *o = json_doc_object(d);

  json_doc_text(d, o, "name", device->name);
  for (uint32_t i = 0; i < device->nfacts; i++)
    json_doc_text(d, o, device->fact[i].name, device->fact[i].value);
  if (!device->ntrainings)
    return o;
  json_t *list = json_doc_array(d);
  for (uint32_t i = 0; i < device->ntrainings; i++)
    json_doc_put(d, list, NULL, training(d, &device->training[i]));
  json_doc_put(d, o, "training", list);
  return o;
}

/* The whole document. */
static json_t *document(struct json_doc *d, const struct experiment *x,
                        const struct report_sweep *sweeps, uint32_t nsweeps,
                        const struct report_explain *explain)
{
  json_t *o = json_doc_object(d), *arms = json_doc_array(d), *tables = json_doc_array(d);

  json_doc_text(d, o, "format", "lull-result");
  json_doc_count(d, o, "version", 1);
  json_doc_flag(d, o, "partial", x->partial);
  json_doc_count(d, o, "exit_code", (uint64_t)x->exit_code);
  json_doc_put(d, o, "scenario", json_scenario(d, x));
  json_doc_put(d, o, "calibration", json_calibration(d, x->scenario->calib));
  if (x->device)
    json_doc_put(d, o, "device", device(d, x->device));
  json_doc_put(d, o, "parameters", json_parameters(d, x->scenario));
  json_doc_put(d, o, "gates", gates(d, x));
  json_doc_put(d, o, "references", references(d, x));
  json_doc_put(d, o, "metrics", glossary(d));
  for (uint32_t a = 0; a < x->scenario->narms; a++)
    json_doc_put(d, arms, NULL, arm_object(d, x, a));
  json_doc_put(d, o, "arms", arms);
  for (uint32_t i = 0; sweeps && i < nsweeps; i++)
    json_doc_put(d, tables, NULL, json_sweep(d, &sweeps[i]));
  json_doc_put(d, o, "sweeps", tables);
  json_doc_put(d, o, "explain", explain ? json_explain(d, explain) : json_null());
  return o;
}

int report_json(const struct experiment *x, const struct report_sweep *sweeps, uint32_t nsweeps,
                const struct report_explain *explain, const char *path, struct base_error *e)
{
  struct json_doc d = {0};

  return json_doc_write(&d, document(&d, x, sweeps, nsweeps, explain), path, e);
}
