/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/probe.h"

#include <stdlib.h>

#include "backend/cpu/cpu.h"
#include "calib/bench_engine.h"
#include "calib/measure.h"
#include "cli/cores.h"

enum { STEPS = 101, GPUS_MAX = 64 };

static const struct measure_limits largest = {
    .max_seqs = 16, .token_budget = 64, .max_context = 128};

struct cli_probe {
  struct ops *ops;
  struct bench_engine *bench;
};

/* The first GPU's processors; *n 0: any. */
static int first_cores(const struct cli_options *o, struct cli_cores *first, struct base_error *e)
{
  struct cli_cores list[GPUS_MAX] = {{0}};
  int bad = o->cores ? cli_cores_parse(o->cores, list, GPUS_MAX, 1, e) : 0;
  *first = list[0];
  for (int i = 1; i < GPUS_MAX; i++)
    free(list[i].core);
  return bad;
}

struct cli_probe *cli_probe_open(const struct cli_options *o, const struct weights *w, int ngpus,
                                 struct base_error *e)
{
  struct cli_cores cores;
  struct cli_probe *p = calloc(1, sizeof *p);
  if (!p) {
    base_fail_memory(e);
    return NULL;
  }
  if (!first_cores(o, &cores, e))
    p->ops = cpu_ops_create(w->dtype, cores.core, cores.n ? cores.n : cli_threads(o, ngpus),
                            o->path, e);
  free(cores.core);
  if (p->ops)
    p->bench = bench_engine_create(w, p->ops, largest.max_seqs, largest.token_budget * 2,
                                   largest.max_context, e);
  if (!p->bench) {
    cli_probe_close(p);
    return NULL;
  }
  return p;
}

int cli_probe_take(void *probe, int64_t *ps, struct base_error *e)
{
  const struct cli_probe *p = probe;
  return measure_probe(bench_engine_bench(p->bench), &largest, STEPS, ps, e);
}

void cli_probe_close(struct cli_probe *p)
{
  if (!p)
    return;
  bench_engine_destroy(p->bench);
  cpu_ops_destroy(p->ops);
  free(p);
}
