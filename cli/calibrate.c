/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lull calibrate: what steps of the engine cost on this machine. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"
#include "calib/bench_engine.h"
#include "calib/measure.h"
#include "cli/commands.h"
#include "cli/cores.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/subject.h"
#include "cli/weights.h"
#include "cli/world_time.h"
#include "models/calibration.h"

enum { SEQS = 32, BUDGET = 256, CONTEXT = 512 };

/* All that is held, so that one place can let go of it. */
struct job {
  const struct cli_options *o;
  struct base_error *e;
  struct measure_limits most;
  struct weights *w;
  struct cli_cores cores;
  struct ops *ops;
  struct bench_engine *bench;
  struct measurement m;
  struct cli_progress progress;
};

static uint32_t given(uint64_t value, uint32_t otherwise)
{
  return !value ? otherwise : value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/* What can be known before the weights are read. */
static int check_options(struct job *j)
{
  const struct cli_options *o = j->o;
  if (!o->device || strcmp(o->device, "cpu"))
    return base_fail(j->e, BASE_USAGE,
                     "lull calibrate: give --device cpu, the only one that can be measured");
  if (!o->weights_folder)
    return base_fail(j->e, BASE_USAGE,
                     "lull calibrate needs --weights FOLDER; 'lull models init' makes random ones");
  if (!o->output)
    return base_fail(j->e, BASE_USAGE,
                     "lull calibrate: give --output, for example --output cpu.h5");
  if (o->cores && o->threads)
    return base_fail(j->e, BASE_USAGE,
                     "--cores says how many threads there are: leave --threads out");
  j->most = (struct measure_limits){.max_seqs = given(o->max_seqs, SEQS),
                                    .token_budget = given(o->token_budget, BUDGET),
                                    .max_context = given(o->max_context, CONTEXT),
                                    .quick = o->quick};
  const char *const output[] = {o->output};
  return cli_check_outputs(output, 1, NULL, 0, j->e) || measurement_plan(&j->m, &j->most, j->e) ? -1
                                                                                                : 0;
}

static int open_engine(struct job *j)
{
  const struct cli_options *o = j->o;
  if (o->cores && cli_cores_parse(o->cores, &j->cores, 1, 1, j->e))
    return -1;
  j->w = cli_weights_open(o->weights_folder, o->dtype, j->e);
  if (!j->w)
    return -1;
  j->ops = cpu_ops_create(j->w->dtype, j->cores.core, j->cores.n ? j->cores.n : cli_threads(o, 1),
                          o->path, j->e);
  if (!j->ops)
    return -1;
  j->bench = bench_engine_create(j->w, j->ops, j->most.max_seqs,
                                 j->most.token_budget + j->most.max_seqs, j->most.max_context,
                                 j->e);
  return j->bench ? 0 : -1;
}

static int measure(struct job *j)
{
  struct measure_options how;
  measure_options_default(&how, j->o->quick);
  how.stop = &cli_stop;
  how.progress = cli_progress_draw;
  how.progress_ctx = &j->progress;
  int bad = measurement_run(&j->m, bench_engine_bench(j->bench), &how, j->e);
  cli_progress_clear(&j->progress);
  bench_engine_destroy(j->bench); /* its memory is needed */
  j->bench = NULL;
  if (bad || cli_world_time(j->o, &j->most, &j->m.world_ps, j->e))
    return -1;
  return cli_stop ? base_fail(j->e, BASE_INCOMPLETE, "stopped by a signal; nothing is written") : 0;
}

static int write_calibration(struct job *j)
{
  struct cli_subject s;
  int threads = j->cores.n ? j->cores.n : cli_threads(j->o, 1);
  FILE *talk = j->o->quiet ? NULL : stderr;
  if (cli_subject_of(&s, j->w, j->o->weights_folder, j->ops->path, threads, j->e))
    return -1;
  struct calibration *c = measurement_fit(&j->m, &s.subject, talk, j->e);
  int bad = c ? calibration_write(c, j->o->output, j->e) : -1;
  if (!bad && talk)
    fprintf(talk, "  written to %s\n", j->o->output);
  calibration_free(c);
  return bad;
}

int cli_calibrate(struct cli_line *line)
{
  struct base_error e = {0};
  struct job j = {.o = &line->options, .e = &e};
  cli_progress_open(&j.progress, j.o->quiet);
  int bad = check_options(&j) || cli_catch_signals(&e) || open_engine(&j) || measure(&j) ||
            write_calibration(&j);
  cli_progress_clear(&j.progress);
  measurement_free(&j.m);
  bench_engine_destroy(j.bench);
  cpu_ops_destroy(j.ops);
  weights_free(j.w);
  free(j.cores.core);
  return bad ? cli_fail(&e) : BASE_OK;
}
