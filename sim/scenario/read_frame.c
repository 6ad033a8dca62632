/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The frame: scenario, run, machine, engine. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/calibration.h"
#include "models/describe.h"
#include "sim/scenario/reader.h"

/* One seed: digits only, below 2^64. */
static int parse_seed(const char *text, uint64_t *seed)
{
  uint64_t v = 0;
  for (const char *p = text; *p; p++)
    if (*p < '0' || *p > '9' || __builtin_mul_overflow(v, 10, &v) ||
        __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
      return -1;
  *seed = v;
  return *text ? 0 : -1;
}

static void read_seeds(struct reader *r, const xmlNode *node, const char *text)
{
  struct scenario *s = &r->whole->s;
  char word[LIMIT_SEEDS][WORD_SIZE];
  int n = split_words(text, word, LIMIT_SEEDS);
  s->seed = n > 0 ? arena_alloc(r->arena, (size_t)n, sizeof *s->seed) : NULL;
  if (n <= 0)
    node_fail(r, node, "<run> seeds: write 1 to %d whole numbers, for example \"17 29 43\"",
              LIMIT_SEEDS);
  for (int i = 0; i < n && s->seed; i++) {
    if (parse_seed(word[i], &s->seed[i]))
      node_fail(r, node, "<run> seeds: '%s' is not a whole number below 2^64", word[i]);
    for (int j = 0; j < i; j++)
      if (s->seed[i] == s->seed[j])
        node_fail(r, node, "<run> seeds: '%s' stands twice; runs of one seed are the same run",
                  word[i]);
  }
  s->nseeds = n > 0 && s->seed ? (uint32_t)n : 0;
}

static void read_run(struct reader *r, const xmlNode *node)
{
  struct raw_run raw = {0};
  if (!node)
    return;
  int bad = attributes_read(r, node, &raw);
  if (raw.seeds)
    read_seeds(r, node, raw.seeds);
  if (bad)
    return;
  r->whole->s.window = raw.window;
  r->whole->s.drain = raw.drain;
  r->whole->s.max_preempts = (uint32_t)raw.preempt_limit;
  if (raw.drain != LULL_NEVER && raw.window > INT64_C(106) * 86400 * 1000000000000 - raw.drain)
    node_fail(r, node, "<run> window and drain together are longer than 106 days; shorten them");
}

/* A name that the scenario states must be the calibration's. */
static const char *same_name(struct reader *r, const xmlNode *node, const char *what,
                             const char *stated, const char *measured)
{
  if (stated && strcmp(stated, measured))
    node_fail(r, node, "<machine> %s: the calibration was made for '%s', not for '%.60s'", what,
              measured, stated);
  return arena_text(r->arena, measured);
}

/* A path is taken from the scenario's folder, as that of a policy, if it stands there; a name stays
 * one. */
static const char *calibration_path(struct reader *r, const char *name)
{
  int by_hand = r->options->calibration != NULL;
  int from_folder = !by_hand && describe_is_path(name, ".h5") && name[0] != '/' && r->folder &&
                    r->folder[0];
  return from_folder ? arena_format(r->arena, "%s/%s", r->folder, name) : name;
}

static struct calibration *open_calibration(struct reader *r, const char *name,
                                            struct base_error *e)
{
  const char *path = calibration_path(r, name);
  if (!path)
    return base_fail_memory(e), NULL;
  if (describe_is_path(name, ".h5") && access(path, F_OK) && errno == ENOENT) {
    base_fail(e, BASE_INPUT,
              "there is no calibration '%.300s' (a path is taken from %s folder); "
              "'lull import' makes one of tables, 'lull calibrate' one of this machine",
              path, r->options->calibration ? "the current" : "the scenario's");
    return NULL;
  }
  return calibration_open(path, e);
}

static void read_calibration(struct reader *r, const xmlNode *node, const struct raw_machine *raw)
{
  struct scenario *s = &r->whole->s;
  struct base_error e = {0};
  r->whole->calib = open_calibration(r, raw->calibration, &e);
  if (!r->whole->calib) {
    node_fail_with(r, node, "calibration", &e);
    return;
  }
  s->calib = r->whole->calib;
  s->calibration = raw->calibration;
  s->gpu = same_name(r, node, "gpu", raw->gpu, s->calib->gpu);
  s->model = same_name(r, node, "model", raw->model, s->calib->model);
}

static void read_machine(struct reader *r, const xmlNode *node)
{
  struct scenario *s = &r->whole->s;
  struct raw_machine raw = {0};
  if (!node)
    return;
  const xmlNode *analytic = child_first(node, "analytic");
  int bad = attributes_read(r, node, &raw);
  s->calibration = "";
  s->gpu = raw.gpu ? raw.gpu : "analytic";
  s->model = raw.model ? raw.model : "analytic";
  if (r->options->calibration) {
    raw.calibration = r->options->calibration;
    analytic = NULL;
    if (s->override)
      s->override[s->noverrides++] = (struct scenario_override){
          "costs (--calibration)", arena_text(r->arena, raw.calibration)};
  }
  if (!raw.calibration == !analytic)
    node_fail(r, node, "<machine> needs either a calibration or an <analytic> child%s",
              analytic ? ", not both" : "");
  else if (analytic)
    r->is_analytic = !attributes_read(r, analytic, &r->analytic);
  else if (!bad)
    read_calibration(r, node, &raw);
}

/* Engine parts that only a calibration gives a meaning; one by tables holds the element-wise
 * kernels itself, and one of whole steps the host's time. */
static void check_parts(struct reader *r, const xmlNode *engine)
{
  static const char *const parts[] = {"host", "elementwise"};
  int tables = r->whole->calib && r->whole->calib->law == CALIBRATION_TABLES;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    const xmlNode *c = child_first(engine, parts[i]);
    if (i == 1 && tables) {
      if (c)
        node_fail(r, c,
                  "<%s> has no meaning with this calibration, which was measured with all "
                  "kernels of the model; remove it",
                  parts[i]);
    } else if (r->is_analytic && c)
      node_fail(r, c, "<%s> has no meaning with an analytic cost model; remove it", parts[i]);
    else if (r->whole->calib && !c && !r->whole->calib->host_step_ps)
      node_fail(r, engine,
                "<engine> needs the child <%s>: the calibration does not hold its values",
                parts[i]);
  }
}

