/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The trace readers: hand-made files good and bad (tests/data/traces), damaged gzip, statistics
 * against a stated result, and, where LULL_DATA names the folder of public data sets, the golden
 * values of real traces.
 */
#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/trace.h"
#include "models/trace_reader.h"
#include "tests/suite.h"

enum { TEXT = 1 << 16 };

/* The path of a file of tests/data/traces; automake sets srcdir. */
static const char *data_path(const char *name)
{
  static char path[512];
  const char *srcdir = getenv("srcdir");
  snprintf(path, sizeof path, "%s/tests/data/traces/%s", srcdir ? srcdir : ".", name);
  return path;
}

static char *slurp(const char *path, size_t *size)
{
  FILE *f = fopen(path, "rb");
  ck_assert_msg(f != NULL, "cannot open %s", path);
  char *text = malloc(TEXT);
  ck_assert_ptr_nonnull(text);
  *size = fread(text, 1, TEXT - 1, f);
  ck_assert(*size < TEXT - 1 && !ferror(f));
  text[*size] = '\0';
  fclose(f);
  return text;
}

/* Reads to the end, writing rows as "t,prompt,output;"; returns what trace_next said last. */
static int read_rows(struct trace *t, char *out, size_t size, struct base_error *e)
{
  struct trace_row row;
  int r = -1;
  size_t n = 0;
  out[0] = '\0';
  while (t && (r = trace_next(t, &row, e)) > 0)
    n += (size_t)snprintf(out + n, n < size ? size - n : 0, "%" PRId64 ",%u,%u;", row.t_ns,
                          row.prompt, row.output);
  return r;
}

/* The same of bytes in memory, opened and closed. */
static int read_memory(const char *text, size_t size, int format, const struct trace_rules *rules,
                       char out[TEXT], struct base_error *e)
{
  struct trace *t = trace_open_memory(text, size, "memory", format, rules, e);
  int r = read_rows(t, out, TEXT, e);
  trace_close(t);
  return r;
}

static const struct good {
  const char *file;
  int format, has_times;
  unsigned lines;
  const char *rows;
} goods[] = {
    {"azure-crlf.csv", TRACE_AZURE, 1, 7,
     "0,4808,10;100,3180,8;86399500000100,110,27;86400000000101,1,4;26524799000000100,2,5;"
     "26524800250000100,3,6;"},
    {"vidur.csv", TRACE_VIDUR, 1, 5,
     "0,374,44;5892655000,396,109;5892655000,2147483647,55;10000000000,1,1;"},
    {"vidur-lengths.csv", TRACE_VIDUR, 0, 4, "0,3772,54;0,100,50;0,1,1;"},
    {"mooncake.jsonl", TRACE_MOONCAKE, 1, 3, "0,6758,500;0,7322,490;3001000000,1,1;"},
    {"native-bom.csv", TRACE_NATIVE, 1, 5, "0,10,20;0,11,21;1000000000,12,22;61000000001,13,23;"},
    {"native-one.csv", TRACE_NATIVE, 1, 2, "0,7,9;"},
    {"native-ps.csv", TRACE_NATIVE, 1, 4, "0,7,9;0,8,10;1,9,11;"},
    {"native-members.csv.gz", TRACE_NATIVE, 1, 4, "0,1,2;17,3,4;20,5,6;"},
};

START_TEST(good_file)
{
  const struct good *g = &goods[_i];
  struct base_error e = {0};
  char rows[TEXT];
  struct trace *t = trace_open(data_path(g->file), g->format, NULL, &e);
  ck_assert_msg(t != NULL, "%s: %s", g->file, e.text);
  ck_assert_int_eq(trace_has_times(t), g->has_times);
  ck_assert_msg(read_rows(t, rows, sizeof rows, &e) == 0, "%s: %s", g->file, e.text);
  ck_assert_str_eq(rows, g->rows);
  ck_assert_uint_eq(trace_line(t), g->lines);
  ck_assert_int_eq(e.code, BASE_OK);
  trace_close(t);
}
END_TEST

