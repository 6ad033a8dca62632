/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lull import: published kernel tables to a calibration file. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "calib/calib.h"
#include "calib/operators.h"
#include "calib/tables.h"
#include "calib/vidur.h"
#include "cli/commands.h"
#include "models/calibration.h"
#include "models/gpu.h"
#include "models/llm.h"

enum { FILES_MAX = 64 };

/* What is imported, opened. */
struct import {
  const struct cli_options *o;
  struct llm model;
  struct gpu gpu;
  FILE *talk;
  struct base_error *e;
};

/* ------------------------------------------------------------------------- a list of tables --- */

struct files {
  char *path[FILES_MAX]; /* owned */
  size_t n;
};

static int add_file(struct files *f, const char *folder, const char *name, struct base_error *e)
{
  size_t size = strlen(folder) + strlen(name) + 2;
  if (f->n == FILES_MAX)
    return base_fail(e, BASE_INPUT, "there are more than %d files", FILES_MAX);
  f->path[f->n] = malloc(size);
  if (!f->path[f->n])
    return base_fail_memory(e);
  snprintf(f->path[f->n++], size, "%s%s%s", folder, *folder ? "/" : "", name);
  return 0;
}

static int compare_names(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static int is_csv(const char *name)
{
  size_t n = strlen(name);
  return (n > 4 && !strcmp(name + n - 4, ".csv")) || (n > 7 && !strcmp(name + n - 7, ".csv.gz"));
}

/* Is a file a table of the source, by its header: 1, 0, or -1 if it cannot be read? */
typedef int known_table(const char *path, struct base_error *e);

static int known_llmservingsim(const char *path, struct base_error *e)
{
  int kind = operators_recognise(path, e);
  return kind < 0 ? -1 : kind < OPERATORS_KINDS;
}

static int known_vidur(const char *path, struct base_error *e)
{
  int kind = vidur_recognise(path, e);
  return kind < 0 ? -1 : kind < VIDUR_KINDS;
}

/* Takes the tables of a folder that are known by their header; others are passed over. */
static int add_folder(struct files *f, const char *folder, known_table *known, struct base_error *e)
{
  DIR *d = opendir(folder);
  size_t first = f->n;
  int rc = 0;
  if (!d)
    return base_fail_errno(e, "cannot open %s", folder);
  for (struct dirent *i; !rc && (i = readdir(d)) != NULL;)
    if (is_csv(i->d_name))
      rc = add_file(f, folder, i->d_name, e);
  closedir(d);
  if (rc)
    return -1;
  qsort(f->path + first, f->n - first, sizeof *f->path, compare_names);
  size_t kept = first;
  for (size_t i = first; i < f->n; i++) {
    int is_known = known(f->path[i], e);
    if (is_known < 0)
      return -1;
    if (is_known) {
      char *path = f->path[i];
      f->path[i] = f->path[kept];
      f->path[kept++] = path;
    }
  }
  while (f->n > kept)
    free(f->path[--f->n]);
  return 0;
}

static int list_files(struct files *f, char *const *arg, int n, known_table *known,
                      struct base_error *e)
{
  for (int i = 0; i < n; i++) {
    struct stat st;
    int folder = stat(arg[i], &st) == 0 && S_ISDIR(st.st_mode);
    if (folder ? add_folder(f, arg[i], known, e) : add_file(f, "", arg[i], e))
      return -1;
  }
  return 0;
}

/* ---------------------------------------------------------------------------------- sources --- */

/* Options that have no default. */
struct needed {
  const char *value, *name, *example;
};

static int require(const struct needed *needed, size_t n, struct base_error *e)
{
  for (size_t i = 0; i < n; i++)
    if (!needed[i].value)
      return base_fail(e, BASE_USAGE, "lull import: give --%s, for example --%s %s", needed[i].name,
                       needed[i].name, needed[i].example);
  return 0;
}

/* Files and options as the library takes them. */
static struct calib_input input_of(const struct import *im, char *const *path, size_t n)
{
  const struct cli_options *o = im->o;
  return (struct calib_input){.path = (const char *const *)path,
                              .npaths = n,
                              .model = &im->model,
                              .gpu = &im->gpu,
                              .weight_dtype = o->weights ? o->weights : "bfloat16",
                              .kv_dtype = o->kv ? o->kv : "bfloat16",
                              .tp = o->tp ? (uint32_t)o->tp : 1,
                              .engine = o->engine,
                              .derive = o->derive};
}

/* Writes what an importer made, which may be NULL. */
static int write_made(struct import *im, struct calibration *c)
{
  int rc = c ? calibration_write(c, im->o->output, im->e) : -1;
  if (!rc && im->talk)
    fprintf(im->talk, "  written to %s\n", im->o->output);
  calibration_free(c);
  return rc;
}

/* An option that would have no effect. */
static int no_meaning(const struct import *im, const char *option)
{
  return base_fail(im->e, BASE_USAGE,
                   "lull import: --%s has no meaning for tables of %s; remove it", option,
                   im->o->from);
}

/* Puts the three tables in the order GEMM, context, generation, whatever theirs was; all-reduce
 * tables follow. A file that is not known stays where it is, and is told of when it is read. */
static int sort_kernels(const struct import *im, struct cli_line *line)
{
  static const char *const name[] = {"GEMM", "context attention", "generation attention"};
  char *sorted[FILES_MAX], *table[TABLE_OTHER] = {NULL};
  int n = TABLE_OTHER;
  if (line->nargs > FILES_MAX)
    return base_fail(im->e, BASE_USAGE, "lull import: there are more than %d files", FILES_MAX);
  for (int i = 0; i < line->nargs; i++) {
    int kind = table_recognise(line->arg[i], im->e);
    if (kind < 0)
      return -1;
    if (kind < TABLE_OTHER && table[kind])
      return base_fail_at(im->e, BASE_INPUT, line->arg[i], 1,
                          "this is a second table of %s, after %s; needed are GEMM, context "
                          "attention and generation attention",
                          name[kind], table[kind]);
    if (kind < TABLE_OTHER)
      table[kind] = line->arg[i];
    else if (n < FILES_MAX)
      sorted[n++] = line->arg[i];
  }
  if (n != line->nargs)
    return 0; /* one of the three is not known */
  memcpy(sorted, table, sizeof table);
  memcpy(line->arg, sorted, (size_t)n * sizeof *sorted);
  return 0;
}

static int from_kernels(struct import *im, struct cli_line *line)
{
  const struct calib_input in = input_of(im, line->arg, (size_t)line->nargs);
  if (line->nargs < 3)
    return base_fail(im->e, BASE_USAGE,
                     "lull import: three tables are needed: GEMM, context attention, generation "
                     "attention; all-reduce tables may follow");
  if (im->o->engine)
    return no_meaning(im, "engine");
  if (sort_kernels(im, line))
    return -1;
  return write_made(im, calib_fit_kernels(&in, im->talk, im->e));
}

static int from_aiconfigurator(struct import *im, struct cli_line *line)
{
  const struct cli_options *o = im->o;
  const struct needed needed[] = {{o->weights, "weights", "fp8"}, {o->kv, "kv", "fp8"}};
  if (require(needed, 2, im->e))
    return -1;
  if (o->law && !strcmp(o->law, "tables"))
    return from_kernels(im, line);
  if (o->law && strcmp(o->law, "pairs"))
    return base_fail(im->e, BASE_USAGE, "lull import: unknown law '%s'; known are pairs and tables",
                     o->law);
  if (line->nargs != 3)
    return base_fail(im->e, BASE_USAGE,
                     "lull import: three tables are needed: GEMM, context attention, generation "
                     "attention (with --law tables, all-reduce tables may follow)");
  if (o->tp > 1)
    return base_fail(im->e, BASE_USAGE,
                     "lull import: --tp has no meaning for the law of pairs; add --law tables");
  if (o->engine)
    return no_meaning(im, "engine");
  if (sort_kernels(im, line))
    return -1;
  return calib_import_aiconfigurator(line->arg[0], line->arg[1], line->arg[2], &im->model, &im->gpu,
                                     o->weights, o->kv, o->output, im->talk, im->e);
}

/* Tables that say nothing of types are of bfloat16. */
static int check_bfloat16(const struct import *im)
{
  const char *const dtype[] = {im->o->weights, im->o->kv};
  for (int i = 0; i < 2; i++)
    if (dtype[i] && strcmp(dtype[i], "bfloat16"))
      return base_fail(im->e, BASE_USAGE, "lull import: tables of %s are of bfloat16, not of '%s'",
                       im->o->from, dtype[i]);
  return 0;
}

static int from_llmservingsim(struct import *im, struct cli_line *line)
{
  const struct cli_options *o = im->o;
  struct files f = {0};
  if (check_bfloat16(im))
    return -1;
  int rc = list_files(&f, line->arg, line->nargs, known_llmservingsim, im->e);
  struct calib_operators in = {.path = (const char *const *)f.path,
                               .npaths = f.n,
                               .model = &im->model,
                               .gpu = &im->gpu,
                               .tp = o->tp ? (uint32_t)o->tp : 1,
                               .engine = o->engine};
  if (!rc)
    rc = calib_import_llmservingsim(&in, o->output, im->talk, im->e);
  while (f.n)
    free(f.path[--f.n]);
  return rc;
}

static int from_vidur(struct import *im, struct cli_line *line)
{
  struct files f = {0};
  int rc = check_bfloat16(im);
  if (!rc)
    rc = list_files(&f, line->arg, line->nargs, known_vidur, im->e);
  const struct calib_input in = input_of(im, f.path, f.n);
  if (!rc)
    rc = write_made(im, calib_fit_vidur(&in, im->talk, im->e));
  while (f.n)
    free(f.path[--f.n]);
  return rc;
}

static int from_splitwise(struct import *im, struct cli_line *line)
{
  const struct calib_input in = input_of(im, line->arg, (size_t)line->nargs);
  if (line->nargs != 1)
    return base_fail(im->e, BASE_USAGE, "lull import: one table is needed: perf_model.csv");
  return check_bfloat16(im) ? -1 : write_made(im, calib_fit_splitwise(&in, im->talk, im->e));
}

static int from_roofline(struct import *im, struct cli_line *line)
{
  const struct calib_input in = input_of(im, NULL, 0);
  if (line->nargs)
    return base_fail(im->e, BASE_USAGE,
                     "lull import: the roofline takes no file, but '%s' is given; remove it, or "
                     "name the source that it is of",
                     line->arg[0]);
  if (im->o->engine)
    return no_meaning(im, "engine");
  return write_made(im, calib_fit_roofline(&in, im->talk, im->e));
}

static const struct {
  const char *name;
  int (*run)(struct import *im, struct cli_line *line);
} source[] = {{"aiconfigurator", from_aiconfigurator},
              {"llmservingsim", from_llmservingsim},
              {"vidur", from_vidur},
              {"splitwise", from_splitwise},
              {"roofline", from_roofline}};
enum { SOURCES = sizeof source / sizeof source[0], AICONFIGURATOR = 0, VIDUR = 2, ROOFLINE = 4 };

/* Options that only one source knows, and what all but the roofline need. */
static int check_line(const struct import *im, const struct cli_line *line, int which)
{
  if (im->o->tp > 1024)
    return base_fail(im->e, BASE_USAGE, "lull import: --tp must be 1 to 1024");
  if (im->o->law && which != AICONFIGURATOR)
    return no_meaning(im, "law");
  if (im->o->derive && which != VIDUR)
    return no_meaning(im, "derive");
  if (!line->nargs && which != ROOFLINE)
    return base_fail(im->e, BASE_USAGE, "lull import: %s", line->command->missing);
  return 0;
}

static int run_source(struct import *im, struct cli_line *line)
{
  const char *names[SOURCES];
  for (int i = 0; i < SOURCES; i++) {
    names[i] = source[i].name;
    if (!strcmp(im->o->from, source[i].name))
      return check_line(im, line, i) ? -1 : source[i].run(im, line);
  }
  const char *near = base_nearest(im->o->from, names, SOURCES);
  return base_fail(im->e, BASE_USAGE,
                   "lull import: unknown source '%s'; %s%s%s; known are %s, %s, %s, %s and %s",
                   im->o->from, near ? "did you mean '" : "write one of those known",
                   near ? near : "", near ? "'?" : "", names[0], names[1], names[2], names[3],
                   names[4]);
}

int cli_import(struct cli_line *line)
{
  const struct cli_options *o = &line->options;
  const struct needed needed[] = {{o->from, "from", "aiconfigurator"},
                                  {o->model, "model", "qwen3-8b"},
                                  {o->gpu, "gpu", "h200-sxm"},
                                  {o->output, "output", "calibration.h5"}};
  struct base_error e = {0};
  struct import im = {.o = o, .talk = o->quiet ? NULL : stderr, .e = &e};
  if (require(needed, 4, &e) || llm_open(o->model, &im.model, &e) ||
      gpu_open(o->gpu, &im.gpu, &e) || run_source(&im, line))
    return cli_fail(&e);
  return BASE_OK;
}