/* A beta distribution of this mean and spread exists only if its variance is below m (1 - m). */
static void check_acceptance(struct reader *r, const xmlNode *node)
{
  int64_t m = r->engine.accept, sd = r->engine.accept_sd;
  if (sd > 0 && sd * sd >= m * (1000000 - m))
    node_fail(r, node,
              "<speculation> accept-sd is too large for this accept: no beta distribution "
              "has both; make it smaller");
}

static void read_engine(struct reader *r, const xmlNode *node)
{
  static const char *const parts[] = {"host", "elementwise"};
  struct raw_engine *raw = &r->engine;
  if (!node)
    return;
  raw->host_step = r->whole->calib ? r->whole->calib->host_step_ps : 0;
  raw->host_overlapped = raw->graph_tokens = raw->launches = 0;
  raw->kernels = raw->launch = raw->bandwidth = 0;
  raw->depth = raw->accept = raw->accept_sd = raw->draft_layers = raw->draft_head = 0;
  attributes_read(r, node, raw);
  engines_note(r, node);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (child_first(node, parts[i]))
      attributes_read(r, child_first(node, parts[i]), raw);
  const xmlNode *speculation = child_first(node, "speculation");
  if (speculation && !attributes_read(r, speculation, raw))
    check_acceptance(r, speculation);
  check_parts(r, node);
  if (raw->kv_blocks != FIELD_UNSET && raw->memory_fraction != FIELD_UNSET)
    node_fail(r, node, "<engine> has both kv-blocks and memory-fraction; keep one");
}

void read_frame(struct reader *r, const xmlNode *root)
{
  struct scenario *s = &r->whole->s;
  struct raw_scenario raw = {0};
  attributes_read(r, root, &raw);
  if (raw.version && strcmp(raw.version, "1"))
    node_fail(r, root, "<scenario> version: this program reads version 1, not '%.40s'",
              raw.version);
  s->file = r->file;
  s->id = raw.id ? raw.id : "";
  s->campaign = raw.campaign ? raw.campaign : "";
  s->title = node_text(r, child_first(root, "title"));
  s->note = node_text(r, child_first(root, "note"));
  read_run(r, child_first(root, "run"));
  read_machine(r, child_first(root, "machine"));
  read_engine(r, child_first(root, "engine"));
}
