/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The file of requests: both formats hold what the runs told, in the order of ids; the same bytes
 * each time; and memory that does not grow with the length of a run.
 */
#include <check.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/outfile.h"
#include "sim/report/order.h"
#include "sim/report/report.h"
#include "tests/limits.h"
#include "tests/suite.h"

/* -------------------------------------------------------------------------------- scenarios --- */

static const char *const scenario_file = "check_requests.xml";

/* Live requests, some too long for the server; batch, some still there at the end; preemptions; an
 * arm whose candidates have other servers. %s: the window. */
static const char *const mixed =
    "<scenario xmlns='urn:lull:scenario:1' version='1' id='mixed'>"
    "<title>Mixed</title><run window='%s' drain='100ms' seeds='29 17'/>"
    "<machine><analytic base='1ms' per-token='2us' per-context='1ns' kv-per-token='64KiB'/>"
    "</machine>"
    "<engine max-seqs='64' token-budget='512tok' block='16tok' kv-blocks='120'"
    " host-link='20GB/s' max-context='600tok'/>"
    "<class id='live' kind='live'><arrivals process='poisson' rate='400/s'/>"
    "<prompt dist='lognormal' mean='40tok' sigma='1' max='640tok'/>"
    "<output dist='uniform' min='1tok' max='40tok'/>"
    "<slo ttft='50ms' tpot='2ms'/></class>"
    "<class id='batch' kind='batch'><arrivals process='backlog' below='32'/>"
    "<prompt dist='constant' mean='48tok'/><output dist='uniform' min='1tok' max='90tok'/></class>"
    "<arm id='shared' policy='priority'><server id='s' gpu='0' classes='live batch'/></arm>"
    "<arm id='apart' policy='dedicated' baseline='yes'>"
    "<server id='l' gpu='0' classes='live'/><server id='b' gpu='1' classes='batch'/>"
    "<candidate id='narrow'><set server='b' attribute='max-seqs' value='8'/></candidate>"
    "<candidate id='wide'><set server='b' attribute='max-seqs' value='64'/></candidate></arm>"
    "</scenario>";

/* Very many short requests of a backlog: neither a plan's rows nor samples take memory. */
static const char *const many =
    "<scenario xmlns='urn:lull:scenario:1' version='1' id='many'>"
    "<title>Many</title><run window='%s' seeds='1'/>"
    "<machine><analytic base='1ms' per-token='1us' kv-per-token='64KiB'/></machine>"
    "<engine max-seqs='64' token-budget='8192tok' block='16tok' kv-blocks='4000'"
    " host-link='20GB/s' max-context='4096tok'/>"
    "<class id='batch' kind='batch'><arrivals process='backlog' below='64'/>"
    "<prompt dist='uniform' min='1tok' max='20tok'/><output dist='uniform' min='1tok' max='4tok'/>"
    "</class>"
    "<arm id='one' policy='fcfs'><server id='s' gpu='0' classes='batch'/></arm>"
    "</scenario>";

static struct scenario *open_scenario(const char *body, const char *window)
{
  struct base_errors errors = {0};
  FILE *out = fopen(scenario_file, "w");
  ck_assert_ptr_nonnull(out);
  ck_assert_int_gt(fprintf(out, body, window), 0);
  ck_assert_int_eq(fclose(out), 0);
  struct scenario *s = scenario_open(scenario_file, NULL, &errors);
  ck_assert_msg(s != NULL, "%s", errors.n ? errors.item[0].text : "no error");
  base_errors_free(&errors);
  unlink(scenario_file);
  return s;
}

/* --------------------------------------------- both formats beside records kept in an array --- */

static const char *const header =
    "arm,candidate,seed,id,class,server,arrival_ps,first_chunk_ps,first_token_ps,last_token_ps,"
    "prompt,output,generated,preemptions,discarded,cached_tokens,fate,slo_met\r\n";
static const char *const fates[] = {"pending",   "finished", "failed",    "rejected",
                                    "cancelled", "expired",  "unfinished"};

/* Keeps all records of a run and writes them at its end, as one would without regard to memory; and
 * passes on what it is told. */
struct keeper {
  struct experiment_place run;
  struct world_record *record;
  uint64_t cap, early; /* ended before an older one */
  lull_id last;
  FILE *out;
  unsigned seen[7]; /* of each fate */
  uint64_t preempts;
  const struct experiment_sink *to[2];
};

static int keep_begin(void *ctx, const struct experiment_place *run, struct base_error *e)
{
  struct keeper *k = ctx;
  k->run = *run;
  k->last = -1;
  return k->to[0]->begin(k->to[0]->ctx, run, e) || k->to[1]->begin(k->to[1]->ctx, run, e) ? -1 : 0;
}