/* Beside what read_rows shows of a row: picoseconds, acceptance and phase. */
START_TEST(row_extras)
{
  static const struct trace_row wanted[] = {{.prompt = 7, .output = 9, .accept_q16 = 65536},
                                            {.prompt = 8, .output = 10, .ps = 999, .phase_q16 = 1},
                                            {.t_ns = 1, .prompt = 9, .output = 11, .ps = 64}};
  struct base_error e = {0};
  struct trace_row row;
  struct trace *t = trace_open(data_path("native-ps.csv"), TRACE_NATIVE, NULL, &e);
  ck_assert_msg(t != NULL, "%s", e.text);
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    ck_assert_int_eq(trace_next(t, &row, &e), 1);
    ck_assert_int_eq(row.t_ns, wanted[i].t_ns);
    ck_assert_uint_eq(row.ps, wanted[i].ps);
    ck_assert_int_eq(row.accept_q16, wanted[i].accept_q16);
    ck_assert_int_eq(row.phase_q16, wanted[i].phase_q16);
  }
  trace_close(t);
  t = trace_open(data_path("native-one.csv"), TRACE_NATIVE, NULL, &e);
  ck_assert_int_eq(trace_next(t, &row, &e), 1);
  ck_assert_int_eq(row.accept_q16, -1);
  ck_assert_int_eq(row.phase_q16, -1);
  trace_close(t);
}
END_TEST

