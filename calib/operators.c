/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/operators.h"

#include <stdlib.h>
#include <string.h>

#include "calib/csv.h"
#include "calib/rows.h"

enum { SIZE_LIMIT = 1 << 24, HEAD_BYTES = 2 /* of a bf16 element */ };

const char *const operators_kind_name[OPERATORS_KINDS] = {"dense", "per_sequence", "attention",
                                                          "skew", "all-reduce"};

const struct operators_known operators_known[] = {
    {"embedding", OPERATORS_DENSE, 0, 1, 1},    {"layernorm", OPERATORS_DENSE, 2, 0, 1},
    {"qkv_proj", OPERATORS_DENSE, 1, 0, 1},     {"qk_norm", OPERATORS_DENSE, 1, 0, 0},
    {"rotary_emb", OPERATORS_DENSE, 1, 0, 1},   {"o_proj", OPERATORS_DENSE, 1, 0, 1},
    {"gate_up_proj", OPERATORS_DENSE, 1, 0, 1}, {"act_fn", OPERATORS_DENSE, 1, 0, 1},
    {"down_proj", OPERATORS_DENSE, 1, 0, 1},    {"final_layernorm", OPERATORS_DENSE, 0, 1, 1},
    {"lm_head", OPERATORS_SEQUENCE, 0, 1, 1},   {"sampler", OPERATORS_SEQUENCE, 0, 1, 1},
};
const size_t operators_nknown = sizeof operators_known / sizeof operators_known[0];

/* ------------------------------------------------------------------------------ recognition --- */

/* Columns that only this table has, all of them; the first that fits wins. */
static const struct {
  int kind;
  const char *column[2];
} signature[] = {
    {OPERATORS_IGNORED, {"skew_rate_label", "n_samples"}},
    {OPERATORS_SKEW, {"regime", "kv_mean"}},
    {OPERATORS_ATTENTION, {"prefill_chunk", "kv_prefill"}},
    {OPERATORS_ATTENTION, {"n_decode", "kv_decode"}},
    {OPERATORS_DENSE, {"layer", "tokens"}},
    {OPERATORS_SEQUENCE, {"layer", "sequences"}},
    {OPERATORS_COLLECTIVE, {"num_gpus", "message_size"}},
};

int operators_recognise(const char *path, struct base_error *e)
{
  struct csv *c = csv_open(path, e);
  int kind = OPERATORS_UNKNOWN;
  if (!c)
    return -1;
  for (size_t i = 0; i < sizeof signature / sizeof signature[0] && kind == OPERATORS_UNKNOWN; i++)
    if (csv_column(c, signature[i].column[0], NULL) >= 0 &&
        csv_column(c, signature[i].column[1], NULL) >= 0)
      kind = signature[i].kind;
  csv_close(c);
  return kind;
}

/* ---------------------------------------------------------------------------------- reading --- */

/* A file being read: where its columns are. */
struct reading {
  struct operators *t;
  struct csv *c;
  int column[8];
  uint32_t tp;
  const char *device;
  struct base_error *e;
};

static int find_columns(struct reading *r, const char *const *name, int n)
{
  for (int i = 0; i < n; i++)
    if ((r->column[i] = csv_column(r->c, name[i], r->e)) < 0)
      return -1;
  return 0;
}

