/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The file of requests, written run by run, so that no run's records outlive it. */
#include <stdlib.h>
#include <string.h>

#include "base/outfile.h"
#include "sim/report/report.h"

struct report_requests {
  struct base_outfile file;
};

struct report_requests *report_requests_open(const char *path, struct base_error *e)
{
  struct report_requests *f = calloc(1, sizeof *f);

  if (!f) {
    base_fail_memory(e);
    return NULL;
  }
  if (base_outfile_open(&f->file, path, e)) {
    free(f);
    return NULL;
  }
  fputs("arm,candidate,seed,id,class,server,arrival_ps,first_chunk_ps,first_token_ps,last_token_ps,"
        "prompt,output,generated,preemptions,discarded,fate,slo_met\r\n",
        f->file.f);
  return f;
}

/* A text field: quoted where RFC 4180 asks for it, quotes doubled. */
static void field(FILE *out, const char *text)
{
  if (!text)
    text = "";
  if (!strpbrk(text, ",\"\r\n")) {
    fprintf(out, "%s,", text);
    return;
  }
  fputc('"', out);
  for (; *text; text++) {
    if (*text == '"')
      fputc('"', out);
    fputc(*text, out);
  }
  fputs("\",", out);
}

/* A moment in ps; empty if it never came. */
static void moment(FILE *out, lull_time t)
{
  if (t != LULL_NEVER)
    fprintf(out, "%lld", (long long)t);
  fputc(',', out);
}

/* Name of a fate. */
static const char *fate_name(int fate)
{
  static const char *const name[] = {
      [WORLD_PENDING] = "pending",      [WORLD_DONE] = "finished",
      [WORLD_FATE_FAILED] = "failed",   [WORLD_REJECTED] = "rejected",
      [WORLD_CANCELLED] = "cancelled",  [WORLD_EXPIRED] = "expired",
      [WORLD_UNFINISHED] = "unfinished"};

  return name[fate];
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
  fprintf(out, "%u,%u,%u,%u,%llu,%s,%s\r\n", r->prompt, r->output, r->generated, r->preempts,
          (unsigned long long)r->discarded, fate_name(r->fate),
          !cfg->cls[r->cls].interactive ? ""
          : r->met                      ? "1"
                                        : "0");
}

int report_requests_row(void *ctx, const struct scenario *s, int arm, int candidate, uint64_t seed,
                        const struct world_config *cfg, const struct world_result *r,
                        struct base_error *e)
{
  struct report_requests *f = ctx;
  const struct scenario_candidate *c = &s->arm[arm].candidate[candidate];
  FILE *out = f->file.f;

  for (uint64_t i = 0; i < r->records; i++) {
    field(out, s->arm[arm].id);
    field(out, c->id);
    fprintf(out, "%llu,", (unsigned long long)seed);
    row(out, c, cfg, &r->record[i], i);
    if (ferror(out))
      return base_fail_errno(e, "%s: the requests could not be written", f->file.path);
  }
  return 0;
}

int report_requests_close(struct report_requests *f, struct base_error *e)
{
  int rc = base_outfile_commit(&f->file, e);

  free(f);
  return rc;
}

void report_requests_abandon(struct report_requests *f)
{
  if (!f)
    return;
  base_outfile_abandon(&f->file);
  free(f);
}