static void keep(void *ctx, lull_id id, const struct world_record *r)
{
  struct keeper *k = ctx;
  if ((uint64_t)id >= k->cap) {
    k->cap = 2 * (uint64_t)id + 1024;
    k->record = realloc(k->record, k->cap * sizeof *k->record);
    ck_assert_ptr_nonnull(k->record);
  }
  k->record[id] = *r;
  k->early += id < k->last;
  k->last = id;
  k->seen[r->fate]++;
  k->preempts += r->preempts;
  for (int i = 0; i < 2; i++)
    k->to[i]->ended(k->to[i]->ctx, id, r);
}

static void print_moment(FILE *out, int64_t t, int64_t missing)
{
  if (t == missing)
    fputc(',', out);
  else
    fprintf(out, "%lld,", (long long)t);
}

static int keep_end(void *ctx, const struct world_result *result, struct base_error *e)
{
  struct keeper *k = ctx;
  const struct scenario_arm *arm = &k->run.scenario->arm[k->run.arm];
  const struct scenario_candidate *c = &arm->candidate[k->run.candidate];
  for (uint64_t i = 0; i < result->records; i++) {
    const struct world_record *r = &k->record[i];
    const struct world_class *cls = &k->run.config->cls[r->cls];
    fprintf(k->out, "%s,%s,%llu,%llu,%s,%s,", arm->id, c->id, (unsigned long long)k->run.seed,
            (unsigned long long)i, cls->name, r->server < 0 ? "" : c->server[r->server].id);
    print_moment(k->out, r->arrival, LULL_NEVER);
    print_moment(k->out, r->first_chunk, LULL_NEVER);
    print_moment(k->out, r->first_token, LULL_NEVER);
    print_moment(k->out, r->last_token, LULL_NEVER);
    fprintf(k->out, "%u,%u,%u,%u,%llu,%llu,%s,%s\r\n", r->prompt, r->output, r->generated,
            r->preempts, (unsigned long long)r->discarded, (unsigned long long)r->cached,
            fates[r->fate],
            !cls->interactive ? ""
            : r->met          ? "1"
                              : "0");
  }
  return k->to[0]->end(k->to[0]->ctx, result, e) || k->to[1]->end(k->to[1]->ctx, result, e) ? -1
                                                                                            : 0;
}

/* Runs the scenario once, into three files at a time. */
static struct keeper run_into(const struct scenario *s, const char *kept, const char *csv,
                              const char *hdf5)
{
  struct base_error e = {0};
  struct report_requests *file[2] = {report_requests_open(csv, s, &e),
                                     report_requests_open(hdf5, s, &e)};
  struct keeper k = {.out = fopen(kept, "w")};
  const struct experiment_sink sink = {&k, keep_begin, keep, keep_end};
  const struct experiment_options o = {.sink = &sink};
  ck_assert_msg(k.out && file[0] && file[1], "%s", e.text);
  for (int i = 0; i < 2; i++)
    k.to[i] = report_requests_sink(file[i]);
  fputs(header, k.out);
  struct experiment *x = experiment_run(s, &o, &e);
  ck_assert_msg(x != NULL, "%s", e.text);
  experiment_free(x);
  ck_assert_int_eq(fclose(k.out), 0);
  for (int i = 0; i < 2; i++)
    ck_assert_msg(report_requests_close(file[i], 0, &e) == 0, "%s", e.text);
  free(k.record);
  return k;
}

static void same_bytes(const char *a, const char *b)
{
  struct base_error e = {0};
  size_t n = 0, m = 0;
  char *x = base_read_file(a, 1 << 30, &n, &e), *y = base_read_file(b, 1 << 30, &m, &e);
  ck_assert_msg(x && y, "%s", e.text);
  ck_assert_msg(n == m && !memcmp(x, y, n), "%s and %s differ", a, b);
  free(x);
  free(y);
}

/* ----------------------------------------------------------------------- reading HDF5 again --- */

