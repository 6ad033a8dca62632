/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calib/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/csv.h"
#include "calib/rows.h"
#include "models/llm.h"

typedef __int128 wide;

enum { SIZE_LIMIT = 1 << 24, GROUPS_MAX = 4096 };

/* ------------------------------------------------------------------------- rows of a file --- */

/* Columns that all tables have. */
struct common {
  int framework, version, device, kernel, latency;
};

static int find_common(const struct csv *c, struct common *k, struct base_error *e)
{
  k->framework = csv_column(c, "framework", e);
  k->version = csv_column(c, "version", e);
  k->device = csv_column(c, "device", e);
  k->kernel = csv_column(c, "kernel_source", e);
  if (k->framework < 0 || k->version < 0 || k->device < 0 || k->kernel < 0)
    return -1;
  return csv_time_column(c, "latency", "ms", &k->latency, e);
}

/* Adds a kernel's name to the list, once. A list that is full is left as it is. */
static void note_kernel(struct table_origin *o, const char *kernel)
{
  size_t have = strlen(o->kernel), more = strlen(kernel);
  if (strstr(o->kernel, kernel) || have + more + 3 > sizeof o->kernel)
    return;
  snprintf(o->kernel + have, sizeof o->kernel - have, "%s%s", have ? ", " : "", kernel);
}

/* Takes note of the origin of a row that is used; all must be of one engine and of `device`. */
static int note_origin(const struct csv *c, const struct common *k, const char *device,
                       struct table_origin *o, struct base_error *e)
{
  char engine[sizeof o->engine];
  snprintf(engine, sizeof engine, "%s %s", csv_cell(c, k->framework), csv_cell(c, k->version));
  if (strcmp(csv_cell(c, k->device), device))
    return base_fail_at(e, BASE_INPUT, csv_path(c), csv_line(c),
                        "the row was measured on '%s', but the GPU's description is of '%s'; name "
                        "the GPU of the table",
                        csv_cell(c, k->device), device);
  if (o->engine[0] && strcmp(o->engine, engine))
    return base_fail_at(e, BASE_INPUT, csv_path(c), csv_line(c),
                        "the row is of engine '%s', the rows before of '%s'", engine, o->engine);
  strcpy(o->engine, engine);
  snprintf(o->device, sizeof o->device, "%s", device);
  note_kernel(o, csv_cell(c, k->kernel));
  return 0;
}

/* Adds a row to an array of n. */
#define APPEND(array, n, value, e)                                                                 \
  ({                                                                                               \
    void *more_ = rows_grow(array, n, sizeof *(array), e);                                         \
    if (more_) {                                                                                   \
      (array) = more_;                                                                             \
      (array)[(n)++] = (value);                                                                    \
    }                                                                                              \
    more_ ? 0 : -1;                                                                                \
  })

/* ----------------------------------------------------------------------------- recognition --- */

/* Both tables of attention have the same columns; their operator's name differs. */
static int recognise_attention(struct csv *c, int op, struct base_error *e)
{
  int rc = op < 0 ? 0 : csv_next(c, e);
  if (rc <= 0)
    return rc < 0 ? -1 : TABLE_OTHER;
  if (!strcmp(csv_cell(c, op), "context_attention"))
    return TABLE_CONTEXT;
  return strcmp(csv_cell(c, op), "generation_attention") ? TABLE_OTHER : TABLE_GENERATION;
}

int table_recognise(const char *path, struct base_error *e)
{
  struct csv *c = csv_open(path, e);
  int kind = TABLE_OTHER;
  if (!c)
    return -1;
  if (csv_column(c, "gemm_dtype", NULL) >= 0)
    kind = TABLE_GEMM;
  else if (csv_column(c, "attn_dtype", NULL) >= 0)
    kind = recognise_attention(c, csv_column(c, "op_name", NULL), e);
  csv_close(c);
  return kind;
}

/* ----------------------------------------------------------------------------------- GEMMs --- */

struct gemm_columns {
  struct common all;
  int dtype, m, n, k;
};

static int compare_gemm(const void *pa, const void *pb)
{
  const struct gemm_row *a = pa, *b = pb;
  int64_t x[] = {a->dtype, a->k, a->n, a->m, a->ps}, y[] = {b->dtype, b->k, b->n, b->m, b->ps};
  return rows_order(x, y, 5);
}

