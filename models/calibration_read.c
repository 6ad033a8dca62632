/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads the HDF5 image of a calibration. Sizes are bounded before anything is allocated. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/calibration_io.h"

/* Where a value is looked for: for messages. */
struct source {
  hid_t at;          /* file, group */
  const char *where; /* "" or the group's name */
  const char *file;
  struct base_error *e;
};

static int wrong(const struct source *s, const char *name, const char *why)
{
  return base_fail_at(s->e, BASE_INPUT, s->file, 0, "%s/%s: %s", s->where, name, why);
}

/* Is it a variable-length string type? */
static int is_text(hid_t type)
{
  return type >= 0 && H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) > 0;
}

/* A memory type that takes the strings of the file's type, whatever its character set. */
static hid_t text_type(hid_t disk)
{
  hid_t t = H5Tcopy(H5T_C_S1);
  if (t >= 0 && (H5Tset_size(t, H5T_VARIABLE) < 0 || H5Tset_cset(t, H5Tget_cset(disk)) < 0)) {
    H5Tclose(t);
    return -1;
  }
  return t;
}

/* Copies a text read from the file into an array of `size`. */
static int take_text(const struct source *s, const char *name, const char *text, char *to,
                     size_t size)
{
  size_t n = text ? strnlen(text, size) : 0;
  if (n >= size)
    return wrong(s, name, "the text is too long");
  memcpy(to, text ? text : "", n);
  to[n] = 0;
  return 0;
}

/* The attribute's one text, by the types given. */
static int read_text(const struct source *s, hid_t a, hid_t disk, hid_t space, const char *name,
                     char *to, size_t size)
{
  hid_t memory = is_text(disk) ? text_type(disk) : -1;
  char *text = NULL;
  int rc = -1;
  if (memory < 0 || H5Sget_simple_extent_npoints(space) != 1 || H5Aread(a, memory, &text) < 0)
    wrong(s, name, "must be one variable-length text");
  else
    rc = take_text(s, name, text, to, size);
  if (text)
    H5Dvlen_reclaim(memory, space, H5P_DEFAULT, &text);
  if (memory >= 0)
    H5Tclose(memory);
  return rc;
}

static int get_text(const struct source *s, const char *name, char *to, size_t size)
{
  hid_t a = H5Aexists(s->at, name) > 0 ? H5Aopen(s->at, name, H5P_DEFAULT) : -1;
  if (a < 0)
    return wrong(s, name, "this attribute is missing");
  hid_t disk = H5Aget_type(a), space = H5Aget_space(a);
  int rc = read_text(s, a, disk, space, name, to, size);
  if (space >= 0)
    H5Sclose(space);
  if (disk >= 0)
    H5Tclose(disk);
  H5Aclose(a);
  return rc;
}

static int get_number(const struct source *s, const char *name, int64_t min, int64_t max,
                      int64_t *value)
{
  hid_t a = H5Aexists(s->at, name) > 0 ? H5Aopen(s->at, name, H5P_DEFAULT) : -1;
  if (a < 0)
    return wrong(s, name, "this attribute is missing");
  hid_t disk = H5Aget_type(a), space = H5Aget_space(a);
  int good = disk >= 0 && space >= 0 && H5Tget_class(disk) == H5T_INTEGER &&
             H5Sget_simple_extent_npoints(space) == 1 && H5Aread(a, H5T_NATIVE_INT64, value) >= 0;
  if (space >= 0)
    H5Sclose(space);
  if (disk >= 0)
    H5Tclose(disk);
  H5Aclose(a);
  if (!good || *value < min || *value > max)
    return wrong(s, name, good ? "the number is out of range" : "must be one whole number");
  return 0;
}

/* An open dataset and its size; values beyond these limits are refused. */
struct array {
  hid_t set, space, type;
  hsize_t dims[LATTICE_RANK];
  int rank;
};

static void array_close(struct array *a)
{
  if (a->type >= 0)
    H5Tclose(a->type);
  if (a->space >= 0)
    H5Sclose(a->space);
  if (a->set >= 0)
    H5Dclose(a->set);
}

