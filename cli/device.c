/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/device_cpu.h"
#include "models/recording.h"

enum kind { SIM, CPU, REPLAY, KINDS };
static const char *const kind_name[KINDS] = {"sim", "cpu", "replay"};

/* A run that was replayed. */
struct replayed {
  char what[96];
  struct replay_stats stats;
};

struct cli_device {
  const struct cli_options *o;
  int kind;
  struct experiment_device hook;
  struct experiment_fact fact; /* replay's: what was recorded */
  struct device_cpu *cpu;
  struct recorder *recorder;
  struct replay *replay;
  struct replayed under_way, *replayed; /* [nreplayed] of the runs that have ended, owned */
  size_t nreplayed;
  struct lull_device *inner; /* of the run under way; sim, cpu */
};

/* ----------------------------------------------------------------------------------- runs ---- */

/* The device that computes, without a recorder. */
static int open_inner(struct cli_device *d, const struct experiment_place *place,
                      const struct simdev_gpu *gpu, const struct lull_device_ops **ops,
                      struct base_error *e)
{
  if (d->kind == CPU)
    return device_cpu_begin(d->cpu, place, gpu, &d->inner, ops, e);
  *ops = &simdev_ops;
  d->inner = simdev_create(gpu, (int)place->config->ngpus, e);
  return d->inner ? 0 : -1;
}

static int close_inner(struct cli_device *d, int ended, struct base_error *e)
{
  int bad = 0;
  if (d->inner && d->kind == CPU) {
    bad = device_cpu_end(d->cpu, d->inner, ended, e);
    d->hook.training = device_cpu_trained(d->cpu, &d->hook.ntrainings);
  } else if (d->inner) {
    simdev_destroy(d->inner);
  }
  d->inner = NULL;
  return bad;
}

static int open_run(void *ctx, const struct experiment_place *place, const struct simdev_gpu *gpu,
                    struct lull_device **dev, const struct lull_device_ops **ops,
                    struct base_error *e)
{
  struct cli_device *d = ctx;
  const struct scenario_arm *arm = &place->scenario->arm[place->arm];
  const struct recording_run run = {.arm = arm->id,
                                    .candidate = arm->candidate[place->candidate].id,
                                    .seed = place->seed,
                                    .plan = place->plan_digest};
  if (d->replay) {
    snprintf(d->under_way.what, sizeof d->under_way.what, "%.40s%s%.24s, seed %" PRIu64, run.arm,
             run.candidate && *run.candidate ? " " : "", run.candidate ? run.candidate : "",
             run.seed);
    return replay_begin(d->replay, &run, dev, ops, e);
  }
  if (open_inner(d, place, gpu, ops, e))
    return -1;
  *dev = d->inner;
  if (!d->recorder || !recorder_begin(d->recorder, &run, d->inner, *ops, dev, ops, e))
    return 0;
  close_inner(d, 0, &(struct base_error){0});
  return -1;
}

/* Keeps what is told of a run at the end. */
static int end_replay(struct cli_device *d, struct base_error *e)
{
  if (replay_end(d->replay, e))
    return -1;
  struct replayed *more = realloc(d->replayed, (d->nreplayed + 1) * sizeof *more);
  if (!more)
    return base_fail_memory(e);
  d->replayed = more;
  replay_get_stats(d->replay, &d->under_way.stats);
  more[d->nreplayed++] = d->under_way;
  return 0;
}

static int close_run(void *ctx, struct lull_device *dev, int ended, struct base_error *e)
{
  struct cli_device *d = ctx;
  int bad = 0;
  (void)dev;
  if (ended && d->recorder)
    bad = recorder_end(d->recorder, e);
  if (ended && d->replay)
    bad = end_replay(d, e);
  struct base_error unheard = {0}; /* of a run that has failed already, or was stopped */
  int whole = ended && !bad;
  int worse = close_inner(d, whole, whole ? e : &unheard);
  return bad || (whole && worse) ? -1 : 0;
}

/* -------------------------------------------------------------------------------- opening ---- */

