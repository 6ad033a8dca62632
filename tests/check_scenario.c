/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Scenarios: what is refused and how it is said, and what is read (check_plan.c: what is frozen).
 * Each file tests/data/scenarios/bad-*.xml says in comments "expect CODE LINE TEXT" which errors it
 * must give; every good-*.xml must open.
 */
#include <check.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/outfile.h"
#include "models/calibration.h"
#include "sim/scenario/reader.h"
#include "tests/suite.h"

static const char *source(const char *below)
{
  static char path[4][1024];
  static int turn;
  char *p = path[turn++ & 3];
  const char *dir = getenv("srcdir");
  snprintf(p, sizeof path[0], "%s/%s", dir && dir[0] ? dir : ".", below);
  return p;
}

static void print_errors(const struct base_errors *errors)
{
  char text[1400];
  for (size_t i = 0; i < errors->n; i++)
    fprintf(stderr, "  %s\n", base_error_format(&errors->item[i], text, sizeof text));
}

/* Opens; prints what is wrong. */
static struct scenario *open_good(const char *path, const struct scenario_options *o)
{
  struct base_errors errors = {0};
  struct scenario *s = scenario_open(path, o, &errors);
  if (!s)
    print_errors(&errors);
  ck_assert_ptr_nonnull(s);
  ck_assert_uint_eq(errors.total, 0);
  base_errors_free(&errors);
  return s;
}

static int has_error(const struct base_errors *errors, int code, unsigned line, const char *text)
{
  for (size_t i = 0; i < errors->n; i++)
    if (errors->item[i].code == code && errors->item[i].line == line &&
        strstr(errors->item[i].text, text))
      return 1;
  return 0;
}

static void join(char path[1400], const char *folder, const char *name)
{
  int n = snprintf(path, 1400, "%s/%s", folder, name);
  ck_assert(n > 0 && n < 1400);
}

/* Every "expect" comment of a file against its errors. Returns how many there were; with a comment
 * "expect more" the file may have others, and all count. -1: an expected one is missing. */
static int check_expectations(const char *path, const struct base_errors *errors)
{
  static const char mark[] = "<!-- expect ";
  int n = 0;
  char *data = base_read_file(path, 1 << 20, NULL, NULL);
  ck_assert_ptr_nonnull(data);
  int more = strstr(data, "<!-- expect more -->") != NULL;
  for (char *p = data; (p = strstr(p, mark)); n++) {
    if (p[sizeof mark - 1] == 'm')
      break;
    char *end, *stop = strstr(p, " -->");
    ck_assert_ptr_nonnull(stop);
    *stop = 0;
    long code = strtol(p + sizeof mark - 1, &end, 10), line = strtol(end, &end, 10);
    const char *text = *end ? end + 1 : end;
    if (!has_error(errors, (int)code, (unsigned)line, text)) {
      fprintf(stderr, "%s: expected code %ld, line %ld, \"%s\"; got:\n", path, code, line, text);
      print_errors(errors);
      free(data);
      return -1;
    }
    p = stop + 1;
  }
  free(data);
  return more ? (int)errors->total : n;
}

/* Names in a folder that start with `front`, sorted. */
static int list_files(const char *folder, const char *front, char (*name)[256], int max)
{
  struct dirent **entry;
  int found = scandir(folder, &entry, NULL, alphasort), n = 0;
  ck_assert_int_gt(found, 0);
  for (int i = 0; i < found; i++) {
    if (!strncmp(entry[i]->d_name, front, strlen(front)) && n < max)
      snprintf(name[n++], sizeof name[0], "%s", entry[i]->d_name);
    free(entry[i]);
  }
  free(entry);
  return n;
}

/* 1 if the file gives just the errors that it expects. */
static int is_bad_as_expected(const char *path)
{
  struct base_errors errors = {0};
  struct scenario_options o = {.data_dir = source("tests/data/scenarios")};
  struct scenario *s = scenario_open(path, &o, &errors);
  int expected = check_expectations(path, &errors);
  int good = !s && expected > 0 && (size_t)expected == errors.total;
  if (!good && expected >= 0) {
    fprintf(stderr, "%s: %d errors expected, %zu found:\n", path, expected, errors.total);
    print_errors(&errors);
  }
  scenario_close(s);
  base_errors_free(&errors);
  return good;
}

START_TEST(bad_files)
{
  char name[200][256], path[1400];
  int n = list_files(source("tests/data/scenarios"), "bad-", name, 200), wrong = 0;
  ck_assert_int_ge(n, 80);
  for (int i = 0; i < n; i++) {
    join(path, source("tests/data/scenarios"), name[i]);
    wrong += !is_bad_as_expected(path);
  }
  ck_assert_int_eq(wrong, 0);
}
END_TEST

