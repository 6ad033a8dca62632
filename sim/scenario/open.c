/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The way of a scenario: load, override, structure, read; then it is whole or it is errors. */
#include <stdlib.h>
#include <string.h>

#include "base/outfile.h"
#include "models/calibration.h"
#include "models/embedded.h"
#include "sim/scenario/reader.h"

void scenario_close(struct scenario *s)
{
  struct scenario_whole *w = (struct scenario_whole *)s;
  if (!w)
    return;
  for (size_t i = 0; i < w->nmodels; i++)
    cost_free(w->model[i]);
  free(w->model);
  calibration_free(w->calib);
  arena_free(&w->arena);
  free(w);
}

static void read_all(struct reader *r)
{
  const xmlNode *root = xmlDocGetRootElement(r->doc);
  structure_check(r);
  if (!xmlStrEqual(root->name, BAD_CAST "scenario"))
    return;
  read_frame(r, root);
  read_classes(r, root);
  read_arms(r, root);
  read_claims(r, root);
  read_origins(r, root);
  if (r->incomplete && !r->errors->total)
    base_errors_at(r->errors, BASE_INPUT, r->file, 0, "a required attribute is missing");
}

static void reader_close(struct reader *r)
{
  xmlXPathFreeContext(r->xpath);
  xmlFreeDoc(r->doc);
  free(r->resolved);
  free(r->root);
}

/* Reads into a scenario that the caller owns in any case. -1 if there was any error. */
static int read_scenario(struct scenario_whole *w, const char *name, const char *folder,
                         const char *data, size_t size, const struct scenario_options *o,
                         struct base_errors *errors)
{
  static const struct scenario_options none;
  struct reader r = {.whole = w, .arena = &w->arena, .options = o ? o : &none, .errors = errors};
  size_t before = errors->total;
  r.trace_end = -1;
  attributes_default(&r, "engine", &r.engine);
  r.file = arena_text(r.arena, name);
  r.folder = folder ? arena_text(r.arena, folder) : NULL;
  r.root = folder ? realpath(folder[0] ? folder : ".", NULL) : NULL;
  if (!load_document(&r, r.file, data, size)) {
    target_override(&r);
    if (errors->total == before)
      read_all(&r);
  }
  if (w->arena.failed)
    base_errors_at(errors, BASE_ENV, NULL, 0, "out of memory");
  reader_close(&r);
  return errors->total == before ? 0 : -1;
}

struct scenario *scenario_open_memory(const char *name, const char *folder, const char *data,
                                      size_t size, const struct scenario_options *o,
                                      struct base_errors *errors)
{
  struct scenario_whole *w = calloc(1, sizeof *w);
  if (!w) {
    base_errors_at(errors, BASE_ENV, NULL, 0, "out of memory");
    return NULL;
  }
  if (!read_scenario(w, name, folder, data, size, o, errors))
    return &w->s;
  scenario_close(&w->s);
  return NULL;
}

/* Is this file of the program a scenario? Its name then goes to `id`. */
static int embedded_id(const struct embedded_file *f, char id[WORD_SIZE])
{
  static const char front[] = "scenarios/", back[] = ".xml";
  size_t n = strlen(f->name), a = sizeof front - 1, b = sizeof back - 1;
  if (n <= a + b || n - a - b >= WORD_SIZE || strncmp(f->name, front, a) ||
      strcmp(f->name + n - b, back))
    return 0;
  memcpy(id, f->name + a, n - a - b);
  id[n - a - b] = 0;
  return 1;
}

static struct scenario *open_embedded(const char *name, const struct scenario_options *o,
                                      struct base_errors *errors)
{
  enum { NAMES = 16 };
  char id[NAMES][WORD_SIZE];
  const char *names[NAMES];
  size_t n = 0;
  for (size_t i = 0; i < embedded_count && n < NAMES; i++) {
    if (!embedded_id(&embedded_files[i], id[n]))
      continue;
    if (!strcmp(id[n], name))
      return scenario_open_memory(name, NULL, (const char *)embedded_files[i].data,
                                  embedded_files[i].size, o, errors);
    names[n] = id[n];
    n++;
  }
  const char *near = base_nearest(name, names, n);
  base_errors_at(errors, BASE_INPUT, NULL, 0,
                 "no built-in scenario is named '%.100s'%s%s%s; for a file write its path with a / "
                 "or ending in .xml",
                 name, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
  return NULL;
}

static int is_path(const char *name)
{
  size_t n = strlen(name);
  return strchr(name, '/') || (n > 4 && !strcmp(name + n - 4, ".xml"));
}

struct scenario *scenario_open(const char *path, const struct scenario_options *o,
                               struct base_errors *errors)
{
  struct base_error e = {0};
  size_t size = 0;
  if (!is_path(path))
    return open_embedded(path, o, errors);
  char *data = base_read_file(path, LIMIT_BYTES, &size, &e);
  const char *slash = strrchr(path, '/');
  char *folder = data ? strndup(path, slash ? (size_t)(slash - path) + (slash == path) : 0) : NULL;
  struct scenario *s = NULL;
  if (folder)
    s = scenario_open_memory(path, folder, data, size, o, errors);
  else if (data)
    base_fail_memory(&e);
  if (e.code)
    base_errors_add(errors, &e);
  free(folder);
  free(data);
  return s;
}