/* What is wrong, where, and what the message tells the user to do. */
static const struct bad {
  const char *file;
  int format;
  unsigned line;
  const char *what, *hint;
} bads[] = {
    {"bad-empty.csv", TRACE_AZURE, 1, "the file is empty", "give a trace"},
    {"bad-empty.jsonl", TRACE_MOONCAKE, 1, "no rows", "give a file"},
    {"bad-header-only.csv", TRACE_AZURE, 1, "no rows", "give a file"},
    {"bad-missing-column.csv", TRACE_AZURE, 1, "no column 'GeneratedTokens'",
     "the columns are 'TIMESTAMP', 'ContextTokens', 'Generated': add or rename"},
    {"bad-wrong-format.csv", TRACE_NATIVE, 1, "no column 'arrival_ns'", "read it as format vidur"},
    {"mooncake.jsonl", TRACE_VIDUR, 1, "this is JSON", "read it as format mooncake"},
    {"vidur.csv", TRACE_MOONCAKE, 1, "not a JSON object", "write one request a line"},
    {"bad-column-twice.csv", TRACE_NATIVE, 1, "prompt_tokens stands twice", "remove one"},
    {"bad-column-case.csv", TRACE_VIDUR, 1, "'Arrived_At' would be ignored",
     "spell it 'arrived_at'"},
    {"bad-short-row.csv", TRACE_NATIVE, 3, "has 2 cells and the header 3",
     "give every row as many"},
    {"bad-long-row.csv", TRACE_NATIVE, 2, "has 4 cells and the header 3", "give every row as many"},
    {"bad-blank-line.csv", TRACE_NATIVE, 3, "blank", "remove it"},
    {"bad-quotes.csv", TRACE_NATIVE, 2, "quoted cell", "close it"},
    {"bad-zero-prompt.csv", TRACE_NATIVE, 3, "zero prompt tokens", "1 or more"},
    {"bad-zero-output.csv", TRACE_VIDUR, 2, "zero output tokens", "1 or more"},
    {"bad-negative-tokens.csv", TRACE_NATIVE, 2, "prompt_tokens is negative: '-1'", "1 or more"},
    {"bad-huge-tokens.csv", TRACE_NATIVE, 2, "output_tokens is too large", "at most 2147483647"},
    {"bad-huger-tokens.csv", TRACE_NATIVE, 2, "prompt_tokens is too large", "at most 2147483647"},
    {"bad-word.csv", TRACE_NATIVE, 3, "not a whole number: 'seven'", "such as 128"},
    {"bad-real-tokens.csv", TRACE_VIDUR, 2, "not a whole number: '1.0'", "such as 128"},
    {"bad-decreasing.csv", TRACE_NATIVE, 3, "before the one above", "sort the rows"},
    {"bad-negative-time.csv", TRACE_VIDUR, 2, "arrived_at is negative: '-0.5'", "from 0 on"},
    {"bad-native-time.csv", TRACE_NATIVE, 2, "arrival_ns is no time: '1.5'", "whole nanoseconds"},
    {"bad-ps-time.csv", TRACE_NATIVE, 3, "arrival_ps is no time: '-1'", "whole picoseconds"},
    {"bad-two-times.csv", TRACE_NATIVE, 1, "arrival_ns and arrival_ps", "remove one"},
    {"bad-ps-decreasing.csv", TRACE_NATIVE, 3, "before the one above", "sort the rows"},
    {"bad-accept.csv", TRACE_NATIVE, 2, "accept_q16 is not within 0 to 65536: '65537'", "65536ths"},
    {"bad-phase.csv", TRACE_NATIVE, 2, "phase_q16 is not within 0 to 65535: '65536'", "65536ths"},
    {"bad-huge-time.csv", TRACE_NATIVE, 2, "9223372036854775808", "at most 9223372036854775807"},
    {"bad-vidur-time.csv", TRACE_VIDUR, 2, "arrived_at is no time: '1.5s'", "decimal number"},
    {"bad-day.csv", TRACE_AZURE, 3, "no time: '2023-02-29 00:00:00'", "YYYY-MM-DD HH:MM:SS"},
    {"bad-centuries.csv", TRACE_AZURE, 3, "over 292 years", "correct its time"},
    {"bad-duplicate-id.csv", TRACE_NATIVE, 4, "'a' stands on line 2", "give every row its own"},
    {"bad-empty-id.csv", TRACE_NATIVE, 2, "the id is empty", "give every row its own"},
    {"bad-nul.csv", TRACE_NATIVE, 2, "NUL byte", "must be UTF-8 text"},
    {"bad-truncated.csv.gz", TRACE_NATIVE, 29, "truncated", "copy the file again"},
    {"bad-truncated-trailer.csv.gz", TRACE_NATIVE, 42, "truncated", "copy the file again"},
    {"bad-checksum.csv.gz", TRACE_NATIVE, 1, "corrupt", "copy the file again"},
    {"bad-corrupt.csv.gz", TRACE_NATIVE, 1, "corrupt", "copy the file again"},
    {"bad-after-gzip.csv.gz", TRACE_NATIVE, 42, "not gzip follow", "copy the file again"},
    {"bad-not-json.jsonl", TRACE_MOONCAKE, 2, "not a JSON object", "write one request a line"},
    {"bad-array.jsonl", TRACE_MOONCAKE, 1, "the line is an array", "write one request a line"},
    {"bad-missing-key.jsonl", TRACE_MOONCAKE, 1, "no key 'output_length'",
     "'timestamp', 'input_length', 'output': add it"},
    {"bad-type.jsonl", TRACE_MOONCAKE, 1, "input_length is a string", "write a whole number"},
    {"bad-real.jsonl", TRACE_MOONCAKE, 1, "timestamp is a number with a point", "whole number"},
    {"bad-key-twice.jsonl", TRACE_MOONCAKE, 1, "duplicate object key", "write one request a line"},
    {"bad-negative-time.jsonl", TRACE_MOONCAKE, 1, "timestamp is negative", "from 0 on"},
    {"bad-huge.jsonl", TRACE_MOONCAKE, 1, "output_length is too large", "at most 2147483647"},
    {"bad-hashes.jsonl", TRACE_MOONCAKE, 1, "hash_ids is no array", "write the list"},
};

START_TEST(bad_file)
{
  const struct bad *b = &bads[_i];
  struct base_error e = {0}, again = {0};
  struct trace_row row;
  char rows[TEXT];
  const char *path = data_path(b->file);
  struct trace *t = trace_open(path, b->format, NULL, &e);
  ck_assert_msg(read_rows(t, rows, sizeof rows, &e) == -1, "%s was read", b->file);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_str_eq(e.file, path);
  ck_assert_msg(e.line == b->line, "%s: line %u: %s", b->file, e.line, e.text);
  ck_assert_msg(strstr(e.text, b->what) && strstr(e.text, b->hint), "%s: %s", b->file, e.text);
  if (t) { /* a failed reader stays failed */
    ck_assert_int_eq(trace_next(t, &row, &again), -1);
    ck_assert_str_eq(again.text, e.text);
  }
  trace_close(t);
}
END_TEST

