/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "models/measured.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "models/measured_reader.h"

/* A detailed result of vLLM is one line that holds all generated texts. */
enum { LONGEST_LINE = 1 << 30 };

int measured_fail(const struct measured_reader *r, unsigned line, struct base_error *e,
                  const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  base_vfail_at(e, BASE_INPUT, trace_source_name(r->t.source), line, fmt, ap);
  va_end(ap);
  return -1;
}

/* Makes room for one more item of `size` bytes. */
static int grow(void **item, size_t *room, size_t n, size_t size, struct base_error *e)
{
  if (n < *room)
    return 0;
  size_t more = *room ? 2 * *room : 256;
  void *grown = reallocarray(*item, more, size);
  if (!grown)
    return base_fail_memory(e);
  *item = grown;
  *room = more;
  return 0;
}

int measured_add_gap(struct measured_reader *r, int64_t ns, struct base_error *e)
{
  void *gaps = r->out->gap_ns;
  if (grow(&gaps, &r->gaps, r->out->ngaps, sizeof *r->out->gap_ns, e))
    return -1;
  r->out->gap_ns = gaps;
  r->out->gap_ns[r->out->ngaps++] = ns;
  return 0;
}

static int judge(const struct measured_reader *r, const struct measured_request *q,
                 const struct measured_times *t, struct base_error *e)
{
  if (!q->prompt || !q->output)
    return measured_fail(r, q->line, e,
                         "the request has zero %s tokens; remove it, or give it 1 or more",
                         q->prompt ? "output" : "prompt");
  if (t->first < t->arrival)
    return measured_fail(r, q->line, e,
                         "the first token comes before the request arrives; correct the times");
  if (t->last < t->first)
    return measured_fail(r, q->line, e,
                         "the last token comes before the first one; correct the times");
  if (q->output == 1 && t->last != t->first)
    return measured_fail(r, q->line, e,
                         "one output token, but the last one comes after the first; correct the "
                         "count or the times");
  if (q->ngaps >= q->output)
    return measured_fail(r, q->line, e,
                         "%zu token gaps, but only %u output tokens; correct one of them", q->ngaps,
                         q->output);
  return 0;
}

int measured_add(struct measured_reader *r, unsigned line, const struct measured_times *t,
                 uint32_t prompt, uint32_t output, struct base_error *e)
{
  struct measured *m = r->out;
  size_t gap = m->n ? m->row[m->n - 1].gap + m->row[m->n - 1].ngaps : 0;
  struct measured_request q = {.arrival_ns = t->arrival,
                               .ttft_ns = t->first - t->arrival,
                               .e2e_ns = t->last - t->arrival,
                               .prompt = prompt,
                               .output = output,
                               .gap = gap,
                               .ngaps = m->ngaps - gap,
                               .line = line};
  void *rows = m->row;
  if (judge(r, &q, t, e) || grow(&rows, &r->rows, m->n, sizeof *m->row, e))
    return -1;
  m->row = rows;
  m->row[m->n++] = q;
  return 0;
}

/* By arrival, then by place in the file, which the row's first gap or line does not always tell. */
static int by_arrival(const void *a, const void *b)
{
  const struct measured_request *x = a, *y = b;
  if (x->arrival_ns != y->arrival_ns)
    return x->arrival_ns < y->arrival_ns ? -1 : 1;
  return 0;
}

/* Merge sort: qsort of another C library may not keep equal arrivals in the file's order. */
static void sort_rows(struct measured_request *row, struct measured_request *spare, size_t n)
{
  if (n < 2)
    return;
  size_t half = n / 2, i = 0, j = half, k = 0;
  sort_rows(row, spare, half);
  sort_rows(row + half, spare, n - half);
  memcpy(spare, row, n * sizeof *row);
  while (k < n)
    row[k++] = j >= n || (i < half && by_arrival(&spare[i], &spare[j]) <= 0) ? spare[i++]
                                                                             : spare[j++];
}

/* Servers stamp requests that came together in any order: they are sorted, and counted. */
static int finish(struct measured_reader *r, struct base_error *e)
{
  struct measured *m = r->out;
  if (!m->n)
    return measured_fail(r, 1, e, "the file has no finished request; give one with at least one");
  struct measured_request *spare = malloc(m->n * sizeof *spare);
  if (!spare)
    return base_fail_memory(e);
  int64_t latest = m->row[0].arrival_ns;
  for (uint64_t i = 1; i < m->n; i++) {
    m->moved += m->row[i].arrival_ns < latest;
    latest = m->row[i].arrival_ns > latest ? m->row[i].arrival_ns : latest;
  }
  sort_rows(m->row, spare, m->n);
  free(spare);
  int64_t origin = m->row[0].arrival_ns;
  for (uint64_t i = 0; i < m->n; i++)
    m->row[i].arrival_ns -= origin;
  return 0;
}

/* One JSON object on the first line of several, or of the records' keys: JSON lines. */
static int read_json(struct measured_reader *r, char *line, size_t length, struct base_error *e)
{
  json_error_t j;
  json_t *first = json_loadb(line, length, JSON_REJECT_DUPLICATES, &j);
  int records = json_is_object(first) && !json_object_get(first, "input_lens");
  char *text = NULL;
  if (records) {
    json_decref(first);
    return measured_lines(r, line, length, e);
  }
  json_decref(first);
  r->out->format = "vllm";
  json_t *whole = measured_document(r, line, length, &text, e);
  int bad = !whole || measured_vllm(r, whole, text, e);
  json_decref(whole);
  free(text);
  return bad ? -1 : 0;
}

static int read_all(struct measured_reader *r, struct base_error *e)
{
  char *line;
  size_t length;
  trace_source_allow(r->t.source, LONGEST_LINE);
  int got = trace_source_line(r->t.source, &line, &length, e);
  if (got < 0)
    return -1;
  if (!got)
    return measured_fail(r, 1, e, "the file is empty; give the records of a measured run");
  if (*line != '{')
    return measured_csv(r, line, e);
  return read_json(r, line, length, e);
}

/* Both ways to open meet here. Takes over the source, also when it fails. */
static struct measured *open_source(struct trace_source *source, struct base_error *e)
{
  if (!source)
    return NULL;
  struct measured_reader r = {.t.source = source, .out = calloc(1, sizeof *r.out)};
  int bad = !r.out ? base_fail_memory(e) : read_all(&r, e) || finish(&r, e);
  trace_source_close(source);
  if (!bad)
    return r.out;
  measured_close(r.out);
  return NULL;
}

struct measured *measured_open(const char *path, struct base_error *e)
{
  return open_source(trace_source_open(path, e), e);
}

struct measured *measured_open_memory(const void *data, size_t size, const char *name,
                                      struct base_error *e)
{
  return open_source(trace_source_open_memory(data, size, name, e), e);
}

void measured_close(struct measured *m)
{
  if (!m)
    return;
  free(m->row);
  free(m->gap_ns);
  free(m);
}
