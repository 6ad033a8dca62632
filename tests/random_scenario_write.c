/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A random scenario as files that `lull run` takes: what reproduces a seed that fails. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/outfile.h"
#include "base/units.h"
#include "models/calibration.h"
#include "sim/policies.h"
#include "tests/random_scenario.h"

static int has_arrivals(const struct random_scenario *s, uint32_t cls)
{
  for (uint32_t i = 0; i < s->narrivals; i++)
    if (s->arrival[i].cls == cls)
      return 1;
  return 0;
}

static int has_backlog(const struct random_scenario *s, uint32_t cls)
{
  for (uint32_t i = 0; i < s->cfg.nbacklogs; i++)
    if (s->backlog[i].cls == cls)
      return 1;
  return 0;
}

/* -------------------------------------------------------------------------------- the traces ---
 */

static void write_row(FILE *to, lull_time at, const struct world_arrival *a)
{
  const struct world_prefix *p = a->prefix;
  fprintf(to, "%" PRId64 ",%u,%u,%u,%u,%u,", at, a->prompt, a->output, a->accept_q16, a->phase_q16,
          p ? p->tokens : 1);
  for (uint32_t i = 0; p && i < p->n; i++)
    fprintf(to, "%s%" PRIu64, i ? " " : "", p->id[i]);
  fputc('\n', to);
}

/* The arrivals of a class or, as many as asked for, the items of its backlogs. */
static int write_trace(const struct random_scenario *s, const char *folder, uint32_t cls,
                       uint64_t items, struct base_error *e)
{
  struct base_outfile file;
  struct world_arrival a;
  char path[1024];
  int n = snprintf(path, sizeof path, "%s/%s%s.csv", folder, s->cls[cls].name,
                   items ? "-items" : "");
  if (n >= (int)sizeof path)
    return base_fail(e, BASE_ENV, "the name of the folder '%.100s' is too long", folder);
  if (base_outfile_open(&file, path, e))
    return -1;
  fputs("arrival_ps,prompt_tokens,output_tokens,accept_q16,phase_q16,hash_tokens,hash_ids\n",
        file.f);
  for (uint32_t i = 0; !items && i < s->narrivals; i++)
    if (s->arrival[i].cls == cls)
      write_row(file.f, s->arrival[i].time, &s->arrival[i]);
  for (uint64_t i = 0; i < items; i++) {
    random_scenario_item(s, (int)cls, i, &a);
    write_row(file.f, 0, &a);
  }
  return base_outfile_commit(&file, e);
}

/* ------------------------------------------------------------------------------ the scenario ---
 */

static void write_run(const struct random_scenario *s, FILE *to)
{
  fprintf(to, "  <run window=\"%" PRId64 "ps\"", s->cfg.window);
  if (s->cfg.drain != LULL_NEVER)
    fprintf(to, " drain=\"%" PRId64 "ps\"", s->cfg.drain);
  fprintf(to, " preempt-limit=\"%u\" seeds=\"1\"/>\n", s->cfg.max_preempts);
}

static int by_tables(const struct random_scenario *s)
{
  return s->calibration && s->calibration->law == CALIBRATION_TABLES;
}

/* The path of a calibration is taken from the scenario's folder. */
static void write_machine(const struct random_scenario *s, FILE *to)
{
  if (by_tables(s))
    fprintf(to, "  <machine calibration=\"./" RANDOM_TABLES "\"/>\n");
  else if (s->calibration)
    fprintf(to, "  <machine calibration=\"%s\"/>\n", RANDOM_CALIBRATION);
  else
    fputs("  <machine><analytic/></machine>\n", to);
}

