/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The native CSV of measured runs: whole nanoseconds, columns found by name in any order. */
#include <stdlib.h>
#include <string.h>

#include "models/measured_reader.h"

enum role { ARRIVAL, PROMPT, OUTPUT, TTFT, E2E, ID, ITL, ROLES };
static const char *const names[ROLES] = {
    "arrival_ns", "prompt_tokens", "output_tokens", "ttft_ns", "e2e_ns", "id", "itl_ns"};

struct columns {
  int at[ROLES]; /* where each role stands, from 0; -1: nowhere */
  int n;         /* columns of the header */
};

static int read_header(const struct measured_reader *r, char *line, struct columns *c,
                       struct base_error *e)
{
  char list[300] = "";
  memset(c->at, -1, sizeof c->at);
  for (char *rest = line; rest; c->n++) {
    char *cell = trace_csv_cell(&rest);
    if (!cell)
      return trace_bad_quotes(&r->t, e);
    for (int i = 0; i < ROLES; i++) {
      if (strcmp(cell, names[i]))
        continue;
      if (c->at[i] >= 0)
        return trace_fail(&r->t, e, "the column %s stands twice in the header; remove one", cell);
      c->at[i] = c->n;
    }
    trace_list_add(list, sizeof list, cell);
  }
  for (int i = 0; i <= E2E; i++)
    if (c->at[i] < 0)
      return trace_fail(&r->t, e, "no column '%s'; the columns are %s: add or rename one", names[i],
                        list);
  return 0;
}

static int take_cells(const struct measured_reader *r, const struct columns *c, char *line,
                      char *cell[ROLES], struct base_error *e)
{
  int n = 0;
  for (char *rest = line; rest; n++) {
    char *text = trace_csv_cell(&rest);
    if (!text)
      return trace_bad_quotes(&r->t, e);
    for (int i = 0; i < ROLES; i++)
      if (c->at[i] == n)
        cell[i] = text;
  }
  if (n != c->n)
    return trace_fail(&r->t, e, "the row has %d cell%s and the header %d; give every row as many",
                      n, n == 1 ? "" : "s", c->n);
  return 0;
}

static int get_time(const struct measured_reader *r, int role, const char *text, int64_t *ns,
                    struct base_error *e)
{
  char quoted[TRACE_QUOTE];
  if (trace_whole(text, ns))
    return trace_fail(&r->t, e, "%s is no time: %s; write whole nanoseconds", names[role],
                      trace_quote(text, quoted));
  if (*ns < 0)
    return trace_fail(&r->t, e, "%s is negative: %s; count times from 0 on", names[role],
                      trace_quote(text, quoted));
  return 0;
}

/* Whole nanoseconds separated by blanks; an empty cell has none. */
static int get_gaps(struct measured_reader *r, char *cell, struct base_error *e)
{
  while (cell && *(cell += strspn(cell, " "))) {
    size_t n = strcspn(cell, " ");
    char *next = cell[n] ? cell + n + 1 : NULL;
    int64_t ns;
    cell[n] = '\0';
    if (get_time(r, ITL, cell, &ns, e) || measured_add_gap(r, ns, e))
      return -1;
    cell = next;
  }
  return 0;
}

static int read_row(struct measured_reader *r, const struct columns *c, char *line,
                    struct trace_ids *ids, struct base_error *e)
{
  char *cell[ROLES] = {NULL};
  struct measured_times t;
  int64_t ttft, e2e;
  uint32_t prompt, output;
  if (take_cells(r, c, line, cell, e) || (cell[ID] && trace_check_id(&r->t, ids, cell[ID], e)) ||
      get_time(r, ARRIVAL, cell[ARRIVAL], &t.arrival, e) ||
      trace_csv_tokens(&r->t, names[PROMPT], cell[PROMPT], &prompt, e) ||
      trace_csv_tokens(&r->t, names[OUTPUT], cell[OUTPUT], &output, e) ||
      get_time(r, TTFT, cell[TTFT], &ttft, e) || get_time(r, E2E, cell[E2E], &e2e, e) ||
      get_gaps(r, cell[ITL], e))
    return -1;
  if (__builtin_add_overflow(t.arrival, ttft, &t.first) ||
      __builtin_add_overflow(t.arrival, e2e, &t.last))
    return trace_fail(&r->t, e, "the request ends beyond 292 years; correct its times");
  return measured_add(r, (unsigned)trace_source_number(r->t.source), &t, prompt, output, e);
}

int measured_csv(struct measured_reader *r, char *header, struct base_error *e)
{
  struct trace_ids ids = {0};
  struct columns c = {.n = 0};
  char *line;
  size_t length;
  int got;
  r->out->format = "native";
  if (read_header(r, header, &c, e))
    return -1;
  r->out->has_gaps = c.at[ITL] >= 0;
  while ((got = trace_source_line(r->t.source, &line, &length, e)) > 0) {
    if (!length)
      got = trace_fail(&r->t, e, "the line is blank; remove it");
    if (got < 0 || read_row(r, &c, line, &ids, e))
      break;
  }
  trace_ids_free(&ids);
  return got ? -1 : 0;
}
