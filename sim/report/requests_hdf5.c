/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The file of requests as HDF5, laid out as docs/results.md says: a group an arm, in it a group a
 * seed, in it the table of all its candidates, appended to in chunks. The HDF5 library writes to
 * the temporary file of an output file, by its name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/h5.h"
#include "base/outfile.h"
#include "sim/report/order.h"
#include "sim/report/requests.h"

enum { SCHEMA = 1, DEFLATE = 4, MISSING = -1 };

/* A row, in the order of the CSV file's columns. Codes are places in the lists of names. */
struct row {
  int64_t id, arrival, first_chunk, first_token, last_token, discarded, cached;
  uint32_t prompt, output, generated, preemptions;
  int16_t candidate, server;
  int8_t cls, fate, met;
};

enum column_type { INT8, INT16, UINT32, INT64 };
static const struct column {
  const char *name, *unit; /* unit "": a code or a count */
  size_t offset;
  enum column_type type;
} columns[] = {
    {"candidate", "", offsetof(struct row, candidate), INT16},
    {"id", "", offsetof(struct row, id), INT64},
    {"class", "", offsetof(struct row, cls), INT8},
    {"server", "", offsetof(struct row, server), INT16},
    {"arrival_ps", "ps", offsetof(struct row, arrival), INT64},
    {"first_chunk_ps", "ps", offsetof(struct row, first_chunk), INT64},
    {"first_token_ps", "ps", offsetof(struct row, first_token), INT64},
    {"last_token_ps", "ps", offsetof(struct row, last_token), INT64},
    {"prompt", "tokens", offsetof(struct row, prompt), UINT32},
    {"output", "tokens", offsetof(struct row, output), UINT32},
    {"generated", "tokens", offsetof(struct row, generated), UINT32},
    {"preemptions", "", offsetof(struct row, preemptions), UINT32},
    {"discarded", "tokens", offsetof(struct row, discarded), INT64},
    {"cached_tokens", "tokens", offsetof(struct row, cached), INT64},
    {"fate", "", offsetof(struct row, fate), INT8},
    {"slo_met", "", offsetof(struct row, met), INT8},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* Words with a space between. None has a space inside: they are names of a scenario, or numbers. */
struct words {
  char *text; /* owned; NULL: none */
  size_t used;
};

struct file {
  const struct scenario *s; /* borrowed */
  struct base_outfile out;
  struct base_h5_outfile under;
  struct base_h5 h5;
  hid_t disk, memory; /* types of a row */
  hid_t create;       /* properties of a table */
  hid_t group, table; /* of the arm and seed at work; -1: none yet */
  int arm, partial;   /* of it */
  uint64_t seed;
  hsize_t rows;              /* in its table */
  struct words seeds, plans; /* told so far */
  struct row row[ORDER_PAGE];
};

/* ------------------------------------------------------------------------------------ words --- */

static void add_word(struct file *f, struct words *w, const char *word)
{
  size_t n = strlen(word);
  char *more = realloc(w->text, w->used + n + 2);
  base_h5_note(&f->h5, !more);
  if (!more)
    return;
  w->text = more;
  if (w->used)
    more[w->used++] = ' ';
  memcpy(more + w->used, word, n + 1);
  w->used += n;
}

/* An attribute of words, which it frees. */
static void put_words(struct file *f, hid_t at, const char *name, struct words *w)
{
  base_h5_put_text(&f->h5, at, name, w->text ? w->text : "");
  free(w->text);
  *w = (struct words){0};
}

/* ------------------------------------------------------------------------------------ types --- */

static const hid_t none = -1;

static hid_t disk_type(enum column_type t)
{
  const hid_t of[] = {[INT8] = H5T_STD_I8LE,
                      [INT16] = H5T_STD_I16LE,
                      [UINT32] = H5T_STD_U32LE,
                      [INT64] = H5T_STD_I64LE};
  return of[t];
}

static hid_t memory_type(enum column_type t)
{
  const hid_t of[] = {[INT8] = H5T_NATIVE_INT8,
                      [INT16] = H5T_NATIVE_INT16,
                      [UINT32] = H5T_NATIVE_UINT32,
                      [INT64] = H5T_NATIVE_INT64};
  return of[t];
}

/* A row as it is in memory, and without gaps as it is in the file. */
static void make_types(struct file *f)
{
  size_t size = 0, at = 0;
  for (size_t i = 0; i < COLUMNS; i++)
    size += H5Tget_size(disk_type(columns[i].type));
  f->memory = H5Tcreate(H5T_COMPOUND, sizeof(struct row));
  f->disk = H5Tcreate(H5T_COMPOUND, size);
  base_h5_note(&f->h5, f->memory < 0 || f->disk < 0);
  for (size_t i = 0; i < COLUMNS; i++) {
    const struct column *c = &columns[i];
    base_h5_note(&f->h5, H5Tinsert(f->memory, c->name, c->offset, memory_type(c->type)) < 0 ||
                             H5Tinsert(f->disk, c->name, at, disk_type(c->type)) < 0);
    at += H5Tget_size(disk_type(c->type));
  }
}

/* Tables are appended to, so they lie in chunks: a page of the order each. */
static void make_list(struct file *f)
{
  hsize_t chunk = ORDER_PAGE;
  f->create = base_h5_dataset_list(&f->h5);
  base_h5_note(&f->h5, H5Pset_chunk(f->create, 1, &chunk) < 0 || H5Pset_shuffle(f->create) < 0 ||
                           H5Pset_deflate(f->create, DEFLATE) < 0);
}

/* ------------------------------------------------------------------------ groups and tables --- */

static hid_t make_table(struct file *f)
{
  hsize_t rows = 0, most = H5S_UNLIMITED;
  hid_t space = H5Screate_simple(1, &rows, &most);
  hid_t d = space < 0 ? none
                      : H5Dcreate2(f->group, "requests", f->disk, space, H5P_DEFAULT, f->create,
                                   H5P_DEFAULT);
  base_h5_note(&f->h5, d < 0);
  if (space >= 0)
    H5Sclose(space);
  return d;
}

/* What the codes stand for, and the units. All candidates of an arm have the same servers. */
static void describe_table(struct file *f, const struct experiment_place *run)
{
  const struct scenario_arm *arm = &run->scenario->arm[run->arm];
  const struct scenario_candidate *one = &arm->candidate[run->candidate];
  struct words candidate = {0}, cls = {0}, server = {0}, fate = {0};
  char name[32];
  for (uint32_t c = 0; c < arm->ncandidates; c++)
    if (*arm->candidate[c].id)
      add_word(f, &candidate, arm->candidate[c].id);
  for (uint32_t c = 0; c < run->config->nclasses; c++)
    add_word(f, &cls, run->config->cls[c].name);
  for (uint32_t i = 0; i < one->nservers; i++)
    add_word(f, &server, one->server[i].id);
  for (int i = 0; i < REQUESTS_FATES; i++)
    add_word(f, &fate, requests_fate[i]);
  put_words(f, f->table, "candidate_names", &candidate);
  put_words(f, f->table, "class_names", &cls);
  put_words(f, f->table, "server_names", &server);
  put_words(f, f->table, "fate_names", &fate);
  base_h5_put_number(&f->h5, f->table, "missing", MISSING);
  for (size_t i = 0; i < COLUMNS; i++) {
    snprintf(name, sizeof name, "FIELD_%zu_UNITS", i);
    if (*columns[i].unit)
      base_h5_put_text(&f->h5, f->table, name, columns[i].unit);
  }
}

static void close_table(struct file *f)
{
  if (f->table >= 0)
    base_h5_note(&f->h5, H5Dclose(f->table) < 0);
  if (f->group >= 0)
    base_h5_put_number(&f->h5, f->group, "partial", f->partial);
  base_h5_close_group(f->group);
  f->group = f->table = none;
}

static hid_t open_arm(struct file *f, const char *id)
{
  if (H5Lexists(f->h5.file, id, H5P_DEFAULT) > 0)
    return H5Gopen2(f->h5.file, id, H5P_DEFAULT);
  return base_h5_group(&f->h5, f->h5.file, id);
}

/* The group and the table of another arm or seed. */
static void open_table(struct file *f, const struct experiment_place *run)
{
  const struct scenario_arm *arm = &run->scenario->arm[run->arm];
  char name[24];
  snprintf(name, sizeof name, "%llu", (unsigned long long)run->seed);
  hid_t g = open_arm(f, arm->id);
  f->group = base_h5_group(&f->h5, g, name);
  base_h5_close_group(g);
  base_h5_put_text(&f->h5, f->group, "arm", arm->id);
  base_h5_put_text(&f->h5, f->group, "seed", name);
  base_h5_put_text(&f->h5, f->group, "plan_digest", run->plan_digest);
  if (!f->seeds.used || f->seed != run->seed) { /* seeds are outermost: each comes once */
    add_word(f, &f->seeds, name);
    add_word(f, &f->plans, run->plan_digest);
  }
  f->arm = run->arm;
  f->seed = run->seed;
  f->partial = 0;
  f->rows = 0;
  f->table = make_table(f);
  describe_table(f, run);
}

/* ------------------------------------------------------------------------------------- rows --- */

static int64_t moment(lull_time t)
{
  return t == LULL_NEVER ? MISSING : t;
}

static void fill_row(struct row *to, const struct experiment_place *run,
                     const struct world_record *r, uint64_t id)
{
  const struct scenario_candidate *c = &run->scenario->arm[run->arm].candidate[run->candidate];
  *to = (struct row){.id = (int64_t)id,
                     .arrival = moment(r->arrival),
                     .first_chunk = moment(r->first_chunk),
                     .first_token = moment(r->first_token),
                     .last_token = moment(r->last_token),
                     .discarded = (int64_t)r->discarded,
                     .cached = (int64_t)r->cached,
                     .prompt = r->prompt,
                     .output = r->output,
                     .generated = r->generated,
                     .preemptions = r->preempts,
                     .candidate = *c->id ? (int16_t)run->candidate : MISSING,
                     .server = r->server < 0 ? MISSING : r->server,
                     .cls = (int8_t)r->cls,
                     .fate = (int8_t)r->fate,
                     .met = run->config->cls[r->cls].interactive ? (int8_t)r->met : MISSING};
}

/* Appends the first n of f->row. */
static void append(struct file *f, hsize_t n)
{
  hsize_t at = f->rows;
  f->rows += n;
  base_h5_note(&f->h5, H5Dset_extent(f->table, &f->rows) < 0);
  hid_t to = H5Dget_space(f->table), from = H5Screate_simple(1, &n, NULL);
  base_h5_note(&f->h5, to < 0 || from < 0 ||
                           H5Sselect_hyperslab(to, H5S_SELECT_SET, &at, NULL, &n, NULL) < 0 ||
                           H5Dwrite(f->table, f->memory, from, to, H5P_DEFAULT, f->row) < 0);
  if (to >= 0)
    H5Sclose(to);
  if (from >= 0)
    H5Sclose(from);
}

/* ----------------------------------------------------------------------------------- format --- */

/* 0 while nothing has failed; otherwise says so. */
static int state(const struct file *f, struct base_error *e)
{
  if (f->under.error)
    return base_fail(e, BASE_ENV, "cannot write '%s': %s", f->out.path, strerror(f->under.error));
  if (f->h5.bad)
    return base_fail(e, BASE_ENV,
                     "cannot write '%s': the HDF5 library failed; is there memory left?",
                     f->out.path);
  return 0;
}

/* Lets go of all but the name. */
static void close_library(struct file *f)
{
  close_table(f);
  if (f->create >= 0)
    H5Pclose(f->create);
  if (f->disk >= 0)
    H5Tclose(f->disk);
  if (f->memory >= 0)
    H5Tclose(f->memory);
  base_h5_close(&f->h5);
}

static void hdf5_free(struct file *f)
{
  base_outfile_abandon(&f->out);
  free(f->seeds.text);
  free(f->plans.text);
  free(f);
}

static void hdf5_abandon(void *file)
{
  close_library(file);
  hdf5_free(file);
}

static int open_named(struct file *f, const char *path, struct base_error *e)
{
  if (base_outfile_open(&f->out, path, e))
    return -1;
  if (!f->out.tmp)
    return base_fail(e, BASE_ENV,
                     "cannot write '%s': HDF5 needs a file on disk; name one, or write CSV", path);
  return 0;
}

static void *hdf5_open(const char *path, const struct scenario *s, struct base_error *e)
{
  struct file *f = calloc(1, sizeof *f);
  if (!f) {
    base_fail_memory(e);
    return NULL;
  }
  if (open_named(f, path, e)) {
    hdf5_free(f);
    return NULL;
  }
  f->s = s;
  f->group = f->table = none;
  hid_t access = base_h5_access(&f->h5);
  base_h5_create(&f->h5, f->out.path, base_h5_over(&f->h5, access, &f->out, &f->under));
  make_types(f);
  make_list(f);
  if (!state(f, e))
    return f;
  hdf5_abandon(f);
  return NULL;
}

static int hdf5_begin(void *file, const struct experiment_place *run, struct base_error *e)
{
  struct file *f = file;
  if (f->table < 0 || f->arm != run->arm || f->seed != run->seed) {
    close_table(f);
    open_table(f, run);
  }
  return state(f, e);
}

static int hdf5_rows(void *file, const struct experiment_place *run, uint64_t first,
                     const struct world_record *record, size_t n, struct base_error *e)
{
  struct file *f = file;
  for (size_t i = 0; i < n; i++)
    fill_row(&f->row[i], run, &record[i], first + i);
  append(f, n);
  return state(f, e);
}

static int hdf5_end(void *file, const struct world_result *result, struct base_error *e)
{
  struct file *f = file;
  (void)e;
  f->partial |= result->partial;
  return 0;
}

static void describe_file(struct file *f, int partial)
{
  hid_t at = f->h5.file;
  base_h5_put_text(&f->h5, at, "format", "lull results");
  base_h5_put_number(&f->h5, at, "version", SCHEMA);
  base_h5_put_text(&f->h5, at, "lull", PACKAGE_VERSION);
  base_h5_put_text(&f->h5, at, "scenario", f->s->id);
  put_words(f, at, "seeds", &f->seeds);
  put_words(f, at, "plan_digests", &f->plans);
  base_h5_put_number(&f->h5, at, "partial", partial != 0);
}

static int hdf5_close(void *file, int partial, struct base_error *e)
{
  struct file *f = file;
  close_table(f);
  describe_file(f, partial);
  close_library(f);
  int rc = state(f, e) ? -1 : base_outfile_commit(&f->out, e);
  hdf5_free(f);
  return rc;
}

const struct requests_format requests_hdf5 = {hdf5_open, hdf5_begin, hdf5_rows,
                                              hdf5_end,  hdf5_close, hdf5_abandon};