/* Settings that servers have of their own are those of the first one here. */
static void write_engine(const struct random_scenario *s, FILE *to)
{
  const struct world_server *v = &s->server[0];
  const struct cost_settings *c = &s->settings;
  fprintf(to,
          "  <engine max-seqs=\"%u\" token-budget=\"%utok\" block=\"%utok\" host-link=\"%" PRId64
          "B/s\" max-context=\"%utok\"",
          v->max_seqs, v->token_budget, v->block_tokens, s->gpu[v->gpu].copy_bytes_per_s,
          v->model_limit);
  if (!s->calibration) {
    fputs("/>\n", to);
    return;
  }
  fprintf(to,
          ">\n    <host step=\"%" PRId64 "ps\" overlapped=\"%" PRId64
          "ps\" graph-tokens=\"%utok\" launches=\"%" PRId64 "ps\"/>\n",
          c->host_step, c->host_overlapped, c->graph_tokens, c->launches);
  if (!by_tables(s))
    fprintf(to,
            "    <elementwise kernels=\"%u\" launch=\"%" PRId64 "ps\" bandwidth=\"%" PRId64
            "B/s\"/>\n",
            c->elementwise_kernels, c->elementwise_launch, c->elementwise_bytes_per_s);
  fputs("  </engine>\n", to);
}

static void write_class(const struct random_scenario *s, FILE *to, uint32_t c)
{
  const struct world_class *k = &s->cls[c];
  int arrivals = has_arrivals(s, c);
  lull_time first = 0;
  for (uint32_t i = s->narrivals; i--;)
    if (s->arrival[i].cls == c)
      first = s->arrival[i].time;
  fprintf(to, "  <class id=\"%s\" kind=\"%s\">\n    <arrivals process=\"%s\"/>\n", k->name,
          k->interactive ? "live" : "batch", arrivals ? "trace" : "none");
  if (arrivals)
    fprintf(to, "    <trace format=\"native\" href=\"%s.csv\" start=\"%" PRId64 "ps\"/>\n", k->name,
            first);
  if (has_backlog(s, c))
    fprintf(to, "    <items format=\"native\" href=\"%s-items.csv\"/>\n", k->name);
  if (k->interactive)
    fprintf(to, "    <slo ttft=\"%" PRId64 "ps\" tpot=\"%" PRId64 "ps\"/>\n", k->slo_ttft,
            k->slo_tpot);
  fputs("  </class>\n", to);
}

/* The reader rounds watermark x blocks down to blocks. */
static int64_t watermark_ppm(const struct world_server *v)
{
  return ((int64_t)v->watermark_blocks * 1000000 + v->kv_blocks - 1) / v->kv_blocks;
}

static void write_costs(const struct random_scenario *s, FILE *to, const struct world_server *v)
{
  const struct cost_analytic *a = &s->analytic[v->gpu];
  fprintf(to,
          ">\n      <analytic base=\"%" PRId64 "ps\" per-token=\"%" PRId64 "ps\" per-row=\"%" PRId64
          "ps\" per-context=\"%" PRId64 "ps\" per-pair=\"%" PRId64 "ps\"\n"
          "                kv-per-token=\"%" PRId64 "B\" layers=\"%u\"/>\n    </server>\n",
          a->base * LULL_TICK_PS, a->per_token * LULL_TICK_PS, a->per_row * LULL_TICK_PS,
          a->per_ctx * LULL_TICK_PS, a->per_pair_q16 * LULL_TICK_PS / LULL_Q16_ONE,
          v->block_bytes / v->block_tokens, v->layers);
}

static void write_server(const struct random_scenario *s, FILE *to, uint32_t i)
{
  const struct world_server *v = &s->server[i];
  char ratio[48];
  const char *gap = "";
  fprintf(to, "    <server id=\"s%u\" gpu=\"%d\" classes=\"", i, v->gpu);
  for (uint32_t c = 0; c < s->cfg.nclasses; c++)
    if (v->class_mask >> c & 1) {
      fprintf(to, "%s%s", gap, s->cls[c].name);
      gap = " ";
    }
  fprintf(to,
          "\" max-seqs=\"%u\" token-budget=\"%utok\" block=\"%utok\"\n"
          "            async-scheduling=\"%s\" prefix-caching=\"%s\" kv-blocks=\"%u\" "
          "watermark=\"%s\" host-link=\"%" PRId64 "B/s\" max-context=\"%utok\" depth=\"%u\"",
          v->max_seqs, v->token_budget, v->block_tokens, v->async ? "yes" : "no",
          v->prefix_caching ? "yes" : "no", v->kv_blocks,
          base_unit_format(BASE_RATIO, watermark_ppm(v), ratio, sizeof ratio),
          s->gpu[v->gpu].copy_bytes_per_s, v->model_limit, v->row_tokens - 1);
  if (s->calibration)
    fputs("/>\n", to);
  else
    write_costs(s, to, v);
}