static int array_open(const struct source *s, const char *name, int rank, struct array *a)
{
  *a = (struct array){-1, -1, -1, {0}, rank};
  if (s->at < 0 || H5Lexists(s->at, name, H5P_DEFAULT) <= 0 ||
      (a->set = H5Dopen2(s->at, name, H5P_DEFAULT)) < 0)
    return wrong(s, name, "this dataset is missing");
  a->space = H5Dget_space(a->set);
  a->type = H5Dget_type(a->set);
  if (a->space < 0 || a->type < 0 || H5Sget_simple_extent_ndims(a->space) != rank ||
      H5Sget_simple_extent_dims(a->space, a->dims, NULL) != rank)
    return wrong(s, name, "the dataset has the wrong rank");
  return 0;
}

/* Is every dimension at most `most`, and all of it at most CALIBRATION_CELLS_MAX? */
static int array_fits(const struct source *s, const char *name, const struct array *a, hsize_t most)
{
  hsize_t cells = 1;
  for (int i = 0; i < a->rank; i++) {
    if (a->dims[i] > most || cells > CALIBRATION_CELLS_MAX)
      return wrong(s, name, "the dataset is too large");
    cells *= a->dims[i];
  }
  return a->rank > 1 && cells > CALIBRATION_CELLS_MAX ? wrong(s, name, "the dataset is too large")
                                                      : 0;
}

/* Reads all of an open dataset of numbers into a new array of `cells`. */
static int64_t *array_read(const struct source *s, const char *name, const struct array *a,
                           size_t cells)
{
  int64_t *v = calloc(cells + 1, sizeof *v);
  if (!v) {
    base_fail_memory(s->e);
  } else if (cells && H5Dread(a->set, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) < 0) {
    wrong(s, name, "cannot be read");
    free(v);
    v = NULL;
  }
  return v;
}

/* Reads a new array of numbers of these dimensions. */
static int64_t *get_block(const struct source *s, const char *name, int rank, const uint32_t *dims)
{
  struct array a;
  size_t cells = 1;
  int rc = array_open(s, name, rank, &a);
  if (!rc)
    rc = array_fits(s, name, &a, CALIBRATION_SAMPLES_MAX);
  for (int i = 0; !rc && i < rank; i++) {
    if (a.dims[i] != dims[i] || H5Tget_class(a.type) != H5T_INTEGER)
      rc = wrong(s, name, "must be whole numbers, as many as its axes say");
    cells *= dims[i];
  }
  int64_t *v = rc ? NULL : array_read(s, name, &a, cells);
  array_close(&a);
  return v;
}

/* Reads a new array of however many numbers, told in *n. */
static int64_t *get_axis(const struct source *s, const char *name, uint32_t *n)
{
  struct array a;
  int rc = array_open(s, name, 1, &a);
  if (!rc)
    rc = array_fits(s, name, &a, CALIBRATION_KNOTS_MAX);
  if (!rc && H5Tget_class(a.type) != H5T_INTEGER)
    rc = wrong(s, name, "must be whole numbers");
  if (!rc)
    *n = (uint32_t)a.dims[0];
  int64_t *v = rc ? NULL : array_read(s, name, &a, *n);
  array_close(&a);
  return v;
}

/* Reads a column of n numbers (`real`: doubles) into out; n is at most CALIBRATION_ENTRIES_MAX. */
static int get_column(const struct source *s, const char *name, uint32_t n, int real, void *out)
{
  struct array a;
  int rc = array_open(s, name, 1, &a);
  if (!rc && (a.dims[0] != n || H5Tget_class(a.type) != (real ? H5T_FLOAT : H5T_INTEGER) ||
              H5Dread(a.set, real ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64, H5S_ALL, H5S_ALL,
                      H5P_DEFAULT, out) < 0))
    rc = wrong(s, name, "must be numbers, as many as the other columns have");
  array_close(&a);
  return rc;
}

