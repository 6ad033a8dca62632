/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lull run: one scenario, all arms and seeds; the table, the second tables, the files. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/device.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "sim/report/report.h"

static int check_outputs(const struct cli_options *o, const char *scenario, struct base_error *e)
{
  const char *const output[] = {o->json, o->requests, o->log, o->record};
  const char *const input[] = {scenario, o->recording};
  return cli_check_outputs(output, 4, input, 2, e);
}

/* All that a run holds, so that one place can let go of it. */
struct job {
  const struct cli_options *options;
  struct scenario_options open;
  struct experiment_options run;
  struct report_source source;
  struct scenario *scenario;
  struct cli_device *device;
  struct experiment *experiment;
  struct report_sweep *sweep; /* [nsweeps] of those begun */
  uint32_t nsweeps;
  struct report_explain explain;
  struct report_requests *requests;
  struct report_log *log;
  struct cli_progress progress;
  int partial;
};

static void job_init(struct job *j, const struct cli_line *line)
{
  const struct cli_options *o = &line->options;
  j->options = o;
  j->open = (struct scenario_options){.data_dir = o->data_dir,
                                      .override = o->set,
                                      .noverrides = o->nset,
                                      .calibration = o->calibration};
  cli_progress_open(&j->progress, o->quiet);
  j->run = cli_experiment(o, &j->progress);
  j->source = (struct report_source){line->arg[0], &j->open, &j->run};
}

static void job_free(struct job *j)
{
  cli_progress_clear(&j->progress);
  report_explain_free(&j->explain);
  for (uint32_t i = 0; i < j->nsweeps; i++)
    report_sweep_free(&j->sweep[i]);
  free(j->sweep);
  report_requests_abandon(j->requests);
  report_log_abandon(j->log);
  experiment_free(j->experiment);
  cli_device_close(j->device);
  scenario_close(j->scenario);
}

/* Runs the arms; with --requests, every request goes to the file as it ends. */
static int run_arms(struct job *j, struct base_error *e)
{
  j->device = cli_device_open(j->options, j->scenario, e);
  if (!j->device)
    return -1;
  struct experiment_options o = j->run;
  o.device = cli_device_hook(j->device);
  if (j->options->requests) {
    j->requests = report_requests_open(j->options->requests, j->scenario, e);
    if (!j->requests)
      return -1;
    o.sink = report_requests_sink(j->requests);
  }
  if (j->options->log) {
    j->log = report_log_open(j->options->log, e);
    if (!j->log)
      return -1;
    o.log = report_log_line;
    o.log_ctx = j->log;
  }
  j->experiment = experiment_run(j->scenario, &o, e);
  cli_progress_clear(&j->progress);
  if (!j->experiment)
    return -1;
  j->partial = j->experiment->partial;
  if (report_table(j->experiment, stdout, e))
    return -1;
  cli_device_print(j->device, stdout);
  return 0;
}

/* The ungated second tables, unless they were not wanted or a signal came. */
static int run_sweeps(struct job *j, struct base_error *e)
{
  if (j->options->no_sweeps || !j->scenario->nsweeps || j->partial ||
      !cli_device_simulates(j->device))
    return 0;
  j->sweep = calloc(j->scenario->nsweeps, sizeof *j->sweep);
  if (!j->sweep)
    return base_fail_memory(e);
  while (j->nsweeps < j->scenario->nsweeps && !j->partial) {
    struct report_sweep *t = &j->sweep[j->nsweeps++];
    int status = report_sweep(&j->source, j->scenario, j->nsweeps - 1, t, e);
    cli_progress_clear(&j->progress);
    if (status || report_sweep_print(t, stdout, e))
      return -1;
    j->partial = t->partial;
  }
  return 0;
}

static int run_explain(struct job *j, struct base_error *e)
{
  if (!j->options->explain_fit || j->partial)
    return 0;
  int status = report_explain(&j->source, j->experiment, &j->explain, e);
  cli_progress_clear(&j->progress);
  if (status || report_explain_print(&j->explain, stdout, e))
    return -1;
  j->partial = j->explain.partial;
  return 0;
}

/* Puts the files in place: only whole results ever stand under the names that were asked for. */
static int write_files(struct job *j, struct base_error *e)
{
  const struct report_explain *explain = j->explain.scenario ? &j->explain : NULL;
  if (cli_device_finish(j->device, j->partial, e))
    return -1;
  if (j->options->json &&
      report_json(j->experiment, j->sweep, j->nsweeps, explain, j->options->json, e))
    return -1;
  struct report_requests *requests = j->requests;
  struct report_log *log = j->log;
  j->requests = NULL;
  if (requests && report_requests_close(requests, j->experiment->partial, e))
    return -1;
  j->log = NULL;
  return log ? report_log_close(log, e) : 0;
}

int cli_run(struct cli_line *line)
{
  struct base_error e = {0};
  struct base_errors errors = {0};
  struct job j = {0};
  job_init(&j, line);
  int code;
  if (check_outputs(j.options, line->arg[0], &e))
    code = cli_fail(&e);
  else if (!(j.scenario = scenario_open(line->arg[0], &j.open, &errors)))
    code = cli_fail_all(&errors);
  else if (cli_catch_signals(&e))
    code = cli_fail(&e);
  else if (run_arms(&j, &e) || run_sweeps(&j, &e) || run_explain(&j, &e) || write_files(&j, &e)) {
    cli_progress_clear(&j.progress);
    code = cli_fail(&e);
  } else {
    code = j.partial ? BASE_INCOMPLETE : j.experiment->exit_code;
    if (j.partial)
      fprintf(stderr, "lull: stopped by a signal: the results are partial%s\n",
              j.options->record ? ", and there is no recording" : "");
  }
  base_errors_free(&errors);
  job_free(&j);
  return code;
}
