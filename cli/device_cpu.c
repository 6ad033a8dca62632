/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/device_cpu.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/device.h"
#include "backend/store.h"
#include "cli/cores.h"
#include "cli/device_train.h"
#include "cli/lesson.h"
#include "cli/weights.h"
#include "models/calibration.h"

enum { GPUS_MAX = LULL_SERVERS, FACTS = 4, HOST_POOL_FACTOR = 4 };

/* What is told of a run at the end. */
struct told {
  char what[96];
  struct device_stats stats;
};

struct device_cpu {
  struct weights *w;
  char digest[33], threads[64];
  int ngpus, nthreads; /* threads of the first */
  struct cli_cores cores[GPUS_MAX];
  struct ops *ops[GPUS_MAX];
  struct engine *engine[GPUS_MAX]; /* of the run under way */
  struct experiment_fact fact[FACTS];
  struct told *told; /* [ntold] */
  size_t ntold;
  char what[96]; /* the run under way */
  const struct cli_options *o;
  struct device_train *train[GPUS_MAX];          /* of the run under way, by GPU; NULL: no job */
  struct experiment_training training[GPUS_MAX]; /* names of its jobs, by GPU */
  struct experiment_training *trained;           /* [ntrained] of the runs that have ended */
  uint32_t ntrained;
};

/* ---------------------------------------------------------------- what the engine has not ---- */

static int refuse(const struct scenario *s, const struct scenario_arm *arm, const char *server,
                  const char *what, struct base_error *e)
{
  return base_fail_at(e, BASE_INPUT, s->file, 0,
                      "arm '%.40s', server %.40s has %s, which --device cpu has not; leave it out, "
                      "or simulate",
                      arm->id, server, what);
}

static int check_server(const struct device_cpu *m, const struct scenario *s,
                        const struct scenario_arm *arm, const struct scenario_server *v,
                        struct base_error *e)
{
  const struct scenario_engine *g = &v->engine;
  if (g->draft_depth)
    return refuse(s, arm, v->id, "speculation", e);
  if (g->prefix_caching)
    return refuse(s, arm, v->id, "prefix caching", e);
  if (g->model_limit > m->w->config.max_position)
    return base_fail_at(e, BASE_INPUT, s->file, 0,
                        "arm '%.40s', server %.40s: max-context is %" PRIu32
                        " tokens, but the model takes %" PRIu32,
                        arm->id, v->id, g->model_limit, m->w->config.max_position);
  return 0;
}

/* Problems are bytes and an end. */
static int check_jobs(const struct device_cpu *m, const struct scenario *s,
                      const struct scenario_arm *arm, struct base_error *e)
{
  if (!arm->njobs || m->w->config.vocab >= LESSON_VOCAB)
    return 0;
  return base_fail_at(e, BASE_INPUT, s->file, 0,
                      "arm '%.40s', job '%.40s': a vocabulary of %" PRIu32
                      " is too small; what is trained on takes %d tokens",
                      arm->id, arm->job[0].name, m->w->config.vocab, LESSON_VOCAB);
}

/* Of the arms that will run. */
static int check_arms(struct device_cpu *m, const struct scenario *s, const char *only,
                      struct base_error *e)
{
  for (uint32_t a = 0; a < s->narms; a++) {
    const struct scenario_arm *arm = &s->arm[a];
    if (!experiment_runs(s, only, a))
      continue;
    if (check_jobs(m, s, arm, e))
      return -1;
    if ((int)arm->ngpus > m->ngpus)
      m->ngpus = (int)arm->ngpus;
    for (uint32_t c = 0; c < arm->ncandidates; c++) {
      for (uint32_t i = 0; i < arm->candidate[c].nservers; i++) {
        if (check_server(m, s, arm, &arm->candidate[c].server[i], e))
          return -1;
      }
    }
  }
  return 0;
}

/* -------------------------------------------------------------------------------- opening ---- */

static int open_ops(struct device_cpu *m, const struct cli_options *o, struct base_error *e)
{
  if (o->threads > CLI_CORES_MAX)
    return base_fail(e, BASE_USAGE, "--threads: %" PRIu64 " are more than %d", o->threads,
                     CLI_CORES_MAX);
  for (int g = 0; g < m->ngpus; g++) {
    const struct cli_cores *c = &m->cores[g];
    m->ops[g] = cpu_ops_create(m->w->dtype, c->core, c->n ? c->n : cli_threads(o, m->ngpus),
                               o->path, e);
    if (!m->ops[g])
      return -1;
  }
  m->nthreads = m->cores[0].n ? m->cores[0].n : cli_threads(o, m->ngpus);
  snprintf(m->threads, sizeof m->threads, "%d%s", m->nthreads, m->cores[0].n ? ", bound" : "");
  return 0;
}

