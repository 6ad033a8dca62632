/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lull import: published kernel tables to a calibration file. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "calib/calib.h"
#include "calib/operators.h"
#include "cli/commands.h"
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

/* Takes the tables of a folder that are known by their header; others are passed over. */
static int add_folder(struct files *f, const char *folder, struct base_error *e)
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
    int kind = operators_recognise(f->path[i], e);
    if (kind < 0)
      return -1;
    if (kind < OPERATORS_KINDS) {
      char *path = f->path[i];
      f->path[i] = f->path[kept];
      f->path[kept++] = path;
    }
  }
  while (f->n > kept)
    free(f->path[--f->n]);
  return 0;
}

static int list_files(struct files *f, char *const *arg, int n, struct base_error *e)
{
  for (int i = 0; i < n; i++) {
    struct stat st;
    int folder = stat(arg[i], &st) == 0 && S_ISDIR(st.st_mode);
    if (folder ? add_folder(f, arg[i], e) : add_file(f, "", arg[i], e))
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

static int from_aiconfigurator(struct import *im, struct cli_line *line)
{
  const struct cli_options *o = im->o;
  const struct needed needed[] = {{o->weights, "weights", "fp8"}, {o->kv, "kv", "fp8"}};
  if (require(needed, 2, im->e))
    return -1;
  if (line->nargs != 3)
    return base_fail(im->e, BASE_USAGE,
                     "lull import: three tables are needed: GEMM, context attention, generation "
                     "attention");
  if (o->tp > 1 || o->engine)
    return base_fail(im->e, BASE_USAGE,
                     "lull import: --%s has no meaning for tables of aiconfigurator; remove it",
                     o->engine ? "engine" : "tp");
  return calib_import_aiconfigurator(line->arg[0], line->arg[1], line->arg[2], &im->model, &im->gpu,
                                     o->weights, o->kv, o->output, im->talk, im->e);
}

static int from_llmservingsim(struct import *im, struct cli_line *line)
{
  const struct cli_options *o = im->o;
  const char *const dtype[] = {o->weights, o->kv};
  struct files f = {0};
  for (int i = 0; i < 2; i++)
    if (dtype[i] && strcmp(dtype[i], "bfloat16"))
      return base_fail(im->e, BASE_USAGE,
                       "lull import: tables of llmservingsim are of bfloat16, not of '%s'",
                       dtype[i]);
  if (o->tp > 1024)
    return base_fail(im->e, BASE_USAGE, "lull import: --tp must be 1 to 1024");
  int rc = list_files(&f, line->arg, line->nargs, im->e);
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

static const struct {
  const char *name;
  int (*run)(struct import *im, struct cli_line *line);
} source[] = {{"aiconfigurator", from_aiconfigurator}, {"llmservingsim", from_llmservingsim}};
enum { SOURCES = sizeof source / sizeof source[0] };

static int run_source(struct import *im, struct cli_line *line)
{
  const char *names[SOURCES];
  for (int i = 0; i < SOURCES; i++) {
    names[i] = source[i].name;
    if (!strcmp(im->o->from, source[i].name))
      return source[i].run(im, line);
  }
  const char *near = base_nearest(im->o->from, names, SOURCES);
  return base_fail(im->e, BASE_USAGE,
                   "lull import: unknown source '%s'; %s%s%s; known are %s and %s", im->o->from,
                   near ? "did you mean '" : "write one of those known", near ? near : "",
                   near ? "'?" : "", names[0], names[1]);
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