static int read_gemm(struct gemm_table *t, const struct csv *c, const struct gemm_columns *k,
                     int dtype, const char *device, struct base_error *e)
{
  struct gemm_row r = {.dtype = dtype, .line = csv_line(c)};
  if (note_origin(c, &k->all, device, &t->origin, e) ||
      csv_number(c, k->m, 0, SIZE_LIMIT, &r.m, e) || csv_number(c, k->n, 0, SIZE_LIMIT, &r.n, e) ||
      csv_number(c, k->k, 0, SIZE_LIMIT, &r.k, e) || csv_time(c, k->all.latency, 9, &r.ps, e))
    return -1;
  return APPEND(t->row, t->n, r, e);
}

/* Reads all rows of the two types. */
static int read_gemms(struct gemm_table *t, struct csv *c, const char *weight_dtype,
                      const char *device, struct base_error *e)
{
  struct gemm_columns k = {.dtype = csv_column(c, "gemm_dtype", e)};
  k.m = csv_column(c, "m", e);
  k.n = csv_column(c, "n", e);
  k.k = csv_column(c, "k", e);
  if (k.dtype < 0 || k.m < 0 || k.n < 0 || k.k < 0 || find_common(c, &k.all, e))
    return -1;
  int rc;
  while ((rc = csv_next(c, e)) > 0) {
    const char *dtype = csv_cell(c, k.dtype);
    int kind = strcmp(dtype, "bfloat16") == 0 ? TABLE_BF16 : TABLE_WEIGHT;
    if (kind == TABLE_WEIGHT && strcmp(dtype, weight_dtype))
      continue;
    if (read_gemm(t, c, &k, kind, device, e))
      return -1;
  }
  return rc;
}

/* Two rows of one shape: the quicker one is kept. */
static void unique_gemms(struct gemm_table *t)
{
  size_t n = 0;
  for (size_t i = 0; i < t->n; i++) {
    const struct gemm_row *a = &t->row[i], *b = n ? &t->row[n - 1] : NULL;
    if (!b || a->dtype != b->dtype || a->k != b->k || a->n != b->n || a->m != b->m)
      t->row[n++] = *a;
  }
  t->n = n;
}

int gemm_load(struct gemm_table *t, const char *path, const char *weight_dtype, const char *device,
              struct base_error *e)
{
  *t = (struct gemm_table){.weight = strcmp(weight_dtype, "bfloat16") ? TABLE_WEIGHT : TABLE_BF16};
  struct csv *c = csv_open(path, e);
  if (!c)
    return -1;
  int rc = read_gemms(t, c, weight_dtype, device, e);
  csv_close(c);
  if (!rc && !t->n)
    rc = base_fail_at(e, BASE_INPUT, path, 0, "there is no row of type %s or bfloat16",
                      weight_dtype);
  if (!rc) {
    qsort(t->row, t->n, sizeof *t->row, compare_gemm);
    unique_gemms(t);
  } else
    gemm_free(t);
  return rc;
}

void gemm_free(struct gemm_table *t)
{
  free(t->row);
  t->row = NULL;
  t->n = 0;
}