/* Costs that were measured on another kind of GPU tell nothing of this one. */
static int check_gpu(const struct device_cpu *m, const struct scenario *s, struct base_error *e)
{
  const struct calibration *c = s->calib;
  char gpu[64];
  cli_cores_name(m->ops[0]->path, m->nthreads, gpu, sizeof gpu);
  if (!c || !c->host_step_ps || !strcmp(c->gpu, gpu))
    return 0;
  return base_fail(e, BASE_INPUT,
                   "the calibration was made on '%s', but the run would be on '%s' (kernels, "
                   "threads); calibrate again, or give --threads, --cores or --path as then",
                   c->gpu, gpu);
}

static int open_all(struct device_cpu *m, const struct cli_options *o, const struct scenario *s,
                    const char *only, struct base_error *e)
{
  m->w = cli_weights_open(o->weights_folder, o->dtype, e);
  if (!m->w || check_arms(m, s, only, e) ||
      (o->cores && cli_cores_parse(o->cores, m->cores, GPUS_MAX, m->ngpus, e)) ||
      open_ops(m, o, e) || check_gpu(m, s, e) || cli_weights_digest(m->w, m->digest, e))
    return -1;
  if (o->adapters && store_make_folder(o->adapters, e))
    return -1;
  m->fact[0] = (struct experiment_fact){"kernels", m->ops[0]->path};
  m->fact[1] = (struct experiment_fact){"dtype",
                                        m->w->dtype == TENSOR_BF16 ? "bfloat16" : "float32"};
  m->fact[2] = (struct experiment_fact){"weights", m->digest};
  m->fact[3] = (struct experiment_fact){"threads", m->threads};
  return 0;
}

struct device_cpu *device_cpu_open(const struct cli_options *o, const struct scenario *s,
                                   const char *only, struct base_error *e)
{
  struct device_cpu *m = calloc(1, sizeof *m);
  if (!m) {
    base_fail_memory(e);
    return NULL;
  }
  m->ngpus = 1;
  m->o = o;
  if (open_all(m, o, s, only, e)) {
    device_cpu_close(m);
    return NULL;
  }
  return m;
}

const struct weights *device_cpu_weights(const struct device_cpu *m, int *ngpus)
{
  *ngpus = m->ngpus;
  return m->w;
}

const struct experiment_fact *device_cpu_facts(const struct device_cpu *m, uint32_t *n)
{
  *n = FACTS;
  return m->fact;
}

void device_cpu_close(struct device_cpu *m)
{
  if (!m)
    return;
  for (int g = 0; g < GPUS_MAX; g++) {
    if (m->ops[g])
      cpu_ops_destroy(m->ops[g]);
    free(m->cores[g].core);
  }
  weights_free(m->w);
  free(m->told);
  free(m->trained);
  free(m);
}

/* ----------------------------------------------------------------------------------- runs ---- */

static void close_engines(struct device_cpu *m)
{
  for (int g = 0; g < m->ngpus; g++) {
    device_train_close(m->train[g]);
    m->train[g] = NULL;
    engine_destroy(m->engine[g]);
    m->engine[g] = NULL;
  }
}

/* The trainers of the arm's jobs. */
static int open_jobs(struct device_cpu *m, const struct experiment_place *place,
                     struct base_error *e)
{
  const struct scenario_arm *arm = &place->scenario->arm[place->arm];
  for (uint32_t i = 0; i < arm->njobs; i++) {
    int g = arm->job[i].gpu;
    const struct cli_cores *c = &m->cores[g];
    const struct device_train_place p = {.w = m->w,
                                         .core = c->core,
                                         .threads = c->n ? c->n : cli_threads(m->o, m->ngpus),
                                         .path = m->o->path,
                                         .seed = place->seed};
    m->training[g] = (struct experiment_training){.arm = arm->id,
                                                  .candidate = arm->candidate[place->candidate].id,
                                                  .job = arm->job[i].name,
                                                  .seed = place->seed};
    m->train[g] = device_train_open(&p, &arm->training[i], e);
    if (!m->train[g])
      return -1;
  }
  return 0;
}

static int bad_memory(const struct world_server *v, int64_t all, int64_t weights, int64_t training,
                      int64_t pages, struct base_error *e)
{
  char job[64] = "";
  if (training)
    snprintf(job, sizeof job, ", training %" PRId64, training);
  return base_fail(e, BASE_INPUT,
                   "GPU %d has %" PRId64 " bytes of memory; the weights take %" PRId64
                   "%s, and %" PRIu32 " KV blocks %" PRId64,
                   v->gpu, all, weights, job, v->kv_blocks, pages);
}