static void write_job(const struct random_scenario *s, FILE *to, const struct world_job *j)
{
  char factor[48];
  int64_t ppm = s->gpu[j->gpu].contended_ps * (1000000 / LULL_TICK_PS);
  fprintf(to,
          "    <job id=\"%s\" gpu=\"%d\" micro-step=\"%" PRId64 "ps\" micro-steps=\"%" PRIu64
          "\" contention=\"%s\" paused=\"%s\"/>\n",
          j->name, j->gpu, j->micro_ticks * LULL_TICK_PS, j->micro_steps,
          base_unit_format(BASE_REAL, ppm, factor, sizeof factor), j->paused ? "yes" : "no");
}

/* A policy of the program by its name, any other by the path of its module. */
static void write_policy(const struct random_scenario *s, FILE *to, const char *modules)
{
  const struct lull_policy *p = s->cfg.policy;
  char value[64];
  size_t n;
  const struct lull_policy *const *builtin = policies_builtin(&n);
  while (n && builtin[n - 1] != p)
    n--;
  if (n)
    fprintf(to, "  <arm id=\"arm\" policy=\"%s\">\n", p->name);
  else
    fprintf(to, "  <arm id=\"arm\" policy=\"%s/%s.so\">\n", modules, p->name);
  for (uint32_t i = 0; i < p->nparams; i++)
    fprintf(to, "    <param name=\"%s\" value=\"%s\"/>\n", p->params[i].name,
            policies_format(&p->params[i], s->params[i], value, sizeof value));
}

static void write_arm(const struct random_scenario *s, FILE *to, const char *modules)
{
  write_policy(s, to, modules);
  for (uint32_t i = 0; i < s->cfg.nservers; i++)
    write_server(s, to, i);
  for (uint32_t i = 0; i < s->cfg.njobs; i++)
    write_job(s, to, &s->job[i]);
  for (uint32_t i = 0; i < s->cfg.nbacklogs; i++)
    fprintf(to, "    <backlog server=\"s%d\" class=\"%s\" below=\"%u\"/>\n", s->backlog[i].server,
            s->cls[s->backlog[i].cls].name, s->backlog[i].below);
  fputs("  </arm>\n", to);
}

static int write_scenario(const struct random_scenario *s, const char *folder, const char *modules,
                          struct base_error *e)
{
  struct base_outfile file;
  char path[1024];
  if (snprintf(path, sizeof path, "%s/scenario.xml", folder) >= (int)sizeof path)
    return base_fail(e, BASE_ENV, "the name of the folder '%.100s' is too long", folder);
  if (base_outfile_open(&file, path, e))
    return -1;
  fprintf(file.f,
          "<scenario xmlns=\"urn:lull:scenario:1\" version=\"1\" id=\"seed-%" PRIu64 "\">\n"
          "  <title>Random scenario %" PRIu64 "</title>\n",
          s->seed, s->seed);
  write_run(s, file.f);
  write_machine(s, file.f);
  write_engine(s, file.f);
  for (uint32_t c = 0; c < s->cfg.nclasses; c++)
    write_class(s, file.f, c);
  write_arm(s, file.f, modules);
  fputs("</scenario>\n", file.f);
  return base_outfile_commit(&file, e);
}

int random_scenario_write(const struct random_scenario *s, const char *folder, const char *modules,
                          uint64_t items, struct base_error *e)
{
  if (mkdir(folder, 0777) && errno != EEXIST)
    return base_fail_errno(e, "cannot make the folder '%.200s'", folder);
  for (uint32_t c = 0; c < s->cfg.nclasses; c++)
    if ((has_arrivals(s, c) && write_trace(s, folder, c, 0, e)) ||
        (has_backlog(s, c) && write_trace(s, folder, c, items, e)))
      return -1;
  char path[1024];
  if (by_tables(s) &&
      (snprintf(path, sizeof path, "%s/" RANDOM_TABLES, folder) >= (int)sizeof path ||
       calibration_write(s->calibration, path, e)))
    return -1;
  return write_scenario(s, folder, modules, e);
}
