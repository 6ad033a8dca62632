/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdlib.h>
#include <string.h>

#include "calib/csv.h"
#include "calib/falls.h"
#include "calib/rows.h"
#include "calib/vidur.h"
#include "models/llm.h"

enum { SIZE_LIMIT = 1 << 24, DIGITS = 9 /* a ms is 10^9 ps */ };

const struct vidur_operator vidur_operators[VIDUR_OPERATORS] = {
    {"emb", 0, 1},
    {"input_layernorm", 1, 1}, /* and once more behind the last layer */
    {"attn_pre_proj", 1, 0},
    {"attn_rope", 1, 0},
    {"attn_post_proj", 1, 0},
    {"post_attention_layernorm", 1, 0},
    {"mlp_up_proj", 1, 0},
    {"mlp_act", 1, 0},
    {"mlp_down_proj", 1, 0},
    {"add", 1, 0},
};

/* A column that only this table has. */
static const char *const signature[VIDUR_KINDS] = {
    "time_stats.mlp_up_proj.median", "time_stats.attn_decode.median",
    "time_stats.all_reduce.median", "time_stats.send_recv.median"};
static const char *const kind_name[VIDUR_KINDS] = {"mlp", "attention", "all_reduce", "send_recv"};

/* A file being read. */
struct reading {
  struct vidur *t;
  struct csv *c;
  const struct llm *model;
  int64_t tp;
  struct base_error *e;
};

/* --------------------------------------------------------------------------------- columns --- */

/* Columns whose value every row that is used must have. */
struct shape {
  const char *name;
  int64_t want;
  int column;
};

static int find_shapes(const struct reading *r, struct shape *s, int n)
{
  for (int i = 0; i < n; i++)
    if ((s[i].column = csv_column(r->c, s[i].name, r->e)) < 0)
      return -1;
  return 0;
}

/* Is the row of the group's size (1, 0), and of the model (else -1)? s[0] is the size. */
static int check_shapes(const struct reading *r, const struct shape *s, int n)
{
  for (int i = 0; i < n; i++) {
    int64_t v;
    if (csv_number(r->c, s[i].column, 0, INT64_C(1) << 40, &v, r->e))
      return -1;
    if (v == s[i].want)
      continue;
    if (!i)
      return 0;
    return base_fail_at(r->e, BASE_INPUT, csv_path(r->c), csv_line(r->c),
                        "%s is %lld, but model '%s' has %lld; name the model of the table",
                        s[i].name, (long long)v, r->model->name, (long long)s[i].want);
  }
  return 1;
}

static int median_column(const struct reading *r, const char *op, int *column)
{
  char name[64];
  snprintf(name, sizeof name, "time_stats.%s.median", op);
  return csv_time_column(r->c, name, "ms", column, r->e);
}

/* ------------------------------------------------------------------------------------ rows --- */

static int add_operator(struct reading *r, int op, int64_t x, int column)
{
  struct vidur *t = r->t;
  struct operator_row row = {.op = op, .x = x, .line = csv_line(r->c)};
  if (!*csv_cell(r->c, column)) /* not profiled at this size */
    return 0;
  if (csv_time(r->c, column, DIGITS, &row.ps, r->e))
    return -1;
  struct operator_row *more = rows_grow(t->mlp, t->nmlp, sizeof row, r->e);
  if (!more)
    return -1;
  t->mlp = more;
  t->mlp[t->nmlp++] = row;
  return 0;
}

/* A model without a gated MLP runs other operators. */
static int check_gated(const struct reading *r, int column)
{
  if (!strcmp(csv_cell(r->c, column), "True"))
    return 0;
  return base_fail_at(r->e, BASE_INPUT, csv_path(r->c), csv_line(r->c),
                      "use_gated_mlp is '%.20s': the costs here are of models with a gated MLP, "
                      "which this is not",
                      csv_cell(r->c, column));
}