START_TEST(no_such_file)
{
  struct base_error missing = {0}, folder = {0}, format = {0};
  ck_assert_ptr_null(trace_open(data_path("nowhere.csv"), TRACE_AZURE, NULL, &missing));
  ck_assert_int_eq(missing.code, BASE_ENV);
  ck_assert_ptr_nonnull(strstr(missing.text, "nowhere.csv"));
  ck_assert_ptr_nonnull(strstr(missing.text, "No such file"));
  ck_assert_ptr_null(trace_open(data_path("."), TRACE_AZURE, NULL, &folder));
  ck_assert_int_eq(folder.code, BASE_ENV);
  ck_assert_ptr_nonnull(strstr(folder.text, "Is a directory"));
  ck_assert_ptr_null(trace_open(data_path("vidur.csv"), TRACE_FORMATS, NULL, &format));
  ck_assert_int_eq(format.code, BASE_USAGE);
}
END_TEST

START_TEST(formats)
{
  for (int f = 0; f < TRACE_FORMATS; f++)
    ck_assert_int_eq(trace_format_by_name(trace_format_name(f)), f);
  ck_assert_int_eq(trace_format_by_name("burst"), -1);
  ck_assert_int_eq(trace_format_by_name("azur"), -1);
}
END_TEST

/* Each rule lets through what it names and nothing else. */
START_TEST(rules)
{
  static const char zero[] = "arrival_ns,prompt_tokens,output_tokens\n5,0,1\n5,1,0\n";
  static const char unsorted[] = "arrival_ns,prompt_tokens,output_tokens\n5,1,1\n2,1,1\n9,1,1\n";
  const struct trace_rules zeros = {.allow_zero = 1}, times = {.allow_unsorted = 1};
  char rows[TEXT];
  struct base_error e1 = {0}, e2 = {0};
  ck_assert_int_eq(read_memory(zero, strlen(zero), TRACE_NATIVE, &zeros, rows, NULL), 0);
  ck_assert_str_eq(rows, "0,0,1;0,1,0;");
  ck_assert_int_eq(read_memory(zero, strlen(zero), TRACE_NATIVE, &times, rows, &e1), -1);
  ck_assert_uint_eq(e1.line, 2);
  ck_assert_int_eq(read_memory(unsorted, strlen(unsorted), TRACE_NATIVE, &times, rows, NULL), 0);
  ck_assert_str_eq(rows, "0,1,1;-3,1,1;4,1,1;");
  ck_assert_int_eq(read_memory(unsorted, strlen(unsorted), TRACE_NATIVE, &zeros, rows, &e2), -1);
  ck_assert_uint_eq(e2.line, 3);
}
END_TEST

/* A line of 1 MiB is read, whatever its end; one byte more is not. */
START_TEST(long_line)
{
  static const char head[] = "arrival_ns,prompt_tokens,output_tokens,note\n", row[] = "0,1,2,";
  static const char *const ends[] = {"", "\n", "\r\n"};
  const size_t header = strlen(head), all = header + TRACE_LINE_MAX + 16;
  char rows[TEXT], *text = malloc(all);
  ck_assert_ptr_nonnull(text);
  memset(text, 'x', all);
  memcpy(text, head, header);
  memcpy(text + header, row, strlen(row));
  for (size_t i = 0; i < 3; i++) {
    for (int more = 0; more <= 1; more++) {
      struct base_error e = {0};
      size_t size = header + TRACE_LINE_MAX + (size_t)more;
      memcpy(text + size, ends[i], strlen(ends[i]));
      int r = read_memory(text, size + strlen(ends[i]), TRACE_NATIVE, NULL, rows, &e);
      ck_assert_int_eq(r, -more);
      ck_assert(!more || (e.line == 2 && strstr(e.text, "longer than 1 MiB")));
      memset(text + size, 'x', 2);
    }
  }
  free(text);
}
END_TEST