/* First row that is not before (dtype, k, n, m). */
static size_t lower_bound(const struct gemm_table *t, const int64_t key[4])
{
  size_t lo = 0, hi = t->n;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    const struct gemm_row *r = &t->row[mid];
    int64_t at[] = {r->dtype, r->k, r->n, r->m};
    if (rows_order(at, key, 4) < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

static int64_t measured(const struct gemm_table *t, int dtype, int64_t m, int64_t n, int64_t k)
{
  int64_t key[] = {dtype, k, n, m};
  size_t i = lower_bound(t, key);
  if (i == t->n)
    return -1;
  const struct gemm_row *r = &t->row[i];
  return r->dtype == dtype && r->k == k && r->n == n && r->m == m ? r->ps : -1;
}

/* The n that a rule allows at (dtype, k, m), ascending; returns how many, at most max. */
static size_t list_n(const struct gemm_table *t, int dtype, int64_t m, int64_t k,
                     const struct gemm_rule *rule, int64_t *n, size_t max)
{
  size_t found = 0;
  int64_t key[] = {dtype, k, 0, 0};
  for (size_t i = lower_bound(t, key); i < t->n && t->row[i].dtype == dtype && t->row[i].k == k;) {
    int64_t here = t->row[i].n, next[] = {dtype, k, here + 1, 0};
    int left_out = rule && (here == rule->without || (rule->below && here >= rule->below));
    if (!left_out && found < max && measured(t, dtype, m, here, k) >= 0)
      n[found++] = here;
    i = lower_bound(t, next);
  }
  return found;
}

/* On the line through (x0, y0), (x1, y1), floored; not below 0. */
static int64_t on_line(int64_t x, int64_t x0, int64_t y0, int64_t x1, int64_t y1)
{
  wide v = (wide)y0 * (x1 - x) + (wide)y1 * (x - x0);
  return v < 0 ? 0 : (int64_t)(v / (x1 - x0));
}

/* At x on the least-squares line through three points; not below the last of them. */
static int64_t beyond(int64_t x, const int64_t n[3], const int64_t y[3])
{
  wide sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (int i = 0; i < 3; i++) {
    sx += n[i];
    sy += y[i];
    sxx += (wide)n[i] * n[i];
    sxy += (wide)n[i] * y[i];
  }
  wide den = 3 * sxx - sx * sx, slope = 3 * sxy - sx * sy;
  wide v = (sy * den + slope * (3 * (wide)x - sx)) / (3 * den);
  return v < y[2] ? y[2] : (int64_t)v;
}

/* At a measured k. */
static int64_t gemm_at_k(const struct gemm_table *t, int dtype, int64_t m, int64_t n, int64_t k,
                         const struct gemm_rule *rule)
{
  int64_t x[GROUPS_MAX];
  size_t have = list_n(t, dtype, m, k, rule, x, GROUPS_MAX), i = 0;
  while (i < have && x[i] < n)
    i++;
  if (i < have && x[i] == n)
    return measured(t, dtype, m, n, k);
  if (i == 0)
    return -1;
  if (i < have)
    return on_line(n, x[i - 1], measured(t, dtype, m, x[i - 1], k), x[i],
                   measured(t, dtype, m, x[i], k));
  if (have < 3)
    return -1;
  int64_t y[3];
  for (int j = 0; j < 3; j++)
    y[j] = measured(t, dtype, m, x[have - 3 + (size_t)j], k);
  return beyond(n, x + have - 3, y);
}

int64_t gemm_ps(const struct gemm_table *t, int dtype, int64_t m, int64_t n, int64_t k,
                const struct gemm_rule *rule)
{
  int64_t below = -1, above = -1;
  for (size_t i = 0; i < t->n;) {
    int64_t next[] = {t->row[i].dtype, t->row[i].k + 1, 0, 0};
    if (t->row[i].dtype == dtype && t->row[i].k <= k)
      below = t->row[i].k;
    if (t->row[i].dtype == dtype && t->row[i].k >= k && above < 0)
      above = t->row[i].k;
    i = lower_bound(t, next);
  }
  if (below < 0 || above < 0)
    return -1;
  int64_t y0 = gemm_at_k(t, dtype, m, n, below, rule);
  if (below == above || y0 < 0)
    return y0;
  int64_t y1 = gemm_at_k(t, dtype, m, n, above, rule);
  return y1 < 0 ? -1 : on_line(k, below, y0, above, y1);
}

size_t gemm_tokens(const struct gemm_table *t, int dtype, int64_t *m, size_t max)
{
  size_t n = 0;
  for (size_t i = 0; i < t->n; i++) {
    size_t j = 0;
    if (t->row[i].dtype != dtype)
      continue;
    while (j < n && m[j] < t->row[i].m)
      j++;
    if ((j < n && m[j] == t->row[i].m) || n == max)
      continue;
    memmove(m + j + 1, m + j, (n - j) * sizeof *m);
    m[j] = t->row[i].m;
    n++;
  }
  return n;
}

/* ------------------------------------------------------------------------------- attention --- */

struct attention_columns {
  struct common all;
  int batch, isl, step, heads, kv_heads, dim, beam, dtype, kv_dtype, window; /* window: may be -1 */
};

static int compare_attention(const void *pa, const void *pb)
{
  const struct attention_row *a = pa, *b = pb;
  int64_t x[] = {a->batch, a->step, a->isl, a->ps}, y[] = {b->batch, b->step, b->isl, b->ps};
  return rows_order(x, y, 4);
}

static int find_attention(const struct csv *c, struct attention_columns *k, struct base_error *e)
{
  static const char *const name[] = {"batch_size",          "isl",      "step",       "num_heads",
                                     "num_key_value_heads", "head_dim", "beam_width", "attn_dtype",
                                     "kv_cache_dtype"};
  int *const to[] = {&k->batch, &k->isl,  &k->step,  &k->heads,   &k->kv_heads,
                     &k->dim,   &k->beam, &k->dtype, &k->kv_dtype};
  for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
    if ((*to[i] = csv_column(c, name[i], e)) < 0)
      return -1;
  k->window = csv_column(c, "window_size", NULL);
  return find_common(c, &k->all, e);
}

/* Is the row of the wanted kind? 1, 0, or -1 if it cannot be told. */
static int wanted(const struct csv *c, const struct attention_columns *k, const struct llm *m,
                  const char *kv_dtype, struct base_error *e)
{
  const int column[] = {k->heads, k->kv_heads, k->dim, k->beam, k->window};
  const int64_t want[] = {m->q_heads, m->kv_heads, m->head_dim, 1, 0};
  if (strcmp(csv_cell(c, k->dtype), "bfloat16") || strcmp(csv_cell(c, k->kv_dtype), kv_dtype))
    return 0;
  for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
    int64_t v;
    if (column[i] < 0)
      continue;
    if (csv_number(c, column[i], 0, SIZE_LIMIT, &v, e))
      return -1;
    if (v != want[i])
      return 0;
  }
  return 1;
}

static int read_attention(struct attention_table *t, const struct csv *c,
                          const struct attention_columns *k, const char *device,
                          struct base_error *e)
{
  struct attention_row r = {.line = csv_line(c)};
  if (note_origin(c, &k->all, device, &t->origin, e) ||
      csv_number(c, k->batch, 0, 1 << 20, &r.batch, e) ||
      csv_number(c, k->step, 0, SIZE_LIMIT, &r.step, e) ||
      csv_number(c, k->isl, 0, 1 << 20, &r.isl, e) || csv_time(c, k->all.latency, 9, &r.ps, e))
    return -1;
  if (r.batch < 1 || r.isl < 1)
    return base_fail_at(e, BASE_INPUT, csv_path(c), csv_line(c),
                        "batch_size and isl must be above 0");
  return APPEND(t->row, t->n, r, e);
}

static void unique_attention(struct attention_table *t)
{
  size_t n = 0;
  for (size_t i = 0; i < t->n; i++) {
    const struct attention_row *a = &t->row[i], *b = n ? &t->row[n - 1] : NULL;
    if (!b || a->batch != b->batch || a->step != b->step || a->isl != b->isl)
      t->row[n++] = *a;
  }
  t->n = n;
}

static int read_attentions(struct attention_table *t, struct csv *c, const struct llm *model,
                           const char *kv_dtype, const char *device, struct base_error *e)
{
  struct attention_columns k;
  int rc;
  if (find_attention(c, &k, e))
    return -1;
  while ((rc = csv_next(c, e)) > 0) {
    int w = wanted(c, &k, model, kv_dtype, e);
    if (w < 0 || (w && read_attention(t, c, &k, device, e)))
      return -1;
  }
  return rc;
}

int attention_load(struct attention_table *t, const char *path, const struct llm *model,
                   const char *kv_dtype, const char *device, struct base_error *e)
{
  *t = (struct attention_table){0};
  struct csv *c = csv_open(path, e);
  if (!c)
    return -1;
  int rc = read_attentions(t, c, model, kv_dtype, device, e);
  csv_close(c);
  if (!rc && !t->n)
    rc = base_fail_at(e, BASE_INPUT, path, 0,
                      "there is no row of %u heads, %u kv heads, head size %u, full attention, "
                      "kv type %s",
                      model->q_heads, model->kv_heads, model->head_dim, kv_dtype);
  if (!rc) {
    qsort(t->row, t->n, sizeof *t->row, compare_attention);
    unique_attention(t);
  } else
    attention_free(t);
  return rc;
}

void attention_free(struct attention_table *t)
{
  free(t->row);
  t->row = NULL;
  t->n = 0;
}