START_TEST(good_files)
{
  char name[20][256], path[1400];
  int n = list_files(source("tests/data/scenarios"), "good-", name, 20);
  ck_assert_int_ge(n, 3);
  for (int i = 0; i < n; i++) {
    join(path, source("tests/data/scenarios"), name[i]);
    scenario_close(open_good(path, NULL));
  }
}
END_TEST

/* A scenario of lull validate lacks nothing but the calibration that its user imports. */
static void lacks_calibration(const char *path, const struct scenario_options *o)
{
  struct base_errors errors = {0};
  ck_assert_ptr_null(scenario_open(path, o, &errors));
  ck_assert_uint_eq(errors.total, 1);
  ck_assert_msg(strstr(errors.item[0].text, ".h5") != NULL, "%s: %s", path, errors.item[0].text);
  base_errors_free(&errors);
}

/* All shipped scenarios open; those on public data without looking for it. */
START_TEST(shipped_files)
{
  char name[40][256], path[1400];
  struct scenario_options o = {.skip_files = 1, .data_dir = "nowhere"};
  int n = list_files(source("scenarios"), "", name, 40), xml = 0;
  for (int i = 0; i < n; i++) {
    if (!strstr(name[i], ".xml"))
      continue;
    join(path, source("scenarios"), name[i]);
    if (!strncmp(name[i], "validate-", 9)) {
      lacks_calibration(path, &o);
      continue;
    }
    struct scenario *s = open_good(path, &o);
    ck_assert(!strncmp(s->id, name[i], strlen(s->id)));
    scenario_close(s);
    xml++;
  }
  ck_assert_int_ge(xml, 5);
}
END_TEST

START_TEST(campaign_values)
{
  struct scenario *s = open_good("c4-live-batch", NULL);
  const struct scenario_engine *k3 = &s->arm[2].candidate[0].server[1].engine;
  ck_assert_str_eq(s->campaign, "C4");
  ck_assert_int_eq(s->window, INT64_C(300000000000000));
  ck_assert_int_eq(s->drain, LULL_NEVER);
  ck_assert_uint_eq(s->nseeds, 3);
  ck_assert_uint_eq(s->seed[2], 43);
  ck_assert_uint_eq(s->nclasses, 2);
  ck_assert_int_eq(s->cls[0].rate_uhz, 18000000);
  ck_assert_int_eq(s->cls[0].slo_ttft, INT64_C(140000000000));
  ck_assert_uint_eq(s->cls[1].backlog_below, 92);
  ck_assert_uint_eq(s->narms, 3);
  ck_assert_int_eq(s->baseline, 2);
  ck_assert_double_eq(s->qualify_attainment, 0.99);
  ck_assert_uint_eq(s->arm[2].ncandidates, 3);
  ck_assert_uint_eq(s->arm[2].ngpus, 2);
  ck_assert_uint_eq(k3->draft_depth, 3);
  ck_assert_uint_eq(s->arm[2].candidate[2].server[0].engine.draft_depth, 3);
  ck_assert_uint_eq(s->arm[2].candidate[2].server[1].engine.draft_depth, 0);
  ck_assert_ptr_eq(k3->model, s->arm[0].candidate[0].server[0].engine.model);
  ck_assert_uint_eq(s->arm[2].candidate[0].nbacklogs, 1);
  ck_assert_int_eq(s->arm[2].candidate[0].backlog[0].server, 1);
  ck_assert_uint_gt(k3->kv_blocks, 50000);
  ck_assert_uint_eq(k3->watermark_blocks, k3->kv_blocks / 100);
  ck_assert_uint_eq(s->ngates, 3);
  ck_assert_double_eq(s->reference[1].value, 1.5066);
  ck_assert_double_eq(s->reference[4].value, 0.063);
  ck_assert_str_eq(s->parameter[0].name, "run/window");
  ck_assert_str_eq(s->parameter[0].value, "300s");
  ck_assert_uint_eq(s->nsweeps, 2);
  ck_assert_int_eq(s->sweep[1].kind, SWEEP_BEST);
  ck_assert_uint_eq(s->sweep[1].n, 8);
  scenario_close(s);
}
END_TEST