static int read_mlp(struct reading *r)
{
  const struct llm *m = r->model;
  struct shape s[] = {{"num_tensor_parallel_workers", r->tp, 0},
                      {"n_head", m->q_heads, 0},
                      {"n_kv_head", m->kv_heads, 0},
                      {"n_embd", m->hidden, 0},
                      {"n_expanded_embd", m->intermediate, 0}};
  int column[VIDUR_OPERATORS], tokens = csv_column(r->c, "num_tokens", r->e),
                               gated = csv_column(r->c, "use_gated_mlp", r->e), rc;
  if (tokens < 0 || gated < 0 || find_shapes(r, s, 5))
    return -1;
  for (int i = 0; i < VIDUR_OPERATORS; i++)
    if (median_column(r, vidur_operators[i].name, &column[i]))
      return -1;
  while ((rc = csv_next(r->c, r->e)) > 0) {
    int64_t x = 0;
    int fits = check_shapes(r, s, 5);
    if (fits < 0 ||
        (fits && (check_gated(r, gated) || csv_number(r->c, tokens, 0, SIZE_LIMIT, &x, r->e))))
      return -1;
    if (fits && x < 1)
      return base_fail_at(r->e, BASE_INPUT, csv_path(r->c), csv_line(r->c),
                          "num_tokens must be above 0");
    for (int i = 0; fits && i < VIDUR_OPERATORS; i++)
      if (add_operator(r, i, x, column[i]))
        return -1;
  }
  return rc;
}

/* Where the columns of an attention table are. */
struct attention_columns {
  int batch, chunk, cached, prefill, backend, save, time[2]; /* decode, prefill */
};

static int find_attention(const struct reading *r, struct attention_columns *k)
{
  k->batch = csv_column(r->c, "batch_size", r->e);
  k->chunk = csv_column(r->c, "prefill_chunk_size", r->e);
  k->cached = csv_column(r->c, "kv_cache_size", r->e);
  k->prefill = csv_column(r->c, "is_prefill", r->e);
  k->backend = csv_column(r->c, "attention_backend", NULL);
  if (k->batch < 0 || k->chunk < 0 || k->cached < 0 || k->prefill < 0)
    return -1;
  return median_column(r, "attn_kv_cache_save", &k->save) ||
                 median_column(r, "attn_decode", &k->time[0]) ||
                 median_column(r, "attn_prefill", &k->time[1])
             ? -1
             : 0;
}

/* The row's kernel, and the write of the new keys and values that goes with it. */
static int read_attention_row(const struct reading *r, const struct attention_columns *k,
                              int prefill, struct vidur_attention_row *row)
{
  int64_t save, batch, chunk;
  if (csv_number(r->c, k->batch, 0, SIZE_LIMIT, &batch, r->e) ||
      csv_number(r->c, k->chunk, 0, SIZE_LIMIT, &chunk, r->e) ||
      csv_number(r->c, k->cached, 0, SIZE_LIMIT, &row->x[1], r->e) ||
      csv_time(r->c, k->save, DIGITS, &save, r->e) ||
      csv_time(r->c, k->time[prefill], DIGITS, &row->ps, r->e))
    return -1;
  row->ps += save;
  row->x[0] = prefill ? chunk : batch;
  const char *why = prefill && batch != 1    ? "a prompt's batch_size must be 1"
                    : prefill && chunk < 1   ? "a prompt needs a prefill_chunk_size above 0"
                    : !prefill && chunk      ? "decode rows must have prefill_chunk_size 0"
                    : !prefill && batch < 1  ? "decode rows need a batch_size above 0"
                    : !prefill && !row->x[1] ? "decode rows need a kv_cache_size above 0"
                                             : NULL;
  return why ? base_fail_at(r->e, BASE_INPUT, csv_path(r->c), csv_line(r->c), "%s", why) : 0;
}

static int add_attention(struct reading *r, int prefill, const struct vidur_attention_row *row)
{
  struct vidur *t = r->t;
  struct vidur_attention_row **rows = prefill ? &t->prompt : &t->decode;
  size_t *n = prefill ? &t->nprompt : &t->ndecode;
  struct vidur_attention_row *more = rows_grow(*rows, *n, sizeof *row, r->e);
  if (!more)
    return -1;
  *rows = more;
  (*rows)[(*n)++] = *row;
  return 0;
}

static int read_attention(struct reading *r)
{
  struct shape s[] = {{"num_tensor_parallel_workers", r->tp, 0},
                      {"n_embd", r->model->hidden, 0},
                      {"n_q_head", r->model->q_heads, 0},
                      {"n_kv_head", r->model->kv_heads, 0}};
  struct attention_columns k;
  int rc;
  if (find_attention(r, &k) || find_shapes(r, s, 4))
    return -1;
  while ((rc = csv_next(r->c, r->e)) > 0) {
    struct vidur_attention_row row = {.line = csv_line(r->c)};
    const char *kind = csv_cell(r->c, k.prefill);
    int fits = check_shapes(r, s, 4), prefill = !strcmp(kind, "True");
    if (fits < 0)
      return -1;
    if (!prefill && strcmp(kind, "False"))
      return base_fail_at(r->e, BASE_INPUT, csv_path(r->c), csv_line(r->c),
                          "is_prefill must be True or False, not '%.20s'", kind);
    if (fits && (read_attention_row(r, &k, prefill, &row) || add_attention(r, prefill, &row)))
      return -1;
    if (fits && k.backend >= 0)
      snprintf(r->t->backend, sizeof r->t->backend, "%s", csv_cell(r->c, k.backend));
  }
  return rc;
}