static int find_kind(const char *name, struct base_error *e)
{
  if (!name)
    return SIM;
  for (int k = 0; k < KINDS; k++) {
    if (!strcmp(name, kind_name[k]))
      return k;
  }
  const char *near = base_nearest(name, kind_name, KINDS);
  return base_fail(e, BASE_USAGE, "--device: there is no '%.60s'%s%s%s; it is sim, cpu or replay",
                   name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* An option that was given, but means something to another device only. */
static const char *misplaced(const struct cli_options *o, int kind)
{
  if (kind != CPU && o->weights_folder)
    return "--weights is for --device cpu";
  if (kind != CPU && (o->cores || o->threads || o->path || o->dtype))
    return "--cores, --threads, --path and --dtype are for --device cpu";
  if (kind != CPU && o->adapters)
    return "--adapters is for --device cpu";
  if (kind != REPLAY && o->recording)
    return "--recording is for --device replay";
  if (kind == REPLAY && o->record)
    return "a replay is not recorded again: leave --record out";
  if (kind == CPU && o->cores && o->threads)
    return "--cores says how many threads there are: leave --threads out";
  if (kind == CPU && !o->weights_folder)
    return "--device cpu needs --weights FOLDER; 'lull models init' makes random ones";
  if (kind == REPLAY && !o->recording)
    return "--device replay needs --recording FILE";
  if (kind != SIM && o->explain_fit)
    return "--explain-fit runs the scenario many times, changed: it is for --device sim";
  return NULL;
}

static int open_kind(struct cli_device *d, const struct scenario *s, struct base_error *e)
{
  const char *why = misplaced(d->o, d->kind);
  if (why)
    return base_fail(e, BASE_USAGE, "%s", why);
  if (d->kind == CPU) {
    d->cpu = device_cpu_open(d->o, s, d->o->arm, e);
    if (!d->cpu)
      return -1;
    d->hook.fact = device_cpu_facts(d->cpu, &d->hook.nfacts);
  }
  if (d->kind == REPLAY) {
    d->replay = replay_open(d->o->recording, s->id, e);
    if (!d->replay)
      return -1;
    d->fact = (struct experiment_fact){"of", replay_device(d->replay)};
    d->hook.fact = &d->fact;
    d->hook.nfacts = 1;
  }
  if (d->o->record) {
    d->recorder = recorder_open(d->o->record, s->id, kind_name[d->kind], e);
    if (!d->recorder)
      return -1;
  }
  return 0;
}

struct cli_device *cli_device_open(const struct cli_options *o, const struct scenario *s,
                                   struct base_error *e)
{
  struct cli_device *d = calloc(1, sizeof *d);
  int kind = find_kind(o->device, e);
  if (!d)
    base_fail_memory(e);
  if (!d || kind < 0) {
    free(d);
    return NULL;
  }
  d->o = o;
  d->kind = kind;
  d->hook = (struct experiment_device){
      .name = kind_name[kind], .ctx = d, .open = open_run, .close = close_run};
  if (open_kind(d, s, e)) {
    cli_device_close(d);
    return NULL;
  }
  return d;
}

const struct experiment_device *cli_device_hook(const struct cli_device *d)
{
  return d->kind != SIM || d->recorder ? &d->hook : NULL;
}

int cli_device_simulates(const struct cli_device *d)
{
  return !cli_device_hook(d);
}

const struct weights *cli_device_weights(const struct cli_device *d, int *ngpus)
{
  return d->cpu ? device_cpu_weights(d->cpu, ngpus) : NULL;
}

lull_time cli_device_away(const struct cli_device *d)
{
  return d->cpu ? device_cpu_away(d->cpu) : 0;
}

/* As device_cpu_print; tokens and times of the device are not recorded. */
static void print_replayed(const struct cli_device *d, FILE *out)
{
  fprintf(out, "\n%-44s %8s %8s %9s\n", "On the device", "steps", "finished", "tokens");
  for (size_t i = 0; i < d->nreplayed; i++) {
    const struct replayed *p = &d->replayed[i];
    char finished[24] = "-";
    if (p->stats.finished >= 0)
      snprintf(finished, sizeof finished, "%" PRId64, p->stats.finished);
    fprintf(out, "%-44s %8" PRIu64 " %8s %9s\n", p->what, p->stats.steps, finished, "-");
  }
}

void cli_device_print(const struct cli_device *d, FILE *out)
{
  if (d->replay)
    print_replayed(d, out);
  if (d->cpu)
    device_cpu_print(d->cpu, out);
}

int cli_device_finish(struct cli_device *d, int partial, struct base_error *e)
{
  struct recorder *r = d->recorder;
  d->recorder = NULL;
  if (r && !partial)
    return recorder_close(r, e);
  recorder_abandon(r);
  return 0;
}

void cli_device_close(struct cli_device *d)
{
  if (!d)
    return;
  recorder_abandon(d->recorder);
  replay_close(d->replay);
  free(d->replayed);
  device_cpu_close(d->cpu);
  free(d);
}