/* The defaults of a named engine, what goes before them, and no engine. */
START_TEST(named_engines)
{
  struct scenario *s = open_good(source("tests/data/scenarios/good-engines.xml"), NULL);
  const int async[] = {1, 1, 0, 0}, caching[] = {1, 0, 0, 0};
  const uint32_t watermark[] = {0, 0, 1, 0}; /* of 120 blocks */
  const int64_t rules[] = {0, 1, 1, 0};
  const char *const policy[] = {"fcfs", "priority", "fcfs", "fcfs"};
  const char *const engine[] = {"vllm-v1", "vllm-v1", "sarathi", NULL};
  for (uint32_t i = 0; i < 4; i++) {
    const struct scenario_arm *a = &s->arm[i];
    const struct scenario_engine *g = &a->candidate[0].server[0].engine;
    ck_assert_int_eq(g->async, async[i]);
    ck_assert_int_eq(g->prefix_caching, caching[i]);
    ck_assert_uint_eq(g->watermark_blocks, watermark[i]);
    ck_assert_str_eq(a->policy->name, policy[i]);
    ck_assert_pstr_eq(a->engine, engine[i]);
    ck_assert_int_eq(a->params[a->policy->nparams - 1], rules[i]);
  }
  scenario_close(s);
}
END_TEST

/* What an arm says beside its servers, and what servers say of their own. */
START_TEST(jobs_and_backlogs)
{
  struct scenario *s = open_good(source("tests/data/scenarios/good-jobs.xml"), NULL);
  const struct scenario_arm *a = &s->arm[0];
  const struct scenario_candidate *c = a->candidate, *implied = s->arm[1].candidate;
  const struct scenario_engine *one = &c->server[0].engine, *two = &c->server[1].engine;
  struct cost_shape chunk = {.chunk_tokens = 1, .chunks = 1, .chunk_work = 1000000};
  struct cost_step step;
  ck_assert_uint_eq(a->njobs, 2);
  ck_assert_str_eq(a->job[0].name, "tuning");
  ck_assert_int_eq(a->job[0].gpu, 2);
  ck_assert_int_eq(a->job[0].micro_ticks, 10000000000 / LULL_TICK_PS);
  ck_assert_uint_eq(a->job[0].micro_steps, 0);
  ck_assert_int_eq(a->job[0].paused, 0);
  ck_assert_uint_eq(a->job[1].micro_steps, 100);
  ck_assert_int_eq(a->job[1].paused, 1);
  ck_assert(a->training[0].batch == 8 && a->training[0].accumulate == 1);
  ck_assert(a->training[0].rank == 8 && a->training[0].rate == 0.002);
  ck_assert(a->training[1].batch == 3 && a->training[1].accumulate == 4);
  ck_assert(a->training[1].rank == 16 && a->training[1].rate == 0.01);
  ck_assert_int_eq(a->contended_ps[0], 96);
  ck_assert_int_eq(a->contended_ps[1], 128);
  ck_assert_uint_eq(c->nbacklogs, 2);
  ck_assert(c->backlog[0].cls == 1 && c->backlog[0].server == 1 && c->backlog[0].below == 7);
  ck_assert(c->backlog[1].cls == 0 && c->backlog[1].server == 0 && c->backlog[1].below == 2);
  ck_assert_uint_eq(implied->nbacklogs, 1);
  ck_assert(implied->backlog[0].cls == 1 && implied->backlog[0].below == 4);
  ck_assert_uint_eq(c->server[2].class_mask, 0);
  ck_assert_uint_eq(one->block_tokens, 16);
  ck_assert_uint_eq(two->block_tokens, 32);
  ck_assert_int_eq(one->host_link_bytes_per_s, 1000000000);
  ck_assert_int_eq(two->host_link_bytes_per_s, 2000000000);
  ck_assert_uint_eq(one->layers, 1);
  ck_assert_uint_eq(two->layers, 4);
  cost_eval(two->model, &chunk, &step);
  ck_assert_int_eq(step.ticks, (2000000000 + INT64_C(300) * 1000000) / LULL_TICK_PS);
  ck_assert_uint_eq(s->max_preempts, 100000);
  scenario_close(s);
}
END_TEST

/* kv_blocks of memory-fraction = (fraction * memory - weights - reserve) / block bytes. */
START_TEST(pool_from_memory)
{
  struct scenario *s = open_good("c4-live-batch", NULL);
  const struct scenario_engine *e = &s->arm[0].candidate[0].server[0].engine;
  int64_t taken = s->calib->gpu_memory_bytes / 10 * 9 - s->calib->weight_bytes;
  int64_t reserve = INT64_C(7) << 29, blocks = (taken - reserve) / e->block_bytes;
  ck_assert_int_eq(e->block_bytes, 16 * s->calib->kv_bytes_per_token);
  ck_assert_int_le(llabs((long long)(e->kv_blocks - blocks)), 1);
  scenario_close(s);
}
END_TEST