/* All-reduce among tp GPUs of one node. */
static int read_reduce(struct reading *r)
{
  struct vidur *t = r->t;
  int gpus = csv_column(r->c, "num_workers", r->e), size = csv_column(r->c, "size", r->e),
      node = csv_column(r->c, "devices_per_node", r->e), time, rc;
  if (gpus < 0 || size < 0 || node < 0 || median_column(r, "all_reduce", &time))
    return -1;
  while ((rc = csv_next(r->c, r->e)) > 0) {
    struct operators_collective_row row = {.line = csv_line(r->c)};
    int64_t n, here;
    if (csv_number(r->c, gpus, 0, SIZE_LIMIT, &n, r->e) ||
        csv_number(r->c, node, 0, SIZE_LIMIT, &here, r->e) ||
        csv_number(r->c, size, 0, INT64_C(1) << 40, &row.bytes, r->e) ||
        csv_time(r->c, time, DIGITS, &row.ps, r->e))
      return -1;
    if (n != r->tp || here != r->tp)
      continue;
    struct operators_collective_row *more = rows_grow(t->reduce, t->nreduce, sizeof row, r->e);
    if (!more)
      return -1;
    t->reduce = more;
    t->reduce[t->nreduce++] = row;
  }
  return rc;
}

/* ---------------------------------------------------------------------------- sorting, load --- */

static int compare_operator(const void *pa, const void *pb)
{
  const struct operator_row *a = pa, *b = pb;
  const int64_t x[] = {a->op, a->x, a->ps, a->line}, y[] = {b->op, b->x, b->ps, b->line};
  return rows_order(x, y, 4);
}

static int compare_attention(const void *pa, const void *pb)
{
  const struct vidur_attention_row *a = pa, *b = pb;
  const int64_t x[] = {a->x[0], a->x[1], a->ps, a->line}, y[] = {b->x[0], b->x[1], b->ps, b->line};
  return rows_order(x, y, 4);
}

static int compare_reduce(const void *pa, const void *pb)
{
  const struct operators_collective_row *a = pa, *b = pb;
  const int64_t x[] = {a->bytes, a->ps, a->line}, y[] = {b->bytes, b->ps, b->line};
  return rows_order(x, y, 3);
}

static void sort(void *rows, size_t n, size_t size, int (*compare)(const void *, const void *))
{
  if (n)
    qsort(rows, n, size, compare);
}

/* The profiler repeats sizes at which its step changes: of each point the quicker row is kept. */
static void sort_all(struct vidur *t)
{
  size_t n = 0;
  sort(t->mlp, t->nmlp, sizeof *t->mlp, compare_operator);
  for (size_t i = 0; i < t->nmlp; i++)
    if (!n || t->mlp[i].op != t->mlp[n - 1].op || t->mlp[i].x != t->mlp[n - 1].x)
      t->mlp[n++] = t->mlp[i];
    else
      t->twice++, t->twice_line = t->mlp[i].line;
  t->nmlp = n;
  n = 0;
  sort(t->reduce, t->nreduce, sizeof *t->reduce, compare_reduce);
  for (size_t i = 0; i < t->nreduce; i++)
    if (!n || t->reduce[i].bytes != t->reduce[n - 1].bytes)
      t->reduce[n++] = t->reduce[i];
  t->nreduce = n;
}

static size_t sort_attention(struct vidur_attention_row *row, size_t rows)
{
  size_t n = 0;
  sort(row, rows, sizeof *row, compare_attention);
  for (size_t i = 0; i < rows; i++)
    if (!n || rows_order(row[i].x, row[n - 1].x, 2))
      row[n++] = row[i];
  return n;
}

static int recognise(const struct csv *c)
{
  int kind = 0;
  while (kind < VIDUR_KINDS && csv_column(c, signature[kind], NULL) < 0)
    kind++;
  return kind;
}

int vidur_recognise(const char *path, struct base_error *e)
{
  struct csv *c = csv_open(path, e);
  int kind = c ? recognise(c) : -1;
  csv_close(c);
  return kind;
}