/* However a gzip file is cut or one bit of it changed, it never reads as another trace. */
START_TEST(damaged_gzip)
{
  size_t size;
  char *text = slurp(data_path("native-members.csv.gz"), &size), right[TEXT], rows[TEXT];
  ck_assert_int_eq(read_memory(text, size, TRACE_NATIVE, NULL, right, NULL), 0);
  size_t whole = size;
  while (
      !text[whole - 1]) /* zeros behind the last member may go, as its size has zeros in the end */
    whole--;
  for (size_t n = 0; n < whole; n++) {
    /* even between the members, where it is a whole gzip file: that one ends in half a row */
    ck_assert_msg(read_memory(text, n, TRACE_NATIVE, NULL, rows, NULL) == -1, "cut to %zu", n);
  }
  for (size_t bit = 0; bit < 8 * whole; bit++) {
    text[bit / 8] ^= (char)(1 << bit % 8);
    int r = read_memory(text, size, TRACE_NATIVE, NULL, rows, NULL);
    ck_assert_msg(r == -1 || strcmp(rows, right) == 0, "bit %zu changed", bit);
    text[bit / 8] ^= (char)(1 << bit % 8);
  }
  free(text);
}
END_TEST

static const struct stamp {
  const char *text;
  int64_t seconds; /* since 1970; -1: refused */
  int ns;
} stamps[] = {
    {"1970-01-01 00:00:00", 0, 0},
    {"1970-01-02 00:00:00.5", 86400, 500000000},
    {"2000-02-29 12:34:56.123456789", 951827696, 123456789},
    {"2023-11-16 18:17:03.9799600", 1700158623, 979960000},
    {"2024-03-01 00:00:00", 1709251200, 0},
    {"2100-03-01 00:00:00", 4107542400, 0},
    {"9999-12-31 23:59:59.999999999", 253402300799, 999999999},
    {"0000-01-01 00:00:00", -1, 0},
    {"2023-02-29 00:00:00", -1, 0},
    {"2100-02-29 00:00:00", -1, 0},
    {"2023-04-31 00:00:00", -1, 0},
    {"2023-13-01 00:00:00", -1, 0},
    {"2023-00-01 00:00:00", -1, 0},
    {"2023-01-00 00:00:00", -1, 0},
    {"2023-01-01 24:00:00", -1, 0},
    {"2023-01-01 00:60:00", -1, 0},
    {"2023-01-01 00:00:60", -1, 0},
    {"2023-01-01 00:00:00.", -1, 0},
    {"2023-01-01 00:00:00.1234567890", -1, 0},
    {"2023-01-01 00:00:00Z", -1, 0},
    {"2023-01-01T00:00:00", -1, 0},
    {"2023-1-01 00:00:00", -1, 0},
    {"2023-01-01", -1, 0},
    {"", -1, 0},
};

START_TEST(stamp)
{
  const struct stamp *s = &stamps[_i];
  __int128 t_ns = 0;
  ck_assert_msg(trace_stamp(s->text, &t_ns) == (s->seconds < 0 ? -1 : 0), "%s", s->text);
  if (s->seconds >= 0) {
    ck_assert_msg((int64_t)(t_ns / 1000000000) == s->seconds, "%s", s->text);
    ck_assert_int_eq((int)(t_ns % 1000000000), s->ns);
  }
}
END_TEST

/* A table far larger than its first size, each id found again with its line. */
START_TEST(ids)
{
  struct trace_ids set = {0};
  for (int twice = 0; twice <= 1; twice++) {
    for (int i = 1; i <= 20000; i++) {
      char id[16];
      snprintf(id, sizeof id, "req-%d", i);
      ck_assert_int_eq(trace_ids_add(&set, id, (uint64_t)i, NULL), twice ? i : 0);
    }
  }
  trace_ids_free(&set);
}
END_TEST

/* What trace_print_stats writes. */
static char *printed(const struct trace_stats *s)
{
  char *text = NULL;
  size_t size;
  FILE *f = open_memstream(&text, &size);
  ck_assert_ptr_nonnull(f);
  ck_assert_int_eq(trace_print_stats(s, f), 0);
  ck_assert_int_eq(fclose(f), 0);
  return text;
}

