/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Statistics of a whole trace; docs/traces.md has the definitions. Everything is summed in
 * integers, 128 bits wide where needed, and becomes a double in the last step only.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/hist.h"
#include "models/trace_reader.h"

static const int64_t second_ns = 1000000000;

struct rows {
  struct trace_row *row;
  size_t n, room;
};

static int rows_add(struct rows *rows, const struct trace *t, const struct trace_row *row,
                    struct base_error *e)
{
  if (rows->n == UINT32_MAX) /* keeps the sums of squares below 2^64 */
    return trace_fail(t, e, "the trace has 2^32 rows or more; split it");
  if (rows->n == rows->room) {
    size_t room = rows->room ? rows->room * 2 : 4096;
    struct trace_row *grown = reallocarray(rows->row, room, sizeof *grown);
    if (!grown)
      return base_fail_memory(e);
    rows->row = grown;
    rows->room = room;
  }
  rows->row[rows->n++] = *row;
  return 0;
}

static int rows_read(struct rows *rows, struct trace *t, struct base_error *e)
{
  struct trace_row row;
  int r;
  while ((r = trace_next(t, &row, e)) > 0)
    if (rows_add(rows, t, &row, e))
      return -1;
  return r;
}

/* Percentile `percent` by type 7, a double only in the end; base_percentile_sorted would round
 * (n - 1) * p first. */
static double percentile(const int64_t *sorted, size_t n, unsigned percent)
{
  uint64_t h = (uint64_t)(n - 1) * percent;
  size_t i = h / 100, j = i + 1 < n ? i + 1 : i;
  return (double)(sorted[i] * 100 + (int64_t)(h % 100) * (sorted[j] - sorted[i])) / 100.0;
}

static void lengths_of(struct trace_lengths *l, const int64_t *sorted, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    l->sum += (uint64_t)sorted[i];
    l->zeros += !sorted[i];
  }
  l->min = (uint32_t)sorted[0];
  l->max = (uint32_t)sorted[n - 1];
  l->mean = (double)l->sum / (double)n;
  l->p50 = percentile(sorted, n, 50);
  l->p95 = percentile(sorted, n, 95);
  l->p99 = percentile(sorted, n, 99);
}

/* Counts sorted times in windows of `width` ns from the first on; windows without any are only
 * counted, since a year has many. */
static void window_of(struct trace_window *w, const int64_t *sorted, size_t n, int64_t width)
{
  uint64_t filled = 0;
  for (size_t i = 0, j; i < n; i = j) {
    int64_t index = (sorted[i] - sorted[0]) / width;
    for (j = i; j < n && (sorted[j] - sorted[0]) / width == index; j++)
      ;
    w->sumsq += (uint64_t)(j - i) * (j - i);
    w->max = j - i > w->max ? j - i : w->max;
    filled++;
  }
  w->k = (uint64_t)((sorted[n - 1] - sorted[0]) / width) + 1;
  w->empty = w->k - filled;
  unsigned __int128 variance = (unsigned __int128)w->k * w->sumsq - (unsigned __int128)n * n;
  w->idc = (double)variance / (double)((unsigned __int128)w->k * n);
}

/*
 * Coefficient of variation of the n - 1 gaps: sqrt((m q - s^2) / s^2) with m gaps, s their sum and
 * q the sum of their squares. m q may take 160 bits, so the difference is formed in halves of 64.
 */
static double gap_cv(const int64_t *sorted, size_t n)
{
  unsigned __int128 q = 0, s = (unsigned __int128)(sorted[n - 1] - sorted[0]);
  for (size_t i = 1; i < n; i++) {
    unsigned __int128 gap = (unsigned __int128)(sorted[i] - sorted[i - 1]);
    q += gap * gap;
  }
  if (!s)
    return 0;
  const unsigned __int128 ss = s * s, half = (unsigned __int128)1 << 64;
  __int128 low = (__int128)((q % half) * (n - 1)) - (__int128)(ss % half);
  __int128 high = (__int128)((q / half) * (n - 1)) - (__int128)(ss / half);
  high += low >> 64; /* the carry, or a borrow */
  double difference = (double)high * 0x1p64 + (double)((unsigned __int128)low % half);
  return sqrt(difference / (double)ss);
}

/* What is counted in the order of the file. */
static void order_of(struct trace_stats *out, const struct rows *rows)
{
  for (size_t i = 1; i < rows->n; i++) {
    out->out_of_order_rows += rows->row[i].t_ns < rows->row[i - 1].t_ns;
    out->equal_to_previous_rows += rows->row[i].t_ns == rows->row[i - 1].t_ns;
  }
}

static void times_of(struct trace_stats *out, const int64_t *sorted, size_t n)
{
  out->span_ns = sorted[n - 1] - sorted[0];
  out->span_s = (double)out->span_ns / (double)second_ns;
  if (out->span_ns)
    out->rate_per_s = (double)((unsigned __int128)n * (uint64_t)second_ns) / (double)out->span_ns;
  out->distinct_times = 1;
  for (size_t i = 1; i < n; i++) {
    int64_t gap = sorted[i] - sorted[i - 1];
    out->distinct_times += gap != 0;
    out->iat_max_ns = gap > out->iat_max_ns ? gap : out->iat_max_ns;
  }
  window_of(&out->w1, sorted, n, second_ns);
  window_of(&out->w60, sorted, n, 60 * second_ns);
  out->empty_1s_fraction = (double)out->w1.empty / (double)out->w1.k;
  out->iat_cv = gap_cv(sorted, n);
}