static int read_open(struct reading *r, const char *path)
{
  int kind = recognise(r->c);
  if (kind == VIDUR_KINDS)
    return base_fail_at(r->e, BASE_INPUT, path, 1,
                        "the header is of no table of vidur that is known: mlp, attention, "
                        "all_reduce and send_recv have columns time_stats.OPERATOR.median");
  if (r->t->path[kind])
    return base_fail_at(r->e, BASE_INPUT, path, 1, "this is a second %s table, after %s",
                        kind_name[kind], r->t->path[kind]);
  r->t->path[kind] = path;
  return kind == VIDUR_MLP          ? read_mlp(r)
         : kind == VIDUR_ATTENTION  ? read_attention(r)
         : kind == VIDUR_ALL_REDUCE ? read_reduce(r)
                                    : 0;
}

/* What was given must have rows that fit. */
static int check_given(const struct vidur *t, uint32_t tp, struct base_error *e)
{
  if (!t->path[VIDUR_MLP])
    return base_fail(e, BASE_INPUT, "the mlp table is missing; its file is usually named mlp.csv");
  if (!t->nmlp)
    return base_fail_at(e, BASE_INPUT, t->path[VIDUR_MLP], 0,
                        "there is no row of %u GPUs (num_tensor_parallel_workers)", tp);
  if (t->path[VIDUR_ATTENTION] && (!t->nprompt || !t->ndecode))
    return base_fail_at(e, BASE_INPUT, t->path[VIDUR_ATTENTION], 0,
                        "there is no row of %s of %u GPUs; both kinds are needed",
                        t->nprompt ? "decode attention (is_prefill False)"
                                   : "prefill attention (is_prefill True)",
                        tp);
  if (t->path[VIDUR_ALL_REDUCE] && tp > 1 && t->nreduce < 2)
    return base_fail_at(e, BASE_INPUT, t->path[VIDUR_ALL_REDUCE], 0,
                        "there are no two sizes of %u GPUs in one node (num_workers and "
                        "devices_per_node)",
                        tp);
  return 0;
}

int vidur_load(struct vidur *t, const char *const *path, size_t n, const struct llm *model,
               uint32_t tp, struct base_error *e)
{
  for (size_t i = 0; i < n; i++) {
    struct reading r = {.t = t, .model = model, .tp = tp, .e = e};
    r.c = csv_open(path[i], e);
    int rc = r.c ? read_open(&r, path[i]) : -1;
    csv_close(r.c);
    if (rc)
      return -1;
  }
  sort_all(t);
  t->nprompt = sort_attention(t->prompt, t->nprompt);
  t->ndecode = sort_attention(t->decode, t->ndecode);
  return check_given(t, tp, e);
}

void vidur_free(struct vidur *t)
{
  free(t->mlp);
  free(t->prompt);
  free(t->decode);
  free(t->reduce);
  *t = (struct vidur){0};
}

void vidur_tell(const struct vidur *t, FILE *talk)
{
  struct falls mlp = {0}, attention = {0};
  for (size_t i = 1; i < t->nmlp; i++)
    if (t->mlp[i].op == t->mlp[i - 1].op)
      falls_note(&mlp, t->mlp[i - 1].ps, t->mlp[i - 1].line, t->mlp[i].ps, t->mlp[i].line);
  falls_tell(&mlp, t->path[VIDUR_MLP], t->nmlp, talk);
  const struct vidur_attention_row *const rows[] = {t->prompt, t->decode};
  const size_t n[] = {t->nprompt, t->ndecode};
  for (int k = 0; k < 2; k++)
    for (size_t i = 1; i < n[k]; i++)
      if (rows[k][i].x[0] == rows[k][i - 1].x[0])
        falls_note(&attention, rows[k][i - 1].ps, rows[k][i - 1].line, rows[k][i].ps,
                   rows[k][i].line);
  if (t->path[VIDUR_ATTENTION])
    falls_tell(&attention, t->path[VIDUR_ATTENTION], t->nprompt + t->ndecode, talk);
  if (talk && t->twice)
    fprintf(talk,
            "%s: %zu times are of points that were profiled twice (the last in row %zu); the "
            "quicker is kept\n",
            t->path[VIDUR_MLP], t->twice, t->twice_line);
  if (talk && t->path[VIDUR_SEND_RECV])
    fputs("send_recv is not used: there is no pipeline parallelism here\n", talk);
}