struct read_row {
  int64_t id, arrival, first_chunk, first_token, last_token, discarded, cached, prompt, output,
      generated, preempts, candidate, server, cls, fate, met;
};
static const struct {
  const char *name, *unit;
  size_t offset;
} read_columns[] = {
    {"candidate", NULL, offsetof(struct read_row, candidate)},
    {"id", NULL, offsetof(struct read_row, id)},
    {"class", NULL, offsetof(struct read_row, cls)},
    {"server", NULL, offsetof(struct read_row, server)},
    {"arrival_ps", "ps", offsetof(struct read_row, arrival)},
    {"first_chunk_ps", "ps", offsetof(struct read_row, first_chunk)},
    {"first_token_ps", "ps", offsetof(struct read_row, first_token)},
    {"last_token_ps", "ps", offsetof(struct read_row, last_token)},
    {"prompt", "tokens", offsetof(struct read_row, prompt)},
    {"output", "tokens", offsetof(struct read_row, output)},
    {"generated", "tokens", offsetof(struct read_row, generated)},
    {"preemptions", NULL, offsetof(struct read_row, preempts)},
    {"discarded", "tokens", offsetof(struct read_row, discarded)},
    {"cached_tokens", "tokens", offsetof(struct read_row, cached)},
    {"fate", NULL, offsetof(struct read_row, fate)},
    {"slo_met", NULL, offsetof(struct read_row, met)},
};
enum { READ_COLUMNS = sizeof read_columns / sizeof *read_columns };

/* A text attribute; to be freed. */
static char *text_at(hid_t at, const char *name)
{
  hid_t a = H5Aopen(at, name, H5P_DEFAULT), type = H5Aget_type(a);
  char *text = NULL;
  ck_assert_int_gt(H5Tis_variable_str(type), 0);
  ck_assert_int_ge(H5Aread(a, type, &text), 0);
  char *copy = strdup(text);
  ck_assert_int_ge(H5free_memory(text), 0);
  H5Tclose(type);
  H5Aclose(a);
  return copy;
}

static int64_t number_at(hid_t at, const char *name)
{
  hid_t a = H5Aopen(at, name, H5P_DEFAULT);
  int64_t value = INT64_MIN;
  ck_assert_int_ge(H5Aread(a, H5T_NATIVE_INT64, &value), 0);
  H5Aclose(a);
  return value;
}

static void says(hid_t at, const char *name, const char *text)
{
  char *got = text_at(at, name);
  ck_assert_str_eq(got, text);
  free(got);
}

/* Prints the word at a place of a list, nothing for -1; then a comma. */
static void print_word(FILE *out, const char *list, int64_t code)
{
  ck_assert_int_ge(code, -1);
  for (int64_t i = 0; i < code; i++) {
    list = strchr(list, ' ');
    ck_assert_ptr_nonnull(list);
    list++;
  }
  fprintf(out, "%.*s,", code < 0 ? 0 : (int)strcspn(list, " "), list);
}

/* The names and units that a table states; its rows, to be freed. */
static struct read_row *read_table(hid_t table, hsize_t *n)
{
  hid_t memory = H5Tcreate(H5T_COMPOUND, sizeof(struct read_row));
  hid_t disk = H5Dget_type(table), space = H5Dget_space(table);
  char unit[32];
  ck_assert_int_eq(H5Tget_nmembers(disk), READ_COLUMNS);
  for (int i = 0; i < READ_COLUMNS; i++) {
    char *name = H5Tget_member_name(disk, (unsigned)i);
    ck_assert_str_eq(name, read_columns[i].name);
    H5free_memory(name);
    snprintf(unit, sizeof unit, "FIELD_%d_UNITS", i);
    if (read_columns[i].unit)
      says(table, unit, read_columns[i].unit);
    else
      ck_assert_int_eq(H5Aexists(table, unit), 0);
    ck_assert_int_ge(
        H5Tinsert(memory, read_columns[i].name, read_columns[i].offset, H5T_NATIVE_INT64), 0);
  }
  ck_assert_int_eq(H5Sget_simple_extent_dims(space, n, NULL), 1);
  struct read_row *row = malloc((size_t)*n * sizeof *row);
  ck_assert_int_ge(H5Dread(table, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, row), 0);
  H5Sclose(space);
  H5Tclose(disk);
  H5Tclose(memory);
  return row;
}