START_TEST(overrides)
{
  struct base_errors errors = {0};
  const char *path = source("tests/data/scenarios/good-small.xml");
  struct scenario_override change[] = {
      {"s:class[@id='live']/s:arrivals/@rate", "36/s"},
      {"/s:scenario/s:engine/@max-seqs", "5"},
  };
  struct scenario_options o = {.override = change, .noverrides = 2};
  struct scenario *s = open_good(path, &o);
  ck_assert_int_eq(s->cls[0].rate_uhz, 36000000);
  ck_assert_uint_eq(s->arm[0].candidate[0].server[0].engine.max_seqs, 5);
  ck_assert_uint_eq(s->arm[1].candidate[1].server[1].engine.max_seqs, 4);
  ck_assert_str_eq(s->parameter[0].value, "36/s");
  ck_assert_str_eq(s->parameter[0].name, "live/arrivals/rate");
  scenario_close(s);
  change[1].target = "s:engine/@no-such";
  ck_assert_ptr_null(scenario_open(path, &o, &errors));
  ck_assert(has_error(&errors, BASE_INPUT, 0, "names no attribute"));
  base_errors_free(&errors);
  change[1] = (struct scenario_override){"s:engine/@max-seqs", "many"};
  ck_assert_ptr_null(scenario_open(path, &o, &errors));
  ck_assert(has_error(&errors, BASE_INPUT, 7, "'many' is not a number"));
  base_errors_free(&errors);
}
END_TEST

START_TEST(names_of_scenarios)
{
  struct base_errors errors = {0};
  ck_assert_ptr_null(scenario_open("c4-live-bach", NULL, &errors));
  ck_assert(has_error(&errors, BASE_INPUT, 0, "did you mean 'c4-live-batch'?"));
  ck_assert_ptr_null(scenario_open("./no-such.xml", NULL, &errors));
  ck_assert(has_error(&errors, BASE_INPUT, 0, "No such file"));
  ck_assert_ptr_null(scenario_open("./", NULL, &errors));
  ck_assert_uint_eq(errors.total, 3);
  base_errors_free(&errors);
}
END_TEST

/* Text that repeats `piece` between a head and a tail must be refused with one clear error. */
static void check_flood(const char *head, const char *piece, int times, const char *tail,
                        const char *expected)
{
  struct base_errors errors = {0};
  size_t h = strlen(head), p = strlen(piece), t = strlen(tail), n = h + p * (size_t)times + t;
  char *data = malloc(n + 1);
  ck_assert_ptr_nonnull(data);
  memcpy(data, head, h);
  for (int i = 0; i < times; i++)
    memcpy(data + h + p * (size_t)i, piece, p);
  memcpy(data + n - t, tail, t + 1);
  ck_assert_ptr_null(scenario_open_memory("flood.xml", NULL, data, n, NULL, &errors));
  if (errors.total != 1 || !strstr(errors.item[0].text, expected))
    print_errors(&errors);
  ck_assert_uint_eq(errors.total, 1);
  ck_assert_ptr_nonnull(strstr(errors.item[0].text, expected));
  base_errors_free(&errors);
  free(data);
}

#define HEAD "<scenario xmlns=\"urn:lull:scenario:1\" version=\"1\" id=\"x\">\n"

START_TEST(floods)
{
  check_flood(HEAD, "<class/>\n", 100000, "</scenario>", "more than 50000 elements");
  check_flood(HEAD, "<a>", 100000, "", "xcessive depth");
  check_flood("<scenario", " a=\"\"", 100000, "/>", "a tag or text of more than");
  check_flood(HEAD "<title>", "x", 1000000, "</title></scenario>", "a tag or text of more than");
  check_flood(HEAD, "<!-- more -->\n", 1 << 21, "</scenario>", "more than 16 MiB");
  check_flood("", "", 0, "", "");
}
END_TEST