/* Reads a column of texts into records of `stride` bytes; tells how many there must be. */
static int get_texts(const struct source *s, const struct calibration_slot *slot, uint32_t n,
                     void *base, size_t stride)
{
  struct array a;
  char *text[CALIBRATION_ENTRIES_MAX] = {0};
  int rc = array_open(s, slot->name, 1, &a);
  hid_t memory = !rc && is_text(a.type) ? text_type(a.type) : -1;
  if (!rc && (memory < 0 || a.dims[0] != n ||
              H5Dread(a.set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) < 0))
    rc = wrong(s, slot->name, "must be variable-length texts, as many as the other columns have");
  for (uint32_t i = 0; !rc && i < n; i++)
    rc = take_text(s, slot->name, text[i], (char *)base + i * stride + slot->offset, slot->size);
  if (memory >= 0) {
    if (a.dims[0] == n)
      H5Dvlen_reclaim(memory, a.space, H5P_DEFAULT, text);
    H5Tclose(memory);
  }
  array_close(&a);
  return rc;
}

/* How many records a table of columns has, by its column `name`. */
static int get_length(const struct source *s, const char *name, uint32_t *n)
{
  struct array a;
  int rc = array_open(s, name, 1, &a);
  if (!rc && a.dims[0] > CALIBRATION_ENTRIES_MAX)
    rc = wrong(s, name, "there are more than 64 entries");
  *n = rc ? 0 : (uint32_t)a.dims[0];
  array_close(&a);
  return rc;
}

static int read_curve(const struct source *s, struct calibration_curve *v)
{
  v->x = get_axis(s, "x", &v->n);
  if (!v->x)
    return -1;
  v->y = get_block(s, "y", 1, &v->n);
  return v->y ? 0 : -1;
}

static int read_grid(const struct source *s, struct calibration_grid *g)
{
  if (!(g->rows = get_axis(s, "rows", &g->nrows)) || !(g->ctx = get_axis(s, "ctx", &g->nctx)))
    return -1;
  if (!g->nrows || !g->nctx)
    return wrong(s, "rows, ctx", "the grid is empty");
  if (!(g->ctx_measured = get_block(s, "ctx_measured", 1, &g->nrows)))
    return -1;
  g->y = get_block(s, "y", 2, (const uint32_t[]){g->nrows, g->nctx});
  return g->y ? 0 : -1;
}

static int read_lattice(const struct source *s, const struct calibration_lattice *what,
                        struct lattice *l)
{
  l->rank = what->rank;
  for (uint32_t a = 0; a < l->rank; a++)
    if (!(l->x[a] = get_axis(s, what->axis[a], &l->n[a])))
      return -1;
  l->y = get_block(s, "y", (int)l->rank, l->n);
  return l->y ? 0 : -1;
}

static int read_counts(const struct source *s, struct calibration *c)
{
  for (size_t k = 0; k < calibration_residual_counts.n; k++) {
    int64_t column[CALIBRATION_ENTRIES_MAX] = {0};
    const struct calibration_slot *slot = &calibration_residual_counts.item[k];
    if (get_column(s, slot->name, c->nresiduals, 0, column))
      return -1;
    for (uint32_t i = 0; i < c->nresiduals; i++) {
      if (column[i] < 0 || column[i] > UINT32_MAX)
        return wrong(s, slot->name, "a number is out of range");
      *(uint32_t *)calibration_at(&c->residual[i], slot) = (uint32_t)column[i];
    }
  }
  return 0;
}

static int read_residuals(const struct source *s, struct calibration *c)
{
  const struct calibration_slot *curve = &calibration_residual_texts.item[0];
  if (get_length(s, curve->name, &c->nresiduals))
    return -1;
  c->residual = calloc(c->nresiduals + 1u, sizeof *c->residual);
  if (!c->residual)
    return base_fail_memory(s->e);
  if (get_texts(s, curve, c->nresiduals, c->residual, sizeof *c->residual) || read_counts(s, c))
    return -1;
  for (size_t k = 0; k < calibration_residual_reals.n; k++) {
    double column[CALIBRATION_ENTRIES_MAX] = {0};
    const struct calibration_slot *slot = &calibration_residual_reals.item[k];
    if (get_column(s, slot->name, c->nresiduals, 1, column))
      return -1;
    for (uint32_t i = 0; i < c->nresiduals; i++)
      *(double *)calibration_at(&c->residual[i], slot) = column[i];
  }
  return 0;
}