static uint32_t crc_of(const struct rows *rows, int64_t t_min_ns)
{
  uLong crc = crc32(0, NULL, 0);
  for (size_t i = 0; i < rows->n; i++) {
    char text[64];
    const struct trace_row *r = &rows->row[i];
    int n = snprintf(text, sizeof text, "%lld,%u,%u\n", (long long)(r->t_ns - t_min_ns), r->prompt,
                     r->output);
    crc = crc32(crc, (const Bytef *)text, (uInt)n);
  }
  return (uint32_t)crc;
}

/* Fills *out by means of `sorted`, room for one value a row. */
static int stats_of(struct trace_stats *out, const struct trace *t, const struct rows *rows,
                    int64_t *sorted, struct base_error *e)
{
  size_t n = rows->n;
  for (size_t i = 0; i < n; i++)
    sorted[i] = rows->row[i].t_ns;
  base_sort_int64(sorted, n);
  int64_t t_min_ns = sorted[0];
  if ((__int128)sorted[n - 1] - t_min_ns > INT64_MAX)
    return trace_fail(t, e, "the trace spans over 292 years; correct its times");
  out->n = n;
  if (out->has_times) {
    out->t_first_row_ns = rows->row[0].t_ns - t_min_ns;
    order_of(out, rows);
    times_of(out, sorted, n);
  }
  out->crc32 = crc_of(rows, t_min_ns);
  for (size_t i = 0; i < n; i++)
    sorted[i] = rows->row[i].prompt;
  base_sort_int64(sorted, n);
  lengths_of(&out->prompt, sorted, n);
  for (size_t i = 0; i < n; i++)
    sorted[i] = rows->row[i].output;
  base_sort_int64(sorted, n);
  lengths_of(&out->output, sorted, n);
  return 0;
}

int trace_collect(struct trace *t, struct trace_stats *out, struct base_error *e)
{
  struct rows rows = {0};
  struct trace_stats stats = {.has_times = trace_has_times(t)};
  int64_t *sorted = NULL;
  int r = rows_read(&rows, t, e);
  if (!r) {
    sorted = reallocarray(NULL, rows.n, sizeof *sorted);
    r = sorted ? stats_of(&stats, t, &rows, sorted, e) : base_fail_memory(e);
  }
  if (!r)
    *out = stats;
  free(sorted);
  free(rows.row);
  return r;
}

int trace_read_stats(const char *path, int format, struct trace_stats *out, struct base_error *e)
{
  const struct trace_rules rules = {.allow_zero = 1, .allow_unsorted = 1};
  struct trace *t = trace_open(path, format, &rules, e);
  if (!t)
    return -1;
  int r = trace_collect(t, out, e);
  trace_close(t);
  return r;
}

static int print_window(const struct trace_window *w, const char *name, FILE *out)
{
  return fprintf(out,
                 "k_%s %llu\nsumsq_%s %llu\nmax_%s %llu\nempty_%s %llu\n"
                 "idc_%s %.17g\n",
                 name, (unsigned long long)w->k, name, (unsigned long long)w->sumsq, name,
                 (unsigned long long)w->max, name, (unsigned long long)w->empty, name, w->idc);
}

static int print_times(const struct trace_stats *s, FILE *out)
{
  int bad = fprintf(out, "t_first_row_ns %lld\nspan_ns %lld\nspan_s %.17g\nrate_per_s %.17g\n",
                    (long long)s->t_first_row_ns, (long long)s->span_ns, s->span_s,
                    s->rate_per_s) < 0;
  bad |= fprintf(out, "out_of_order_rows %llu\nequal_to_previous_rows %llu\ndistinct_times %llu\n",
                 (unsigned long long)s->out_of_order_rows,
                 (unsigned long long)s->equal_to_previous_rows,
                 (unsigned long long)s->distinct_times) < 0;
  bad |= print_window(&s->w1, "1s", out) < 0;
  bad |= print_window(&s->w60, "60s", out) < 0;
  bad |= fprintf(out, "empty_1s_fraction %.17g\niat_cv %.17g\niat_max_ns %lld\n",
                 s->empty_1s_fraction, s->iat_cv, (long long)s->iat_max_ns) < 0;
  return bad ? -1 : 0;
}

static int print_lengths(const struct trace_lengths *l, const char *name, FILE *out)
{
  return fprintf(out,
                 "%s_sum %llu\n%s_mean %.17g\n%s_min %u\n%s_p50 %.17g\n%s_p95 %.17g\n"
                 "%s_p99 %.17g\n%s_max %u\n%s_zeros %llu\n",
                 name, (unsigned long long)l->sum, name, l->mean, name, l->min, name, l->p50, name,
                 l->p95, name, l->p99, name, l->max, name, (unsigned long long)l->zeros);
}

int trace_print_stats(const struct trace_stats *s, FILE *out)
{
  int bad = fprintf(out, "n %llu\n", (unsigned long long)s->n) < 0;
  if (s->has_times)
    bad |= print_times(s, out) < 0;
  bad |= print_lengths(&s->prompt, "prompt", out) < 0;
  bad |= print_lengths(&s->output, "output", out) < 0;
  bad |= fprintf(out, "crc32 %08x\n", s->crc32) < 0;
  return bad || ferror(out) ? -1 : 0;
}
