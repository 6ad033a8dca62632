/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lull import: published kernel tables to a calibration file. */
#include <string.h>

#include "calib/calib.h"
#include "cli/commands.h"
#include "models/gpu.h"
#include "models/llm.h"

/* Every option of an import says what is imported, so none has a default. */
static int require_options(const struct cli_options *o, struct base_error *e)
{
  static const char *const sources[] = {"aiconfigurator"};
  const struct {
    const char *value, *name, *example;
  } needed[] = {{o->from, "from", "aiconfigurator"},
                {o->model, "model", "qwen3-8b"},
                {o->gpu, "gpu", "h200-sxm"},
                {o->weights, "weights", "fp8"},
                {o->kv, "kv", "fp8"},
                {o->output, "output", "calibration.h5"}};
  for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
    if (!needed[i].value)
      return base_fail(e, BASE_USAGE, "lull import: give --%s, for example --%s %s", needed[i].name,
                       needed[i].name, needed[i].example);
  if (!strcmp(o->from, sources[0]))
    return 0;
  const char *near = base_nearest(o->from, sources, 1);
  return base_fail(e, BASE_USAGE, "lull import: unknown source '%s'; %s '%s'", o->from,
                   near ? "did you mean" : "known is", sources[0]);
}

int cli_import(struct cli_line *line)
{
  const struct cli_options *o = &line->options;
  struct base_error e = {0};
  struct llm model;
  struct gpu gpu;
  if (require_options(o, &e) || llm_open(o->model, &model, &e) || gpu_open(o->gpu, &gpu, &e) ||
      calib_import_aiconfigurator(line->arg[0], line->arg[1], line->arg[2], &model, &gpu,
                                  o->weights, o->kv, o->output, o->quiet ? NULL : stderr, &e))
    return cli_fail(&e);
  return BASE_OK;
}