static int read_sources(const struct source *s, struct calibration *c)
{
  if (get_length(s, calibration_source_texts.item[0].name, &c->nsources))
    return -1;
  c->source = calloc(c->nsources + 1u, sizeof *c->source);
  if (!c->source)
    return base_fail_memory(s->e);
  for (size_t k = 0; k < calibration_source_texts.n; k++)
    if (get_texts(s, &calibration_source_texts.item[k], c->nsources, c->source, sizeof *c->source))
      return -1;
  return 0;
}

static int read_sample(const struct source *s, uint32_t i, struct calibration_samples *to)
{
  struct array a;
  char name[16];
  snprintf(name, sizeof name, "data%u", i);
  int rc = array_open(s, name, 2, &a);
  if (!rc)
    rc = array_fits(s, name, &a, CALIBRATION_SAMPLES_MAX);
  if (!rc && H5Tget_class(a.type) != H5T_INTEGER)
    rc = wrong(s, name, "must be whole numbers");
  if (!rc) {
    to->n = (uint32_t)a.dims[0];
    to->width = (uint32_t)a.dims[1];
    to->v = array_read(s, name, &a, (size_t)to->n * to->width);
    rc = to->v ? 0 : -1;
  }
  array_close(&a);
  return rc;
}

static int read_samples(const struct source *s, struct calibration *c)
{
  uint32_t n;
  if (get_length(s, calibration_sample_texts.item[0].name, &n))
    return -1;
  c->sample = calloc(n + 1u, sizeof *c->sample);
  if (!c->sample)
    return base_fail_memory(s->e);
  c->nsamples = n;
  for (size_t k = 0; k < calibration_sample_texts.n; k++)
    if (get_texts(s, &calibration_sample_texts.item[k], n, c->sample, sizeof *c->sample))
      return -1;
  for (uint32_t i = 0; i < n; i++)
    if (read_sample(s, i, &c->sample[i]))
      return -1;
  return 0;
}

static int read_root(const struct source *s, struct calibration *c)
{
  char format[sizeof CALIBRATION_FORMAT];
  int64_t v;
  if (get_text(s, "format", format, sizeof format))
    return -1;
  if (strcmp(format, CALIBRATION_FORMAT))
    return wrong(s, "format", "this is no calibration");
  if (get_number(s, "version", 1, INT64_MAX, &v))
    return -1;
  if (v != CALIBRATION_PAIRS && v != CALIBRATION_TABLES)
    return wrong(s, "version",
                 "this version of the format is not known; update the program, or "
                 "make the calibration again with lull import");
  c->law = (int)v;
  c->tp = 1;
  if (get_text(s, "digest", c->digest, sizeof c->digest))
    return -1;
  for (size_t i = 0; i < calibration_texts.n; i++) {
    const struct calibration_slot *t = &calibration_texts.item[i];
    if (get_text(s, t->name, calibration_at(c, t), t->size))
      return -1;
  }
  for (size_t i = 0; i < calibration_shapes.n; i++) {
    const struct calibration_slot *t = &calibration_shapes.item[i];
    if (get_number(s, t->name, 1, UINT32_MAX, &v))
      return -1;
    *(uint32_t *)calibration_at(c, t) = (uint32_t)v;
  }
  for (size_t i = 0; i < calibration_sizes.n; i++) {
    const struct calibration_slot *t = &calibration_sizes.item[i];
    if (get_number(s, t->name, 0, INT64_MAX, calibration_at(c, t)))
      return -1;
  }
  return 0;
}

/* Opens the group `name` of the root; closed by close_part. */
static int open_part(const struct source *root, const char *name, struct source *s)
{
  *s = (struct source){-1, name, root->file, root->e};
  if (H5Lexists(root->at, name, H5P_DEFAULT) > 0)
    s->at = H5Gopen2(root->at, name, H5P_DEFAULT);
  return s->at < 0 ? wrong(root, name, "this group is missing") : 0;
}

