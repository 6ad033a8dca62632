/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lull validate: a measured run, or one on a real device, simulated and compared. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/device.h"
#include "cli/outputs.h"
#include "cli/probe.h"
#include "cli/progress.h"
#include "sim/report/report.h"
#include "sim/validate/pair.h"

/* All that a validation holds, so that one place can let go of it. */
struct job {
  const struct cli_options *options;
  struct scenario_options open;
  struct experiment_options run;
  struct report_source source;
  struct scenario *scenario, alone; /* the latter as one arm runs alone: it owns nothing */
  struct measured *measured;
  struct cli_device *device;
  struct cli_probe *probe;
  struct validate_gate *gate; /* [ngates] of the command line */
  uint32_t ngates;
  struct validation validation;
  struct cli_progress progress;
};

static void job_init(struct job *j, const struct cli_line *line)
{
  const struct cli_options *o = &line->options;
  j->options = o;
  j->open = (struct scenario_options){.data_dir = o->data_dir,
                                      .override = o->set,
                                      .noverrides = o->nset,
                                      .skip_files = !o->device,
                                      .calibration = o->calibration};
  cli_progress_open(&j->progress, o->quiet);
  j->run = cli_experiment(o, &j->progress);
  j->source = (struct report_source){line->arg[0], &j->open, &j->run};
}

static void job_free(struct job *j)
{
  cli_progress_clear(&j->progress);
  validate_free(&j->validation);
  measured_close(j->measured);
  cli_probe_close(j->probe);
  cli_device_close(j->device);
  scenario_close(j->scenario);
  free(j->gate);
}

/* What can be known before the scenario is opened. */
static int check_options(struct job *j, const char *scenario, struct base_error *e)
{
  const struct cli_options *o = j->options;
  const char *const outputs[] = {o->json, o->requests}, *const inputs[] = {scenario, o->measured};
  if (!o->measured == !o->device)
    return base_fail(e, BASE_USAGE,
                     "lull validate: give --measured, the records of a measured run%s",
                     o->device ? ", or --device, not both"
                               : ", or --device cpu, to run it beside the simulation");
  if (o->device && (o->requests || o->fit))
    return base_fail(e, BASE_USAGE,
                     "lull validate: --requests and --fit are for --measured; remove them");
  if (o->device && strcmp(o->device, "cpu"))
    return base_fail(e, BASE_USAGE, "lull validate: --device is cpu, not '%.40s'", o->device);
  if (!o->device && (o->weights_folder || o->cores || o->threads || o->path || o->dtype))
    return base_fail(e, BASE_USAGE,
                     "lull validate: --weights, --cores, --threads, --path and --dtype are for "
                     "--device cpu");
  if (o->requests && report_requests_is_hdf5(o->requests))
    return base_fail(e, BASE_USAGE,
                     "lull validate: --requests writes CSV only; name '%.200s' with .csv",
                     o->requests);
  if (o->fit && strcmp(o->fit, "host"))
    return base_fail(e, BASE_USAGE, "lull validate: only host can be fitted, not '%.40s'", o->fit);
  j->gate = calloc((size_t)o->ngates * VALIDATE_FIGURES + 1, sizeof *j->gate);
  if (!j->gate)
    return base_fail_memory(e);
  for (uint32_t i = 0; i < o->ngates; i++) {
    int n = validate_gate_parse(o->gate[i], j->gate + j->ngates, e);
    if (n < 0)
      return -1;
    j->ngates += (uint32_t)n;
  }
  return cli_check_outputs(outputs, 2, inputs, 2, e);
}

static int run_pair(struct job *j, struct base_error *e)
{
  int ngpus = 1;
  j->alone = *j->scenario;
  j->alone.ngates = 0; /* gates of lull run do not speak, so no baseline runs */
  j->device = cli_device_open(j->options, &j->alone, e);
  if (!j->device)
    return -1;
  const struct weights *w = cli_device_weights(j->device, &ngpus);
  j->probe = cli_probe_open(j->options, w, ngpus, e);
  if (!j->probe)
    return -1;
  const struct validate_device d = {cli_device_hook(j->device), cli_probe_take, j->probe};
  return validate_pair(&j->source, j->scenario, &d, &j->validation, e);
}

/* The arm on both devices. */
static int validate_devices(struct job *j, struct base_error *e)
{
  struct validation *v = &j->validation;
  if (run_pair(j, e) || validate_judge(v, j->gate, j->ngates, e))
    return -1;
  validate_pair_judge(v);
  cli_progress_clear(&j->progress);
  return validate_table(v, stdout, e) || (j->options->json && validate_json(v, j->options->json, e))
             ? -1
             : 0;
}

static int validate(struct job *j, struct base_error *e)
{
  struct validation *v = &j->validation;
  if (j->options->device)
    return validate_devices(j, e);
  j->measured = measured_open(j->options->measured, e);
  if (!j->measured ||
      validate_run(&j->source, j->scenario, j->measured, j->options->measured, v, e) ||
      (j->options->fit && validate_fit_host(&j->source, v, e)) ||
      validate_judge(v, j->gate, j->ngates, e))
    return -1;
  cli_progress_clear(&j->progress);
  if (validate_table(v, stdout, e) || (j->options->json && validate_json(v, j->options->json, e)))
    return -1;
  return j->options->requests ? validate_rows(v, j->options->requests, e) : 0;
}

int cli_validate(struct cli_line *line)
{
  struct base_error e = {0};
  struct base_errors errors = {0};
  struct job j = {0};
  int code;
  job_init(&j, line);
  if (check_options(&j, line->arg[0], &e))
    code = cli_fail(&e);
  else if (!(j.scenario = scenario_open(line->arg[0], &j.open, &errors)))
    code = cli_fail_all(&errors);
  else if (cli_catch_signals(&e))
    code = cli_fail(&e);
  else if (validate(&j, &e)) {
    cli_progress_clear(&j.progress);
    code = cli_fail(&e);
  } else {
    code = j.validation.exit_code;
  }
  base_errors_free(&errors);
  job_free(&j);
  return code;
}