/* Same text, or both reals and within 1e-12 of each other. */
static int same_value(const char *a, const char *b)
{
  if (strcmp(a, b) == 0)
    return 1;
  char *end_a, *end_b;
  double x = strtod(a, &end_a), y = strtod(b, &end_b);
  int real = strpbrk(a, ".e") || strpbrk(b, ".e");
  return real && !*end_a && !*end_b && fabs(x - y) <= 1e-12 * fabs(y);
}

/* Compares "name value" lines, names and order included. */
static void assert_same_stats(const char *what, char *got, char *wanted)
{
  char *g_rest = NULL, *w_rest = NULL;
  char *g = strtok_r(got, "\n", &g_rest), *w = strtok_r(wanted, "\n", &w_rest);
  for (; g && w; g = strtok_r(NULL, "\n", &g_rest), w = strtok_r(NULL, "\n", &w_rest)) {
    char *gv = strchr(g, ' '), *wv = strchr(w, ' ');
    ck_assert_msg(gv && wv && gv - g == wv - w && strncmp(g, w, (size_t)(gv - g)) == 0 &&
                      same_value(gv + 1, wv + 1),
                  "%s: '%s' instead of '%s'", what, g, w);
  }
  ck_assert_msg(!g && !w, "%s: '%s' instead of '%s'", what, g ? g : "end", w ? w : "end");
}

static char *file_stats(const char *path, int format)
{
  struct base_error e = {0};
  struct trace_stats s;
  ck_assert_msg(trace_read_stats(path, format, &s, &e) == 0, "%s: %s", path, e.text);
  return printed(&s);
}

/* Unsorted, with zeros, gaps of centuries: computed in exact rationals outside this program. */
START_TEST(loose_stats)
{
  size_t size;
  char *wanted = slurp(data_path("native-loose.stats"), &size);
  char *got = file_stats(data_path("native-loose.csv"), TRACE_NATIVE);
  assert_same_stats("native-loose.csv", got, wanted);
  free(got);
  free(wanted);
}
END_TEST

START_TEST(length_stats)
{
  char wanted[] = "n 3\nprompt_sum 3873\nprompt_mean 1291\nprompt_min 1\nprompt_p50 100\n"
                  "prompt_p95 3404.8\nprompt_p99 3698.56\nprompt_max 3772\nprompt_zeros 0\n"
                  "output_sum 105\noutput_mean 35\noutput_min 1\noutput_p50 50\noutput_p95 53.6\n"
                  "output_p99 53.92\noutput_max 54\noutput_zeros 0\ncrc32 9d2fe7b9\n";
  char *got = file_stats(data_path("vidur-lengths.csv"), TRACE_VIDUR);
  assert_same_stats("vidur-lengths.csv", got, wanted);
  free(got);
}
END_TEST

/* One arrival has no gaps and no span: zeros, not a division by them. */
START_TEST(one_row_stats)
{
  struct trace_stats s;
  ck_assert_int_eq(trace_read_stats(data_path("native-one.csv"), TRACE_NATIVE, &s, NULL), 0);
  ck_assert_int_eq(s.span_ns, 0);
  ck_assert(s.rate_per_s == 0 && s.iat_cv == 0 && s.iat_max_ns == 0);
  ck_assert(s.w1.k == 1 && s.w1.idc == 0 && s.empty_1s_fraction == 0 && s.distinct_times == 1);
  ck_assert(s.prompt.p99 == 7 && s.output.mean == 9);
}
END_TEST

START_TEST(bad_stats)
{
  struct trace_stats s = {.n = 77};
  struct base_error e = {0};
  ck_assert_int_eq(trace_read_stats(data_path("bad-word.csv"), TRACE_NATIVE, &s, &e), -1);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_uint_eq(e.line, 3);
  ck_assert_uint_eq(s.n, 77);
}
END_TEST