static int close_part(const struct source *s, int rc)
{
  H5Gclose(s->at);
  return rc;
}

static int read_curves(const struct source *root, struct calibration *c)
{
  const struct calibration_slots *slots = calibration_curves_of(c);
  struct source s;
  for (size_t i = 0; i < slots->n; i++)
    if (open_part(root, slots->item[i].name, &s) ||
        close_part(&s, read_curve(&s, calibration_at(c, &slots->item[i]))))
      return -1;
  return 0;
}

/* What only the law TABLES has. */
static int read_tables(const struct source *root, struct calibration *c)
{
  struct source s;
  int64_t tp;
  if (get_number(root, "tp", 1, UINT32_MAX, &tp))
    return -1;
  c->tp = (uint32_t)tp;
  if (H5Aexists(root->at, "host_step_ps") > 0 &&
      get_number(root, "host_step_ps", 0, INT64_MAX, &c->host_step_ps))
    return -1;
  for (size_t i = 0; i < calibration_table_texts.n; i++) {
    const struct calibration_slot *t = &calibration_table_texts.item[i];
    if (get_text(root, t->name, calibration_at(c, t), t->size))
      return -1;
  }
  for (size_t i = 0; i < calibration_option_texts.n; i++) {
    const struct calibration_slot *t = &calibration_option_texts.item[i];
    if (H5Aexists(root->at, t->name) > 0 && get_text(root, t->name, calibration_at(c, t), t->size))
      return -1;
  }
  for (int i = 0; i < CALIBRATION_LATTICES; i++) {
    const struct calibration_lattice *l = &calibration_lattices[i];
    if (open_part(root, l->name, &s) ||
        close_part(&s, read_lattice(&s, l, calibration_lattice_of(c, l))))
      return -1;
  }
  return open_part(root, "samples", &s) ? -1 : close_part(&s, read_samples(&s, c));
}

static int read_content(const struct source *root, struct calibration *c)
{
  struct source s;
  if (read_root(root, c) || read_curves(root, c))
    return -1;
  if (open_part(root, "decode", &s) || close_part(&s, read_grid(&s, &c->decode)) ||
      open_part(root, "residuals", &s) || close_part(&s, read_residuals(&s, c)) ||
      open_part(root, "sources", &s) || close_part(&s, read_sources(&s, c)))
    return -1;
  return c->law == CALIBRATION_TABLES ? read_tables(root, c) : 0;
}

/* Opens the bytes as a file, read-only; the library makes its own copy. */
static hid_t open_image(const void *image, size_t size)
{
  hid_t access = H5Pcreate(H5P_FILE_ACCESS), file = -1;
  if (access < 0)
    return -1;
  if (H5Pset_fapl_core(access, 1 << 16, 0) >= 0 &&
      H5Pset_file_image(access, (void *)(size_t)image, size) >= 0)
    file = H5Fopen("calibration", H5F_ACC_RDONLY, access);
  H5Pclose(access);
  return file;
}

static struct calibration *read_file(hid_t at, const char *file, struct base_error *e)
{
  struct source root = {at, "", file, e};
  struct calibration *c = calloc(1, sizeof *c);
  if (!c) {
    base_fail_memory(e);
    return NULL;
  }
  if (read_content(&root, c)) {
    calibration_free(c);
    return NULL;
  }
  return c;
}

struct calibration *calibration_from_image(const void *image, size_t size, const char *file,
                                           struct base_error *e)
{
  struct calibration *c = NULL;
  H5E_auto2_t report;
  void *data;
  H5Eget_auto2(H5E_DEFAULT, &report, &data);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  hid_t at = size ? open_image(image, size) : -1;
  if (at < 0)
    base_fail_at(e, BASE_INPUT, file, 0, "the HDF5 library cannot read the file");
  else {
    c = read_file(at, file, e);
    H5Fclose(at);
  }
  H5Eset_auto2(H5E_DEFAULT, report, data);
  return c;
}