/* Rows are never cut by the token budget, so a step may hold all of them where it is smaller. */
static int open_engine(struct device_cpu *m, const struct world_server *v,
                       const struct simdev_gpu *sim, struct device_gpu *g, struct base_error *e)
{
  const struct config *c = &m->w->config;
  const struct engine_options o = {
      .block_tokens = v->block_tokens,
      .pages = v->kv_blocks,
      .host_pages = v->kv_blocks < INT32_MAX / HOST_POOL_FACTOR ? HOST_POOL_FACTOR * v->kv_blocks
                                                                : INT32_MAX,
      .max_tokens = v->token_budget > v->max_seqs ? v->token_budget : v->max_seqs,
      .max_seqs = v->max_seqs};
  int64_t weights = config_parameters(c) * (int64_t)tensor_dtype_bytes(m->w->dtype);
  int64_t page = config_kv_bytes(c, tensor_dtype_bytes(m->w->dtype)) * v->block_tokens;
  const struct device_train *job = m->train[v->gpu];
  int64_t training = job ? device_train_bytes(job) : 0;
  *g = (struct device_gpu){.vocab = c->vocab,
                           .max_seqs = v->max_seqs,
                           .memory_bytes = sim->memory_bytes,
                           .held_bytes = weights + training,
                           .trainer = job ? device_train_hook(job) : NULL};
  if (g->held_bytes > g->memory_bytes || page * v->kv_blocks > g->memory_bytes - g->held_bytes)
    return bad_memory(v, g->memory_bytes, weights, training, page * v->kv_blocks, e);
  g->engine = m->engine[v->gpu] = engine_create(m->w, m->ops[v->gpu], &o, e);
  return g->engine ? 0 : -1;
}

int device_cpu_begin(struct device_cpu *m, const struct experiment_place *place,
                     const struct simdev_gpu *gpu, struct lull_device **dev,
                     const struct lull_device_ops **ops, struct base_error *e)
{
  const struct world_config *cfg = place->config;
  const struct scenario_arm *arm = &place->scenario->arm[place->arm];
  const char *candidate = arm->candidate[place->candidate].id;
  struct device_gpu g[GPUS_MAX] = {{0}};
  const struct device_options o = {.seed = place->seed, .how = {.top_p = 1}};
  int bad = open_jobs(m, place, e);
  for (uint32_t i = 0; i < cfg->nservers && !bad; i++) {
    int at = cfg->server[i].gpu;
    bad = open_engine(m, &cfg->server[i], &gpu[at], &g[at], e);
  }
  if (bad) {
    close_engines(m);
    return -1;
  }
  snprintf(m->what, sizeof m->what, "%.40s%s%.24s, seed %" PRIu64, arm->id,
           candidate && *candidate ? " " : "", candidate ? candidate : "", place->seed);
  *dev = device_create(g, (int)cfg->ngpus, &o, e);
  *ops = &device_ops;
  if (!*dev)
    close_engines(m);
  return *dev ? 0 : -1;
}

/* What the jobs of the run learnt; of one that was not ended, only how far they came. */
static int finish_jobs(struct device_cpu *m, int ended, struct base_error *e)
{
  for (int g = 0; g < m->ngpus; g++) {
    if (!m->train[g])
      continue;
    struct experiment_training *more = realloc(m->trained, (m->ntrained + 1) * sizeof *more);
    if (!more)
      return base_fail_memory(e);
    m->trained = more;
    more[m->ntrained] = m->training[g];
    if (device_train_finish(m->train[g], ended, &more[m->ntrained], e))
      return -1;
    if (ended && m->o->adapters &&
        device_train_write(m->train[g], m->o->adapters, &more[m->ntrained], e))
      return -1;
    m->ntrained++;
  }
  return 0;
}

int device_cpu_end(struct device_cpu *m, struct lull_device *dev, int ended, struct base_error *e)
{
  struct told *more = realloc(m->told, (m->ntold + 1) * sizeof *more);
  if (more) { /* else this run is missing in what is printed */
    m->told = more;
    memcpy(more[m->ntold].what, m->what, sizeof m->what);
    device_get_stats(dev, &more[m->ntold++].stats);
  }
  device_destroy(dev);
  int bad = finish_jobs(m, ended, e);
  close_engines(m);
  return bad;
}

const struct experiment_training *device_cpu_trained(const struct device_cpu *m, uint32_t *n)
{
  *n = m->ntrained;
  return m->trained;
}

lull_time device_cpu_away(const struct device_cpu *m)
{
  return m->ntold ? m->told[m->ntold - 1].stats.away : 0;
}

void device_cpu_print(const struct device_cpu *m, FILE *out)
{
  fprintf(out, "\n%-44s %8s %8s %9s %10s %9s %16s\n", "On the device", "steps", "finished",
          "tokens", "late, ms", "max, ms", "digest of tokens");
  for (size_t i = 0; i < m->ntold; i++) {
    const struct device_stats *s = &m->told[i].stats;
    double mean = s->told ? (double)s->late_sum / (double)s->told * 1e-9 : 0;
    fprintf(out, "%-44s %8" PRIu64 " %8" PRIu64 " %9" PRIu64 " %10.3f %9.3f %016" PRIx64 "\n",
            m->told[i].what, s->steps, s->finished, s->tokens, mean, (double)s->late_max * 1e-9,
            s->digest);
  }
  device_train_print(m->trained, m->ntrained, out);
}
