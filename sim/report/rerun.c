/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sim/report/rerun.h"

#include <stdlib.h>
#include <string.h>

/* A rerun's own progress, as a part of the series. */
static void on_progress(void *ctx, const char *what, double fraction)
{
  const struct rerun *r = ctx;
  const struct experiment_options *o = r->source->run;

  (void)what;
  o->progress(o->progress_ctx, r->what, (r->done + fraction) / r->total);
}

struct scenario *rerun_scenario(const struct report_source *source, const char *target,
                                const char *value, struct base_error *e)
{
  struct scenario_options o = {0};
  struct scenario_override *all;
  struct base_errors errors = {0};
  struct scenario *s;

  if (source->options)
    o = *source->options;
  all = calloc(o.noverrides + 1, sizeof *all);
  if (!all) {
    base_fail_memory(e);
    return NULL;
  }
  if (o.noverrides)
    memcpy(all, o.override, o.noverrides * sizeof *all);
  all[o.noverrides] = (struct scenario_override){target, value};
  o.override = all;
  o.noverrides++;
  s = scenario_open(source->path, &o, &errors);
  if (!s && errors.n && e && e->code == BASE_OK)
    *e = errors.item[0];
  else if (!s)
    base_fail(e, BASE_INPUT, "the scenario cannot be opened with %s = %s", target, value);
  base_errors_free(&errors);
  free(all);
  return s;
}

int rerun_stopped(const struct rerun *r)
{
  return r->source->run && r->source->run->stop && *r->source->run->stop;
}

int rerun_open(struct rerun *r, const char *target, const char *value, struct rerun_result *out,
               struct base_error *e)
{
  struct experiment_options o = {0};

  *out = (struct rerun_result){0};
  if (r->source->run)
    o = *r->source->run;
  o.sink = NULL;
  o.progress = o.progress ? on_progress : NULL;
  o.progress_ctx = r;
  o.only_arm = r->only_arm;
  out->scenario = rerun_scenario(r->source, target, value, e);
  if (!out->scenario)
    return -1;
  out->x = experiment_run(out->scenario, &o, e);
  if (out->x)
    return 0;
  rerun_close(out);
  return -1;
}

void rerun_close(struct rerun_result *out)
{
  experiment_free(out->x);
  if (out->scenario)
    scenario_close(out->scenario);
  *out = (struct rerun_result){0};
}
