/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A random scenario as text: what a person needs who looks into a seed that fails. */
#include <inttypes.h>

#include "tests/random_scenario.h"

enum { ITEMS_SHOWN = 8 };

static void print_time(FILE *to, const char *name, lull_time t)
{
  if (t == LULL_NEVER)
    fprintf(to, " %s='never'", name);
  else
    fprintf(to, " %s='%" PRId64 "ps'", name, t);
}

static void print_length(FILE *to, const struct world_arrival *a)
{
  fprintf(to, " prompt='%utok' output='%utok' accept-q16='%u' phase-q16='%u'", a->prompt, a->output,
          a->accept_q16, a->phase_q16);
}

static void print_classes(const struct random_scenario *s, FILE *to)
{
  for (uint32_t c = 0; c < s->cfg.nclasses; c++) {
    fprintf(to, "  <class index='%u' name='%s' interactive='%d'", c, s->cls[c].name,
            s->cls[c].interactive);
    print_time(to, "slo-ttft", s->cls[c].slo_ttft);
    print_time(to, "slo-tpot", s->cls[c].slo_tpot);
    fputs("/>\n", to);
  }
}

static void print_cost(const struct random_scenario *s, FILE *to, int gpu)
{
  const struct cost_analytic *a = &s->analytic[gpu];
  const struct cost_settings *c = &s->settings[gpu];
  if (!s->calibrated) {
    fprintf(to,
            "    <analytic base='%" PRId64 "' per-token='%" PRId64 "' per-row='%" PRId64
            "' per-ctx='%" PRId64 "' per-pair-q16='%" PRId64 "'/> <!-- ticks -->\n",
            a->base, a->per_token, a->per_row, a->per_ctx, a->per_pair_q16);
    return;
  }
  fprintf(to,
          "    <calibrated by='h200-sxm-qwen3-8b-fp8' max-rows='%u' max-tokens='%u' kernels='%u' "
          "bandwidth='%" PRId64 "B/s'",
          c->max_rows, c->max_tokens, c->elementwise_kernels, c->elementwise_bytes_per_s);
  print_time(to, "host", c->host_step);
  print_time(to, "launch", c->elementwise_launch);
  fputs("/>\n", to);
}

static void print_servers(const struct random_scenario *s, FILE *to)
{
  for (uint32_t i = 0; i < s->cfg.nservers; i++) {
    const struct world_server *v = &s->server[i];
    fprintf(to,
            "  <server index='%u' gpu='%d' class-mask='%u' max-seqs='%u' token-budget='%utok' "
            "row-tokens='%utok'\n    block='%utok' kv-blocks='%u' watermark-blocks='%u' "
            "layers='%u' model-limit='%utok' block-bytes='%" PRId64 "B' host-link='%" PRId64
            "B/s'>\n",
            i, v->gpu, v->class_mask, v->max_seqs, v->token_budget, v->row_tokens, v->block_tokens,
            v->kv_blocks, v->watermark_blocks, v->layers, v->model_limit, v->block_bytes,
            s->gpu[v->gpu].copy_bytes_per_s);
    print_cost(s, to, v->gpu);
    fputs("  </server>\n", to);
  }
}

static void print_backlogs(const struct random_scenario *s, FILE *to)
{
  for (uint32_t i = 0; i < s->cfg.nbacklogs; i++) {
    const struct world_backlog *b = &s->backlog[i];
    fprintf(to, "  <backlog index='%u' class='%u' server='%d' below='%u'>\n", i, b->cls, b->server,
            b->below);
    for (uint64_t k = 0; k < ITEMS_SHOWN; k++) {
      struct world_arrival a;
      random_scenario_item(s, b->cls, k, &a);
      fprintf(to, "    <item index='%" PRIu64 "'", k);
      print_length(to, &a);
      fputs("/>\n", to);
    }
    fputs("    <!-- and so on -->\n  </backlog>\n", to);
  }
}

static void print_policy(const struct random_scenario *s, FILE *to)
{
  const struct lull_policy *p = s->cfg.policy;
  fprintf(to, "  <policy name='%s'>\n", p->name);
  for (uint32_t i = 0; i < p->nparams; i++)
    fprintf(to, "    <param name='%s' carried='%" PRId64 "'/>\n", p->params[i].name, s->params[i]);
  fputs("  </policy>\n", to);
}

void random_scenario_print(const struct random_scenario *s, FILE *to)
{
  fprintf(to, "<random-scenario seed='%" PRIu64 "' max-preempts='%u'", s->seed,
          s->cfg.max_preempts);
  print_time(to, "window", s->cfg.window);
  print_time(to, "drain", s->cfg.drain);
  fputs(">\n", to);
  print_classes(s, to);
  print_servers(s, to);
  print_policy(s, to);
  print_backlogs(s, to);
  for (uint32_t i = 0; i < s->narrivals; i++) {
    const struct world_arrival *a = &s->arrival[i];
    fprintf(to, "  <arrival row='%u' class='%u'", i, a->cls);
    print_time(to, "at", a->time);
    print_length(to, a);
    fputs("/>\n", to);
  }
  fputs("</random-scenario>\n", to);
}