/* Prints the table of an arm and seed as CSV. */
static void print_table(FILE *out, hid_t file, const char *arm, uint64_t seed)
{
  char path[128];
  snprintf(path, sizeof path, "/%s/%llu/requests", arm, (unsigned long long)seed);
  hid_t table = H5Dopen2(file, path, H5P_DEFAULT);
  ck_assert_int_ge(table, 0);
  hsize_t n;
  struct read_row *row = read_table(table, &n);
  char *candidate = text_at(table, "candidate_names"), *cls = text_at(table, "class_names");
  char *server = text_at(table, "server_names"), *fate = text_at(table, "fate_names");
  ck_assert_int_eq(number_at(table, "missing"), -1);
  for (hsize_t i = 0; i < n; i++) {
    const struct read_row *r = &row[i];
    fprintf(out, "%s,", arm);
    print_word(out, candidate, r->candidate);
    fprintf(out, "%llu,%lld,", (unsigned long long)seed, (long long)r->id);
    print_word(out, cls, r->cls);
    print_word(out, server, r->server);
    print_moment(out, r->arrival, -1);
    print_moment(out, r->first_chunk, -1);
    print_moment(out, r->first_token, -1);
    print_moment(out, r->last_token, -1);
    fprintf(out, "%lld,%lld,%lld,%lld,%lld,%lld,", (long long)r->prompt, (long long)r->output,
            (long long)r->generated, (long long)r->preempts, (long long)r->discarded,
            (long long)r->cached);
    print_word(out, fate, r->fate);
    fputs(r->met < 0 ? "\r\n" : r->met ? "1\r\n" : "0\r\n", out);
  }
  free(candidate);
  free(cls);
  free(server);
  free(fate);
  free(row);
  H5Dclose(table);
}

/* Prints a whole file as the CSV file of the same runs. */
static void print_hdf5(const char *path, const struct scenario *s, const char *to)
{
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  FILE *out = fopen(to, "w");
  ck_assert_ptr_nonnull(out);
  ck_assert_int_ge(file, 0);
  says(file, "format", "lull results");
  says(file, "scenario", s->id);
  says(file, "lull", PACKAGE_VERSION);
  says(file, "seeds", "29 17");
  ck_assert_int_eq(number_at(file, "version"), 1);
  ck_assert_int_eq(number_at(file, "partial"), 0);
  fputs(header, out);
  for (uint32_t k = 0; k < s->nseeds; k++)
    for (uint32_t a = 0; a < s->narms; a++)
      print_table(out, file, s->arm[a].id, s->seed[k]);
  ck_assert_int_eq(fclose(out), 0);
  ck_assert_int_ge(H5Fclose(file), 0);
}

static void remove_all(void)
{
  static const char *const name[] = {"kept.csv", "a.csv", "a.h5", "read.csv", "b.csv", "b.hdf5"};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    char path[64];
    snprintf(path, sizeof path, "check_requests_%s", name[i]);
    unlink(path);
  }
}

START_TEST(formats_agree)
{
  struct scenario *s = open_scenario(mixed, "25s");
  struct keeper k = run_into(s, "check_requests_kept.csv", "check_requests_a.csv",
                             "check_requests_a.h5");
  /* The case is worth its name: pages enough, and every way for a row to be odd. */
  ck_assert_uint_gt(k.seen[WORLD_DONE], 10 * ORDER_PAGE);
  ck_assert_uint_gt(k.seen[WORLD_UNFINISHED], 0);
  ck_assert_uint_gt(k.seen[WORLD_FATE_FAILED], 0);
  ck_assert_uint_gt(k.preempts, 0);
  ck_assert_uint_gt(k.early, 0);
  same_bytes("check_requests_kept.csv", "check_requests_a.csv");
  print_hdf5("check_requests_a.h5", s, "check_requests_read.csv");
  same_bytes("check_requests_read.csv", "check_requests_a.csv");
  scenario_close(s);
  remove_all();
}
END_TEST

START_TEST(same_bytes_again)
{
  struct scenario *s = open_scenario(mixed, "5s");
  run_into(s, "check_requests_kept.csv", "check_requests_a.csv", "check_requests_a.h5");
  run_into(s, "check_requests_kept.csv", "check_requests_b.csv", "check_requests_b.hdf5");
  same_bytes("check_requests_a.csv", "check_requests_b.csv");
  same_bytes("check_requests_a.h5", "check_requests_b.hdf5");
  scenario_close(s);
  remove_all();
}
END_TEST

/* --------------------------------------------------------------------------------- a signal --- */

static volatile int stop;

/* A signal comes at the 5,000th end of a run. */
struct stopper {
  uint64_t n;
  const struct experiment_sink *to;
};

static int pass_begin(void *ctx, const struct experiment_place *run, struct base_error *e)
{
  const struct stopper *p = ctx;
  return p->to->begin(p->to->ctx, run, e);
}

static void pass_until(void *ctx, lull_id id, const struct world_record *r)
{
  struct stopper *p = ctx;
  stop |= ++p->n == 5000;
  p->to->ended(p->to->ctx, id, r);
}

static int pass_end(void *ctx, const struct world_result *r, struct base_error *e)
{
  const struct stopper *p = ctx;
  ck_assert_uint_eq(p->n, r->records);
  return p->to->end(p->to->ctx, r, e);
}