/* The operator that the row is of. */
static int read_operator(const struct reading *r, int kind, int *op)
{
  const char *names[16], *cell = csv_cell(r->c, r->column[0]);
  size_t n = 0;
  for (size_t i = 0; i < operators_nknown; i++) {
    if (operators_known[i].kind != kind)
      continue;
    if (strcmp(operators_known[i].name, cell) == 0) {
      *op = (int)i;
      return 0;
    }
    names[n++] = operators_known[i].name;
  }
  const char *near = base_nearest(cell, names, n);
  return base_fail_at(r->e, BASE_INPUT, csv_path(r->c), csv_line(r->c),
                      "layer '%.40s' is not known, so it is not known how often it runs%s%s%s",
                      cell, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Rows of dense or per_sequence. */
static int read_operators(struct reading *r, int kind)
{
  const char *const name[] = {"layer", kind == OPERATORS_DENSE ? "tokens" : "sequences"};
  struct operator_row **rows = kind == OPERATORS_DENSE ? &r->t->dense : &r->t->sequence;
  size_t *n = kind == OPERATORS_DENSE ? &r->t->ndense : &r->t->nsequence;
  int rc;
  if (find_columns(r, name, 2) || csv_time_column(r->c, "time_us", "us", &r->column[2], r->e))
    return -1;
  while ((rc = csv_next(r->c, r->e)) > 0) {
    struct operator_row row = {.line = csv_line(r->c)};
    if (read_operator(r, kind, &row.op) ||
        csv_number(r->c, r->column[1], 0, SIZE_LIMIT, &row.x, r->e) ||
        csv_time(r->c, r->column[2], 6, &row.ps, r->e))
      return -1;
    if (row.x < 1)
      return base_fail_at(r->e, BASE_INPUT, csv_path(r->c), csv_line(r->c), "%s must be above 0",
                          name[1]);
    struct operator_row *more = rows_grow(*rows, *n, sizeof **rows, r->e);
    if (!more)
      return -1;
    *rows = more;
    (*rows)[(*n)++] = row;
  }
  return rc;
}

/* Does the row say what was computed: a chunk or decode rows, contexts where there are rows? */
static int check_attention(const struct reading *r, const struct operators_attention_row *a)
{
  const char *why = NULL;
  if (!a->x[0] && !a->x[2])
    why = "there is neither a chunk nor a decode row";
  else if (!a->x[0] && a->x[1])
    why = "there is history, but no chunk";
  else if (!a->x[2] != !a->x[3])
    why = "n_decode and kv_decode must both be above 0, or both 0";
  return why ? base_fail_at(r->e, BASE_INPUT, csv_path(r->c), csv_line(r->c), "%s", why) : 0;
}

static int read_attention(struct reading *r)
{
  static const char *const name[] = {"prefill_chunk", "kv_prefill", "n_decode", "kv_decode"};
  struct operators *t = r->t;
  int rc;
  if (find_columns(r, name, 4) || csv_time_column(r->c, "time_us", "us", &r->column[4], r->e))
    return -1;
  while ((rc = csv_next(r->c, r->e)) > 0) {
    struct operators_attention_row row = {.line = csv_line(r->c)};
    for (int i = 0; i < 4; i++)
      if (csv_number(r->c, r->column[i], 0, SIZE_LIMIT, &row.x[i], r->e))
        return -1;
    if (csv_time(r->c, r->column[4], 6, &row.ps, r->e) || check_attention(r, &row))
      return -1;
    struct operators_attention_row *more = rows_grow(t->attention, t->nattention, sizeof row, r->e);
    if (!more)
      return -1;
    t->attention = more;
    t->attention[t->nattention++] = row;
  }
  return rc;
}

static int read_skew(struct reading *r)
{
  static const char *const name[] = {"pc", "n"};
  struct operators *t = r->t;
  int rc;
  if (find_columns(r, name, 2) || csv_time_column(r->c, "t_mean_us", "us", &r->column[2], r->e) ||
      csv_time_column(r->c, "t_max_us", "us", &r->column[3], r->e) ||
      csv_time_column(r->c, "t_skew_us", "us", &r->column[4], r->e))
    return -1;
  while ((rc = csv_next(r->c, r->e)) > 0) {
    struct operators_skew_row row = {0};
    if (csv_number(r->c, r->column[0], 0, SIZE_LIMIT, &row.chunk, r->e) ||
        csv_number(r->c, r->column[1], 0, SIZE_LIMIT, &row.rows, r->e) ||
        csv_time(r->c, r->column[2], 6, &row.mean_ps, r->e) ||
        csv_time(r->c, r->column[3], 6, &row.max_ps, r->e) ||
        csv_time(r->c, r->column[4], 6, &row.skew_ps, r->e))
      return -1;
    struct operators_skew_row *more = rows_grow(t->skew, t->nskew, sizeof row, r->e);
    if (!more)
      return -1;
    t->skew = more;
    t->skew[t->nskew++] = row;
  }
  return rc;
}

/* Is it an all-reduce of two-byte numbers among tp GPUs, launched from a graph as engines do? */
static int wanted_collective(const struct reading *r)
{
  const char *dtype = csv_cell(r->c, r->column[3]);
  int backend = csv_column(r->c, "backend", NULL);
  int64_t gpus;
  if (csv_number(r->c, r->column[0], 0, SIZE_LIMIT, &gpus, r->e))
    return -1;
  return gpus == r->tp && !strcmp(csv_cell(r->c, r->column[2]), "all_reduce") &&
         (!strcmp(dtype, "half") || !strcmp(dtype, "bfloat16")) &&
         (backend < 0 || strstr(csv_cell(r->c, backend), "graph"));
}

/* Notes the origin of a row that is used; all must be of `device`. */
static int note_collective(const struct reading *r)
{
  const struct csv *c = r->c;
  int framework = csv_column(c, "framework", r->e), version = csv_column(c, "version", r->e),
      kernel = csv_column(c, "kernel_source", r->e);
  if (framework < 0 || version < 0 || kernel < 0)
    return -1;
  if (strcmp(csv_cell(c, r->column[4]), r->device))
    return base_fail_at(r->e, BASE_INPUT, csv_path(c), csv_line(c),
                        "the row was measured on '%s', but the GPU's description is of '%s'",
                        csv_cell(c, r->column[4]), r->device);
  snprintf(r->t->collective_engine, sizeof r->t->collective_engine, "%s %s", csv_cell(c, framework),
           csv_cell(c, version));
  snprintf(r->t->collective_kernel, sizeof r->t->collective_kernel, "%s", csv_cell(c, kernel));
  return 0;
}

static int read_collective(struct reading *r)
{
  const char *const name[] = {
      "num_gpus", "message_size", "op_name",
      csv_column(r->c, "nccl_dtype", NULL) >= 0 ? "nccl_dtype" : "allreduce_dtype", "device"};
  struct operators *t = r->t;
  int rc;
  if (find_columns(r, name, 5) || csv_time_column(r->c, "latency", "ms", &r->column[5], r->e))
    return -1;
  while ((rc = csv_next(r->c, r->e)) > 0) {
    struct operators_collective_row row = {.line = csv_line(r->c)};
    int w = wanted_collective(r);
    if (!w)
      continue;
    if (w < 0 || note_collective(r) ||
        csv_number(r->c, r->column[1], 0, INT64_C(1) << 40, &row.bytes, r->e) ||
        csv_time(r->c, r->column[5], 9, &row.ps, r->e))
      return -1;
    row.bytes *= HEAD_BYTES; /* the table counts elements */
    struct operators_collective_row *more = rows_grow(t->collective, t->ncollective, sizeof row,
                                                      r->e);
    if (!more)
      return -1;
    t->collective = more;
    t->collective[t->ncollective++] = row;
  }
  return rc;
}

/* --------------------------------------------------------------------- sorting, grid points --- */

static int compare_operator(const void *pa, const void *pb)
{
  const struct operator_row *a = pa, *b = pb;
  int64_t x[] = {a->op, a->x, a->line}, y[] = {b->op, b->x, b->line};
  return rows_order(x, y, 3);
}

static int compare_attention(const void *pa, const void *pb)
{
  const struct operators_attention_row *a = pa, *b = pb;
  int c = rows_order(a->x, b->x, 4);
  return c ? c : (a->line > b->line) - (a->line < b->line);
}

static int compare_collective(const void *pa, const void *pb)
{
  const struct operators_collective_row *a = pa, *b = pb;
  int64_t x[] = {a->bytes, a->line}, y[] = {b->bytes, b->line};
  return rows_order(x, y, 2);
}

static int twice(const char *path, unsigned line, unsigned before, struct base_error *e)
{
  return base_fail_at(e, BASE_INPUT, path, line,
                      "this grid point was given in line %u already; keep one of the two", before);
}

static int sort_operators(struct operator_row *row, size_t n, const char *path,
                          struct base_error *e)
{
  if (n)
    qsort(row, n, sizeof *row, compare_operator);
  for (size_t i = 1; i < n; i++)
    if (row[i].op == row[i - 1].op && row[i].x == row[i - 1].x)
      return twice(path, row[i].line, row[i - 1].line, e);
  return 0;
}

static int sort_attention(struct operators *t, struct base_error *e)
{
  struct operators_attention_row *row = t->attention;
  if (t->nattention)
    qsort(row, t->nattention, sizeof *row, compare_attention);
  for (size_t i = 1; i < t->nattention; i++)
    if (!rows_order(row[i].x, row[i - 1].x, 4))
      return twice(t->path[OPERATORS_ATTENTION], row[i].line, row[i - 1].line, e);
  return 0;
}

static int sort_collective(struct operators *t, struct base_error *e)
{
  struct operators_collective_row *row = t->collective;
  if (t->ncollective)
    qsort(row, t->ncollective, sizeof *row, compare_collective);
  for (size_t i = 1; i < t->ncollective; i++)
    if (row[i].bytes == row[i - 1].bytes)
      return twice(t->path[OPERATORS_COLLECTIVE], row[i].line, row[i - 1].line, e);
  return 0;
}

/* ------------------------------------------------------------------------------------- load --- */

static int read_file(struct reading *r, int kind)
{
  switch (kind) {
  case OPERATORS_DENSE:
  case OPERATORS_SEQUENCE:
    return read_operators(r, kind);
  case OPERATORS_ATTENTION:
    return read_attention(r);
  case OPERATORS_SKEW:
    return read_skew(r);
  default:
    return read_collective(r);
  }
}

static int load_file(struct operators *t, const char *path, uint32_t tp, const char *device,
                     struct base_error *e)
{
  int kind = operators_recognise(path, e);
  if (kind < 0 || kind == OPERATORS_IGNORED)
    return kind < 0 ? -1 : 0;
  if (kind == OPERATORS_UNKNOWN)
    return base_fail_at(e, BASE_INPUT, path, 1,
                        "the header is of no table that is known; needed are dense (layer, tokens, "
                        "time_us), per_sequence (layer, sequences, time_us), attention "
                        "(prefill_chunk, kv_prefill, n_decode, kv_decode, time_us), and perhaps "
                        "skew or an all-reduce table");
  if (t->path[kind])
    return base_fail_at(e, BASE_INPUT, path, 1, "this is a second %s table, after %s",
                        operators_kind_name[kind], t->path[kind]);
  struct reading r = {.t = t, .tp = tp, .device = device, .e = e};
  r.c = csv_open(path, e);
  if (!r.c)
    return -1;
  t->path[kind] = path;
  int rc = read_file(&r, kind);
  csv_close(r.c);
  return rc;
}

static int check_given(const struct operators *t, struct base_error *e)
{
  const size_t rows[] = {t->ndense, t->nsequence, t->nattention, t->nskew, t->ncollective};
  for (int i = 0; i < OPERATORS_KINDS; i++) {
    if (!t->path[i] && i <= OPERATORS_ATTENTION)
      return base_fail(e, BASE_INPUT, "the %s table is missing; its file is usually named %s.csv",
                       operators_kind_name[i], operators_kind_name[i]);
    if (t->path[i] && !rows[i])
      return base_fail_at(e, BASE_INPUT, t->path[i], 0, "the %s table has no row that fits",
                          operators_kind_name[i]);
  }
  return 0;
}

int operators_load(struct operators *t, const char *const *path, size_t n, uint32_t tp,
                   const char *device, struct base_error *e)
{
  for (size_t i = 0; i < n; i++)
    if (load_file(t, path[i], tp, device, e))
      return -1;
  if (check_given(t, e))
    return -1;
  return sort_operators(t->dense, t->ndense, t->path[OPERATORS_DENSE], e) ||
                 sort_operators(t->sequence, t->nsequence, t->path[OPERATORS_SEQUENCE], e) ||
                 sort_attention(t, e) || sort_collective(t, e)
             ? -1
             : 0;
}

int operators_load_collective(struct operators *t, const char *path, uint32_t tp,
                              const char *device, struct base_error *e)
{
  if (load_file(t, path, tp, device, e))
    return -1;
  if (!t->path[OPERATORS_COLLECTIVE])
    return base_fail_at(e, BASE_INPUT, path, 1,
                        "this is no all-reduce table: its columns are num_gpus, message_size, "
                        "op_name, device, latency and a type");
  if (!t->ncollective)
    return base_fail_at(e, BASE_INPUT, path, 0,
                        "there is no all-reduce of %u GPUs in two-byte "
                        "numbers, launched from a graph where that is told",
                        tp);
  return sort_collective(t, e);
}

void operators_free(struct operators *t)
{
  free(t->dense);
  free(t->sequence);
  free(t->attention);
  free(t->skew);
  free(t->collective);
  *t = (struct operators){0};
}
