/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Files of rows, RFC 4180: the requests, the decision log. */
#include <stdlib.h>
#include <string.h>

#include "base/outfile.h"
#include "sim/report/requests.h"

/* A file of rows, of whatever kind. */
struct report_log {
  struct base_outfile file;
};

static struct report_log *open_file(const char *path, const char *header, struct base_error *e)
{
  struct report_log *f = calloc(1, sizeof *f);

  if (!f) {
    base_fail_memory(e);
    return NULL;
  }
  if (base_outfile_open(&f->file, path, e)) {
    free(f);
    return NULL;
  }
  fprintf(f->file.f, "%s\r\n", header);
  return f;
}

struct report_log *report_log_open(const char *path, struct base_error *e)
{
  return open_file(path, "arm,candidate,seed,time_ps,server,what,a,b,text", e);
}

/* A text: quoted where RFC 4180 asks for it, quotes doubled. */
static void quoted(FILE *out, const char *text)
{
  if (!strpbrk(text, ",\"\r\n")) {
    fputs(text, out);
    return;
  }
  fputc('"', out);
  for (; *text; text++) {
    if (*text == '"')
      fputc('"', out);
    fputc(*text, out);
  }
  fputc('"', out);
}

static void field(FILE *out, const char *text)
{
  quoted(out, text ? text : "");
  fputc(',', out);
}

/* A moment in ps; empty if it never came. */
static void moment(FILE *out, lull_time t)
{
  if (t != LULL_NEVER)
    fprintf(out, "%lld", (long long)t);
  fputc(',', out);
}

/* The id of the server that a request was routed to; empty: none. */
static const char *server_name(const struct scenario_candidate *c, int server)
{
  return server >= 0 && (uint32_t)server < c->nservers ? c->server[server].id : "";
}

/* One request. The SLO column is empty for a class that has none. */
static void row(FILE *out, const struct scenario_candidate *c, const struct world_config *cfg,
                const struct world_record *r, uint64_t id)
{
  fprintf(out, "%llu,", (unsigned long long)id);
  field(out, cfg->cls[r->cls].name);
  field(out, server_name(c, r->server));
  moment(out, r->arrival);
  moment(out, r->first_chunk);
  moment(out, r->first_token);
  moment(out, r->last_token);
  fprintf(out, "%u,%u,%u,%u,%llu,%llu,%s,%s\r\n", r->prompt, r->output, r->generated, r->preempts,
          (unsigned long long)r->discarded, (unsigned long long)r->cached, requests_fate[r->fate],
          !cfg->cls[r->cls].interactive ? ""
          : r->met                      ? "1"
                                        : "0");
}

/* Which run a row belongs to. */
static void run_fields(FILE *out, const struct scenario *s, int arm, int candidate, uint64_t seed)
{
  field(out, s->arm[arm].id);
  field(out, s->arm[arm].candidate[candidate].id);
  fprintf(out, "%llu,", (unsigned long long)seed);
}

void report_log_line(void *ctx, const struct scenario *s, int arm, int candidate, uint64_t seed,
                     const struct world_log_line *line)
{
  static const char *const what[] = {[WORLD_LOG_EVENT] = "event",   [WORLD_LOG_PLAN] = "plan",
                                     [WORLD_LOG_CHUNK] = "chunk",   [WORLD_LOG_PREEMPT] = "preempt",
                                     [WORLD_LOG_RESUME] = "resume", [WORLD_LOG_PLANNED] = "planned",
                                     [WORLD_LOG_ROUTE] = "route",   [WORLD_LOG_REJECT] = "reject",
                                     [WORLD_LOG_ABORT] = "abort",   [WORLD_LOG_TIMER] = "timer",
                                     [WORLD_LOG_FORCED] = "forced", [WORLD_LOG_TEXT] = "text",
                                     [WORLD_LOG_TRAIN] = "train"};
  struct report_log *f = ctx;
  FILE *out = f->file.f;

  run_fields(out, s, arm, candidate, seed);
  fprintf(out, "%lld,", (long long)line->time);
  field(out, server_name(&s->arm[arm].candidate[candidate], line->server));
  fprintf(out, "%s,%lld,%lld,", what[line->kind], (long long)line->a, (long long)line->b);
  quoted(out, line->text ? line->text : "");
  fputs("\r\n", out);
}

int report_log_close(struct report_log *f, struct base_error *e)
{
  int rc = base_outfile_commit(&f->file, e);

  free(f);
  return rc;
}

void report_log_abandon(struct report_log *f)
{
  if (!f)
    return;
  base_outfile_abandon(&f->file);
  free(f);
}

/* -------------------------------------------------------------------------- requests as CSV --- */

static void *csv_open(const char *path, const struct scenario *s, struct base_error *e)
{
  (void)s;
  return open_file(
      path,
      "arm,candidate,seed,id,class,server,arrival_ps,first_chunk_ps,first_token_ps,"
      "last_token_ps,prompt,output,generated,preemptions,discarded,cached_tokens,fate,slo_met",
      e);
}

static int csv_begin(void *file, const struct experiment_place *run, struct base_error *e)
{
  (void)file, (void)run, (void)e;
  return 0;
}

static int csv_rows(void *file, const struct experiment_place *run, uint64_t first,
                    const struct world_record *record, size_t n, struct base_error *e)
{
  struct report_log *f = file;
  const struct scenario_candidate *c = &run->scenario->arm[run->arm].candidate[run->candidate];
  FILE *out = f->file.f;

  for (size_t i = 0; i < n; i++) {
    run_fields(out, run->scenario, run->arm, run->candidate, run->seed);
    row(out, c, run->config, &record[i], first + i);
    if (ferror(out))
      return base_fail_errno(e, "%s: the requests could not be written", f->file.path);
  }
  return 0;
}

static int csv_end(void *file, const struct world_result *result, struct base_error *e)
{
  (void)file, (void)result, (void)e;
  return 0;
}

static int csv_close(void *file, int partial, struct base_error *e)
{
  (void)partial;
  return report_log_close(file, e);
}

static void csv_abandon(void *file)
{
  report_log_abandon(file);
}

const struct requests_format requests_csv = {csv_open, csv_begin, csv_rows,
                                             csv_end,  csv_close, csv_abandon};