/* 40,000 wrong elements are below the limit: all are counted, the first are told. */
START_TEST(many_wrong_elements)
{
  struct base_errors errors = {0};
  size_t n = 0, size = (size_t)1 << 20;
  char *data = calloc(1, size);
  ck_assert_ptr_nonnull(data);
  n += (size_t)snprintf(data, size, HEAD);
  for (int i = 0; i < 40000; i++)
    n += (size_t)snprintf(data + n, size - n, "<klass/>\n");
  n += (size_t)snprintf(data + n, size - n, "</scenario>");
  ck_assert_ptr_null(scenario_open_memory("wrong.xml", NULL, data, n, NULL, &errors));
  ck_assert_uint_eq(errors.n, BASE_ERRORS_MAX);
  ck_assert_uint_ge(errors.total, 40000);
  ck_assert(has_error(&errors, BASE_INPUT, 2, "did you mean 'class'?"));
  base_errors_free(&errors);
  free(data);
}
END_TEST

/* A link out of the folder is no way out. */
START_TEST(links)
{
  char folder[] = "./lull-check-XXXXXX", path[200], link[200];
  struct base_errors errors = {0};
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/s.xml", folder);
  snprintf(link, sizeof link, "%s/out.xml", folder);
  ck_assert_int_eq(symlink("/etc/passwd", link), 0);
  FILE *f = fopen(path, "w");
  ck_assert_ptr_nonnull(f);
  fputs(HEAD "<i:include xmlns:i=\"http://www.w3.org/2001/XInclude\" href=\"out.xml\"/></scenario>",
        f);
  ck_assert_int_eq(fclose(f), 0);
  ck_assert_ptr_null(scenario_open(path, NULL, &errors));
  ck_assert(has_error(&errors, BASE_INPUT, 2, "leads out of the scenario's folder by a link"));
  base_errors_free(&errors);
  unlink(link);
  unlink(path);
  rmdir(folder);
}
END_TEST

/* The page's reference part is what the tables print. */
START_TEST(reference_page)
{
  char *text = NULL;
  size_t size = 0;
  char *page = base_read_file(source("docs/scenarios.md"), 1 << 20, NULL, NULL);
  FILE *f = open_memstream(&text, &size);
  ck_assert_ptr_nonnull(page);
  ck_assert_ptr_nonnull(f);
  ck_assert_int_eq(scenario_print_reference(f), 0);
  ck_assert_int_eq(fclose(f), 0);
  ck_assert_uint_gt(size, 1000);
  text[size - 1] = 0; /* the page ends with one line end */
  ck_assert_ptr_nonnull(strstr(page, text));
  free(text);
  free(page);
}
END_TEST

/* Tables and schema name the same attributes, with the same ones required. */
START_TEST(schema_and_tables)
{
  char *schema = base_read_file(source("scenarios/lull-scenario-1.xsd"), 1 << 20, NULL, NULL);
  ck_assert_ptr_nonnull(schema);
  int written = 0, listed = 0;
  for (size_t i = 0; i < scenario_element_count; i++) {
    const struct element *el = &scenario_elements[i];
    char start[80], line[200];
    int length = !strcmp(el->name, "prompt") || !strcmp(el->name, "output");
    snprintf(start, sizeof start, "<xs:complexType name=\"%s\">", length ? "length" : el->name);
    char *type = el->nfields ? strstr(schema, start) : NULL;
    ck_assert(type || !el->nfields);
    for (size_t k = 0; k < el->nfields; k++, listed += strcmp(el->name, "output") != 0) {
      snprintf(line, sizeof line, "<xs:attribute name=\"%s\" type=\"xs:string\"%s/>",
               el->field[k].name, el->field[k].preset ? "" : " use=\"required\"");
      char *found = strstr(type, line), *end = strstr(type, "</xs:complexType>");
      if (!found || found > end)
        ck_abort_msg("%s of <%s> is not in the schema as in the table", el->field[k].name,
                     el->name);
    }
  }
  for (char *p = schema; (p = strstr(p, "<xs:attribute")); p++)
    written++;
  ck_assert_int_eq(written, listed);
  free(schema);
}
END_TEST

static Suite *suite(void)
{
  const struct {
    const char *name;
    const TTest *test;
  } cases[] = {
      {"bad files", bad_files},
      {"good files", good_files},
      {"shipped files", shipped_files},
      {"campaign values", campaign_values},
      {"named engines", named_engines},
      {"jobs and backlogs", jobs_and_backlogs},
      {"pool from memory", pool_from_memory},
      {"overrides", overrides},
      {"names of scenarios", names_of_scenarios},
      {"floods", floods},
      {"many wrong elements", many_wrong_elements},
      {"links", links},
      {"reference page", reference_page},
      {"schema and tables", schema_and_tables},
  };
  Suite *s = suite_create("scenario");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    TCase *c = tcase_create(cases[i].name);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, cases[i].test);
    suite_add_tcase(s, c);
  }
  return s;
}

int main(void)
{
  return suite_run(suite());
}