START_TEST(print_to_full_disk)
{
  struct trace_stats s = {.n = 1, .has_times = 1};
  FILE *f = fopen("/dev/full", "w");
  if (!f) {
    printf("SKIP: print_to_full_disk: there is no /dev/full here\n");
    return;
  }
  setvbuf(f, NULL, _IONBF, 0);
  ck_assert_int_eq(trace_print_stats(&s, f), -1);
  fclose(f);
}
END_TEST

static const struct real {
  const char *name, *file;
  int format;
} reals[] = {
    {"azure-2023-code", "azure-llm-2023-code.csv.gz", TRACE_AZURE},
    {"azure-2023-conv", "azure-llm-2023-conv.csv.gz", TRACE_AZURE},
    {"mooncake-conversation", "mooncake-fast25-conversation.jsonl.gz", TRACE_MOONCAKE},
    {"mooncake-synthetic", "mooncake-fast25-synthetic.jsonl.gz", TRACE_MOONCAKE},
    {"vidur-splitwise-code", "vidur-splitwise-code.csv.gz", TRACE_VIDUR},
    {"vidur-splitwise-conv", "vidur-splitwise-conv.csv.gz", TRACE_VIDUR},
    {"vidur-arxiv", "vidur-arxiv-lengths.csv.gz", TRACE_VIDUR},
};

/* The row of a CSV of golden values as "name value" lines; empty cells are left out. */
static void golden_row(char *csv, const char *name, char *out, size_t size)
{
  char *line = NULL, *head = strsep(&csv, "\n");
  do
    line = strsep(&csv, "\n");
  while (line && (strncmp(line, name, strlen(name)) != 0 || line[strlen(name)] != ','));
  ck_assert_msg(line != NULL, "no golden values of %s", name);
  strsep(&head, ",");
  strsep(&line, ",");
  size_t n = 0;
  while (line) {
    const char *column = strsep(&head, ","), *value = strsep(&line, ",");
    ck_assert_ptr_nonnull(column);
    if (*value)
      n += (size_t)snprintf(out + n, size - n, "%s %s\n", column, value);
  }
}

START_TEST(golden)
{
  const struct real *r = &reals[_i];
  const char *folder = getenv("LULL_DATA");
  char path[1024], wanted[TEXT];
  size_t size;
  if (!folder || !*folder) {
    printf("SKIP: golden %s: LULL_DATA does not name the folder of public data sets\n", r->name);
    return;
  }
  snprintf(path, sizeof path, "%s/trace-stats.csv", folder);
  char *csv = slurp(path, &size);
  golden_row(csv, r->name, wanted, sizeof wanted);
  snprintf(path, sizeof path, "%s/traces/%s", folder, r->file);
  char *got = file_stats(path, r->format);
  assert_same_stats(r->name, got, wanted);
  free(got);
  free(csv);
}
END_TEST

static Suite *trace_suite(void)
{
  Suite *suite = suite_create("trace");
  TCase *files = tcase_create("files"), *statistics = tcase_create("statistics");
  tcase_set_timeout(files, 60);
  tcase_set_timeout(statistics, 60);
  tcase_add_loop_test(files, good_file, 0, sizeof goods / sizeof *goods);
  tcase_add_test(files, row_extras);
  tcase_add_loop_test(files, bad_file, 0, sizeof bads / sizeof *bads);
  tcase_add_test(files, no_such_file);
  tcase_add_test(files, formats);
  tcase_add_test(files, rules);
  tcase_add_test(files, long_line);
  tcase_add_test(files, damaged_gzip);
  tcase_add_loop_test(files, stamp, 0, sizeof stamps / sizeof *stamps);
  tcase_add_test(files, ids);
  tcase_add_test(statistics, loose_stats);
  tcase_add_test(statistics, length_stats);
  tcase_add_test(statistics, one_row_stats);
  tcase_add_test(statistics, bad_stats);
  tcase_add_test(statistics, print_to_full_disk);
  tcase_add_loop_test(statistics, golden, 0, sizeof reals / sizeof *reals);
  suite_add_tcase(suite, files);
  suite_add_tcase(suite, statistics);
  return suite;
}

int main(void)
{
  return suite_run(trace_suite());
}