START_TEST(partial_marked)
{
  struct scenario *s = open_scenario(mixed, "25s");
  struct base_error e = {0};
  struct report_requests *file = report_requests_open("check_requests_a.h5", s, &e);
  ck_assert_msg(file != NULL, "%s", e.text);
  struct stopper p = {.to = report_requests_sink(file)};
  const struct experiment_sink sink = {&p, pass_begin, pass_until, pass_end};
  const struct experiment_options o = {.sink = &sink, .stop = &stop};
  struct experiment *x = experiment_run(s, &o, &e);
  ck_assert_msg(x != NULL, "%s", e.text);
  ck_assert_int_eq(x->partial, 1);
  ck_assert_int_eq(report_requests_close(file, x->partial, &e), 0);
  hid_t h = H5Fopen("check_requests_a.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
  hid_t g = H5Gopen2(h, "shared/29", H5P_DEFAULT), table = H5Dopen2(g, "requests", H5P_DEFAULT);
  hsize_t n;
  free(read_table(table, &n));
  ck_assert_uint_eq(n, p.n);
  ck_assert_int_eq(number_at(h, "partial"), 1);
  ck_assert_int_eq(number_at(g, "partial"), 1);
  ck_assert_int_eq(H5Lexists(h, "apart", H5P_DEFAULT), 0);
  says(h, "seeds", "29");
  H5Dclose(table);
  H5Gclose(g);
  H5Fclose(h);
  experiment_free(x);
  scenario_close(s);
  remove_all();
}
END_TEST

/* ----------------------------------------------------------------------------------- memory --- */

static void run_many(const char *path, const char *window)
{
  struct base_error e = {0};
  struct scenario *s = open_scenario(many, window);
  struct report_requests *file = report_requests_open(path, s, &e);
  ck_assert_msg(file != NULL, "%s", e.text);
  const struct experiment_options o = {.sink = report_requests_sink(file)};
  struct experiment *x = experiment_run(s, &o, &e);
  ck_assert_msg(x != NULL, "%s", e.text);
  experiment_free(x);
  ck_assert_msg(report_requests_close(file, 0, &e) == 0, "%s", e.text);
  scenario_close(s);
  unlink(path);
}

static void csv_of(int seconds)
{
  char window[16];
  snprintf(window, sizeof window, "%ds", seconds);
  run_many("check_requests_many.csv", window);
}

static void hdf5_of(int seconds)
{
  char window[16];
  snprintf(window, sizeof window, "%ds", seconds);
  run_many("check_requests_many.h5", window);
}

/* Ten times as long: 80,000 and 800,000 requests, which took 6 and 60 MiB when they were kept. */
START_TEST(bounded_memory)
{
  check_peaks(_i ? hdf5_of : csv_of, 4);
}
END_TEST

/* ----------------------------------------------------------------------------------- errors --- */

/* A disk that is full from some byte on: the failure is told, whenever it comes, and nothing is
 * left. */
static void full_disk(const char *path, rlim_t bytes)
{
  struct base_error e = {0};
  struct scenario *s = open_scenario(mixed, "5s");
  limit_files(bytes);
  struct report_requests *file = report_requests_open(path, s, &e);
  int failed = !file;
  if (file) {
    const struct experiment_options o = {.sink = report_requests_sink(file)};
    struct experiment *x = experiment_run(s, &o, &e);
    failed = !x || report_requests_close(file, 0, &e);
    if (!x)
      report_requests_abandon(file);
    experiment_free(x);
  }
  ck_assert_int_eq(failed, 1);
  ck_assert_int_eq(e.code, BASE_ENV);
  ck_assert_msg(strstr(e.text, path) != NULL, "%s", e.text);
  ck_assert_msg(strstr(e.text, "large") != NULL, "%s", e.text);
  ck_assert_int_ne(access(path, F_OK), 0);
  scenario_close(s);
}

START_TEST(full_disk_hdf5)
{
  static const rlim_t bytes[] = {0, 1000, 5000, 20000, 100000};
  full_disk("check_requests_full.h5", bytes[_i]);
}
END_TEST

START_TEST(full_disk_csv)
{
  full_disk("check_requests_full.csv", 100000);
}
END_TEST

int main(void)
{
  Suite *s = suite_create("requests");
  TCase *t = tcase_create("requests");

  tcase_set_timeout(t, 120);
  tcase_add_test(t, formats_agree);
  tcase_add_test(t, same_bytes_again);
  tcase_add_test(t, partial_marked);
  tcase_add_loop_test(t, bounded_memory, 0, 2);
  tcase_add_loop_test(t, full_disk_hdf5, 0, 5);
  tcase_add_test(t, full_disk_csv);
  suite_add_tcase(s, t);
  return suite_run(s);
}
